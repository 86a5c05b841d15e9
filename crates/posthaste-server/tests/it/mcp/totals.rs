//! Everything that waits comes in one answer, and the answer counts it.

use posthaste_api::instances::Joined;
use posthaste_api::messages::{SendRequest, To};
use serde_json::{Value, json};

use super::agent::Agent;
use crate::house::{House, OPERATOR, ids, read};

/// Writes so many messages, at most a hundred at a time.
async fn writes(house: &House, to: &Joined, mut count: usize) {
    while count > 0 {
        let some = count.min(100);
        let list = To::Many(vec![to.instance.clone(); some]);
        let request = SendRequest { to: list, ..SendRequest::new("", "done") };
        let sent = house.operator().send_many(&request).await.expect("an answer each");
        assert!(sent.results.iter().all(|r| r.status == 201));
        count -= some;
    }
}

fn list(answer: &Value) -> &[Value] {
    answer["messages"].as_array().expect("a list")
}

#[tokio::test]
async fn everything_that_waits_comes_in_one_answer_and_total_is_its_number() {
    let house = House::new().await;
    // More than the hub keeps in memory of one mailbox.
    let (bob, as_bob) = house.agent("bob").await;
    writes(&house, &bob, 300).await;
    let inbox = read(&as_bob).await;
    assert_eq!((inbox.total, inbox.messages.len(), inbox.remaining), (300, 300, 0), "REST");
    assert!(ids(&inbox).is_sorted(), "in order");

    let (carol, _) = house.agent("carol").await;
    writes(&house, &carol, 300).await;
    let wait = format!("GET /terminals/{}/inbox/messages/wait?timeout=0", carol.instance);
    let (_, answer) = house.call(&wait, Some(OPERATOR), "").await;
    assert_eq!(answer.as_array().map(Vec::len), Some(300), "CAO's route");

    let (boss, _) = house.agent("boss").await;
    let cao = Agent::speaking(&house, &boss, "cao").await;
    writes(&house, &boss, 20).await;
    let answer = cao.call("check_inbox", json!({ "timeout": 0 })).await.json();
    assert_eq!((list(&answer).len(), &answer["total"]), (20, &json!(20)), "CAO's tool");
    assert!(answer.get("remaining").is_none(), "{answer}");
}

#[tokio::test]
async fn an_answer_that_cannot_hold_all_counts_what_it_holds_and_what_is_left() {
    let house = House::new().await;
    let (boss, _) = house.agent("boss").await;
    let cao = Agent::speaking(&house, &boss, "cao").await;
    writes(&house, &boss, 150).await;
    let mut left = 150;
    while left > 0 {
        let answer = cao.call("check_inbox", json!({ "timeout": 0 })).await.json();
        let came = list(&answer).len();
        assert!(came > 0, "{answer}");
        assert_eq!(answer["total"], json!(came));
        left -= came;
        let remaining = answer.get("remaining").cloned().unwrap_or(json!(0));
        assert_eq!(remaining, json!(left));
    }
}
