//! Mail that several could have taken is seen by all of them until one takes it.

use posthaste_api::ErrorCode;
use posthaste_api::client::{Client, Heard};
use posthaste_api::events::EventsQuery;
use posthaste_api::inbox::SettleRequest;
use posthaste_api::instances::CreateInstance;
use posthaste_api::messages::{HistoryQuery, MessageRef, ReadQuery, SendRequest};
use posthaste_api::teams::PutTeam;
use posthaste_api::threads::ThreadQuery;
use serde_json::json;

use crate::house::{House, read, receipt_of, refusal, send, texts, within};
use crate::mcp::agent::Agent;

const SECRET: &str = "the key is under the mat";

/// Whether this caller finds the message, asked at every door that looks.
async fn sees(by: &Client, seq: u64, thread: &str, mailbox: &str) -> bool {
    let number = seq.to_string();
    let whole = by.read(&number, &ReadQuery::default()).await;
    let trail = by.trail(&number).await;
    let all = HistoryQuery { last_n: Some(200), ..HistoryQuery::default() };
    let mut pages = Vec::new();
    for query in [
        all.clone(),
        HistoryQuery { mailbox: Some(mailbox.into()), ..all.clone() },
        HistoryQuery { thread_id: Some(thread.into()), ..all.clone() },
        HistoryQuery { after: Some("0".into()), ..all },
    ] {
        let page = by.history(&query).await.expect("a page");
        if page.messages.is_empty() {
            assert_eq!((&page.cursor, &page.after), (&None, &None), "no cursor into nothing");
        }
        pages.push(page.messages.iter().any(|m| m.message == SECRET));
    }
    let page = by.thread(thread, &ThreadQuery::default()).await.expect("a page");
    pages.push(page.messages.iter().any(|m| m.view.message == SECRET));
    let found = whole.is_ok();
    if !found {
        assert_eq!(refusal(whole).code, ErrorCode::NotFound);
        let reply = SendRequest {
            in_reply_to: Some(MessageRef::Seq(seq)),
            ..SendRequest::new("human", "I know")
        };
        assert_eq!(refusal(by.send(&reply).await).code, ErrorCode::NotFound);
    }
    assert_eq!(trail.is_ok(), found, "the trail");
    // Its own history has what it sent or read; leaders ask by team or by number.
    assert!(pages.iter().all(|shown| found || !shown), "{pages:?}");
    found
}

/// The texts of the journal that this caller is told of, up to one that it is sent now.
async fn heard(by: &Client, instance: &str, house: &House) -> Vec<String> {
    let last = send(&house.operator(), instance, "the last word").await;
    let query = EventsQuery { after: Some(0), ..EventsQuery::default() };
    let mut following = by.events(&query).await.expect("a stream");
    let mut texts = Vec::new();
    loop {
        match within("an event", following.next()).await.expect("a line") {
            Some(Heard::Event(event)) if event.seq == Some(last.seq) => return texts,
            Some(Heard::Event(event)) => texts.extend(event.message.map(|m| m.message)),
            Some(_) => {}
            None => panic!("the stream ended"),
        }
    }
}

