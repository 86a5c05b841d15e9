//! Somebody sets the clock of the machine while the hub runs. A preloaded library plays
//! that for the hub's process alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_api::Client;
use posthaste_api::inbox::{Inbox, InboxQuery};
use posthaste_api::messages::SendRequest;
use serde_json::Value;

use crate::world::{Hub, PATIENCE, World, eventually, lacks};

const HOUR_S: u64 = 3_600;

/// A machine whose clock is set by writing a file.
struct Machine {
    world: World,
    library: PathBuf,
}

impl Machine {
    /// Nothing where the library is missing and nobody asks for it.
    fn new() -> Option<Self> {
        let Some(library) = library() else {
            lacks("has no libfaketime (Debian: the package `faketime`)");
            return None;
        };
        let machine = Self { world: World::new(), library };
        machine.sets_clock_to("+0");
        Some(machine)
    }

    fn file(&self) -> PathBuf {
        self.world.scratch().join("clock")
    }

    /// Relative to the real time: `-1h`, `+1y`.
    fn sets_clock_to(&self, time: &str) {
        // The hub reads it at any moment: never half of it.
        let new = self.world.scratch().join("clock.new");
        std::fs::write(&new, format!("{time}\n")).expect("written");
        std::fs::rename(new, self.file()).expect("in its place");
    }

    /// The clock as this machine's programs see it.
    fn on_this<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", self.file())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    }

    fn hub(&self) -> Hub {
        let mut command = self.world.command(&["up", "--json", "--listen", "127.0.0.1:0"]);
        // Whatever a wrong time would do, it does soon.
        self.on_this(&mut command).env("POSTHASTE_LIMITS__SWEEP", "100ms");
        self.world.hub_of(command)
    }

    /// Seconds since 1970.
    fn time(&self) -> u64 {
        let mut date = self.world.program("/bin/date", &["+%s"]);
        let told = self.on_this(&mut date).output().expect("a time").stdout;
        String::from_utf8_lossy(&told).trim().parse().expect("seconds")
    }

    /// An agent's client, and its address.
    fn joins(&self, hub: &Hub, name: &str) -> (Client, Value) {
        let joined = self.world.json(&["join", name]);
        let token = joined["token"].as_str().expect("a token");
        (Client::new(&hub.url).expect("a good address").with_token(token), joined)
    }
}

fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let mut found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    found.find(|path| Path::exists(path))
}

/// A read of a few seconds, which must answer in far less than [`PATIENCE`].
async fn reads(who: &Client) -> Vec<String> {
    let query = InboxQuery { timeout: Some(5.0), ..InboxQuery::default() };
    let inbox: Inbox<'_> = tokio::time::timeout(PATIENCE, who.inbox(&query))
        .await
        .expect("the read outlasts its time")
        .expect("an answer");
    inbox.messages.iter().map(|entry| entry.message.to_string()).collect()
}

async fn sends(from: &Client, to: &Value, text: &str, ttl_s: u64) -> u64 {
    let to = to["address"].as_str().expect("an address");
    let request = SendRequest { ttl_s: Some(ttl_s), ..SendRequest::new(to, text) };
    from.send(&request).await.expect("accepted").seq
}

#[tokio::test]
async fn a_clock_set_back_by_an_hour_does_not_hold_up_a_read() {
    let Some(machine) = Machine::new() else { return };
    let hub = machine.hub();
    let ((alice, _), (bob, bobs)) = (machine.joins(&hub, "alice"), machine.joins(&hub, "bob"));
    sends(&alice, &bobs, "before", HOUR_S).await;
    let before = machine.time();
    machine.sets_clock_to("-1h");
    assert!(machine.time() < before, "the clock was set back");

    assert_eq!(reads(&bob).await, ["before"]);
    sends(&alice, &bobs, "after", HOUR_S).await;
    let mut came = reads(&bob).await;
    // The first one was not proved: it is not what this is about.
    came.retain(|text| text != "before");
    assert_eq!(came, ["after"]);
}

#[tokio::test]
async fn a_clock_set_forward_by_a_year_expires_no_mail_and_forgets_nobody() {
    let Some(machine) = Machine::new() else { return };
    let hub = machine.hub();
    let ((alice, alices), (bob, bobs)) = (machine.joins(&hub, "alice"), machine.joins(&hub, "bob"));
    sends(&alice, &bobs, "within the hour", HOUR_S).await;
    let before = machine.time();
    machine.sets_clock_to("+1y");
    assert!(machine.time() > before + 300 * 24 * HOUR_S, "the clock was set forward");

    // When this one is dead, the hub has looked for what is too old.
    let short = sends(&alice, &bobs, "for a second", 1).await;
    let is_dead = || {
        let seen = machine.world.json(&["trail", &short.to_string()]);
        seen.to_string().contains("expired")
    };
    eventually(is_dead);
    assert_eq!(reads(&bob).await, ["within the hour"]);
    for who in [&alices, &bobs] {
        let id = who["instance"].as_str().expect("an id");
        let status = bob.instance(id).await.expect("nobody was forgotten").status;
        // On a slow machine a minute may have passed since alice's last call.
        assert!(["running", "away"].contains(&status.as_str()), "{who}: {status}");
    }
}
