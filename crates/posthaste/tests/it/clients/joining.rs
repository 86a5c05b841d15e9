//! A user adds the hub by the one line of the guides, and the program is an agent.

use posthaste_testkit::model_server::ModelServer;
use serde_json::json;

use super::program::{self, Line, Program, Task, home};
use super::running::Running;
use super::stories::{documents, mail};
use crate::world::{Hub, Ran, World, eventually};

/// A machine with a hub, where the user has typed that line.
struct Machine {
    program: Program,
    tools: std::path::PathBuf,
    world: World,
    model: ModelServer,
    /// In the user's environment.
    token: Option<String>,
    _hub: Hub,
}

impl Machine {
    async fn set_up(program: Program, line: Line) -> Option<Self> {
        let tools = program::tools()?;
        let world = World::new();
        let hub = world.hub();
        world.say(&["join", "alice"]);
        // Where the binary looks when nobody tells it.
        let share = home(&world).join(".local/share");
        std::fs::create_dir_all(&share).expect("a folder");
        std::os::unix::fs::symlink(world.data(), share.join("posthaste")).expect("a link");

        let url = format!("{}/mcp", hub.url);
        // Over stdio it joins by itself.
        let join = || world.say(&["join", program.name(), "--print-token"]).trim().to_owned();
        let token = (line == Line::Http).then(join);
        let header = format!("Authorization: Bearer {}", token.as_deref().unwrap_or_default());
        let rest: &[&str] = match (line, program) {
            (Line::Stdio, _) => &["posthaste", "--", "posthaste", "mcp"],
            (Line::Http, Program::ClaudeCode) => {
                &["--transport", "http", "posthaste", &url, "--header", &header]
            }
            (Line::Http, Program::Gemini) => panic!("it has no such line"),
            (Line::Http, Program::Codex) => {
                &["posthaste", "--url", &url, "--bearer-token-env-var", "POSTHASTE_TOKEN"]
            }
            (Line::Http, _) => panic!("the others are added by `posthaste connect`"),
        };
        let added = program.run(&tools, &world, &[&["mcp", "add"], rest].concat());
        assert_eq!(added.code, Some(0), "{added:?}");
        let model = ModelServer::start().await;
        Some(Self { program, tools, world, model, token, _hub: hub })
    }

    fn start(&self, resumes: Option<&str>) -> Running {
        let prompt = Some("Wait for mail.");
        let (model, token) = (self.model.url(), self.token.as_deref());
        let task = Task { model, prompt, resumes, token, ..Task::default() };
        self.program.start(&self.tools, &self.world, &task)
    }

    /// Who the agent of this conversation is, and how it ended.
    async fn whoami(&mut self, resumes: Option<&str>) -> (String, Ran) {
        let agent = self.start(resumes);
        self.model.asked().await.call("whoami", json!({}));
        let turn = self.model.asked().await;
        let last = turn.result();
        let told = documents(&last);
        let address = told.first().and_then(|me| me["address"].as_str());
        let address = address.unwrap_or_else(|| panic!("nobody: {turn:?}")).to_owned();
        turn.say("done");
        (address, agent.end())
    }
}

/// Told to wait, it gets what the user sends from the shell, in the same turn.
async fn it_gets_mail_by_the_name_of_its_program(program: Program, line: Line) {
    let Some(mut machine) = Machine::set_up(program, line).await else { return };
    let agent = machine.start(None);
    machine.model.asked().await.call("check_inbox", json!({ "timeout": 60 }));
    let name = format!("{}.", program.name());
    eventually(|| machine.world.say(&["agents"]).contains(&name));
    machine.world.say(&["send", program.name(), "the build is red", "--as", "alice"]);

    let turn = machine.model.asked().await;
    let entry = mail(&turn, "the build is red");
    assert!(entry["from"].as_str().is_some_and(|from| from.starts_with("alice.")), "{entry}");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// The same conversation keeps its mailbox, and another has its own.
async fn a_resumed_conversation_is_the_same_agent(program: Program) {
    let Some(mut machine) = Machine::set_up(program, Line::Stdio).await else { return };
    let (first, ran) = machine.whoami(None).await;
    let conversation = program.conversation(&ran);
    let (again, _) = machine.whoami(Some(&conversation)).await;
    assert_eq!(first, again);
    let (another, _) = machine.whoami(None).await;
    assert_ne!(first, another);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_gets_mail_by_its_name_over_stdio() {
    it_gets_mail_by_the_name_of_its_program(Program::ClaudeCode, Line::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_gets_mail_by_its_name_over_http() {
    it_gets_mail_by_the_name_of_its_program(Program::ClaudeCode, Line::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_gets_mail_by_its_name_over_stdio() {
    it_gets_mail_by_the_name_of_its_program(Program::Codex, Line::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codex_gets_mail_by_its_name_over_http() {
    it_gets_mail_by_the_name_of_its_program(Program::Codex, Line::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_conversation_of_claude_code_is_the_same_agent() {
    a_resumed_conversation_is_the_same_agent(Program::ClaudeCode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_conversation_of_codex_is_the_same_agent() {
    a_resumed_conversation_is_the_same_agent(Program::Codex).await;
}
