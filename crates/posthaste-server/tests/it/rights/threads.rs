//! A message is written into its sender's thread, its family's, or its recipient's.

use posthaste_api::ErrorCode;
use posthaste_api::instances::CreateInstance;
use posthaste_api::messages::{HistoryQuery, MessageRef, SendRequest, To};
use posthaste_core::Limits;
use posthaste_core::limits::Write;
use serde_json::{Value, json};

use crate::house::{House, read, refusal, send, texts};
use crate::mcp::agent::{Agent, Era};

fn within(thread: &str, to: &str, text: &str) -> SendRequest {
    SendRequest { thread_id: Some(thread.into()), ..SendRequest::new(to, text) }
}

async fn told(house: &House, thread: &str) -> Vec<String> {
    let query = HistoryQuery { thread_id: Some(thread.into()), ..HistoryQuery::default() };
    let page = house.operator().history(&query).await.expect("a page");
    page.messages.into_iter().map(|m| m.message).collect()
}

#[tokio::test]
async fn nobody_writes_into_the_thread_of_a_stranger_through_any_door() {
    for write_policy in [Write::Open, Write::Family] {
        let house = House::with(Limits { write_policy, ..Limits::default() }).await;
        let (alice, _) = house.agent("alice").await;
        let (bob, as_bob) = house.agent("bob").await;
        let (eve, as_eve) = house.agent("eve").await;
        // To the human everybody may write, whatever the policy.
        for to in ["human", "@anyone", &bob.instance] {
            let sent = refusal(as_eve.send(&within(&alice.thread_id, to, "forged")).await);
            assert_eq!((sent.code, sent.code.status()), (ErrorCode::Forbidden, 403), "{to}");
            assert!(sent.hint.is_some());
        }
        let lost = refusal(as_eve.send(&within("t-0000dead", "human", "forged")).await);
        assert_eq!((lost.code, lost.code.status()), (ErrorCode::NotFound, 404));
        let list = json!({
            "to": ["human", alice.instance], "thread_id": alice.thread_id, "message": "to two",
        });
        let (status, answer) =
            house.call("POST /v1/messages", Some(&eve.token), &list.to_string()).await;
        let single: Vec<&Value> =
            answer["results"].as_array().expect("a list").iter().map(|r| &r["status"]).collect();
        let second = if write_policy == Write::Open { 201 } else { 403 };
        assert_eq!((status, single), (207, vec![&json!(403), &json!(second)]));

        let mut assistant = Agent::silent(&house, &eve.token, Era::Old, "test");
        assistant.url.push_str("?dialect=assistant");
        assistant.hello().await;
        for thread in [&*alice.thread_id, "t-0000dead"] {
            let forged =
                json!({ "to_assistant_id": "human", "thread_id": thread, "message": "forged" });
            let told = assistant.call("send_message", forged).await;
            assert!(told.is_error && told.json()["success"] == false, "{told:?}");
            assert!(told.json()["reason"].as_str().expect("a reason").contains(thread));
        }
        assert!(!told(&house, &alice.thread_id).await.contains(&"forged".to_owned()));
        assert!(told(&house, "t-0000dead").await.is_empty());
        assert!(
            read(&as_bob).await.messages.is_empty()
                && read(&house.operator()).await.messages.is_empty()
        );
    }
}

#[tokio::test]
async fn one_writes_into_ones_own_thread_the_recipients_and_the_familys() {
    let house = House::new().await;
    let (boss, as_boss) = house.agent("boss").await;
    let child = |name: &str| CreateInstance {
        agent: name.into(),
        parent: Some(boss.instance.clone()),
        ..CreateInstance::default()
    };
    let (one, as_one) = house.create(child("one")).await;
    let (two, _) = house.create(child("two")).await;
    let (peer, _) = house.agent("peer").await;
    for (thread, to) in [
        (&one.thread_id, &*peer.instance),
        (&peer.thread_id, &peer.instance),
        (&peer.thread_id, "peer"),
        (&boss.thread_id, &peer.instance),
        (&two.thread_id, "human"),
        (&"t-00000000".to_owned(), "human"),
    ] {
        let sent = as_one.send(&within(thread, to, "within")).await.expect("accepted");
        assert_eq!(sent.thread_id, *thread, "{to}");
    }
    as_boss.send(&within(&one.thread_id, "human", "of my child")).await.expect("accepted");
    for thread in [&peer.thread_id, &one.thread_id, &"t-00000000".to_owned()] {
        let sent = house.operator().send(&within(thread, &two.instance, "from above")).await;
        assert_eq!(sent.expect("the operator uses any").thread_id, *thread);
    }
    let lost = refusal(house.operator().send(&within("t-0000dead", "peer", "where?")).await);
    assert_eq!(lost.code, ErrorCode::NotFound, "and must name one that exists");
    // A name that several have is nobody's in particular; `@anyone` is nobody's at all.
    for to in ["@anyone", "@everyone"] {
        let sent = refusal(as_one.send(&within(&peer.thread_id, to, "to all")).await);
        assert_eq!(sent.code, ErrorCode::Forbidden, "{to}");
    }
}

