//! Giving out work at the command line: the real binary, real workers.

mod exits;
mod giving;
mod handing_off;
mod many;
mod story;
mod watching;

use std::path::PathBuf;

use serde_json::Value;

use crate::world::{Hub, Ran, World, eventually};

/// A hub with a few workers, all of them scripts. It stops with the test, and with it
/// whatever it started.
struct Office {
    world: World,
    hub: Option<Hub>,
}

impl Office {
    fn new() -> Self {
        Self::with("", &[])
    }

    /// With these settings, and these scripts beside the usual ones.
    fn with(settings: &str, more: &[(&str, &str)]) -> Self {
        let world = World::new();
        let profiles = world.file("profiles");
        std::fs::create_dir_all(&profiles).expect("a folder");
        let usual = [
            ("counter", "set -- $(wc -w); echo $1"),
            ("patient", "echo one; echo two; until [ -e go ]; do sleep 0.02; done; echo three"),
            ("failing", "echo half of it; echo the disk is gone >&2; exit 3"),
            ("here", "pwd"),
        ];
        for (name, command) in usual.iter().chain(more) {
            let text = format!(
                "---\nname: {name}\ndescription: a script\ndriver: command\n\
                 command: [/bin/sh, -c, '{}']\n---\n",
                command.replace('\'', "''")
            );
            std::fs::write(profiles.join(format!("{name}.md")), text).expect("written");
        }
        let broken = "---\nname: broken\ndriver: command\ncommand: [frobnicate-me]\n---\n";
        std::fs::write(profiles.join("broken.md"), broken).expect("written");
        std::fs::write(profiles.join("guest.md"), "---\nname: guest\n---\n").expect("written");
        let config = world.config(settings);
        let hub = Some(world.hub_with(&["--config", &config]));
        Self { world, hub }
    }

    /// The folder in which a person stands.
    fn desk(&self) -> PathBuf {
        let desk = self.world.scratch().join("desk");
        std::fs::create_dir_all(&desk).expect("a folder");
        desk
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.start(args).end()
    }

    fn start(&self, args: &[&str]) -> crate::world::Started {
        let mut command = self.world.command(args);
        command.current_dir(self.desk());
        crate::world::Started::new(command)
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat());
        assert!(ran.has_answered(), "{args:?}: {ran:?}");
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", ran.out))
    }

    /// A worker that waits for [`Self::go`].
    fn patient(&self) -> String {
        let given = self.json(&["assign", "patient", "wait"]);
        let id = given["instance"].as_str().expect("an instance").to_owned();
        eventually(|| self.json(&["poll", &id])["status"] == "running");
        id
    }

    fn go(&self) {
        std::fs::write(self.desk().join("go"), "").expect("written");
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.take() {
            hub.stop();
        }
    }
}
