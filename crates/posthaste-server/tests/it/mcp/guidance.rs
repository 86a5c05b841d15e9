//! Models are taught when to hand off and when to assign and gather.

use serde_json::{Value, json};

use super::agent::{Agent, Era};
use crate::house::House;

/// The description of a tool.
async fn told(agent: &Agent, tool: &str) -> String {
    let listed = agent.ask("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().expect("tools").clone();
    let tool = tools.into_iter().find(|t| t["name"] == tool).expect("a tool");
    tool["description"].as_str().expect("a description").to_owned()
}

fn instructions(hello: &Value) -> &str {
    hello["result"]["instructions"].as_str().unwrap_or_else(|| panic!("instructions: {hello}"))
}

#[tokio::test]
async fn a_model_is_told_when_to_hand_off_and_when_to_assign_and_gather() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    for era in [Era::Old, Era::New] {
        let mut me = Agent::silent(&house, &bob.token, era, "test");
        let hello = me.hello().await;
        let taught = instructions(&hello);
        for (when, what) in [
            ("One task whose answer you need now", "handoff"),
            ("Several at once", "assign each"),
            ("Several at once", "check_inbox(wait_for=\"all\")"),
        ] {
            let sentence = taught.split_once(when).map(|(_, rest)| rest).expect(when);
            assert!(sentence.chars().take(80).collect::<String>().contains(what), "{taught}");
        }
    }
    let native = Agent::old(&house, &bob).await;
    let cao = Agent::speaking(&house, &bob, "cao").await;
    for (dialect, me) in [("native", native), ("cao", cao)] {
        let handoff = told(&me, "handoff").await;
        assert!(handoff.contains("wait for its"), "{dialect}: {handoff}");
        let assign = told(&me, "assign").await;
        assert!(assign.contains("check_inbox"), "{dialect}: {assign}");
    }
}
