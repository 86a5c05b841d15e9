//! A user connects the agent program that they have by one command, works with it,
//! and takes it back.

use std::fs;
use std::path::{Path, PathBuf};

use posthaste_testkit::model_server::{Asked, ModelServer};
use serde_json::json;

use super::program::{self, Program, Task, home};
use super::stories::mail;
use super::user;
use crate::world::{Hub, World, eventually};

/// A machine with a hub and one agent program on the path.
struct Machine {
    program: Program,
    tools: PathBuf,
    world: World,
    model: ModelServer,
    _hub: Hub,
}

impl Machine {
    async fn set_up(program: Program) -> Option<Self> {
        let tools = program::tools()?;
        let world = World::new();
        let hub = world.hub();
        world.say(&["join", "alice"]);
        let model = ModelServer::start().await;
        user::put_on_path(program, &tools, &world);
        Some(Self { program, tools, world, model, _hub: hub })
    }

    #[track_caller]
    fn says(&self, args: &[&str]) -> String {
        user::says(&self.world, args)
    }

    /// Where the user's own settings are, and some.
    fn settings(&self) -> (PathBuf, &'static str) {
        let (file, text) = match self.program {
            Program::ClaudeCode => (".claude.json", "{\n  \"numStartups\": 7\n}\n"),
            Program::Codex => ("codex/config.toml", "# mine\nhide_agent_reasoning = true # so\n"),
            Program::Gemini => {
                (".gemini/settings.json", "{\n  // mine\n  \"ui\": { \"hideTips\": true }\n}\n")
            }
            Program::OpenCode => {
                (".config/opencode/opencode.json", "{\n  // mine\n  \"share\": \"disabled\",\n}\n")
            }
            Program::Copilot => (".copilot/mcp-config.json", "{ \"mcpServers\": {} }\n"),
            Program::Qwen => (".qwen/settings.json", "{\n\t\"ui\": {\"hideTips\": true}\n}"),
        };
        (home(&self.world).join(file), text)
    }

