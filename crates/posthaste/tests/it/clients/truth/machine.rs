//! A machine with a hub and one agent program that the user connected by one command.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_api::Client;
use posthaste_api::instances::InstancesQuery;
use posthaste_api::messages::{DeliveryView, ReadQuery, SendRequest};
use posthaste_testkit::model_server::{Asked, ModelServer};
use serde_json::{Value, json};

use super::own::works;
use super::seen::{Seen, entries_of};
use crate::clients::gemini;
use crate::clients::program::{self, Program, Task, home};
use crate::clients::running::Running;
use crate::clients::stories::documents;
use crate::clients::user;
use crate::world::{Hub, World};

/// What the user wants first.
pub(super) const TASK: &str = "Read your mail.";

/// Looks of a second each, after which a message is lost.
const LOOKS: u32 = 9;

pub(super) struct Machine {
    pub(super) program: Program,
    pub(super) world: World,
    pub(super) tools: PathBuf,
    hub: Option<Hub>,
    operator: Client,
    sent: Vec<u64>,
    seen: Arc<Mutex<Seen>>,
}

/// One start of the program, with a model of its own: what an earlier start still asks
/// does not come here.
pub(super) struct Run {
    pub(super) program: Program,
    pub(super) agent: Running,
    /// Its user's home.
    pub(super) home: PathBuf,
    /// The folder that it works in.
    pub(super) place: PathBuf,
    model: ModelServer,
    seen: Arc<Mutex<Seen>>,
    number: usize,
}

impl Machine {
    /// Nothing where the programs are not installed and need not be.
    pub(super) async fn set_up(program: Program) -> Option<Self> {
        let tools = program::tools()?;
        let world = World::new();
        let hub = world.hub();
        user::put_on_path(program, &tools, &world);
        user::says(&world, &["connect", program.name(), "--yes"]);
        let token = std::fs::read_to_string(world.file("operator.token")).expect("a token");
        let operator = Client::new(&hub.url).expect("a good address").with_token(token.trim());
        let seen = Arc::default();
        Some(Self { program, world, tools, hub: Some(hub), operator, sent: Vec::new(), seen })
    }

    /// The user starts it with a task; it ends with its turn.
    pub(super) async fn start(&self) -> Run {
        self.start_with(Some(TASK), false).await
    }

    /// The user goes on with the last conversation.
    pub(super) async fn go_on(&self) -> Run {
        self.start_with(Some("Go on."), true).await
    }

    pub(super) async fn start_with(&self, prompt: Option<&str>, continues: bool) -> Run {
        let model = ModelServer::start().await;
        let task = Task { model: model.url(), prompt, continues, hooked: true, ..Task::default() };
        let agent = self.program.start(&self.tools, &self.world, &task);
        let number = self.seen.lock().start(continues);
        let (program, seen) = (self.program, Arc::clone(&self.seen));
        let place = match program {
            Program::Gemini => gemini::workplace(&self.world),
            _ => self.home(),
        };
        Run { program, agent, home: self.home(), place, model, seen, number }
    }

    /// Where the program and its settings live.
    pub(super) fn home(&self) -> PathBuf {
        home(&self.world)
    }

    /// The user writes to the program by its name; gives the message's number.
    pub(super) fn send(&mut self, text: &str) -> u64 {
        let sent = self.world.json(&["send", self.program.name(), text]);
        let seq = sent["seq"].as_u64().expect("a number");
        self.sent.push(seq);
        seq
    }

    /// The same many times, without a process for each.
    pub(super) fn send_all(&mut self, texts: &[String]) -> Vec<u64> {
        let send = |text: &String| {
            let request = SendRequest::new(self.program.name(), text);
            block(self.operator.send(&request)).expect("accepted").seq
        };
        let sent: Vec<u64> = texts.iter().map(send).collect();
        self.sent.extend(&sent);
        sent
    }

    /// Where a message stands, as its sender is told.
    #[track_caller]
    pub(super) fn record(&self, seq: u64) -> DeliveryView {
        let kept = block(self.operator.read(&seq.to_string(), &ReadQuery::default()));
        let message = kept.expect("kept");
        let [delivery] = message.deliveries.as_slice() else { panic!("one reader: {message:?}") };
        delivery.clone()
    }

    pub(super) fn state(&self, seq: u64) -> String {
        self.record(seq).state
    }

    #[track_caller]
    pub(super) fn until(&self, seq: u64, state: &str) {
        eventually_or(
            || self.state(seq) == state,
            || format!("message {seq} is not {state}: {:?}", self.record(seq)),
        );
    }

    /// What `posthaste trail` says happened last.
    pub(super) fn trail(&self, seq: u64) -> String {
        let trail = self.world.json(&["trail", &seq.to_string()]);
        let last = trail["steps"].as_array().and_then(|steps| steps.last().cloned());
        last.unwrap_or_default()["event"].as_str().unwrap_or_default().to_owned()
    }

    /// How much unread mail its agents have, as `posthaste agents` says.
    pub(super) fn unread(&self) -> u64 {
        self.agents().iter().filter_map(|one| one["unread"].as_u64()).sum()
    }

    /// Until all its agents are away. A hook that a program left behind as it ended may
    /// call after that, and a call counts as a sign of life for `limits.away_after`.
    #[track_caller]
    pub(super) fn until_away(&self) {
        eventually_within(
            crate::world::PATIENCE * 3 / 2,
            || self.agents().iter().all(|one| one["status"] == "away"),
            || format!("not away: {:?}", self.agents()),
        );
    }

