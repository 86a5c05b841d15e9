//! How long a call waits that does not say how long, by a clock that only the test moves.

use std::sync::Arc;
use std::time::Duration;

use posthaste_api::inbox::InboxQuery;
use posthaste_server::McpConfig;
use posthaste_testkit::clock::TestClock;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::house::{House, OPERATOR, Plan, read, receipt_of, send, texts};
use crate::mcp::agent::Agent;

/// A hub that waits for any client as long as it asks.
async fn house() -> House {
    let mcp = McpConfig { patience: Duration::from_secs(290), ..McpConfig::default() };
    House::with(Plan { clock: Arc::new(TestClock::new()), mcp, ..Plan::default() }).await
}

/// CAO's long poll; nobody is impatient here.
async fn waited(url: String) -> Value {
    let answer = posthaste_api::http::plain()
        .build()
        .expect("a client")
        .get(url)
        .bearer_auth(OPERATOR)
        .send()
        .await;
    answer.expect("an answer").json().await.expect("JSON")
}

fn wait_of(house: &House, terminal: &str, query: &str) -> String {
    format!("http://{}/terminals/{terminal}/inbox/messages/wait?{query}", house.address)
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_say_how_long_waits_for_a_minute() {
    let house = house().await;
    let (bob, as_bob) = house.agent("bob").await;
    let inbox = as_bob.inbox(&InboxQuery::default()).await.expect("an answer");
    assert_eq!((&*inbox.status, inbox.waited_s.round()), ("empty", 60.0), "REST");

    let native = Agent::old(&house, &bob).await;
    let cao = Agent::speaking(&house, &bob, "cao").await;
    for (dialect, me) in [("native", native), ("cao", cao)] {
        let began = Instant::now();
        let check = json!({ "name": "check_inbox", "arguments": {} });
        let answer = me.request(7, "tools/call", check).await.text().await.expect("an answer");
        assert_eq!(began.elapsed().as_secs(), 60, "{dialect}: {answer}");
        assert!(!answer.contains("call_again"), "{dialect}: {answer}");
    }
    let began = Instant::now();
    let answer = waited(wait_of(&house, &bob.instance, "")).await;
    assert_eq!((answer, began.elapsed().as_secs()), (json!([]), 60), "CAO's route");
}

#[tokio::test(start_paused = true)]
async fn caos_wait_collects_for_two_seconds_or_for_as_long_as_it_is_told() {
    let house = house().await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    for (query, window) in [("timeout=60", 2_000), ("timeout=60&batch_window=0.5", 500)] {
        let waiting = tokio::spawn(waited(wait_of(&house, &bob.instance, query)));
        house.waits(&bob.instance).await;
        send(&as_alice, &bob.instance, "the first").await;
        sleep(Duration::from_millis(window - 100)).await;
        send(&as_alice, &bob.instance, "just in time").await;
        sleep(Duration::from_millis(200)).await;
        send(&as_alice, &bob.instance, "too late").await;

        let answer = waiting.await.expect("no panic");
        let list = answer.as_array().expect("a list");
        let got: Vec<_> = list.iter().map(|message| &message["message"]).collect();
        assert_eq!(got, ["the first", "just in time"], "{query}");
        let rest = read(&as_bob).await;
        assert_eq!(texts(&rest), ["too late"], "{query}");
        as_bob.ack(&receipt_of(&rest)).await.expect("acked");
    }
}
