//! A hub in the background: `up --detach`, and `down`.

use std::net::TcpListener;

use rustix::process::{Pid, getpgid, getpgrp};
use serde_json::Value;

use crate::world::{Started, World, eventually, mode};

/// A folder whose hub is in the background. It is stopped at the end, also when an
/// assertion fails.
pub(crate) struct Background(pub(crate) World);

impl Drop for Background {
    fn drop(&mut self) {
        self.0.run(&["down"]);
    }
}

impl Background {
    pub(crate) fn new() -> Self {
        Self(World::new())
    }
}

const ANYWHERE: [&str; 2] = ["--listen", "127.0.0.1:0"];

fn up(world: &World, more: &[&str]) -> Value {
    world.json(&[&["up", "--detach"], &ANYWHERE[..], more].concat())
}

#[test]
fn a_hub_in_the_background_takes_mail_when_up_returns_and_is_gone_when_down_returns() {
    let background = Background::new();
    let world = &background.0;
    let said = world.say(&[&["up", "--detach"], &ANYWHERE[..]].concat());
    let log = world.file("hub.log");
    assert!(said.contains(" is listening at http://127.0.0.1:"), "{said}");
    assert!(said.contains(&format!("log:  {}\n", log.display())), "{said}");
    assert!(said.contains("\ntry:\n") && said.contains("`posthaste down` stops"), "{said}");
    assert_eq!(mode(&log), 0o600);
    world.say(&["join", "bob"]);
    world.say(&["send", "bob", "hello"]);
    let mail = world.json(&["inbox", "--as", "bob", "--batch-window", "0"]);
    assert_eq!(mail["messages"][0]["message"], "hello");

    let told = world.say(&["down"]);
    assert!(told.starts_with("the hub at http://127.0.0.1:") && told.contains("stopped"), "{told}");
    // The folder is free, and nothing says that a hub is there.
    assert!(!world.file("hub.json").exists());
    assert_eq!(up(world, &[])["status"], "listening");
}

#[test]
fn a_hub_in_the_background_is_nobodys_child_and_hears_no_ctrl_c() {
    let background = Background::new();
    let hub = up(&background.0, &[]);
    let pid = hub["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
    let group = getpgid(pid).expect("it runs");
    assert_ne!(group, getpgrp(), "a Ctrl-C in this terminal would end it");
}

#[test]
fn detaching_twice_is_one_hub_and_says_where_it_is() {
    let background = Background::new();
    let world = &background.0;
    let first = up(world, &[]);
    let port = first["url"].as_str().and_then(|url| url.strip_prefix("http://"));
    let port = port.expect("an address");
    for more in [&[][..], &["--listen", port]] {
        let second = world.json(&[&["up", "--detach"], more].concat());
        assert_eq!(second["status"], "already_running");
        assert_eq!((&second["url"], &second["pid"]), (&first["url"], &first["pid"]));
        assert_eq!(second["same_folder"], true);
    }
}

/// The same commands in the foreground end alike.
#[test]
fn detaching_says_that_the_hub_which_runs_is_not_the_one_that_was_asked_for() {
    let background = Background::new();
    let world = &background.0;
    let first = up(world, &[]);
    let port = first["url"].as_str().and_then(|url| url.strip_prefix("http://"));
    let here = ["--listen", port.expect("an address"), "--ephemeral"];
    let file = world.config("[server]\nlisten = '127.0.0.1:0'\n");
    for more in [&ANYWHERE[..], &["--ephemeral"], &here] {
        for up in [&["up", "--detach"][..], &["up"]] {
            let ran = world.run(&[up, more, &["--config", &file]].concat());
            ran.failed(4, &first["pid"].to_string(), "--data");
        }
    }
    world.say(&["agents"]);
}

#[test]
fn the_flags_of_up_count_in_the_background_too() {
    let background = Background::new();
    let hub = up(&background.0, &["--ephemeral", "--log-format", "json", "--log", "debug"]);
    assert_eq!(hub["durable"], false);
    let log = background.0.file("hub.log");
    let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
    eventually(|| std::fs::read_to_string(&log).is_ok_and(|text| text.lines().any(is_json)));
}

#[test]
fn a_hub_that_cannot_start_in_the_background_says_why_at_once() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let listen = taken.local_addr().expect("an address").to_string();
    let ran = world.run(&["up", "--detach", "--listen", &listen]);
    ran.failed(5, &format!("{listen} is taken by"), "hub.log");
    // Colours are for people, and the log is read by the command that waits.
    let mut coloured = world.command(&["up", "--detach", "--listen", &listen, "--color", "never"]);
    coloured.env("CLICOLOR_FORCE", "1");
    let ran = Started::new(coloured).end();
    ran.failed(5, &format!("{listen} is taken by"), "hub.log");
    // What is wrong with the configuration is told before anything is started.
    let file = world.config("[limits]\nsweep = 'soon'\n");
    let ran = world.run(&["up", "--detach", "--config", &file]);
    ran.failed(2, "limits.sweep", "");
}

#[test]
fn down_without_a_hub_succeeds_and_says_so() {
    let world = World::new();
    let said = world.say(&["down"]);
    assert_eq!(said, format!("no hub is running on {}\n", world.data().display()));
    assert_eq!(world.json(&["down"])["status"], "not_running");
}

#[test]
fn down_stops_only_the_hub_of_its_folder() {
    let (world, other) = (World::new(), World::new());
    let hub = world.hub();
    let _other = other.hub();
    assert_eq!(world.json(&["down"])["pid"], hub.process.pid());
    assert_eq!(hub.process.end().code, Some(0));
    other.say(&["agents"]);
    let named = format!("--hub={}", _other.url);
    other.run(&["down", &named]).failed(2, "data folder", "--data");
    let mut command = other.command(&["down"]);
    command.env("POSTHASTE_HUB", &_other.url);
    Started::new(command).end().failed(2, "data folder", "leave --hub and POSTHASTE_HUB out");
    other.say(&["agents"]);
}

#[test]
fn down_never_ends_a_process_that_is_not_the_hub_of_the_folder() {
    let world = World::new();
    let hub = world.hub();
    // As a hub in a container would say it: the number is another process's here.
    let innocent = world.program("/bin/sleep", &["600"]).spawn();
    let mut innocent = innocent.expect("it starts");
    let told = std::fs::read_to_string(world.file("hub.json")).expect("announced");
    let mut told: Value = serde_json::from_str(&told).expect("JSON");
    told["pid"] = innocent.id().into();
    std::fs::write(world.file("hub.json"), told.to_string()).expect("written");
    std::fs::write(world.file("hub.lock"), innocent.id().to_string()).expect("written");
    let ran = world.run(&["down"]);
    let alive = innocent.try_wait().expect("our own child").is_none();
    innocent.kill().and_then(|()| innocent.wait()).expect("our own child");
    ran.failed(5, "runs elsewhere", "container");
    assert!(alive, "another process was ended");
    drop(hub);
}

#[test]
fn down_says_how_to_go_on_when_a_hub_takes_longer() {
    let world = World::new();
    let hub = world.hub();
    hub.process.signal(rustix::process::Signal::STOP);
    let ran = world.run(&["down", "--timeout", "0.1"]);
    hub.process.signal(rustix::process::Signal::CONT);
    ran.failed(5, "is still stopping", "--timeout");
    // It heard, and stops.
    assert_eq!(hub.process.end().code, Some(0));
}
