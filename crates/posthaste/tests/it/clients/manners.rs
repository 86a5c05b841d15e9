//! What the programs say to a hub: the rules of the door rest on it, so a new version
//! that behaves otherwise is noticed here.

use std::collections::HashSet;

use posthaste_testkit::tap::{Heard, Tap};
use serde_json::{Value, json};

use super::program::{Line, Program};
use super::stage::Stage;

/// Everything that was asked from start to exit, with one call of a tool.
async fn one_call(program: Program) -> Option<Vec<Heard>> {
    let mut stage = Stage::set(program, Line::Http).await?;
    let tap = Tap::before(stage.url(), None).await;
    let agent = stage.start_at(tap.url());
    stage.turn().await.call("whoami", json!({}));
    stage.turn().await.say("done");
    assert_eq!(agent.end().code, Some(0));
    Some(tap.heard())
}

/// What was asked, in order.
fn words(heard: &[Heard]) -> Vec<&str> {
    heard.iter().map(Heard::what).collect()
}

fn call(heard: &[Heard]) -> &Value {
    let call = heard.iter().find(|heard| heard.what() == "tools/call").expect("it called");
    &call.body["params"]["_meta"]
}

/// A request id that comes again is a repeated call to the hub.
fn no_request_has_the_id_of_another(heard: &[Heard]) {
    let ids: Vec<_> =
        heard.iter().map(|h| h.body["id"].to_string()).filter(|id| id != "null").collect();
    let different: HashSet<_> = ids.iter().collect();
    assert_eq!(ids.len(), different.len(), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_lives_in_the_era_of_discover() {
    let Some(heard) = one_call(Program::ClaudeCode).await else { return };
    let words = words(&heard);
    assert_eq!(words[0], "server/discover", "{words:?}");
    assert!(!words.contains(&"initialize") && !words.contains(&"GET"), "{words:?}");
    let meta = call(&heard);
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "claude-code");
    assert!(meta["claudecode/toolUseId"].is_string(), "{meta}");
    assert!(!meta["progressToken"].is_null(), "{meta}");
    no_request_has_the_id_of_another(&heard);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_lives_in_the_era_of_initialize() {
    let Some(heard) = one_call(Program::Codex).await else { return };
    let words = words(&heard);
    assert_eq!(words[..2], ["initialize", "notifications/initialized"], "{words:?}");
    assert!(words.contains(&"GET") && words.ends_with(&["DELETE"]), "{words:?}");
    let meta = call(&heard);
    assert!(meta["callId"].is_string() && meta["threadId"].is_string(), "{meta}");
    assert!(!meta["progressToken"].is_null(), "{meta}");
    no_request_has_the_id_of_another(&heard);
}
