//! A hub with one assistant, and the model that the test plays.

use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_api::Client;
use posthaste_api::chat::ChatStart;
use posthaste_testkit::model_server::{Asked, ModelServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::world::{Hub, World, eventually, lacks};

/// The name of the assistant's profile.
pub(super) const NAME: &str = "helper";

/// The variable with the key of the model.
pub(super) const KEY: &str = "PLAY_KEY";

#[derive(Debug, Clone, Copy)]
pub(super) enum Runner {
    BuiltIn,
    Python,
}

impl Runner {
    /// Whether this machine can run it.
    pub(super) fn is_here(self) -> bool {
        let search_path = search_path();
        let has_python =
            || std::env::split_paths(&search_path).any(|folder| folder.join("python3").exists());
        let is_here = matches!(self, Self::BuiltIn) || has_python();
        if !is_here {
            lacks("has no python3");
        }
        is_here
    }
}

pub(super) struct Stage {
    pub(super) world: World,
    model: ModelServer,
    /// Requests of assistants that the test has not come to.
    turns: Vec<Turn>,
    hub: Option<Hub>,
    url: String,
}

/// An assistant at work, and its task.
pub(super) struct Assistant {
    pub(super) id: String,
    pub(super) task: u64,
}

/// One request to the model.
#[derive(Debug)]
pub(super) struct Turn {
    asked: Asked,
}

impl Stage {
    pub(super) async fn set(runner: Runner) -> Self {
        Self::set_with(runner, "").await
    }

    /// A hub with these sections in its configuration, beside the model.
    pub(super) async fn set_with(runner: Runner, more: &str) -> Self {
        Self::set_of("openai", runner, more).await
    }

    /// A hub whose model is of this provider.
    pub(super) async fn set_of(provider: &str, runner: Runner, more: &str) -> Self {
        let world = World::new();
        let model = ModelServer::start().await;
        world.config(&format!(
            "{more}\n[runner]\niterations = 8\ncontext_chars = 60000\nretry_after = \"10ms\"\n[models.play]\nprovider = \"{provider}\"\nmodel = \"scripted\"\n\
             base_url = \"{}/v1\"\n\
             api_key_env = \"{KEY}\"\n",
            model.url()
        ));
        let hub = world.hub_of(command(&world, "127.0.0.1:0"));
        let url = hub.url.clone();
        let stage = Self { world, model, turns: Vec::new(), hub: Some(hub), url };
        stage.profile(NAME, "You mend logins.", runner);
        stage
    }

    /// Makes a profile of an assistant.
    pub(super) fn profile(&self, name: &str, prompt: &str, runner: Runner) {
        let mut config = json!({ "model": "play" });
        if let Runner::Python = runner {
            let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/runner.py");
            config["command"] = json!(["python3", program]);
        }
        self.profile_with(name, prompt, &config);
    }

    /// Makes a profile with these settings.
    pub(super) fn profile_with(&self, name: &str, prompt: &str, config: &Value) {
        let text = format!(
            "---\nname: {name}\ndescription: helps\ndriver: runner\nconfig: {config}\n\
             allowed_builtin_service_aliases: [workspace, shell, assistant]\n---\n{prompt}\n"
        );
        let folder = self.world.scratch().join("profiles");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(format!("{name}.md")), text).expect("written");
        self.world.say(&["profiles", "load", folder.to_str().expect("a plain path")]);
    }

    /// The operator gives the assistant work.
    pub(super) fn assign(&self, task: &str) -> Assistant {
        self.assign_agent(NAME, task)
    }

    /// The operator gives an assistant of this profile work.
    pub(super) fn assign_agent(&self, agent: &str, task: &str) -> Assistant {
        self.assigned(&["assign", agent, task, "--dir", self.place()])
    }

    /// The operator gives the assistant work in this folder.
    pub(super) fn assign_in(&self, folder: &Path, task: &str) -> Assistant {
        self.assigned(&["assign", NAME, task, "--dir", folder.to_str().expect("a plain path")])
    }

    /// The operator begins to talk to an assistant, which stays.
    pub(super) async fn chat(&self, message: &str) -> Assistant {
        let message = Some(message.to_owned());
        let chat = ChatStart { agent: NAME.to_owned(), message, ..ChatStart::default() };
        let id = self.operator().start_chat(&chat).await.expect("started").instance;
        Assistant { id, task: 0 }
    }

    /// An agent gives the assistant work.
    pub(super) fn assign_as(&self, who: &str, task: &str) -> Assistant {
        self.assign_agent_as(who, NAME, task)
    }

    /// An agent gives an assistant of this profile work.
    pub(super) fn assign_agent_as(&self, who: &str, agent: &str, task: &str) -> Assistant {
        self.assigned(&["assign", agent, task, "--as", who, "--dir", self.place()])
    }

    fn assigned(&self, words: &[&str]) -> Assistant {
        let given = self.world.json(words);
        let id = given["instance"].as_str().unwrap_or_else(|| panic!("{given}")).to_owned();
        Assistant { id, task: given["task"].as_u64().unwrap_or_else(|| panic!("{given}")) }
    }

    /// The working directory of the assistants.
    fn place(&self) -> &str {
        self.world.scratch().to_str().expect("a plain path")
    }

    /// The next request to the model.
    pub(super) async fn turn(&mut self) -> Turn {
        Turn { asked: self.model.asked().await }
    }

    /// The next request to the model by the assistant with this in its system prompt.
    pub(super) async fn turn_of(&mut self, prompt: &str) -> Turn {
        loop {
            if let Some(at) = self.turns.iter().position(|turn| turn.system().contains(prompt)) {
                return self.turns.remove(at);
            }
            let turn = self.turn().await;
            self.turns.push(turn);
        }
    }

    /// The operator over REST.
    pub(super) fn operator(&self) -> Client {
        let token = std::fs::read_to_string(self.world.file("operator.token")).expect("a token");
        Client::new(&self.url).expect("a good address").with_token(token.trim())
    }

    /// Whether the model is not being asked.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.model.is_idle()
    }

    /// The operator writes to the assistant; gives the message's number.
    pub(super) fn says(&self, to: &Assistant, text: &str) -> u64 {
        self.world.json(&["send", &to.id, text])["seq"].as_u64().expect("a number")
    }

    /// The next message for the operator: nothing but that.
    pub(super) fn hears(&self) -> Value {
        let inbox = self.world.json(&["inbox", "--timeout", "60"]);
        let all = inbox["messages"].as_array().expect("a list");
        let [message] = all.as_slice() else { panic!("one message: {inbox}") };
        message.clone()
    }

    /// Whether nothing waits for the operator.
    pub(super) fn has_said_all(&self) -> bool {
        self.world.json(&["inbox", "--timeout", "0"])["messages"] == json!([])
    }

    /// Waits until the assistant has stored a message.
    pub(super) fn until_stored(&self, seq: u64) {
        let mut acked = Value::Null;
        eventually(|| {
            let trail = self.world.json(&["trail", &seq.to_string()]);
            let steps = trail["steps"].as_array().cloned().unwrap_or_default();
            acked = steps.into_iter().find(|step| step["event"] == "acked").unwrap_or_default();
            acked.is_object()
        });
        assert_eq!(acked["how"], "stored", "{acked}");
    }

    pub(super) fn until_status(&self, assistant: &Assistant, status: &str) {
        eventually(|| self.look(assistant)["status"] == status);
    }

    pub(super) fn look(&self, assistant: &Assistant) -> Value {
        self.world.json(&["poll", &assistant.id])
    }

    /// The plug is pulled, and the hub comes back at the same address.
    pub(super) fn kill_the_hub_and_start_it_again(&mut self) {
        self.kill_the_hub_and_start_it_again_after(|| ());
    }

    pub(super) fn kill_the_hub_and_start_it_again_after(&mut self, meanwhile: impl FnOnce()) {
        self.hub.take().expect("a hub").kill();
        meanwhile();
        let listen = self.url.trim_start_matches("http://").to_owned();
        self.hub = Some(self.world.hub_of(command(&self.world, &listen)));
    }

    /// The hub is stopped as `posthaste down` does it, and comes back at the same address.
    pub(super) fn stop_the_hub_and_start_it_again(&mut self) {
        self.stop_the_hub_and_start_it_again_after(|| ());
    }

    pub(super) fn stop_the_hub_and_start_it_again_after(&mut self, meanwhile: impl FnOnce()) {
        assert_eq!(self.hub.take().expect("a hub").stop().code, Some(0));
        meanwhile();
        let listen = self.url.trim_start_matches("http://").to_owned();
        self.hub = Some(self.world.hub_of(command(&self.world, &listen)));
    }

    /// Kills the runner of an assistant, and not its keeper.
    pub(super) fn kill_runner(&self, assistant: &Assistant) {
        kill_process(self.process(assistant, "worker"), Signal::KILL).expect("it runs");
    }

    /// Returns what ends the keeper and the runner of an assistant with a signal, as a
    /// machine that stops does.
    pub(super) fn ending(&self, assistant: &Assistant) -> impl FnOnce(Signal) + use<> {
        let processes = ["worker", "keeper"].map(|name| self.process(assistant, name));
        move |signal| {
            for process in processes {
                kill_process(process, signal).expect("it runs");
            }
        }
    }

    fn process(&self, assistant: &Assistant, name: &str) -> Pid {
        let note = std::fs::read(self.folder(assistant).join("started")).expect("a note");
        let note: Value = serde_json::from_slice(&note).expect("JSON");
        let pid = note[name].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        pid.expect("a process")
    }

    /// What the hub has written to its stderr.
    pub(super) fn warnings(&self) -> String {
        self.hub.as_ref().expect("a hub").process.complained()
    }

    pub(super) fn folder(&self, assistant: &Assistant) -> PathBuf {
        self.world.file("agents").join(&assistant.id)
    }
}

