//! A hub, an agent called bob who is a real program, and a model that the test plays.

use std::path::PathBuf;

use posthaste_api::Client;
use posthaste_api::messages::{DeliveryView, MessageView, ReadQuery};
use posthaste_api::profiles::ProfileInput;
use posthaste_testkit::model_server::{Asked, ModelServer};
use serde_json::Value;

use crate::world::{Hub, World, eventually};

use super::program::{self, Door, Line, Program, Task};
use super::running::Running;

pub(super) struct Stage {
    world: World,
    model: ModelServer,
    hub: Option<Hub>,
    line: Line,
    program: Program,
    tools: PathBuf,
    bob: Value,
    operator: Client,
}

impl Stage {
    /// Nothing where the programs are not installed and need not be.
    pub(super) async fn set(program: Program, line: Line) -> Option<Self> {
        let tools = program::tools()?;
        let world = World::new();
        let hub = world.hub();
        let bob = world.json(&["join", "bob"]);
        world.say(&["join", "alice"]);
        let token = std::fs::read_to_string(world.file("operator.token")).expect("a token");
        let operator = Client::new(&hub.url).expect("a good address").with_token(token.trim());
        let model = ModelServer::start().await;
        Some(Self { world, model, hub: Some(hub), line, program, tools, bob, operator })
    }

    /// A worker that the hub can start, by a script.
    pub(super) fn profile(&self, name: &str, script: &str) {
        let config = serde_json::json!({ "command": ["/bin/sh", "-c", script] });
        let profile = ProfileInput {
            name: Some(name.to_owned()),
            driver: Some("command".to_owned()),
            config: config.as_object().cloned().unwrap_or_default(),
            ..ProfileInput::default()
        };
        block(self.operator.create_profile(&profile)).expect("a profile");
    }

    pub(super) fn url(&self) -> &str {
        self.operator.url()
    }

    pub(super) fn start(&self) -> Running {
        self.start_with(self.url(), None, Some("Read your mail."))
    }

    /// For a conversation: it waits for what the test tells it.
    pub(super) fn start_talking(&self) -> Running {
        self.start_with(self.url(), None, None)
    }

    /// At another address of the same hub.
    pub(super) fn start_at(&self, url: &str) -> Running {
        self.start_with(url, None, Some("Read your mail."))
    }

    /// It gives up a tool call after this many seconds.
    pub(super) fn start_impatient(&self, seconds: u64) -> Running {
        self.start_with(self.url(), Some(seconds), Some("Read your mail."))
    }

    fn start_with(&self, url: &str, patience_s: Option<u64>, prompt: Option<&str>) -> Running {
        let door = Door {
            line: self.line,
            url: url.to_owned(),
            token: self.bob["token"].as_str().expect("a token").to_owned(),
            data: self.world.data(),
            patience_s,
        };
        let task = Task { door: Some(&door), prompt, ..self.task() };
        self.program.start(&self.tools, &self.world, &task)
    }

    /// A task that knows where its model is.
    fn task(&self) -> Task<'_> {
        Task { model: self.model.url(), ..Task::default() }
    }

    /// The next turn of bob's model.
    pub(super) async fn turn(&mut self) -> Asked {
        self.model.asked().await
    }

    /// Alice writes to bob; gives the message's number.
    pub(super) fn send(&self, text: &str) -> u64 {
        let to = self.bob["address"].as_str().expect("an address");
        let ran = self.world.pipe(&["send", to, "-", "--as", "alice", "--json"], text.as_bytes());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let sent: Value = serde_json::from_str(&ran.out).expect("JSON");
        sent["seq"].as_u64().expect("a number")
    }

    /// The next mail for alice.
    pub(super) fn alice_reads(&self) -> Value {
        let inbox = self.world.json(&["inbox", "--as", "alice", "--timeout", "30"]);
        inbox["messages"][0].clone()
    }

    /// Until bob has a call open that waits for mail, or has none.
    pub(super) fn until_bob_waits(&self, waits: bool) {
        let id = self.bob["instance"].as_str().expect("an instance");
        eventually(|| {
            let bob = block(self.operator.instance(id)).expect("an answer");
            (bob.activity == "waiting_inbox") == waits
        });
    }

    /// What the hub's own record says of bob's delivery of a message.
    pub(super) fn record(&self, seq: u64) -> DeliveryView {
        let message: MessageView =
            block(self.operator.read(&seq.to_string(), &ReadQuery::default())).expect("kept");
        let [delivery] = message.deliveries.as_slice() else { panic!("one reader: {message:?}") };
        delivery.clone()
    }

    /// Until the record says that bob proved it, and by what.
    pub(super) fn until_proved_by(&self, seq: u64, proof: &str) {
        eventually(|| self.record(seq).state == "acked");
        assert_eq!(self.record(seq).proof.as_deref(), Some(proof));
    }

    /// The plug is pulled; the hub comes back at the same address.
    pub(super) fn kill_the_hub_and_start_it_again(&mut self) {
        self.hub.take().expect("a hub").kill();
        let listen = self.url().trim_start_matches("http://").to_owned();
        self.hub = Some(self.world.hub_with(&["--listen", &listen]));
    }
}

/// Stories read from top to bottom: they wait where they stand.
fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}
