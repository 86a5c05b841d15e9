//! Programs that stop a model which makes the same call over and over, and a wait that
//! has to be called again.

use posthaste_testkit::model_server::ModelServer;
use serde_json::{Value, json};

use super::gemini;
use super::program::{self, Program, Task};
use super::running::Running;
use super::stories::documents;
use crate::world::{Hub, World};

/// Gemini CLI and a hub whose waits are cut short at once.
struct Machine {
    world: World,
    model: ModelServer,
    tools: std::path::PathBuf,
    _hub: Hub,
}

impl Machine {
    async fn set_up() -> Option<Self> {
        let tools = program::tools()?;
        let world = World::new();
        let config = world.config("[mcp]\npatience_most = '20ms'\n");
        let hub = world.hub_with(&["--config", &config]);
        let token = world.say(&["join", "gemini", "--print-token"]).trim().to_owned();
        let server = json!({
            "httpUrl": format!("{}/mcp", hub.url),
            "headers": { "Authorization": format!("Bearer {token}") },
            "trust": true,
        });
        let settings = gemini::settings(&world);
        std::fs::create_dir_all(settings.with_file_name("")).expect("a folder");
        let given = json!({ "mcpServers": { "posthaste": server } });
        std::fs::write(&settings, given.to_string()).expect("written");
        Some(Self { world, model: ModelServer::start().await, tools, _hub: hub })
    }

    fn start(&self) -> Running {
        let prompt = Some("Wait for mail.");
        let task = Task { model: self.model.url(), prompt, ..Task::default() };
        Program::Gemini.start(&self.tools, &self.world, &task)
    }
}

/// The arguments of the next call, as the answer names them.
fn as_it_says(result: &str, mut arguments: Value) -> Value {
    let told = documents(result).remove(0);
    assert_eq!(told["status"], "call_again", "{result}");
    let again = told["call_again"].as_str().expect("what to call");
    let (_, after) = again.rsplit_once("after=").expect("a number");
    arguments["after"] = json!(after.parse::<u64>().expect("a number"));
    arguments
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_calls_again_as_often_as_it_is_told() {
    let Some(mut machine) = Machine::set_up().await else { return };
    let agent = machine.start();
    let mut arguments = json!({ "timeout": 60 });
    machine.model.asked().await.call("check_inbox", arguments.clone());
    for _ in 0..6 {
        let turn = machine.model.asked().await;
        arguments = as_it_says(&turn.result(), arguments);
        turn.call("check_inbox", arguments.clone());
    }
    machine.model.asked().await.say("no mail today");
    let ran = agent.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("no mail today") && !ran.out.contains("oop detected"), "{ran:?}");
}

/// Why the number has to change: a version that no longer does this is noticed here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gemini_stops_a_model_that_makes_the_same_call_five_times() {
    let Some(mut machine) = Machine::set_up().await else { return };
    let agent = machine.start();
    for _ in 0..5 {
        machine.model.asked().await.call("check_inbox", json!({ "timeout": 60 }));
    }
    // The fifth is not made; the model is told why, once.
    let turn = machine.model.asked().await;
    turn.assert_saw("loop detected");
    assert_eq!(turn.results().len(), 4, "{turn:?}");
    turn.say("I stop");
    agent.end();
}
