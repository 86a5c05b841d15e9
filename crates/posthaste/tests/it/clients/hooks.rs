//! Hooks of real programs: mail reaches a model that never asks for it.

mod away;
mod broken;
mod by_name;
mod edges;
mod helpers;
mod idle;

use std::fs;
use std::path::PathBuf;

use posthaste_testkit::model_server::{Asked, ModelServer};
use serde_json::{Value, json};

use super::connecting::offered;
use super::gemini;
use super::program::{self, Program, Task, home};
use super::running::Running;
use super::stories::documents;
use super::user;
use crate::world::{Hub, Started, World, eventually};

/// What a hook puts before mail that came meanwhile, and before mail at a stop.
const MAIL: &str = "Posthaste, your mailbox";
const STOP: &str = "Posthaste: do not finish yet";

/// A machine with a hub, and a program that its user has connected.
struct Machine {
    program: Program,
    tools: PathBuf,
    world: World,
    model: ModelServer,
    hub: Option<Hub>,
}

/// Where `connect` writes a program's hooks.
fn hooks_of(program: Program, world: &World) -> PathBuf {
    match program {
        Program::ClaudeCode => home(world).join(".claude/settings.json"),
        Program::Codex => home(world).join("codex/hooks.json"),
        Program::Gemini => gemini::settings(world),
        Program::Qwen => home(world).join(".qwen/settings.json"),
        Program::Copilot => home(world).join(".copilot/hooks/posthaste.json"),
        Program::OpenCode => home(world).join(".config/opencode/plugins/posthaste.js"),
    }
}

/// Takes the hub's tools away again, and leaves the hooks.
fn without_tools(program: Program, world: &World) {
    let file = match program {
        Program::ClaudeCode => ".claude.json",
        Program::Codex => "codex/config.toml",
        Program::OpenCode => ".config/opencode/opencode.json",
        Program::Copilot => ".copilot/mcp-config.json",
        Program::Gemini | Program::Qwen => {
            let path = hooks_of(program, world);
            let text = fs::read_to_string(&path).expect("settings");
            let mut settings: Value = serde_json::from_str(&text).expect("JSON");
            settings.as_object_mut().expect("an object").remove("mcpServers");
            fs::write(path, settings.to_string()).expect("ours");
            return;
        }
    };
    fs::remove_file(home(world).join(file)).expect("connect made it");
}

impl Machine {
    /// With the hub's tools, or with nothing but hooks.
    async fn set_up(program: Program, with_tools: bool) -> Option<Self> {
        Self::set_up_with(program, with_tools, &[]).await
    }

    async fn set_up_with(program: Program, with_tools: bool, hub: &[&str]) -> Option<Self> {
        let tools = program::tools()?;
        let world = World::new();
        let hub = world.hub_with(hub);
        // Claude Code shows its model the state of the repository around it. It gets one
        // of its own, or it would be the one that these tests lie in.
        let place = home(&world);
        let place = place.to_str().expect("a plain path");
        let made = Started::new(world.program("git", &["init", "--quiet", place])).end();
        assert_eq!(made.code, Some(0), "{made:?}");
        user::connects(program, &tools, &world);
        if !with_tools {
            without_tools(program, &world);
        }
        let model = ModelServer::start().await;
        Some(Self { program, tools, world, model, hub: Some(hub) })
    }

    fn start(&self, resumes: Option<&str>) -> Running {
        let (model, prompt) = (self.model.url(), Some("Do your work."));
        let task = Task { model, prompt, resumes, hooked: true, ..Task::default() };
        self.program.start(&self.tools, &self.world, &task)
    }

