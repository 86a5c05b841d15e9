//! A hub that starts agents of one program, and the model that the test plays.

use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_api::Client;
use posthaste_api::instances::InstanceView;
use posthaste_api::messages::{DeliveryView, MessageView, ReadQuery};
use posthaste_api::profiles::ProfileInput;
use posthaste_testkit::model_server::{Asked, ModelServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Cast;
use crate::clients::{Program, connects, home, shut_in, tools};
use crate::world::{Hub, World, eventually};

/// The name of the profile whose agents play.
pub(super) const NAME: &str = "mason";

pub(super) struct Stage {
    pub(super) world: World,
    pub(super) cast: Cast,
    model: ModelServer,
    hub: Option<Hub>,
    operator: Client,
    connected: bool,
}

/// A worker.
pub(super) struct Worker {
    pub(super) id: String,
    pub(super) task: u64,
}

impl Stage {
    /// Nothing where the programs are not installed and need not be.
    pub(super) async fn set(cast: Cast) -> Option<Self> {
        let tools = tools()?;
        let world = World::new();
        let model = ModelServer::start().await;
        let hub = world.hub_of(command(&world, &cast, model.url(), "127.0.0.1:0"));
        world.say(&["join", "alice"]);
        let token = std::fs::read_to_string(world.file("operator.token")).expect("a token");
        let operator = Client::new(&hub.url).expect("a good address").with_token(token.trim());
        let stage = Self { world, cast, model, hub: Some(hub), operator, connected: false };
        let config = (stage.cast.config)(&tools);
        let profile = ProfileInput {
            name: Some(NAME.to_owned()),
            driver: Some(stage.cast.driver.to_owned()),
            system_prompt: "You lay bricks, and the word of the day is granite.".to_owned(),
            config: config.as_object().cloned().unwrap_or_default(),
            ..ProfileInput::default()
        };
        stage.operator.create_profile(&profile).await.expect("a profile");
        Some(stage)
    }

    /// The user of the machine has connected the program for himself.
    pub(super) fn connect(self, program: Program) -> Self {
        connects(program, &tools().expect("installed"), &self.world);
        Self { connected: true, ..self }
    }

    /// Alice gives the agent work.
    pub(super) fn assign(&self, task: &str) -> Worker {
        self.assign_with(task, &[])
    }

    /// Alice gives the agent work in a folder.
    pub(super) fn assign_in(&self, folder: &Path, task: &str) -> Worker {
        self.assign_with(task, &["--dir", folder.to_str().expect("a plain path")])
    }

    fn assign_with(&self, task: &str, more: &[&str]) -> Worker {
        let given = self.world.json(&[&["assign", NAME, task, "--as", "alice"], more].concat());
        let id = given["instance"].as_str().unwrap_or_else(|| panic!("{given}")).to_owned();
        Worker { id, task: given["task"].as_u64().unwrap_or_else(|| panic!("{given}")) }
    }

    /// The next turn of the agent's model.
    pub(super) async fn turn(&mut self) -> Asked {
        self.model.asked().await
    }

    pub(super) fn is_quiet(&mut self) -> bool {
        self.model.is_idle()
    }

    /// Alice writes to the worker; gives the message's number.
    pub(super) fn send(&self, to: &Worker, text: &str, more: &[&str]) -> u64 {
        let words = [&["send", &to.id, text, "--as", "alice"], more].concat();
        self.world.json(&words)["seq"].as_u64().expect("a number")
    }

    /// The next mail for alice.
    pub(super) fn alice_reads(&self) -> Value {
        let inbox = self.world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
        let message = &inbox["messages"][0];
        assert!(message.is_object(), "no mail: {inbox}");
        message.clone()
    }

    pub(super) fn look(&self, worker: &Worker) -> InstanceView {
        block(self.operator.instance(&worker.id)).expect("an answer")
    }

    pub(super) fn until_activity(&self, worker: &Worker, activity: &str) {
        eventually(|| self.look(worker).activity == activity);
    }

    /// The one thing that needs the operator.
    pub(super) fn need(&self) -> Value {
        let mut need = Value::Null;
        eventually(|| {
            need = self.world.json(&["needs"])["needs"][0].clone();
            need.is_object()
        });
        need
    }

    /// What the hub's own record says of the delivery of a message.
    pub(super) fn record(&self, seq: u64) -> DeliveryView {
        let message: MessageView =
            block(self.operator.read(&seq.to_string(), &ReadQuery::default())).expect("kept");
        let [delivery] = message.deliveries.as_slice() else { panic!("one reader: {message:?}") };
        delivery.clone()
    }

    /// Until the record says that the reader proved it, and by what.
    #[track_caller]
    pub(super) fn until_proved_by(&self, seq: u64, proof: &str) {
        eventually(|| self.record(seq).state == "acked");
        assert_eq!(self.record(seq).proof.as_deref(), Some(proof));
    }

    /// Until the record says that the reader proved what it read by itself in its turn. Of
    /// a program with hooks the stop may say so first.
    #[track_caller]
    pub(super) fn until_proved_by_its_turn(&self, seq: u64) {
        eventually(|| self.record(seq).state == "acked");
        let proof = self.record(seq).proof;
        let by_stop = self.connected && proof.as_deref() == Some("hook");
        assert!(by_stop || proof.as_deref() == Some("turn"), "{proof:?}");
    }

    /// The plug is pulled.
    pub(super) fn kill_the_hub(&mut self) {
        self.hub.take().expect("a hub").kill();
    }

    /// The hub is asked to stop, and does.
    pub(super) fn stop_the_hub(&mut self) {
        let ran = self.hub.take().expect("a hub").stop();
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }

    /// The command lines of all processes, which every user of the system can read.
    pub(super) fn command_lines() -> Vec<String> {
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let line = |process: std::fs::DirEntry| {
            let words = std::fs::read(process.path().join("cmdline")).ok()?;
            Some(String::from_utf8_lossy(&words).replace('\0', " "))
        };
        all.filter_map(line).collect()
    }

    /// The hub comes back at the same address.
    pub(super) fn start_the_hub_again(&mut self) {
        let listen = self.operator.url().trim_start_matches("http://").to_owned();
        let command = command(&self.world, &self.cast, self.model.url(), &listen);
        self.hub = Some(self.world.hub_of(command));
    }

    /// Kills the program of a worker, and not its keeper.
    pub(super) fn kill_program(&self, worker: &Worker) {
        kill_process(self.pid(worker), Signal::KILL).expect("it runs");
    }

    /// The process of a worker's program.
    pub(super) fn pid(&self, worker: &Worker) -> Pid {
        let note = std::fs::read(self.folder(worker).join("started")).expect("a note");
        let note: Value = serde_json::from_slice(&note).expect("JSON");
        let pid = note["worker"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        pid.and_then(Pid::from_raw).unwrap_or_else(|| panic!("{note}"))
    }

    pub(super) fn folder(&self, worker: &Worker) -> PathBuf {
        self.world.file("agents").join(&worker.id)
    }
}

/// A hub whose workers find their model, and nothing of the machine beside it.
fn command(world: &World, cast: &Cast, model: &str, listen: &str) -> Command {
    let mut command = world.command(&["up", "--json", "--listen", listen]);
    let home = home(world);
    shut_in(&mut command, &home);
    command.env("POSTHASTE_DATA", world.data());
    (cast.surround)(&mut command, model, &home);
    command
}

/// Stories read from top to bottom: they wait where they stand.
pub(super) fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}
