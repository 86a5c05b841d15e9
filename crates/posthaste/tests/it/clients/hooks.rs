//! Hooks of real programs: mail reaches a model that never asks for it.

mod by_name;
mod edges;

use std::path::PathBuf;

use posthaste_testkit::model_server::{Asked, ModelServer};
use serde_json::{Value, json};

use super::gemini;
use super::program::{self, Program, Task, home};
use super::running::Running;
use super::stories::documents;
use crate::world::{Hub, Started, World, eventually};

/// A machine with a hub, and a program whose hooks and tools are set up as a user does.
struct Machine {
    program: Program,
    tools: PathBuf,
    world: World,
    model: ModelServer,
    hub: Option<Hub>,
}

/// What each program calls the four events.
fn events(program: Program) -> [(&'static str, &'static str); 4] {
    match program {
        Program::Gemini => [
            ("SessionStart", "session-start"),
            ("BeforeAgent", "prompt"),
            ("AfterTool", "tool"),
            ("AfterAgent", "stop"),
        ],
        _ => [
            ("SessionStart", "session-start"),
            ("UserPromptSubmit", "prompt"),
            ("PostToolUse", "tool"),
            ("Stop", "stop"),
        ],
    }
}

/// Where a program's hooks stand.
fn settings_of(program: Program, world: &World) -> PathBuf {
    match program {
        Program::ClaudeCode => home(world).join(".claude/settings.json"),
        Program::Codex => home(world).join("codex/hooks.json"),
        Program::Gemini => gemini::settings(world),
        _ => panic!("{program:?} has no hooks"),
    }
}

impl Machine {
    /// With the hub's tools, or with nothing but hooks.
    async fn set_up(program: Program, with_tools: bool) -> Option<Self> {
        let tools = program::tools()?;
        let world = World::new();
        let hub = world.hub();
        // Claude Code shows its model the state of the repository around it. It gets one
        // of its own, or it would be the one that these tests lie in.
        let place = home(&world);
        let place = place.to_str().expect("a plain path");
        let made = Started::new(world.program("git", &["init", "--quiet", place])).end();
        assert_eq!(made.code, Some(0), "{made:?}");
        // Where the binary looks when nobody tells it.
        let share = home(&world).join(".local/share");
        std::fs::create_dir_all(&share).expect("a folder");
        std::os::unix::fs::symlink(world.data(), share.join("posthaste")).expect("a link");

        let hook = |(name, event): (&str, &str)| {
            let command = format!("posthaste hook {event} --client {}", program.name());
            let hook = json!([{ "hooks": [{ "type": "command", "command": command }] }]);
            (name.to_owned(), hook)
        };
        let hooks: Value = events(program).map(hook).into_iter().collect();
        let settings = json!({ "hooks": hooks });
        let path = settings_of(program, &world);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, settings.to_string()).expect("written");
        if with_tools {
            let server: &[&str] = match program {
                Program::Gemini => &["-s", "user", "posthaste", "posthaste", "mcp"],
                _ => &["posthaste", "--", "posthaste", "mcp"],
            };
            let added = program.run(&tools, &world, &[&["mcp", "add"], server].concat());
            assert_eq!(added.code, Some(0), "{added:?}");
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
        assert!(turn.result().contains("at work"), "{}", turn.result());
        assert!(!turn.saw("osthaste"), "{}", turn.request);
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

    fn until_proved_by_a_hook(&self, seq: u64) {
        eventually(|| self.record(seq).0 == "acked");
        assert_eq!(self.record(seq).1.as_deref(), Some("hook"));
    }
}

/// A tool of the program's own, which has nothing to do with the hub.
fn works(program: Program, turn: Asked) {
    let echo = "echo at work";
    match program {
        Program::ClaudeCode => turn.call("Bash", json!({ "command": echo, "description": "x" })),
        Program::Codex => turn.call("exec_command", json!({ "cmd": echo })),
        Program::Gemini => turn.call("run_shell_command", json!({ "command": echo })),
        _ => panic!("{program:?} has no hooks"),
    }
}

/// How often a text stands in what a model was given.
fn times(turn: &Asked, text: &str) -> usize {
    turn.request.to_string().matches(text).count()
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
    assert!(turn.result().contains("at work"), "{}", turn.result());
    assert_eq!(times(&turn, "the build is red"), 1, "{}", turn.request);
    assert_eq!(machine.record(seq).0, "leased", "nothing has proved it yet");
    works(program, turn);

    let turn = machine.model.asked().await;
    assert_eq!(times(&turn, "the build is red"), 1, "not twice: {}", turn.request);
    machine.until_proved_by_a_hook(seq);
    turn.call("whoami", json!({}));

    let turn = machine.model.asked().await;
    let me = documents(&turn.result())
        .into_iter()
        .find_map(|me| me["address"].as_str().map(str::to_owned));
    assert_eq!(me.as_deref(), Some(address.as_str()), "{}", turn.result());
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
    assert_eq!(machine.agent(), address);
}

/// It wants to finish, is told once why not, and goes on in the same turn.
async fn a_stop_with_unread_mail_is_refused_once(program: Program) {
    let Some(mut machine) = Machine::set_up(program, false).await else { return };
    let agent = machine.start(None);
    let turn = machine.model.asked().await;
    let address = machine.agent();
    let first = machine.send(&address, "wait for me");
    turn.say("I am done.");

    let turn = machine.model.asked().await;
    assert!(turn.saw("do not finish yet") && turn.saw("wait for me"), "{}", turn.request);
    let second = machine.send(&address, "and for me");
    turn.say("Now I am.");

    let ran = agent.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(machine.model.is_idle(), "it was refused once");
    machine.until_proved_by_a_hook(first);
    assert_eq!(machine.record(second).0, "queued", "nobody has seen it");
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
    let lines = std::fs::read_to_string(&log).expect("a log").lines().count();
    assert_eq!(lines, events(program).len());

    std::fs::remove_file(settings_of(program, &machine.world)).expect("there are hooks");
    std::fs::remove_file(&log).expect("there is a log");
    assert_eq!(machine.works_and_says_done().await, asked);
    assert!(!log.exists(), "without hooks none can fail");
}

/// Who says what in a conversation, without the words.
fn outline(turn: &Asked) -> Vec<String> {
    let said = ["messages", "input", "contents"].map(|name| turn.request[name].as_array());
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
    assert_eq!(times(&turn, "good morning"), 1, "{}", turn.request);
    assert!(!turn.saw(r#""redelivered":true"#), "{}", turn.request);
    works(program, turn);
    let turn = machine.model.asked().await;
    assert_eq!(times(&turn, "good morning"), 1, "not twice: {}", turn.request);
    machine.until_proved_by_a_hook(seq);
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
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
            async fn a_stop_with_unread_mail_is_refused_once() {
                super::a_stop_with_unread_mail_is_refused_once($program).await;
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_for_a_conversation_of_claude_code_is_there_when_it_is_resumed() {
    mail_for_a_conversation_is_there_when_it_is_resumed(Program::ClaudeCode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_for_a_conversation_of_codex_is_there_when_it_is_resumed() {
    mail_for_a_conversation_is_there_when_it_is_resumed(Program::Codex).await;
}