    /// A turn with one tool, from start to exit; gives what the model was asked at last.
    async fn works_and_says_done(&mut self) -> Vec<String> {
        let agent = self.start(None);
        works(self.program, self.model.asked().await);
        let turn = self.model.asked().await;
        assert!(turn.result().contains("at work"), "{turn:?}");
        // The product's name alone says nothing: it is in the working directory of most.
        let line = format!("--client {}", self.program.name());
        for added in ["_pending_messages", MAIL, STOP, "rubbish", &line] {
            turn.assert_never_saw(added);
        }
        let asked = outline(&turn);
        turn.say("I am done.");
        let ran = agent.end();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("I am done.") && self.model.is_idle(), "{ran:?}");
        asked
    }

    /// The one agent that is here.
    fn agent(&self) -> String {
        let here = self.world.json(&["agents"]);
        let [one] = here["instances"].as_array().expect("a list").as_slice() else {
            panic!("one agent: {here}")
        };
        let address = one["address"].as_str().expect("an address").to_owned();
        assert!(address.starts_with(&format!("{}.", self.program.name())), "{address}");
        address
    }

    /// The operator writes to an agent; gives the message's number.
    fn send(&self, to: &str, text: &str) -> u64 {
        self.world.json(&["send", to, text])["seq"].as_u64().expect("a number")
    }

    /// What became of a message, and what proved it.
    fn record(&self, seq: u64) -> (String, Option<String>) {
        let trail = self.world.json(&["history", "--last", "50"]);
        let messages = trail["messages"].as_array().expect("a list");
        let message = messages.iter().find(|m| m["seq"] == seq).expect("kept");
        let delivery = &message["deliveries"][0];
        let proof = delivery["proof"].as_str().map(str::to_owned);
        (delivery["state"].as_str().expect("a state").to_owned(), proof)
    }

    fn until_acked(&self, seq: u64) {
        eventually(|| self.record(seq).0 == "acked");
    }
}

/// A tool of the program's own, which has nothing to do with the hub.
fn works(program: Program, turn: Asked) {
    let echo = "echo at work";
    let named = json!({ "command": echo, "description": "x" });
    match program {
        Program::ClaudeCode => turn.call("Bash", named),
        Program::Codex => turn.call("exec_command", json!({ "cmd": echo })),
        Program::Gemini => turn.call("run_shell_command", named),
        Program::Qwen => {
            turn.call("run_shell_command", json!({ "command": echo, "is_background": false }));
        }
        Program::Copilot | Program::OpenCode => turn.call("bash", named),
    }
}

/// It works on, calls nothing of the hub, and has its mail all the same: once, after
/// the tool that ran when it came. Its tools and its hooks are one agent.
async fn mail_reaches_a_model_that_never_calls_the_hub(program: Program) {
    let Some(mut machine) = Machine::set_up(program, true).await else { return };
    let agent = machine.start(None);
    let turn = machine.model.asked().await;
    let address = machine.agent();
    let seq = machine.send(&address, "the build is red");
    works(program, turn);

    let turn = machine.model.asked().await;
    assert!(turn.result().contains("at work"), "{turn:?}");
    turn.assert_saw_once("the build is red");
    turn.assert_saw_once(MAIL);
    assert_eq!(machine.record(seq).0, "leased", "nothing has proved it yet");
    works(program, turn);

    let turn = offered(&mut machine.model, "whoami").await;
    turn.assert_saw_once("the build is red");
    turn.call("whoami", json!({}));

    let turn = machine.model.asked().await;
    let me = documents(&turn.result())
        .into_iter()
        .find_map(|me| me["address"].as_str().map(str::to_owned));
    assert_eq!(me.as_deref(), Some(address.as_str()), "{turn:?}");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
    assert_eq!(machine.agent(), address);
    // One turn of OpenCode ends its process, which does not wait for a hook of its stop.
    if program != Program::OpenCode {
        machine.until_acked(seq);
    }
}

/// It wants to finish, is told once for each mail why not, and goes on in the same turn.
async fn a_stop_with_unread_mail_is_refused_once(program: Program) {
    let Some(mut machine) = Machine::set_up(program, false).await else { return };
    let agent = machine.start(None);
    let turn = machine.model.asked().await;
    let address = machine.agent();
    let first = machine.send(&address, "wait for me");
    turn.say("I am done.");

    let turn = machine.model.asked().await;
    turn.assert_saw(STOP);
    turn.assert_saw("wait for me");
    let second = machine.send(&address, "and for me");
    turn.say("Now I am.");

    let turn = machine.model.asked().await;
    turn.assert_saw("and for me");
    turn.assert_never_saw(r#""redelivered":true"#);
    turn.say("Now I am, truly.");

    let ran = agent.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(machine.model.is_idle(), "it was refused once for each");
    machine.until_acked(first);
    machine.until_acked(second);
}

/// Without a hub it is as if there were no hooks: the model is asked the same.
async fn without_a_hub_nobody_notices_the_hooks(program: Program, killed: bool) {
    let Some(mut machine) = Machine::set_up(program, false).await else { return };
    let hub = machine.hub.take().expect("a hub");
    match killed {
        // Its address is still announced.
        true => hub.kill(),
        false => drop(hub.stop()),
    }
    let asked = machine.works_and_says_done().await;
    // The operator can see it: one line for each event.
    let log = machine.world.file("hooks.log");
    let lines = fs::read_to_string(&log).expect("a log");
    for event in told(program) {
        let wanted = format!(" {} {event}: ", program.name());
        assert_eq!(lines.matches(&wanted).count(), 1, "{event}: {lines}");
    }

    fs::remove_file(hooks_of(program, &machine.world)).expect("there are hooks");
    fs::remove_file(&log).expect("there is a log");
    assert_eq!(machine.works_and_says_done().await, asked);
    assert!(!log.exists(), "without hooks none can fail");
}

/// The events of one turn with one tool, of which a hook tells the hub.
fn told(program: Program) -> &'static [&'static str] {
    match program {
        // Without a terminal it starts no session.
        Program::Qwen => &["prompt", "before-tool", "tool", "stop"],
        // It does not wait for the hook of its stop.
        Program::OpenCode => &["session-start", "prompt", "before-tool", "tool"],
        _ => &["session-start", "prompt", "before-tool", "tool", "stop"],
    }
}

