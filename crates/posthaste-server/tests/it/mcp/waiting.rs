//! Waiting inside what the client endures, and gathering.

use std::time::Duration;

use posthaste_api::messages::SendRequest;
use posthaste_server::McpConfig;
use serde_json::json;

use super::agent::{Agent, Era};
use crate::house::{House, send};

#[tokio::test]
async fn a_wait_beyond_the_clients_patience_says_call_again() {
    let brief = Duration::from_millis(50);
    let house = House::with(McpConfig { patience: brief, ..McpConfig::default() }).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    assert_eq!(me.check(600.0).await.status(), "call_again");
    assert_eq!(me.check(0.01).await.status(), "empty", "that was all the caller asked for");
}

#[tokio::test]
async fn no_client_waits_longer_than_the_hub_allows() {
    let brief = Duration::from_millis(50);
    let house = House::with(McpConfig { patience_most: brief, ..McpConfig::default() }).await;
    let (bob, _) = house.agent("bob").await;
    for (era, client) in [(Era::Old, "claude-code"), (Era::New, "codex-mcp-client")] {
        let me = Agent::begin(&house, &bob, era, client).await;
        assert_eq!(me.check(600.0).await.status(), "call_again");
    }
}

#[tokio::test]
async fn call_again_carries_what_waits_and_names_who_is_missing() {
    let brief = Duration::from_millis(300);
    let house = House::with(McpConfig { patience: brief, ..McpConfig::default() }).await;
    let (boss, _) = house.agent("boss").await;
    let (ann, as_ann) = house.agent("ann").await;
    let (ben, _) = house.agent("ben").await;
    let me = Agent::old(&house, &boss).await;
    send(&as_ann, &boss.instance, "done").await;
    let gather = json!({ "timeout": 60, "wait_for": "all", "from": [ann.instance, ben.instance] });
    let told = me.call("check_inbox", gather).await;
    assert_eq!(told.status(), "call_again");
    assert_eq!(told.texts(), ["done"]);
    assert_eq!(told.json()["missing"], json!([{ "instance": ben.instance, "status": "running" }]));
}

#[tokio::test]
async fn a_gather_ends_when_all_have_written_and_a_question_ends_it_early() {
    let house = House::new().await;
    let (boss, _) = house.agent("boss").await;
    let (ann, as_ann) = house.agent("ann").await;
    let (ben, as_ben) = house.agent("ben").await;
    let me = std::sync::Arc::new(Agent::old(&house, &boss).await);
    let gather = json!({ "timeout": 60, "wait_for": "all", "from": [ann.instance, "ben"] });
    let waiting = tokio::spawn({
        let (me, gather) = (std::sync::Arc::clone(&me), gather.clone());
        async move { me.call("check_inbox", gather).await }
    });
    house.waits(&boss.instance).await;
    send(&as_ann, &boss.instance, "a").await;
    send(&as_ben, &boss.instance, "b").await;
    let told = waiting.await.expect("no panic");
    assert_eq!((told.status().as_str(), told.mail().len()), ("complete", 2));

    let waiting = tokio::spawn({
        let me = std::sync::Arc::clone(&me);
        async move { me.call("check_inbox", gather).await }
    });
    house.waits(&boss.instance).await;
    let question =
        SendRequest { kind: Some("question".into()), ..SendRequest::new(boss.instance, "how?") };
    as_ben.send(&question).await.expect("accepted");
    let told = waiting.await.expect("no panic");
    assert_eq!(told.status(), "partial");
    assert_eq!(told.json()["missing"][0]["instance"], json!(ann.instance));
    let nothing_open = me.call("check_inbox", json!({ "wait_for": "all" })).await;
    assert_eq!(nothing_open.status(), "complete", "nobody is waited for");
    drop(ben);
}

#[tokio::test]
async fn progress_is_told_while_one_waits_and_the_answer_comes_last() {
    for era in [Era::Old, Era::New] {
        let often = Duration::from_millis(20);
        let house = House::with(McpConfig { progress_every: often, ..McpConfig::default() }).await;
        let (bob, _) = house.agent("bob").await;
        let me = std::sync::Arc::new(Agent::begin(&house, &bob, era, "test").await);
        let waiting = tokio::spawn({
            let me = std::sync::Arc::clone(&me);
            let params = json!({
                "name": "check_inbox", "arguments": { "timeout": 60 },
                "_meta": { "progressToken": "tick" },
            });
            async move { me.call_with(3, params).await }
        });
        me.hears_progress().await;
        send(&house.operator(), &bob.instance, "here").await;
        let told = waiting.await.expect("no panic");
        assert!(told.progress > 0, "{told:?}");
        assert_eq!(told.texts(), ["here"]);
        let kind = &told.whole["result"]["resultType"];
        assert_eq!(*kind, if era == Era::New { json!("complete") } else { json!(null) });
    }
}

#[tokio::test]
async fn a_stop_of_the_hub_ends_a_wait_politely() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let waiting = tokio::spawn(async move { me.check(60.0).await });
    house.waits(&bob.instance).await;
    house.shutdown.cancel();
    assert_eq!(waiting.await.expect("no panic").status(), "call_again");
}
