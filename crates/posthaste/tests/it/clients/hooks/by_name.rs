//! Mail to a program's name: people write `claude`, not `claude.3fa76470`.

use serde_json::json;

use super::super::program::Program;
use super::{Machine, works};
use crate::world::eventually;

/// Three messages to the name while it works on something else: all of them come at the
/// next boundary, in order, counted as unread until then. When the program has gone, its
/// agent is away, and the next message waits.
async fn mail_to_the_name_comes_at_the_next_boundary(program: Program) {
    let Some(mut machine) = Machine::set_up(program, true).await else { return };
    // Only the end of its connection makes it away.
    drop(machine.hub.take().expect("a hub").stop());
    let file = machine.world.config("[limits]\naway_after = '1h'\n");
    machine.hub = Some(machine.world.hub_with(&["--config", &file]));
    let agent = machine.start(None);
    // Codex is connected from its first call.
    machine.model.asked().await.call("whoami", json!({}));
    let turn = machine.model.asked().await;
    let address = machine.agent();
    let texts = ["first brick", "second brick", "third brick"];
    for text in texts {
        machine.send(program.name(), text);
    }
    let here = |field: &str| machine.world.json(&["agents"])["instances"][0][field].clone();
    assert_eq!((here("unread"), here("status")), (3.into(), "running".into()));
    works(program, turn);

    let turn = machine.model.asked().await;
    let request = turn.request().to_string();
    let places = texts.map(|text| request.find(text));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {turn:?}");
    texts.iter().for_each(|text| turn.assert_saw_once(text));
    turn.say("done");
    let ran = agent.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");

    let here = |field: &str| machine.world.json(&["agents"])["instances"][0][field].clone();
    eventually(|| here("status") == "away");
    assert_eq!(here("address"), address.as_str());
    let sent = machine.world.json(&["send", program.name(), "for later"]);
    assert_eq!(sent["recipients"][0]["active"], 0, "{sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_to_claude_comes_at_the_next_boundary() {
    mail_to_the_name_comes_at_the_next_boundary(Program::ClaudeCode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_to_codex_comes_at_the_next_boundary() {
    mail_to_the_name_comes_at_the_next_boundary(Program::Codex).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_to_gemini_comes_at_the_next_boundary() {
    mail_to_the_name_comes_at_the_next_boundary(Program::Gemini).await;
}
