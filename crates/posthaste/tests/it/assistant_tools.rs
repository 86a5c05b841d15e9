//! The tools of assistants with a real hub: MCP servers of profiles, commands, and files.
//! The model is a script.

mod commands;
mod files;
mod servers;

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use crate::world::{Hub, Started, World, eventually, lacks};

/// A small MCP server, in Python without dependencies.
const SERVER: &str = include_str!("assistant_tools/server.py");
/// The folders of the programs that tools use.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// A key of a model, and a variable of the hub, that no tool may see.
const KEY: &str = "SOME_MODELS_KEY";

/// A hub with assistants, whose models play scripts.
struct Office {
    world: World,
    hub: Option<Hub>,
    settings: String,
}

/// The result of a tool, as the conversation of the assistant has it.
#[derive(Debug)]
struct Outcome {
    name: String,
    text: String,
    is_error: bool,
}

impl Office {
    /// An office whose runners have these settings. Call [`Office::open`] after the
    /// assistants are there.
    fn new(settings: &str) -> Self {
        Self::of(World::new(), settings)
    }

    fn of(world: World, settings: &str) -> Self {
        std::fs::create_dir_all(world.file("profiles")).expect("a folder");
        std::fs::create_dir_all(world.scratch().join("desk")).expect("a folder");
        std::fs::write(world.scratch().join("server.py"), SERVER).expect("written");
        let settings = format!(
            "[runner]\n{settings}\n[models.keyed]\nprovider = \"openai\"\nmodel = \"m\"\n\
             api_key_env = \"{KEY}\"\n"
        );
        Self { world, hub: None, settings }
    }

    /// The folder in which the assistants work.
    fn desk(&self) -> PathBuf {
        self.world.scratch().join("desk")
    }

    /// Adds an assistant whose model calls these tools one after the other, and then says
    /// that it is done.
    fn assistant(&mut self, name: &str, profile: &Value, calls: &[(&str, Value)]) {
        let call = |(tool, arguments): &(&str, Value)| json!({ "call": [{ "name": tool, "arguments": arguments }] });
        let mut steps: Vec<Value> = calls.iter().map(call).collect();
        steps.push(json!({ "say": "done" }));
        let script = self.world.scratch().join(format!("{name}.json"));
        std::fs::write(&script, json!({ "steps": steps }).to_string()).expect("written");
        self.settings.push_str(&format!(
            "[models.{name}]\nprovider = \"script\"\nfile = \"{}\"\n",
            script.display()
        ));
        let mut whole = json!({
            "name": name, "description": "an assistant", "driver": "runner", "model": name,
        });
        whole.as_object_mut().expect("an object").extend(profile.as_object().expect("one").clone());
        // YAML knows JSON.
        let text = format!("---\n{whole}\n---\nCall your tools.\n");
        std::fs::write(self.world.file("profiles").join(format!("{name}.md")), text)
            .expect("written");
    }

    /// Starts the hub.
    fn open(&mut self) {
        let config = self.world.config(&self.settings);
        let mut command =
            self.command(&["up", "--json", "--listen", "127.0.0.1:0", "--config", &config]);
        command.env("POSTHASTE_TOKEN", "hidden").env(KEY, "hidden");
        self.hub = Some(self.world.hub_of(command));
    }

    fn hub_pid(&self) -> u32 {
        self.hub.as_ref().expect("a hub").process.pid()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.world.command(args);
        command.env("PATH", PATH);
        command
    }

    /// Lets an assistant do its task, and returns the results of its tools.
    fn work(&self, name: &str) -> Vec<Outcome> {
        self.work_in(name, &self.desk())
    }

    /// The same, in this working directory.
    fn work_in(&self, name: &str, directory: &Path) -> Vec<Outcome> {
        let before = self.conversations().len();
        let mut command = self.world.command(&["handoff", name, "Begin."]);
        command.current_dir(directory);
        let ran = Started::new(command).end();
        assert_eq!(ran.code, Some(0), "{ran:?}: {:?}", self.outcomes());
        assert!(ran.out.contains("done"), "{ran:?}");
        let all = self.conversations();
        assert_eq!(all.len(), before + 1, "one conversation more");
        self.outcomes_of(&self.newest())
    }

    fn conversations(&self) -> Vec<PathBuf> {
        let folders = std::fs::read_dir(self.world.file("agents")).into_iter().flatten().flatten();
        let files = folders.map(|folder| folder.path().join("conversation"));
        files.filter(|file| file.exists()).collect()
    }

    fn newest(&self) -> PathBuf {
        let began = |file: &PathBuf| {
            let spec = file.with_file_name("assistant.json");
            spec.metadata().and_then(|about| about.modified()).expect("it was started")
        };
        self.conversations().into_iter().max_by_key(began).expect("a conversation")
    }

    /// The results of all assistants.
    fn outcomes(&self) -> Vec<Outcome> {
        self.conversations().iter().flat_map(|file| self.outcomes_of(file)).collect()
    }

    fn outcomes_of(&self, file: &Path) -> Vec<Outcome> {
        let lines = std::fs::read_to_string(file).unwrap_or_default();
        let records = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let tools = records.filter(|record| record["kind"] == "tool");
        tools
            .map(|record| Outcome {
                name: record["name"].as_str().expect("a name").to_owned(),
                text: record["text"].as_str().expect("a text").to_owned(),
                is_error: record["is_error"] == true,
            })
            .collect()
    }

    /// Gives the assistant its task, and does not wait.
    fn begin(&self, name: &str) {
        let mut command = self.world.command(&["assign", name, "Begin."]);
        command.current_dir(self.desk());
        let ran = Started::new(command).end();
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }

    /// Whether the transcript of an assistant has a note with all these words.
    fn has_note(&self, words: &[&str]) -> bool {
        self.conversations().iter().any(|file| {
            let text = std::fs::read_to_string(file.with_file_name("transcript"));
            text.is_ok_and(|text| {
                text.lines().any(|line| words.iter().all(|word| line.contains(word)))
            })
        })
    }

    /// The definition of the small server on stdio.
    fn server(&self, mode: &str) -> Value {
        json!({ "command": "python3", "args": [self.world.scratch().join("server.py"), mode] })
    }

    /// Starts the small server on HTTP, and returns its port.
    fn serve(&self) -> (Started, String) {
        let script = self.world.scratch().join("server.py");
        let path = script.to_str().expect("a plain path");
        let mut command = self.world.program("python3", &[path, "http"]);
        command.env("PATH", PATH);
        let mut started = Started::new(command);
        let port = started.line().expect("it listens");
        (started, port)
    }
}

/// Whether the small server can run.
fn has_python() -> bool {
    python().is_some()
}

/// The program of tests in Python, if this machine has it.
pub(crate) fn python() -> Option<PathBuf> {
    let places = PATH.split(':').map(|folder| Path::new(folder).join("python3"));
    let found = places.into_iter().find(|place| place.exists());
    if found.is_none() {
        lacks("has no python3");
    }
    found
}

/// The number after this name in a result.
fn number(text: &str, name: &str) -> Pid {
    let found = text.split([' ', '\n']).find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let number = found.and_then(|number| Pid::from_raw(number.parse().ok()?));
    number.unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Whether the process runs; one that ended and was not reaped yet does not.
fn runs(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    match stat {
        Ok(stat) => !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => !cfg!(target_os = "linux") && test_kill_process(pid).is_ok(),
    }
}

fn gone(pid: Pid) {
    eventually(|| !runs(pid));
}