    /// Mail that the user sends from the shell while it works reaches its model.
    async fn gets_mail(&mut self, text: &str) {
        let prompt = Some("Wait for mail.");
        let task = Task { model: self.model.url(), prompt, ..Task::default() };
        let agent = self.program.start(&self.tools, &self.world, &task);
        let turn = offered(&mut self.model, "check_inbox").await;
        turn.call("check_inbox", json!({ "timeout": 50 }));
        let name = format!("{}.", self.program.name());
        let waits = |line: &str| line.starts_with(&name) && line.contains("waiting inbox");
        eventually(|| self.world.say(&["agents"]).lines().any(waits));
        self.world.say(&["send", self.program.name(), text, "--as", "alice"]);
        let turn = self.model.asked().await;
        let entry = mail(&turn, text);
        assert!(entry["from"].as_str().is_some_and(|from| from.starts_with("alice.")), "{entry}");
        turn.say("done");
        let ran = agent.end();
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

/// The first turn in which a tool of ours is offered. Some programs offer a search for
/// tools first, and their model has to use it.
pub(super) async fn offered(model: &mut ModelServer, tool: &str) -> Asked {
    let turn = model.asked().await;
    let has = |turn: &Asked, name: &str| turn.tools().iter().any(|tool| tool.name == name);
    if has(&turn, tool) {
        return turn;
    }
    assert!(has(&turn, "tool_search"), "{:?}", turn.tools());
    turn.call("tool_search", json!({ "query": format!("select:mcp__posthaste__{tool}") }));
    model.asked().await
}

fn now(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

async fn it_is_connected_gets_mail_and_is_taken_back(program: Program) {
    for existing in [false, true] {
        let Some(mut machine) = Machine::set_up(program).await else { return };
        let (path, own) = machine.settings();
        let before = existing.then_some(own);
        if let Some(text) = before {
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(&path, text).expect("written");
        }
        let name = program.name();
        let said = machine.says(&["connect", name, "--yes"]);
        assert!(said.contains("is connected") && said.contains("Proved"), "{said}");
        let written = now(&path).unwrap_or_else(|| panic!("nothing in {}: {said}", path.display()));
        assert!(written.contains("posthaste"), "{written}");
        let well = machine.says(&["doctor", name]);
        assert!(!well.contains("fail") && well.contains("round trip"), "{well}");
        let trip = well.lines().find(|line| line.contains("hook trip"));
        assert!(trip.is_some_and(|trip| trip.starts_with("ok")), "{well}");

        machine.gets_mail("the build is red").await;

        let ran = now(&path);
        let told = machine.says(&["connect", name, "--undo"]);
        let after = now(&path);
        if ran.as_ref() == Some(&written) {
            assert_eq!(after.as_deref(), before, "{told}");
        } else {
            // The program wrote into its own file meanwhile: only what is ours is gone.
            let writes = [Program::ClaudeCode, Program::OpenCode, Program::Qwen];
            assert!(writes.contains(&program), "no other does: {ran:?}");
            assert!(told.contains("only what is ours"), "{told}");
            assert!(!after.expect("its own").contains("\"posthaste\""), "{told}");
        }
        // And without a run in between, to the byte.
        let before = now(&path);
        machine.says(&["connect", name, "--yes"]);
        assert_ne!(now(&path), before);
        machine.says(&["connect", name, "--undo"]);
        assert_eq!(now(&path), before);
    }
}

/// Mail that was sent before it ever ran is there; killed, and started again in the same
/// folder, it is the same agent, and what it may not have seen comes again.
async fn it_comes_back_as_itself(program: Program) {
    let Some(mut machine) = Machine::set_up(program).await else { return };
    // Without hooks, which have stories of their own: nothing proves a read before the kill.
    machine.says(&["connect", program.name(), "--yes", "--no-hooks"]);
    machine.says(&["send", program.name(), "the tower fell", "--as", "alice"]);
    for again in [false, true] {
        let prompt = Some("Read your mail.");
        let task = Task { model: machine.model.url(), prompt, ..Task::default() };
        let agent = machine.program.start(&machine.tools, &machine.world, &task);
        offered(&mut machine.model, "check_inbox").await.call("check_inbox", json!({ "timeout": 0 }));
        let turn = machine.model.asked().await;
        let entry = mail(&turn, "the tower fell");
        assert_eq!(entry["redelivered"] == true, again, "{entry}");
        if again {
            turn.say("done");
            assert_eq!(agent.end().code, Some(0));
        } else {
            agent.kill();
        }
        let agents = machine.world.json(&["agents"]);
        let agents = agents["instances"].as_array().expect("a list").iter();
        let own: Vec<_> = agents.filter(|agent| agent["agent"] == program.name()).collect();
        assert_eq!(own.len(), 1, "it is one agent: {own:?}");
    }
}

/// A program that only asks what tools there are is no agent.
async fn it_lists_its_servers(program: Program) {
    let Some(machine) = Machine::set_up(program).await else { return };
    machine.says(&["connect", program.name(), "--yes"]);
    let ran = machine.program.run(&machine.tools, &machine.world, &["mcp", "list"]);
    assert!(ran.out.contains("posthaste"), "{ran:?}");
    let agents = machine.world.json(&["agents"]);
    assert_eq!(agents["instances"].as_array().map(Vec::len), Some(1), "alice alone: {agents}");
}

macro_rules! each {
    ($($story:ident: $told:ident $program:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                $told($program).await;
            }
        )*
    };
}

each! {
    gemini_comes_back_as_itself: it_comes_back_as_itself Program::Gemini;
    opencode_comes_back_as_itself: it_comes_back_as_itself Program::OpenCode;
    copilot_comes_back_as_itself: it_comes_back_as_itself Program::Copilot;
    qwen_comes_back_as_itself: it_comes_back_as_itself Program::Qwen;
    claude_code_that_lists_its_servers_is_no_agent: it_lists_its_servers Program::ClaudeCode;
    qwen_that_lists_its_servers_is_no_agent: it_lists_its_servers Program::Qwen;
    claude_code_is_connected_gets_mail_and_is_taken_back: it_is_connected_gets_mail_and_is_taken_back Program::ClaudeCode;
    codex_is_connected_gets_mail_and_is_taken_back: it_is_connected_gets_mail_and_is_taken_back Program::Codex;
    gemini_is_connected_gets_mail_and_is_taken_back: it_is_connected_gets_mail_and_is_taken_back Program::Gemini;
    opencode_is_connected_gets_mail_and_is_taken_back: it_is_connected_gets_mail_and_is_taken_back Program::OpenCode;
    copilot_is_connected_gets_mail_and_is_taken_back: it_is_connected_gets_mail_and_is_taken_back Program::Copilot;
    qwen_is_connected_gets_mail_and_is_taken_back: it_is_connected_gets_mail_and_is_taken_back Program::Qwen;
}
