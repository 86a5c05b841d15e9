//! `posthaste hook`: the command, as an agent's program runs it.

mod alive;
mod carries;
mod harmless;
mod identity;
mod idle;
mod lines;

use serde_json::{Value, json};

use crate::world::{Ran, World};

/// Runs a hook with this on its stdin.
fn fire(world: &World, event: &str, client: &str, input: &Value) -> Ran {
    world.pipe(&["hook", event, "--client", client], input.to_string().as_bytes())
}

/// What it said, which must be one line of JSON, or nothing.
#[track_caller]
fn said(ran: &Ran) -> Value {
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    match ran.out.lines().collect::<Vec<_>>().as_slice() {
        [] => Value::Null,
        [line] => serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")),
        more => panic!("one line: {more:?}"),
    }
}

/// What Claude Code says to a hook of this conversation.
fn claude(session: &str, name: &str) -> Value {
    json!({ "session_id": session, "hook_event_name": name, "cwd": "/" })
}

/// Everybody who is here, by address.
fn everybody(world: &World) -> Vec<String> {
    let agents = world.json(&["agents"]);
    let agents = agents["instances"].as_array().expect("a list");
    agents.iter().map(|a| a["address"].as_str().expect("an address").to_owned()).collect()
}

fn log(world: &World) -> String {
    std::fs::read_to_string(world.file("hooks.log")).unwrap_or_default()
}