#[tokio::test]
async fn in_the_thread_of_an_agent_its_name_means_that_agent_and_nobody_else() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let (_, as_other_bob) = house.agent("bob").await;
    for to in ["bob", "bob@main"] {
        let sent = as_alice.send(&within(&bob.thread_id, to, "within")).await.expect("accepted");
        assert_eq!((sent.thread_id.as_str(), sent.recipients.len()), (&*bob.thread_id, 1));
        assert_eq!(sent.recipients[0].mailbox, format!("i.{}", bob.instance), "{to}");
        assert_eq!(house.record(sent.seq).await.to, to, "as it was written");
    }
    assert!(read(&as_other_bob).await.messages.is_empty());
    assert_eq!(texts(&read(&as_bob).await), ["within", "within"]);
    // Without a thread the name is anybody's who has it.
    let sent = send(&as_alice, "bob", "for one of you").await;
    assert_eq!(sent.recipients[0].mailbox, "n.bob");
    as_bob.leave(&bob.instance).await.expect("gone");
    let gone = refusal(as_alice.send(&within(&bob.thread_id, "bob", "too late")).await);
    assert_eq!(gone.code, ErrorCode::RecipientGone);
}

#[tokio::test]
async fn a_reply_to_its_sender_stays_in_the_thread_and_one_to_another_leaves_it() {
    for write_policy in [Write::Open, Write::Family] {
        let house = House::with(Limits { write_policy, ..Limits::default() }).await;
        let (boss, _) = house.agent("boss").await;
        let child = CreateInstance {
            agent: "child".into(),
            parent: Some(boss.instance.clone()),
            ..CreateInstance::default()
        };
        let (child, _) = house.create(child).await;
        let (bob, as_bob) = house.agent("bob").await;
        let operator = house.operator();
        // Bob was written to within the thread of the boss, who is no kin of his.
        let asked = operator.send(&within(&boss.thread_id, &bob.instance, "well?")).await;
        let asked = asked.expect("the operator may");
        let reply = |to: &str| SendRequest {
            in_reply_to: Some(MessageRef::Seq(asked.seq)),
            ..SendRequest::new(to, "indeed")
        };
        let back = as_bob.send(&reply("human")).await.expect("answering is always allowed");
        assert_eq!(back.thread_id, boss.thread_id);
        let named = SendRequest { thread_id: Some(boss.thread_id.clone()), ..reply("human") };
        let named = as_bob.send(&named).await.expect("its thread may be named as well");
        assert_eq!(named.thread_id, boss.thread_id);
        let foreign = SendRequest { thread_id: Some(child.thread_id.clone()), ..reply("human") };
        assert_eq!(refusal(as_bob.send(&foreign).await).code, ErrorCode::Forbidden);
        let aside = as_bob.send(&reply(&child.instance)).await;
        match write_policy {
            Write::Open => assert_eq!(aside.expect("accepted").thread_id, bob.thread_id),
            _ => assert_eq!(refusal(aside).code, ErrorCode::Forbidden),
        }
        // What the operator says to another of it, the family of the thread need not know.
        let about = SendRequest {
            in_reply_to: Some(MessageRef::Seq(back.seq)),
            ..SendRequest::new(bob.instance.clone(), "thanks")
        };
        let thanks = operator.send(&about).await.expect("accepted");
        assert_eq!(thanks.thread_id, boss.thread_id, "back to whoever wrote it");
        let about = SendRequest { to: To::One(child.instance.clone()), ..about };
        let forwarded = operator.send(&about).await.expect("accepted");
        assert_eq!(forwarded.thread_id, child.thread_id, "to another in the other's own");
        let boss_told = ["well?", "indeed", "indeed", "thanks"];
        assert_eq!(told(&house, &boss.thread_id).await, boss_told);
    }
}

#[tokio::test]
async fn a_repeat_is_answered_although_its_question_is_out_of_sight() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (_, as_bob) = house.agent("bob").await;
    let (_, as_carol) = house.agent("carol").await;
    let question = send(&as_alice, "@anyone", "who is free?").await;
    let reply = SendRequest {
        in_reply_to: Some(MessageRef::Seq(question.seq)),
        idempotency_key: Some("once".into()),
        ..SendRequest::new("alice", "I am")
    };
    let first = as_bob.send(&reply).await.expect("he could take it");
    assert_eq!(texts(&read(&as_carol).await), ["who is free?"], "she took it");
    let again = as_bob.send(&reply).await.expect("a repeat is answered first");
    assert_eq!((again.seq, again.duplicate), (first.seq, true));
    let other = SendRequest { idempotency_key: Some("twice".into()), ..reply };
    assert_eq!(refusal(as_bob.send(&other).await).code, ErrorCode::NotFound);
}
