//! What happened to a message, and why it was not answered.

use std::time::Duration;

use posthaste_api::ErrorCode;
use posthaste_api::messages::{MessageRef, SendRequest};
use posthaste_api::trail::TrailView;
use posthaste_core::Limits;
use posthaste_core::messaging::message::Principal;

use crate::house::{House, by_ids, read, receipt_of, refusal, send};

fn events(trail: &TrailView) -> Vec<&str> {
    trail.steps.iter().map(|s| &*s.event).collect()
}

impl House {
    async fn trail(&self, seq: u64) -> TrailView {
        self.operator().trail(&seq.to_string()).await.expect("a trail")
    }
}

#[tokio::test]
async fn a_trail_tells_each_rung_up_to_the_answer() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let asked = send(&as_alice, &bob.instance, "well?").await;
    let trail = house.trail(asked.seq).await;
    assert_eq!(events(&trail), ["accepted", "queued"]);
    assert_eq!(trail.steps[0].by.as_deref(), Some(&*alice.address));
    assert!(trail.steps[0].text.contains("by rest for"), "{}", trail.steps[0].text);
    let waits = format!("waits in i.{}: {} has not read its mail", bob.instance, bob.address);
    assert!(trail.verdict.starts_with(&waits), "{}", trail.verdict);

    let inbox = read(&as_bob).await;
    let trail = house.trail(asked.seq).await;
    assert_eq!(events(&trail), ["accepted", "leased"]);
    assert_eq!(trail.steps[1].by.as_deref(), Some(&*bob.address));
    assert!(trail.verdict.starts_with(&format!("{} has had it since ", bob.address)));
    assert!(trail.verdict.ends_with("and has neither proved nor answered it"));

    as_bob.ack(&receipt_of(&inbox)).await.expect("acked");
    let trail = house.trail(asked.seq).await;
    assert_eq!(events(&trail), ["accepted", "leased", "acked"]);
    assert_eq!(trail.steps[2].how.as_deref(), Some("receipt"));
    assert!(trail.verdict.ends_with("and has not answered it"), "{}", trail.verdict);

    let reply = SendRequest {
        in_reply_to: Some(MessageRef::Seq(asked.seq)),
        ..SendRequest::new("alice", "well!")
    };
    let reply = as_bob.send(&reply).await.expect("accepted");
    let trail = as_alice.trail(&asked.id).await.expect("her own message");
    assert_eq!(events(&trail), ["accepted", "leased", "acked", "answered"]);
    assert_eq!(trail.steps[3].message, Some(reply.seq));
    assert!(trail.steps.iter().all(|s| s.at.is_some()), "every time is known");
    let answered = format!("answered by message {} from {}", reply.seq, bob.address);
    assert!(trail.verdict.starts_with(&answered), "{}", trail.verdict);
}

#[tokio::test]
async fn a_trail_says_why_nobody_takes_it() {
    let house = House::new().await;
    let (joined, as_mason) = house.agent("mason").await;
    let named = send(&house.operator(), "mason", "for a name").await;
    let trail = house.trail(named.seq).await;
    assert_eq!(trail.verdict, "waits in n.mason: 1 could take it, and none of them waits for mail");
    let (id, _) = house.agent("carol").await;
    let human = as_mason.send(&SendRequest::new("human", "for you")).await.expect("accepted");
    assert_eq!(
        house.trail(human.seq).await.verdict,
        "waits in human: the operator has not read it"
    );
    drop(house.hub.stays(Principal::Instance(joined.instance.parse().expect("an id"))));
    let away = format!("waits in n.mason: {} is away", joined.address);
    assert_eq!(house.trail(named.seq).await.verdict, away);
    let mason = house.record(human.seq).await.sender_id;
    house.operator().leave(&mason).await.expect("left");
    assert_eq!(
        house.trail(named.seq).await.verdict,
        "waits in n.mason: nobody of that name is here"
    );
    let group = house.operator();
    let all = send(&group, "@everyone", "to all").await;
    assert!(house.trail(all.seq).await.verdict.starts_with(&format!("waits in i.{}", id.instance)));
}

