//! `posthaste hook idle`, as OpenCode's plugin runs it: it waits, and nobody waits for it.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{everybody, fire, log, said};
use crate::world::{BINARY, Started, World, eventually};

/// The hook of a session that waits for its user.
struct Idle {
    process: Started,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Idle {
    fn start(world: &World, variables: &[(&str, &str)]) -> Self {
        let mut command = world.command(&["hook", "idle", "--client", "opencode"]);
        command.stdin(Stdio::piped()).envs(variables.iter().copied());
        let mut process = Started::new(command);
        let (mut stdin, stdout) = process.talk();
        writeln!(stdin, "{}", session()).expect("it reads");
        Self { process, stdin, stdout }
    }

    fn waits(world: &World) -> Self {
        let idle = Self::start(world, &[]);
        eventually(|| activity(world) == "waiting_inbox");
        idle
    }

    /// The mail that it brings.
    fn text(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        said["additionalContext"].as_str().expect("a text").to_owned()
    }

    /// The program closes the pipe, or has ended. So does the hook.
    fn lets_go(self) {
        drop((self.stdin, self.stdout));
        assert_eq!(self.process.end().code, Some(0));
    }
}

fn session() -> Value {
    json!({ "session_id": "s1" })
}

fn activity(world: &World) -> String {
    let agents = world.json(&["agents"]);
    agents["instances"][0]["activity"].as_str().unwrap_or_default().to_owned()
}

fn state(world: &World, seq: &Value) -> (String, Value) {
    let history = world.json(&["history", "--last", "50"]);
    let messages = history["messages"].as_array().expect("a list");
    let message = messages.iter().find(|m| m["seq"] == *seq).expect("kept");
    let delivery = &message["deliveries"][0];
    (delivery["state"].as_str().expect("a state").to_owned(), delivery["proof"].clone())
}

/// A hub with the agent of a session that has stopped, and its address.
fn stopped(world: &World) -> String {
    fire(world, "prompt", "opencode", &session());
    fire(world, "stop", "opencode", &session());
    let [address] = &everybody(world)[..] else { panic!("one agent") };
    address.clone()
}

#[test]
fn mail_comes_to_an_idle_hook_and_is_acked_when_the_turn_has_begun() {
    let world = World::new();
    let _hub = world.hub();
    let address = stopped(&world);
    let mut idle = Idle::waits(&world);
    let seq = world.json(&["send", &address, "wake up"])["seq"].clone();
    let text = idle.text();
    assert!(text.starts_with("Posthaste, your mailbox") && text.contains("wake up"), "{text}");
    assert_eq!(state(&world, &seq).0, "leased", "the turn has not begun");
    writeln!(idle.stdin, "begun").expect("it reads");
    eventually(|| state(&world, &seq) == ("acked".to_owned(), json!("receipt")));
    idle.lets_go();
    assert_eq!(log(&world), "");
}

#[test]
fn mail_of_a_turn_that_never_began_comes_again_with_the_next_prompt() {
    for event in ["prompt", "stop"] {
        let world = World::new();
        let _hub = world.hub();
        let address = stopped(&world);
        let mut idle = Idle::waits(&world);
        let seq = world.json(&["send", &address, "wake up"])["seq"].clone();
        assert!(idle.text().contains("wake up"));
        idle.lets_go();
        // Tools of another session prove nothing about it.
        fire(
            &world,
            "before-tool",
            "opencode",
            &json!({ "session_id": "s2", "tool_name": "bash" }),
        );
        assert_eq!(state(&world, &seq).0, "leased");
        let told = said(&fire(&world, event, "opencode", &session())).to_string();
        assert!(told.contains("wake up") && told.contains(r#"\"redelivered\":true"#), "{told}");
    }
}

#[test]
fn a_prompt_ends_the_wait_and_gets_the_mail_unmarked() {
    let world = World::new();
    let _hub = world.hub();
    let address = stopped(&world);
    let idle = Idle::waits(&world);
    idle.process.signal(Signal::KILL);
    world.say(&["send", &address, "for the prompt"]);
    let told = said(&fire(&world, "prompt", "opencode", &session())).to_string();
    assert!(told.contains("for the prompt"), "{told}");
    drop(idle);
}

#[test]
fn an_idle_hook_ends_with_its_program() {
    let world = World::new();
    let hub = world.hub();
    stopped(&world);
    let idle = Idle::waits(&world);
    idle.lets_go();
    eventually(|| activity(&world) != "waiting_inbox");
    let status = || world.json(&["agents"])["instances"][0]["status"].clone();
    eventually(|| status() == "away");
    // Also while no hub is there.
    drop(hub.stop());
    let idle = Idle::start(&world, &[]);
    eventually(|| log(&world).contains("opencode idle: no hub runs here"));
    idle.lets_go();
}

#[test]
fn an_idle_hook_outlives_its_hub() {
    let world = World::new();
    let hub = world.hub();
    let address = stopped(&world);
    let mut idle = Idle::waits(&world);
    hub.kill();
    let _hub = world.hub();
    eventually(|| activity(&world) == "waiting_inbox");
    world.say(&["send", &address, "wake up"]);
    assert!(idle.text().contains("wake up"));
    idle.lets_go();
    assert!(log(&world).lines().count() <= 1, "an outage is told once: {}", log(&world));
}

#[test]
fn an_idle_hook_that_its_user_does_not_want_ends_at_once() {
    let world = World::new();
    let _hub = world.hub();
    stopped(&world);
    let idle = Idle::start(&world, &[("POSTHASTE_HOOKS__WAKE", "false")]);
    // Nobody closes its stdin.
    let Idle { process, stdin, stdout } = idle;
    drop(stdout);
    assert_eq!(process.end().code, Some(0));
    drop(stdin);
    assert_eq!(log(&world), "");
}

#[test]
fn an_idle_hook_of_a_worker_ends_at_once_and_that_is_no_failure() {
    let world = World::new();
    let folder = world.file("profiles");
    std::fs::create_dir_all(&folder).expect("a folder");
    // Nobody closes its stdin.
    let script = format!(
        "mkfifo pipe; exec 3<>pipe; echo {{}} >&3; \
         {BINARY} hook idle --client opencode --data {} <pipe; echo ended",
        world.data().display()
    );
    let profile =
        format!("---\nname: idler\ndriver: command\ncommand: [/bin/sh, -c, \"{script}\"]\n---\n");
    std::fs::write(folder.join("idler.md"), profile).expect("written");
    let _hub = world.hub();
    world.say(&["join", "alice"]);
    let said = world.say(&["handoff", "idler", "Wait.", "--as", "alice"]);
    assert!(said.contains("ended"), "{said}");
    assert_eq!(log(&world), "");
}
