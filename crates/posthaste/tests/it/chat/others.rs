//! The operator talks to an agent whose program is not the hub's own: it says things on the
//! way by a tool of the hub, over MCP.

use std::fs::read_to_string;

use posthaste_api::client::Heard;
use posthaste_api::events::EventsQuery;
use serde_json::json;

use super::stage::Stage;
use crate::mcp_bridge::agent::{Agent, Era};
use crate::world::until;

/// Speaks as Claude Code does. Says who it is, and ends its turn when there is a file `go`.
const MASON: &str = r#"
IFS= read -r line
id=${line##*\"uuid\":\"}; id=${id%%\"*}
printf '{"type":"user","isReplay":true,"uuid":"%s","message":{"content":""}}\n' "$id"
printf '{"type":"assistant","message":{"content":[{"type":"text","text":"working"}]}}\n'
printf '%s' "$POSTHASTE_TOKEN" > "$1/token.new"
mv "$1/token.new" "$1/token"
until [ -e "$1/go" ]; do sleep 0.02; done
printf '{"type":"result","is_error":false,"result":"4711","user_message_uuids":["%s"]}\n' "$id"
IFS= read -r line
"#;

impl Stage {
    async fn with_a_mason(&self) {
        let place = self.world.scratch();
        std::fs::write(place.join("mason.sh"), MASON).expect("written");
        let command = json!(["/bin/sh", place.join("mason.sh"), place]);
        self.profile_of("mason", "claude", &format!("command: {command}")).await;
    }

    /// The mason's way to the hub, as soon as it has begun its turn.
    async fn at_work(&self) -> Agent {
        let token = self.world.scratch().join("token");
        until(async || token.exists()).await;
        let token = read_to_string(token).expect("a token");
        let variables =
            [("POSTHASTE_TOKEN", token.as_str()), ("POSTHASTE_HUB", self.operator.url())];
        Agent::of("claude-code", Era::Old, Agent::new(&self.world, &["--no-start"], &variables))
    }

    fn goes_on(&self) {
        std::fs::write(self.world.scratch().join("go"), "").expect("written");
    }

    /// What the conversation shows of the agent's words.
    async fn shown(&self, who: &str) -> Vec<(String, String)> {
        let entries = self.look(who).await.entries.into_iter();
        entries.filter(|entry| entry.kind != "user").map(|entry| (entry.kind, entry.text)).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_says_on_the_way_is_partial_live_and_after_a_reload() {
    let mut stage = Stage::set().await;
    stage.with_a_mason().await;
    let who = stage.starts_agent("mason", None).await;
    let query = EventsQuery {
        topics: Some(format!("thread:{}", stage.look(&who).await.thread_id)),
        types: Some("partial_response,response".into()),
        ..EventsQuery::default()
    };
    let mut following = stage.operator.events(&query).await.expect("a stream");
    let mut live = Vec::new();
    let task = stage.sends(&who, "Count the bricks.").await;
    let mut mason = stage.at_work().await;
    mason
        .call("respond_to_user", json!({ "message": "I begin.", "in_reply_to": task.to_string() }));
    mason.call("send_message", json!({ "message": "Half.", "to": "human" }));
    stage.goes_on();
    while live.len() < 3 {
        let heard = following.next().await.expect("a line").expect("the hub goes on");
        let Heard::Event(event) = heard else { continue };
        let text = event.message.map(|message| message.message.as_str().to_owned());
        live.push((event.kind, text.unwrap_or_default()));
    }
    let said = |kinds: [&str; 2]| {
        let words = [(kinds[0], "I begin."), (kinds[0], "Half."), (kinds[1], "4711")];
        words.map(|(kind, text)| (kind.to_owned(), text.to_owned()))
    };
    assert_eq!(live, said(["partial_response", "response"]));
    assert_eq!(stage.shown(&who).await, said(["partial", "answer"]));
    stage.kill_and_start_again();
    assert_eq!(stage.shown(&who).await, said(["partial", "answer"]));
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_waits_for_the_end_of_the_turn_and_not_for_the_first_words() {
    let stage = Stage::set().await;
    stage.with_a_mason().await;
    let mut asked = stage.world.start(&["chat", "mason", "Count the bricks."]);
    let mut mason = stage.at_work().await;
    mason.call("respond_to_user", json!({ "message": "I begin.", "in_reply_to": "1" }));
    assert_eq!(asked.until("\n"), "I begin.\n");
    stage.goes_on();
    let ran = asked.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "4711\n"), "{ran:?}");
    stage.world.say(&["stop", "mason"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_words_of_an_agent_that_came_by_itself_are_an_answer_live_and_after_a_reload() {
    let stage = Stage::set().await;
    let bob = stage.world.json(&["join", "bob"]);
    let who = bob["instance"].as_str().expect("an instance");
    let query = EventsQuery {
        topics: Some(format!("thread:{}", stage.look(who).await.thread_id)),
        types: Some("partial_response,response".into()),
        ..EventsQuery::default()
    };
    let mut following = stage.operator.events(&query).await.expect("a stream");
    let asked = stage.world.start(&["chat", who, "Which colour?"]);
    until(async || !stage.look(who).await.entries.is_empty()).await;
    stage.world.say(&["send", "human", "red", "--as", "bob"]);
    let ran = asked.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "red\n"), "{ran:?}");
    let kind = loop {
        if let Some(Heard::Event(event)) = following.next().await.expect("a line") {
            break event.kind;
        }
    };
    assert_eq!(kind, "response");
    assert_eq!(stage.shown(who).await, [("answer".to_owned(), "red".to_owned())]);
}
