//! Clients, models and faults around a hub, and what is true of them: what the
//! hub cannot know is kept here, beside the hub's own view.

mod calling;
mod faults;
mod possible;
mod starting;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use posthaste_core::messaging::clients::{self, Client};
use posthaste_core::messaging::delivery::{AnswerId, DeliveryNo};
use posthaste_core::messaging::proof::{Moment, Rules};

use self::possible::Level;
use super::moves::{Fault, Move, Scenario};
use super::post::{Fate, Given, Post, Promise};

/// The hub's tool and the client's own, as the client calls them.
const OURS: &str = "mcp__hub__check_inbox";
const OTHER: &str = "Bash";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum AtHub {
    Open,
    /// Its mail is leased, its body is on its way.
    Answered,
    Written,
    Unwritten,
    Closed,
    /// Answered by a hub that is gone.
    Forgotten,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum AtClient {
    Waits,
    Gone,
    Got,
    /// The hook after it was answered.
    Hooked,
    /// In the transcript: a resumed model sees it.
    Stored,
    Read,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A call of the hub.
    Hub,
    /// A tool that is not the hub's; the hook after it may bring mail.
    Tool,
    /// A prompt's or a refused stop's hook that brought mail.
    Prompt,
}

#[derive(Clone)]
pub(super) struct Call {
    pub(super) agent: usize,
    pub(super) kind: Kind,
    /// The calls of one batch run side by side.
    pub(super) batch: usize,
    name: String,
    /// The answer that carries, or could carry, mail.
    pub(super) answer: Option<AnswerId>,
    running: Option<posthaste_core::messaging::proof::Running>,
    pub(super) receipt: u64,
    pub(super) hub: AtHub,
    pub(super) client: AtClient,
    /// The client says that the call failed.
    pub(super) failed: bool,
    pub(super) given: Given,
    /// A cancel is on its way.
    cancel: bool,
}

#[derive(Clone)]
pub(super) struct Agent {
    pub(super) alive: bool,
    pub(super) ended: bool,
    pub(super) batch: usize,
    /// With hooks: the model ended its turn, or it was cut; only a prompt goes on.
    idle: Option<Idle>,
    /// Calls of this process, by which it numbers them.
    calls: usize,
    /// Two processes seem to use the identity: only strong proofs count.
    pub(super) shared: bool,
    stream: Option<u64>,
    /// The bridge of its process, where it has one.
    bridge: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Idle {
    Finished,
    Cut,
}

/// What is true of one message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    /// Times read without the mark.
    pub(super) plain: usize,
    pub(super) seen: usize,
    /// The model read its id under `settled`.
    pub(super) told: bool,
    /// Its reader cancelled an answer that held it.
    pub(super) doubted: bool,
    /// Its sender was told that it is acked.
    acked: bool,
    /// The last call that was handed it.
    pub(super) handed_in: Option<usize>,
}

#[derive(Clone)]
pub(crate) struct World {
    pub(super) scenario: Scenario,
    pub(super) post: Post,
    pub(super) agents: Vec<Agent>,
    pub(super) calls: Vec<Call>,
    pub(super) truth: Vec<Truth>,
    pub(super) faults: usize,
    /// Messages still to come.
    to_come: usize,
    pub(super) wrong: Option<String>,
}

impl World {
    pub(crate) fn new(scenario: Scenario, rules: Rules, broken: Option<Promise>) -> Self {
        let slow_disk = scenario.busy || scenario.kinds.contains(&Fault::Kill);
        let sent = if scenario.unsent { 0 } else { scenario.mails };
        let people = if scenario.twins { 1 } else { scenario.agents };
        let post = Post::new(people, sent, scenario.one_of, slow_disk);
        let mut world = Self {
            post: post.with(rules, broken),
            agents: Vec::new(),
            calls: Vec::new(),
            truth: vec![Truth::default(); sent],
            faults: scenario.faults,
            to_come: scenario.mails - sent + usize::from(scenario.busy),
            wrong: None,
            scenario,
        };
        (0..scenario.agents).for_each(|agent| world.places(agent));
        world
    }

    fn client(&self) -> &'static Client {
        let Scenario { always_cancels, known, gives_up, .. } = self.scenario;
        match () {
            () if always_cancels && known => Client::called("opencode"),
            () if gives_up => Client::called("codex"),
            () => &clients::UNKNOWN,
        }
    }

    fn batch(&self, agent: usize) -> impl Iterator<Item = &Call> + Clone {
        let batch = self.agents[agent].batch;
        self.calls.iter().filter(move |c| c.agent == agent && c.batch == batch)
    }

    /// Mail that was not sent yet and will be.
    pub(super) fn is_to_come(&self) -> bool {
        self.to_come > 0 && !self.scenario.busy
    }

    fn waiting(&self) -> bool {
        (0..self.truth.len()).any(|m| matches!(self.post.fate(m), Fate::Queued { .. }))
    }

    /// Something happens. What it does to others' leases is watched.
    pub(crate) fn goes(&mut self, next: Move) {
        let mine = self.concerns(next);
        let before: Vec<Vec<DeliveryNo>> = match mine {
            Some(_) if self.agents.len() > 1 && !self.scenario.twins => self.leases(),
            _ => Vec::new(),
        };
        self.happens(next);
        self.see_cuts();
        for (w, held) in before.into_iter().enumerate() {
            if mine != Some(w) && self.post.held_by(w) != held {
                self.fails(format!("I3 taken from its holder {w} by another"));
            }
        }
        for mail in 0..self.truth.len() {
            self.truth[mail].doubted |= self.post.is_doubted(mail);
            let fate = self.post.fate(mail);
            if fate == Fate::Vanished {
                self.fails(format!("message {mail} is neither on disk nor in the ledger"));
            }
            let acked = matches!(fate, Fate::Acked(_));
            if self.truth[mail].acked && !acked {
                self.fails(format!("I4 message {mail} was told to be acked, and then was not"));
            }
            self.truth[mail].acked = acked;
        }
    }

    fn leases(&self) -> Vec<Vec<DeliveryNo>> {
        (0..self.agents.len()).map(|w| self.post.held_by(w)).collect()
    }

    /// Whose own move this is.
    fn concerns(&self, next: Move) -> Option<usize> {
        match next {
            Move::Calls(w)
            | Move::RunsTool(w)
            | Move::Reads(w)
            | Move::Stops(w)
            | Move::StopRefused(w)
            | Move::Prompts(w)
            | Move::PromptsWithMail(w)
            | Move::StreamCloses(w)
            | Move::StartsWithMail(w)
            | Move::Starts(w) => Some(w),
            Move::Answers(c)
            | Move::Writes(c)
            | Move::CloseNoticed(c)
            | Move::Gets(c)
            | Move::Hook(c)
            | Move::Stores(c)
            | Move::GraceEnds(c)
            | Move::CancelArrives(c) => Some(self.calls[c].agent),
            Move::Flushes | Move::Arrives => None,
            Move::Goes(fault, which) => match self.level(fault) {
                Level::Call => Some(self.calls[which].agent),
                Level::Agent => Some(which),
                Level::Hub | Level::Mail => None,
            },
        }
    }

    fn happens(&mut self, next: Move) {
        match next {
            Move::Calls(w) => self.calls_anew(w, Kind::Hub, None),
            Move::RunsTool(w) => self.calls_anew(w, Kind::Tool, None),
            Move::Reads(w) => self.reads(w),
            Move::Stops(w) => {
                self.post.hooks(w, Moment::Stop);
                self.agents[w].idle = Some(Idle::Finished);
            }
            Move::StopRefused(w) => self.carries(w, Moment::Stop),
            Move::Prompts(w) => {
                self.post.hooks(w, Moment::Prompt);
                self.agents[w].idle = None;
            }
            Move::PromptsWithMail(w) => self.carries(w, Moment::Prompt),
            Move::Starts(w) => self.starts(w),
            Move::StartsWithMail(w) => {
                self.starts(w);
                self.brings(w);
            }
            Move::StreamCloses(w) => self.loses_stream(w),
            Move::Answers(c) => {
                self.answers(c, Duration::ZERO);
                if !self.scenario.busy {
                    self.happens(Move::Writes(c));
                }
            }
            Move::Writes(c) => {
                if let Some(running) = &self.calls[c].running {
                    self.post.written(running);
                }
                self.calls[c].hub = AtHub::Written;
            }
            Move::Arrives => {
                self.to_come -= 1;
                self.post.arrives();
                self.truth.push(Truth::default());
            }
            Move::CloseNoticed(c) => {
                if let Some(running) = &self.calls[c].running {
                    self.post.unwritten(running);
                }
                self.calls[c].hub = AtHub::Closed;
            }
            Move::Gets(c) => {
                let call = &mut self.calls[c];
                call.client = AtClient::Got;
                call.cancel |= self.scenario.always_cancels && call.hub == AtHub::Written;
            }
            Move::Hook(c) => self.hook(c),
            Move::Stores(c) => self.calls[c].client = AtClient::Stored,
            Move::CancelArrives(c) => {
                self.calls[c].cancel = false;
                let call = &self.calls[c];
                let process = self.scenario.connects.process(&self.agents[call.agent].bridge);
                if let Some(name) = process.name_of(&call.name) {
                    self.post.cancelled(call.agent, &name);
                }
            }
            Move::GraceEnds(c) => {
                if let Some(answer) = self.calls[c].answer {
                    self.post.grace_is_over(answer);
                }
            }
            Move::Flushes => self.post.flush(),
            Move::Goes(fault, which) => {
                self.faults -= 1;
                self.fault(fault, which);
            }
        }
    }

    /// Calls that the hub ended are answered without mail.
    fn see_cuts(&mut self) {
        for call in self.calls.iter_mut().filter(|c| c.kind == Kind::Hub && c.hub == AtHub::Open) {
            if !call.answer.is_some_and(|id| self.post.is_open(id)) {
                call.hub = AtHub::Closed;
            }
        }
    }

    pub(super) fn fails(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// Two worlds with the same key go on alike.
    pub(crate) fn key(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        for agent in &self.agents {
            let Agent { alive, ended, idle, shared, calls, .. } = *agent;
            (alive, ended, idle, shared, calls, agent.stream.is_some()).hash(&mut hash);
        }
        for call in &self.calls {
            let now = self.agents[call.agent].batch == call.batch;
            (call.agent, call.kind, now, &call.name, call.hub, call.client).hash(&mut hash);
            (call.failed, &call.given, call.cancel).hash(&mut hash);
        }
        (&self.truth, self.faults, self.to_come).hash(&mut hash);
        let number = |id| self.calls.iter().position(|c| c.answer == Some(id)).unwrap_or(99);
        self.post.hash(&number, &mut hash);
        hash.finish()
    }
}
