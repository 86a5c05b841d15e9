//! The real Claude Code in a terminal, with the example profile, and a model that the test
//! plays.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use posthaste_testkit::model_server::ModelServer;
use serde_json::{Value, json};

use super::super::claude::CAST;
use crate::clients::{claude_binary, home, shut_in, tools};
use crate::tmux::Tmux;
use crate::world::{Hub, World, eventually};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/profiles");

struct Desk {
    world: World,
    hub: Option<Hub>,
    model: ModelServer,
    folder: PathBuf,
    tmux: Tmux,
}

/// Claude Code of somebody who is logged out.
const STRANGER: &str = "---
name: stranger
driver: terminal
command: exec claude
multiline: true
patterns: { idle: '^❯\\s*$', busy: '^[·✢✳✶✻✽*] [^ ]+…', failed: '^\\s*⎿\\s+(Not logged in .*)$' }
env: { ANTHROPIC_API_KEY: '', CLAUDE_CODE_DISABLE_ALTERNATE_SCREEN: '1' }
---
";

impl Desk {
    async fn set() -> Option<Self> {
        let tools = tools()?;
        let (world, model) = (World::new(), ModelServer::start().await);
        let tmux = Tmux::of(&world)?;
        let bin = world.scratch().join("bin");
        fs::create_dir(&bin).expect("a folder");
        symlink(claude_binary(&tools), bin.join("claude")).expect("a link");
        let folder = home(&world).join("project");
        fs::create_dir_all(&folder).expect("a folder");
        let folder = folder.canonicalize().expect("a path");
        let known = json!({
            "hasCompletedOnboarding": true,
            "theme": "dark",
            "customApiKeyResponses": { "approved": ["test-key"], "rejected": [] },
            "projects": { folder.to_str().expect("plain"): { "hasTrustDialogAccepted": true } },
        });
        fs::write(home(&world).join(".claude.json"), known.to_string()).expect("written");
        let mut desk = Self { world, hub: None, model, folder, tmux };
        desk.start_the_hub();
        desk.world.say(&["join", "alice"]);
        desk.world.say(&["profiles", "load", EXAMPLES]);
        Some(desk)
    }

    fn start_the_hub(&mut self) {
        let world = &self.world;
        let config = world.config(&self.tmux.config());
        let mut up =
            world.command(&["up", "--json", "--listen", "127.0.0.1:0", "--config", &config]);
        shut_in(&mut up, &home(world));
        (CAST.surround)(&mut up, self.model.url(), &home(world));
        let bin = world.scratch().join("bin");
        up.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        up.env("POSTHASTE_DATA", world.data());
        self.hub = Some(world.hub_of(up));
    }

    /// Allows what its dialogue asks, which is about this.
    fn allow(&self, about: &str) {
        let mut needs = json!(null);
        eventually(|| {
            needs = self.world.json(&["needs"]);
            needs["needs"][0]["text"].as_str().is_some_and(|text| text.contains(about))
        });
        assert_eq!(needs["needs"][0]["kind"], "permission", "{needs}");
        let id = needs["needs"][0]["id"].as_u64().expect("a number").to_string();
        self.world.say(&["answer", &id, "--allow"]);
    }

    fn alice_reads(&self) -> Value {
        let inbox = self.world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
        inbox["messages"][0].clone()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.hub = None;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_works_in_a_terminal_takes_mail_and_asks_before_it_acts() {
    let Some(mut desk) = Desk::set().await else { return };
    let folder = desk.folder.to_str().expect("plain").to_owned();
    let task = "Lay the first brick.\n\nAnd then /rest.";
    let given =
        desk.world.json(&["assign", "claude-terminal", task, "--as", "alice", "--dir", &folder]);
    let worker = given["instance"].as_str().unwrap_or_else(|| panic!("{given}")).to_owned();
    let turn = desk.model.asked().await;
    turn.assert_saw("Lay the first brick.");
    turn.assert_saw("And then /rest.");
    turn.say("The first brick is laid.\n\n- one\n- two");
    let report = desk.alice_reads();
    assert_eq!(report["message"], "The first brick is laid.\n\n- one\n- two", "{report}");

    // The hub is killed in the middle of a turn with mail, which goes on without it.
    desk.world.json(&["send", &worker, "paint the door", "--as", "alice"]);
    let turn = desk.model.asked().await;
    turn.assert_saw_once("paint the door");
    let tools: Vec<String> = turn.tools().into_iter().map(|tool| tool.name).collect();
    assert!(tools.iter().any(|name| name == "check_inbox"), "{tools:?}");
    desk.hub.take().expect("a hub").kill();
    turn.call("Bash", json!({ "command": "touch made", "description": "make a file" }));
    desk.start_the_hub();

    // It asks a person, in its own dialogue.
    desk.allow("touch made");
    let turn = desk.model.asked().await;
    assert!(desk.folder.join("made").exists());
    turn.call("Bash", json!({ "command": "rm made", "description": "remove a file" }));
    desk.allow("rm made");
    let turn = desk.model.asked().await;
    assert!(!desk.folder.join("made").exists());
    turn.say("The door is painted.");
    eventually(|| desk.world.json(&["poll", &worker])["activity"] == "idle");
    let shown = desk.world.say(&["logs", &worker]);
    assert!(shown.contains("The door is painted."), "{shown}");
    desk.world.say(&["stop", &worker]);
    eventually(|| desk.world.json(&["poll", &worker])["status"] == "stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_in_a_terminal_of_an_unknown_folder_shows_that_it_waits_for_a_person() {
    let Some(desk) = Desk::set().await else { return };
    let unknown = desk.folder.with_file_name("unknown");
    fs::create_dir(&unknown).expect("a folder");
    let folder = unknown.to_str().expect("plain");
    let given = desk.world.json(&["assign", "claude-terminal", "Begin.", "--dir", folder]);
    let worker = given["instance"].as_str().unwrap_or_else(|| panic!("{given}"));
    let mut need = json!(null);
    eventually(|| {
        need = desk.world.json(&["needs"])["needs"][0].clone();
        need["kind"] == "permission"
    });
    assert!(need["text"].as_str().is_some_and(|text| text.contains("trust")), "{need}");
    assert_eq!(desk.world.json(&["poll", worker])["activity"], "waiting_user");
    desk.world.say(&["stop", worker]);
    eventually(|| desk.world.json(&["poll", worker])["status"] == "stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_that_is_logged_out_fails_its_assignment() {
    let Some(desk) = Desk::set().await else { return };
    let folder = desk.folder.to_str().expect("plain").to_owned();
    fs::write(desk.world.file("profiles/stranger.md"), STRANGER).expect("written");
    desk.world.say(&["profiles", "load", desk.world.file("profiles").to_str().expect("plain")]);
    desk.world.say(&["assign", "stranger", "Say hello.", "--as", "alice", "--dir", &folder]);
    let report = desk.alice_reads();
    assert_eq!(report["type"], "system.agent_failed", "{report}");
    let text = report["message"].as_str().expect("a text");
    assert!(text.contains("Not logged in"), "{text}");
}