/// Who says what in a conversation, without the words.
fn outline(turn: &Asked) -> Vec<String> {
    let said = ["messages", "input", "contents"].map(|name| turn.request()[name].as_array());
    let said = said.into_iter().flatten().flatten();
    let parts = |one: &Value| match (&one["content"], &one["parts"]) {
        (Value::Array(parts), _) | (_, Value::Array(parts)) => parts.len(),
        _ => 1,
    };
    said.map(|one| format!("{} {} {}", one["type"], one["role"], parts(one))).collect()
}

/// Mail that came while the conversation slept is there when it wakes up, once.
async fn mail_for_a_conversation_is_there_when_it_is_resumed(program: Program) {
    let Some(mut machine) = Machine::set_up(program, true).await else { return };
    let agent = machine.start(None);
    machine.model.asked().await.say("good night");
    let conversation = program.conversation(&agent.end());
    let address = machine.agent();
    let seq = machine.send(&address, "good morning");

    let agent = machine.start(Some(&conversation));
    let turn = machine.model.asked().await;
    turn.assert_saw_once("good morning");
    turn.assert_never_saw(r#""redelivered":true"#);
    works(program, turn);
    let turn = machine.model.asked().await;
    turn.assert_saw_once("good morning");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
    machine.until_acked(seq);
    assert_eq!(machine.agent(), address);
}

macro_rules! play {
    ($($cast:ident: $program:expr;)*) => {
        $(mod $cast {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn mail_reaches_a_model_that_never_calls_the_hub() {
                super::mail_reaches_a_model_that_never_calls_the_hub($program).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn with_a_hub_that_was_killed_nobody_notices_the_hooks() {
                without_a_hub_nobody_notices_the_hooks($program, true).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn with_a_hub_that_was_stopped_nobody_notices_the_hooks() {
                without_a_hub_nobody_notices_the_hooks($program, false).await;
            }
        })*
    };
}

play! {
    claude: Program::ClaudeCode;
    codex: Program::Codex;
    gemini_cli: Program::Gemini;
    qwen_code: Program::Qwen;
    copilot_cli: Program::Copilot;
    open_code: Program::OpenCode;
}

macro_rules! refuse {
    ($($name:ident: $program:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                a_stop_with_unread_mail_is_refused_once($program).await;
            }
        )*
    };
}

// OpenCode's cannot be refused: see `idle`.
refuse! {
    a_stop_of_claude_code_with_unread_mail_is_refused_once: Program::ClaudeCode;
    a_stop_of_codex_with_unread_mail_is_refused_once: Program::Codex;
    a_stop_of_gemini_cli_with_unread_mail_is_refused_once: Program::Gemini;
    a_stop_of_qwen_code_with_unread_mail_is_refused_once: Program::Qwen;
    a_stop_of_copilot_cli_with_unread_mail_is_refused_once: Program::Copilot;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_for_a_conversation_of_claude_code_is_there_when_it_is_resumed() {
    mail_for_a_conversation_is_there_when_it_is_resumed(Program::ClaudeCode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_for_a_conversation_of_codex_is_there_when_it_is_resumed() {
    mail_for_a_conversation_is_there_when_it_is_resumed(Program::Codex).await;
}