#[tokio::test]
async fn one_of_mail_that_another_took_is_seen_by_its_sender_reader_leaders_and_operator_alone() {
    for (to, mailbox) in [("@anyone@avalon", "any@avalon"), ("mason@avalon", "n.mason@avalon")] {
        let house = House::new().await;
        let (alice, as_alice) = house.join("alice", Some("camelot"), "k").await;
        let (taker, as_taker) = house.join("mason", Some("avalon"), "1").await;
        let (other, as_other) = house.join("mason", Some("avalon"), "2").await;
        let chief = CreateInstance {
            agent: "chief".into(),
            team: Some("avalon".into()),
            kind: Some("mechanical".into()),
            ..CreateInstance::default()
        };
        let (_, as_chief) = house.create(chief).await;
        let leaders = PutTeam { leaders: vec!["chief".into()] };
        house.operator().put_team("avalon", &leaders).await.expect("kept");
        let sent = send(&as_alice, to, SECRET).await;
        let operator = house.operator();
        let sees = async |by: &Client| sees(by, sent.seq, &alice.thread_id, mailbox).await;
        for by in [&as_alice, &as_taker, &as_other, &as_chief, &operator] {
            assert!(sees(by).await, "{to}: while it waits, whoever could take it sees it");
        }

        let inbox = read(&as_taker).await;
        assert_eq!(texts(&inbox), [SECRET]);
        let (later, as_later) = house.join("mason", Some("avalon"), "3").await;
        for leased in [true, false] {
            for by in [&as_alice, &as_taker, &as_chief, &operator] {
                assert!(sees(by).await, "{to}: leased {leased}");
            }
            for (by, who) in [(&as_other, &other), (&as_later, &later)] {
                assert!(!sees(by).await, "{to}: leased {leased}");
                let told = heard(by, &who.instance, &house).await;
                assert!(!told.contains(&SECRET.to_owned()), "{to}: {told:?}");
            }
            if leased {
                as_taker.ack(&receipt_of(&inbox)).await.expect("acked");
            }
        }
        assert!(heard(&as_taker, &taker.instance, &house).await.contains(&SECRET.to_owned()));
        let over_mcp = Agent::old(&house, &other).await;
        let told = over_mcp.call("read_messages", json!({ "id": sent.seq })).await;
        assert_eq!(told.code(), "not_found");
        let list = over_mcp.call("read_messages", json!({})).await.json();
        assert!(!list.to_string().contains(SECRET), "{list}");
        let mine = Agent::old(&house, &taker).await;
        let told = mine.call("read_messages", json!({ "id": sent.seq })).await.json();
        assert_eq!(told["message"], SECRET, "who read it reads it again");
    }
}

#[tokio::test]
async fn mail_to_anyone_that_died_unread_is_shown_to_none_of_those_who_could_have_taken_it() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (_, as_bob) = house.agent("bob").await;
    let sent = send(&as_alice, "@anyone", SECRET).await;
    let bob_sees = async || sees(&as_bob, sent.seq, &alice.thread_id, "any").await;
    assert!(bob_sees().await);
    as_alice.cancel(&sent.id).await.expect("cancelled");
    assert!(!bob_sees().await);
    assert!(sees(&as_alice, sent.seq, &alice.thread_id, "any").await);
    as_alice.requeue(&sent.id).await.expect("queued again");
    assert!(bob_sees().await, "he could take it again");
}

#[tokio::test]
async fn counts_of_a_shared_mailbox_tell_nothing_of_what_others_took() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (_, as_bob) = house.agent("bob").await;
    let (_, as_carol) = house.agent("carol").await;
    send(&as_alice, "@anyone", "one").await;
    send(&as_alice, "@anyone", "two").await;
    let inbox = read(&as_bob).await;
    let counted = async |by: &Client| {
        let list = by.mailbox_stats().await.expect("counts");
        let any = list.into_iter().find(|s| s.mailbox == "any").expect("anyone's");
        (any.total, any.unread)
    };
    assert_eq!(texts(&inbox), ["one"]);
    assert_eq!(counted(&as_carol).await, (1, 1), "what she could take");
    assert_eq!(counted(&as_bob).await, (2, 2), "and what he holds");
    as_bob.ack(&receipt_of(&inbox)).await.expect("acked");
    assert_eq!(counted(&as_carol).await, (1, 1));
    assert_eq!(counted(&house.operator()).await, (2, 1), "the operator counts all");
}

#[tokio::test]
async fn who_settles_shared_mail_that_another_has_is_told_that_its_lease_is_lost() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (_, as_bob) = house.agent("bob").await;
    let (_, as_carol) = house.agent("carol").await;
    let sent = send(&as_alice, "@anyone", SECRET).await;
    assert_eq!(texts(&read(&as_bob).await), [SECRET]);
    for id in [MessageRef::Seq(sent.seq), MessageRef::Text(sent.id.to_string())] {
        let settle = SettleRequest { receipt: None, ids: Some(vec![id]) };
        assert_eq!(refusal(as_carol.ack(&settle).await).code, ErrorCode::LeaseLost);
        assert_eq!(refusal(as_carol.nack(&settle).await).code, ErrorCode::LeaseLost);
    }
    assert_eq!(house.standing(sent.seq).await.state, "leased");
}