    /// Every agent of this program's name.
    pub(super) fn agents(&self) -> Vec<Value> {
        let query = InstancesQuery::default();
        let all = block(self.operator.instances(&query)).expect("an answer");
        let all = json!(all.instances);
        let all = all.as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|one| one["agent"] == self.program.name()).collect()
    }

    /// Until a call of the program waits for mail, or none does.
    #[track_caller]
    pub(super) fn until_it_waits(&self, waits: bool) {
        let waiting = || self.agents().iter().any(|one| one["activity"] == "waiting_inbox");
        eventually_or(
            || waiting() == waits,
            || format!("waiting is not {waits}: {:?}", self.agents()),
        );
    }

    /// The plug is pulled; the hub comes back at the same address.
    pub(super) fn kill_the_hub_and_start_it_again(&mut self) {
        self.hub.take().expect("a hub").kill();
        let listen = self.operator.url().trim_start_matches("http://").to_owned();
        self.hub = Some(self.world.hub_with(&["--listen", &listen]));
    }

    /// A sender was told `acked` only of what a model was given.
    #[track_caller]
    pub(super) fn is_truthful(&self) {
        for seq in &self.sent {
            let record = self.record(*seq);
            let seen = self.seen.lock().has(*seq);
            assert!(record.state != "acked" || seen, "no model has seen it: {record:?}");
            let trail = block(self.operator.trail(&seq.to_string())).expect("kept");
            let proved = trail.steps.iter().any(|step| step.event == "acked");
            assert_eq!(proved, record.state == "acked", "{}", trail.verdict);
        }
    }
}

impl Run {
    /// The next turn of its model.
    pub(super) async fn turn(&mut self) -> Asked {
        let turn = self.model.asked().await;
        self.seen.lock().note(self.number, &turn);
        turn
    }

    /// The first turn. A program that hides the tools of servers offers a search for
    /// them, and its model uses it.
    pub(super) async fn first_turn(&mut self) -> Asked {
        let turn = self.turn().await;
        if offers(&turn, "check_inbox") {
            return turn;
        }
        assert!(offers(&turn, "tool_search"), "no tool of the hub: {:?}", turn.tools());
        let ours = ["check_inbox", "whoami", "find_agents", "read_messages"];
        let ours = ours.map(|name| format!("mcp__posthaste__{name}")).join(",");
        turn.call("tool_search", json!({ "query": format!("select:{ours}") }));
        self.turn().await
    }

    /// Looks until the message has come, if it has not.
    pub(super) async fn until_seen(&mut self, machine: &Machine, turn: Asked, seq: u64) -> Asked {
        let mut turn = turn;
        for n in 1..LOOKS {
            if !entries_of(&turn, seq).is_empty() {
                return turn;
            }
            // Copilot CLI drops a server that stood still, and takes it up again.
            let (tool, arguments) = match offers(&turn, "check_inbox") {
                true => ("check_inbox", json!({ "timeout": 1.0 + f64::from(n) / 100.0 })),
                false => works(self.program),
            };
            turn.call(tool, arguments);
            turn = self.turn().await;
        }
        let record = machine.record(seq);
        assert!(!entries_of(&turn, seq).is_empty(), "lost: {record:?}; {turn:?}");
        turn
    }

    /// The model asks who it is, and ends its turn.
    pub(super) async fn whoami(mut self, turn: Asked) -> String {
        turn.call("whoami", json!({}));
        let turn = self.turn().await;
        let me = documents(&turn.result());
        let address = me.iter().find_map(|me| me["address"].as_str());
        let address = address.unwrap_or_else(|| panic!("nobody: {turn:?}")).to_owned();
        self.ends(turn).await;
        address
    }

    /// Ends the turn, and the program with it. It may be told to go on, but not for ever.
    pub(super) async fn ends(mut self, turn: Asked) {
        let mut told = format!("{turn:?}");
        turn.say("I am done.");
        for _ in 0..3 {
            eventually_or(|| self.agent.has_ended() || !self.model.is_idle(), || told.clone());
            if self.agent.has_ended() {
                break;
            }
            let turn = self.turn().await;
            told = format!("{turn:?}");
            turn.say("I am done.");
        }
        let ran = self.agent.end();
        let err: String = ran.err.chars().take(2000).collect();
        assert_eq!(ran.code, Some(0), "{err}; {told}");
    }

    /// Pulls the plug.
    pub(super) fn kill(self) {
        self.agent.kill();
    }
}

fn offers(turn: &Asked, name: &str) -> bool {
    turn.tools().iter().any(|tool| tool.name == name)
}

/// A call that changes nothing. Programs stop a model that repeats itself, so each is
/// another one.
pub(super) fn look(turn: Asked, n: usize) {
    turn.call("find_agents", json!({ "query": format!("look {n}") }));
}

/// Tries until it holds, and else says what is the case.
#[track_caller]
pub(super) fn eventually_or(holds: impl FnMut() -> bool, otherwise: impl Fn() -> String) {
    eventually_within(crate::world::PATIENCE / 2, holds, otherwise);
}

#[track_caller]
fn eventually_within(
    patience: std::time::Duration,
    mut holds: impl FnMut() -> bool,
    otherwise: impl Fn() -> String,
) {
    let until = std::time::Instant::now() + patience;
    while !holds() {
        assert!(std::time::Instant::now() < until, "{}", otherwise());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Rows read from top to bottom: they wait where they stand.
fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}