#[tokio::test]
async fn a_trail_tells_of_refusals_and_of_death() {
    let house = House::with(Limits { attempts: 2, ..Limits::default() }).await;
    let (bob, as_bob) = house.agent("bob").await;
    let operator = house.operator();
    let sent = send(&operator, &bob.instance, "no").await;
    read(&as_bob).await;
    as_bob.nack(&by_ids(&[sent.seq])).await.expect("refused");
    let trail = house.trail(sent.seq).await;
    assert_eq!(events(&trail), ["accepted", "refused", "queued"]);
    assert!(trail.verdict.starts_with("waits after it was refused once"), "{}", trail.verdict);
    read(&as_bob).await;
    as_bob.nack(&by_ids(&[sent.seq])).await.expect("refused");
    let trail = house.trail(sent.seq).await;
    assert_eq!(events(&trail), ["accepted", "refused", "leased", "dead"]);
    assert!(trail.verdict.starts_with(&format!("dead: refused by {}", bob.address)));
    assert_eq!(trail.steps[1].by.as_deref(), Some(&*bob.address));
    operator.requeue(&sent.id).await.expect("queued again");
    let trail = house.trail(sent.seq).await;
    assert_eq!(events(&trail), ["accepted", "refused", "requeued", "queued"]);
    assert_eq!(trail.steps[2].how.as_deref(), Some("refused"));
    operator.cancel(&sent.id).await.expect("cancelled");

    let cancelled = send(&operator, &bob.instance, "never mind").await;
    operator.cancel(&cancelled.id).await.expect("cancelled");
    assert!(house.trail(cancelled.seq).await.verdict.starts_with("dead: cancelled"));

    let brief = SendRequest { ttl_s: Some(1), ..SendRequest::new(bob.instance.clone(), "brief") };
    let brief = operator.send(&brief).await.expect("accepted");
    house.becomes(brief.seq, "dead").await;
    assert!(house.trail(brief.seq).await.verdict.starts_with("dead: expired unread"));

    let late = send(&operator, &bob.instance, "too late").await;
    operator.leave(&bob.instance).await.expect("left");
    let trail = house.trail(late.seq).await;
    let gone = format!("dead: {} ended", bob.address);
    assert!(trail.verdict.starts_with(&gone), "{}", trail.verdict);
    assert_eq!(trail.steps.last().and_then(|s| s.how.as_deref()), Some("recipient_gone"));
}

#[tokio::test]
async fn a_trail_tells_that_mail_came_back() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let sent = send(&house.operator(), &bob.instance, "again").await;
    read(&as_bob).await;
    let begin = posthaste_api::inbox::InboxQuery {
        begin: Some(true),
        label: Some("another".into()),
        ..crate::house::now()
    };
    as_bob.inbox(&begin).await.expect("an answer");
    let trail = house.trail(sent.seq).await;
    assert_eq!(events(&trail), ["accepted", "returned", "queued"]);
    assert!(trail.verdict.starts_with("waits again in"), "{}", trail.verdict);
}

#[tokio::test]
async fn a_trail_tells_that_an_answer_was_refused_by_the_hop_limit() {
    let house = House::with(Limits { hops: 1, ..Limits::default() }).await;
    let (bob, as_bob) = house.agent("bob").await;
    let (eve, as_eve) = house.agent("eve").await;
    let reply = |to: &str, seq| SendRequest {
        in_reply_to: Some(MessageRef::Seq(seq)),
        ..SendRequest::new(to, "indeed")
    };
    let first = send(&as_eve, &bob.instance, "indeed?").await.seq;
    let second = as_bob.send(&reply(&eve.instance, first)).await.expect("accepted").seq;
    let before = house.trail(second).await;
    assert!(!events(&before).contains(&"stopped"), "{before:?}");
    let error = refusal(as_eve.send(&reply(&bob.instance, second)).await);
    assert_eq!(error.code, ErrorCode::HopLimit);

    let trail = house.trail(second).await;

    let stopped = trail.steps.iter().find(|step| step.event == "stopped").expect("it is told");
    assert_eq!(stopped.by.as_deref(), Some(&*eve.address));
    assert_eq!(stopped.how.as_deref(), Some("hop_limit"));
    assert!(stopped.at.is_some() && stopped.text.contains("limits.hops"), "{stopped:?}");
    let why = format!("; an answer of {} was refused by the hop limit", eve.address);
    assert!(trail.verdict.contains(&why), "{}", trail.verdict);
    assert!(!house.trail(first).await.verdict.contains("hop limit"), "that one was answered");
}

#[tokio::test]
async fn a_trail_is_for_those_who_may_read_the_message() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let (carol, as_carol) = house.agent("carol").await;
    let sent = send(&as_alice, &bob.instance, "between us").await;
    let number = sent.seq.to_string();
    for by in [&as_alice, &as_bob] {
        by.trail(&number).await.expect("theirs");
    }
    assert_eq!(refusal(as_carol.trail(&number).await).code, ErrorCode::NotFound);
    assert_eq!(refusal(as_carol.trail("99").await).code, ErrorCode::NotFound);
    assert_eq!(refusal(as_carol.trail("x").await).code.status(), 422);

    // A reply to somebody else is not told to those who cannot read it.
    let aside = SendRequest {
        in_reply_to: Some(MessageRef::Seq(sent.seq)),
        thread_id: Some(bob.thread_id),
        ..SendRequest::new(carol.instance, "what do you say to that?")
    };
    as_bob.send(&aside).await.expect("accepted");
    let trail = as_alice.trail(&number).await.expect("hers");
    assert!(!events(&trail).contains(&"answered"), "{trail:?}");
    assert!(events(&house.trail(sent.seq).await).contains(&"answered"));
}

#[tokio::test]
async fn a_trail_of_many_recipients_tells_the_worst_of_them() {
    let house = House::with(Limits { wait: Duration::from_secs(60), ..Limits::default() }).await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;
    let sent = send(&house.operator(), "@everyone", "all hands").await;
    let inbox = read(&as_alice).await;
    as_alice.ack(&receipt_of(&inbox)).await.expect("acked");
    let verdict = house.trail(sent.seq).await.verdict;
    let expected = format!("1 of 2 have proved it; waits in i.{}: ", bob.instance);
    assert!(verdict.starts_with(&expected), "{verdict}");
}