fn command(world: &World, listen: &str) -> Command {
    let config = world.scratch().join("config.toml");
    let config = config.to_str().expect("a plain path");
    let mut command = world.command(&["up", "--json", "--listen", listen, "--config", config]);
    command.env("PATH", search_path()).env(KEY, "the-key-of-the-model");
    command
}

/// The search path of the tests, on which Python is.
#[expect(clippy::disallowed_methods, reason = "where this machine has its programs")]
fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

impl Turn {
    /// The messages that the model was given: role and text.
    pub(super) fn messages(&self) -> Vec<(String, String)> {
        let all = self.asked.request()["messages"].as_array().expect("messages");
        let told = |message: &Value| {
            let role = message["role"].as_str().expect("a role").to_owned();
            let text = match &message["content"] {
                Value::String(text) => text.clone(),
                Value::Array(parts) => {
                    parts.iter().filter_map(|part| part["text"].as_str()).collect()
                }
                _ => String::new(),
            };
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let calls = calls.filter_map(|call| call["function"]["name"].as_str());
            (role, calls.fold(text, |text, name| format!("{text}<{name}>")))
        };
        all.iter().map(told).collect()
    }

    /// The messages after the system prompt.
    #[track_caller]
    pub(super) fn talk(&self) -> Vec<(String, String)> {
        let mut all = self.messages();
        assert_eq!(all[0].0, "system", "{all:?}");
        all.remove(0);
        all
    }

