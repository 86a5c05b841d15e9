//! How much of what waits an answer holds, and what it says when it is cut short.

use std::collections::HashSet;
use std::time::Duration;

use posthaste_server::McpConfig;
use serde_json::{Value, json};

use super::agent::Agent;
use crate::house::House;

#[tokio::test]
async fn call_again_names_another_call_each_time_in_every_dialect_that_waits() {
    let brief = Duration::from_millis(20);
    let house = House::with(McpConfig { patience: brief, ..McpConfig::default() }).await;
    let (bob, _) = house.agent("bob").await;
    for dialect in ["", "?dialect=cao"] {
        let mut me = Agent::silent(&house, &bob.token, super::agent::Era::Old, "test");
        me.url.push_str(dialect);
        me.hello().await;
        let (mut arguments, mut named) = (json!({ "timeout": 60 }), HashSet::new());
        for _ in 0..4 {
            let told = me.call("check_inbox", arguments.clone()).await.json();
            let again = told["call_again"].as_str().unwrap_or_else(|| panic!("{told}"));
            let (_, after) = again.rsplit_once("after=").expect("a number");
            arguments["after"] = json!(after.parse::<u64>().expect("a number"));
            assert!(named.insert(after.to_owned()), "{after} again");
        }
        let told = me.call("check_inbox", json!({ "timeout": 0 })).await.json();
        assert_eq!(told["call_again"], Value::Null, "that was all that was asked for");
    }
}

#[tokio::test]
async fn whatever_after_says_is_ignored() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let thread = house.instance(&bob.instance).await.thread_id;
    for after in [json!(17), json!("17"), json!(-1.5), json!(null), json!([1]), json!({ "x": 1 })] {
        for (dialect, tool, mut arguments) in [
            ("", "check_inbox", json!({ "timeout": 0 })),
            ("?dialect=cao", "check_inbox", json!({ "timeout": 0 })),
            ("?dialect=assistant", "recv_message", json!({ "thread_id": thread })),
        ] {
            let mut me = Agent::silent(&house, &bob.token, super::agent::Era::Old, "test");
            me.url.push_str(dialect);
            me.hello().await;
            arguments["after"] = after.clone();
            let told = me.call(tool, arguments).await;
            assert!(!told.is_error, "{dialect} {after}: {told:?}");
        }
    }
}