    /// Asserts the roles after the system prompt, and each text: `""` fits every one, and
    /// a text with a star at its end fits what begins so.
    #[track_caller]
    pub(super) fn assert_talk(&self, expected: &[(&str, &str)]) {
        let talk = self.talk();
        let fits = |(role, text): &(String, String), (wanted, words): &(&str, &str)| {
            role == wanted
                && match words.strip_suffix('*') {
                    Some(start) => text.starts_with(start),
                    None => words.is_empty() || text == words,
                }
        };
        let alike = talk.len() == expected.len()
            && talk.iter().zip(expected).all(|(said, wanted)| fits(said, wanted));
        assert!(alike, "the model saw {talk:#?} instead of {expected:#?}");
    }

    pub(super) fn system(&self) -> String {
        self.messages().remove(0).1
    }

    /// The text of the last message.
    pub(super) fn last(&self) -> String {
        self.messages().pop().expect("a message").1
    }

    pub(super) fn tools(&self) -> Vec<String> {
        self.asked.tools().into_iter().map(|tool| tool.name).collect()
    }

    /// The request, for another format than that of `messages`.
    pub(super) fn asked(&self) -> &Asked {
        &self.asked
    }

    pub(super) fn say(self, text: &str) {
        self.asked.say(text);
    }

    #[track_caller]
    pub(super) fn call(self, name: &str, arguments: Value) {
        self.asked.call(name, arguments);
    }

    #[track_caller]
    pub(super) fn call_all(self, calls: &[(&str, Value)]) {
        self.asked.call_all(calls);
    }
}
