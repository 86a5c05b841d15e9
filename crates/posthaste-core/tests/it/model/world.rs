//! Clients, models and faults around a hub, and what is true of them: what the
//! hub cannot know is kept here, beside the hub's own view.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use posthaste_core::messaging::clients::{self, Client};
use posthaste_core::messaging::delivery::{AnswerId, DeliveryNo};
use posthaste_core::messaging::proof::{
    Call as HubCall, Door, Hook, Moment, Process, Rules, Scope,
};

use super::moves::{Fault, Move, Scenario, Stores};
use super::post::{Fate, Given, Post, Promise};

/// The hub's tool and the client's own, as the client calls them.
const OURS: &str = "mcp__hub__check_inbox";
const OTHER: &str = "Bash";

/// The process of an agent that has one.
const SESSION: Process<'static> =
    Process { bridge: None, session: Some("session"), conversation: None };

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
        let post = Post::new(scenario.agents, sent, scenario.one_of, slow_disk);
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
        for agent in 0..scenario.agents {
            if scenario.hooks && !scenario.unstarted {
                world.post.hooks(agent, Moment::SessionStart);
            }
            let stream = world.connects(agent);
            world.agents.push(Agent {
                alive: !scenario.unstarted,
                ended: false,
                batch: 0,
                idle: scenario.unstarted.then_some(Idle::Cut),
                calls: 0,
                shared: false,
                stream,
            });
        }
        world
    }

    /// Streams matter where a message can go to another reader.
    fn connects(&mut self, agent: usize) -> Option<u64> {
        (self.scenario.one_of && !self.scenario.restarts).then(|| self.post.attaches(agent))
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

    /// What can happen next; in a fair world nothing fails any more.
    pub(crate) fn moves(&self, fair: bool) -> Vec<Move> {
        let mut moves = Vec::new();
        for w in 0..self.agents.len() {
            self.agent_moves(w, fair, &mut moves);
        }
        for (c, call) in self.calls.iter().enumerate() {
            self.call_moves(c, call, fair, &mut moves);
        }
        if !self.post.is_flushed() {
            moves.push(Move::Flushes);
        }
        if self.to_come > 0 && (!fair || self.is_to_come()) {
            moves.push(Move::Arrives);
        }
        if self.faults > 0 && !fair {
            for kind in self.scenario.kinds {
                let over = match self.level(*kind) {
                    Level::Call => self.calls.len(),
                    Level::Agent => self.agents.len(),
                    Level::Hub => 1,
                    Level::Mail => self.truth.len(),
                };
                let possible = (0..over).filter(|which| self.can_go(*kind, *which));
                moves.extend(possible.map(|which| Move::Goes(*kind, which)));
            }
        }
        moves
    }

    /// Mail that was not sent yet and will be.
    pub(super) fn is_to_come(&self) -> bool {
        self.to_come > 0 && !self.scenario.busy
    }

    fn waiting(&self) -> bool {
        (0..self.truth.len()).any(|m| matches!(self.post.fate(m), Fate::Queued { .. }))
    }

    fn agent_moves(&self, w: usize, fair: bool, moves: &mut Vec<Move>) {
        let Scenario { hooks, tools, side, .. } = self.scenario;
        let agent = &self.agents[w];
        let (up, down) = (agent.alive && !agent.ended, !agent.alive && !agent.ended);
        let busy = up && agent.idle.is_none();
        let batch: Vec<&Call> = self.batch(w).collect();
        let waiting = self.waiting();
        let more = !fair && self.calls.len() < self.scenario.calls;
        let may_call = match fair {
            true => batch.is_empty() && (waiting || !hooks),
            false => batch.len() < side && more && (!hooks || self.has_room(&batch)),
        };
        if busy && may_call {
            moves.push(Move::Calls(w));
            if tools && !fair {
                moves.push(Move::RunsTool(w));
            }
        }
        let under_way = |c: &&Call| match c.client {
            AtClient::Waits => true,
            AtClient::Got | AtClient::Hooked => hooks,
            AtClient::Gone | AtClient::Stored | AtClient::Read | AtClient::Dead => false,
        };
        if busy && !batch.is_empty() && !batch.iter().any(under_way) {
            moves.push(Move::Reads(w));
        }
        if hooks && busy && batch.is_empty() && !(fair && waiting) {
            moves.push(Move::Stops(w));
            if waiting && more {
                moves.push(Move::StopRefused(w));
            }
        }
        let rests = agent.idle.is_some() && (waiting || !fair);
        if up && (rests || agent.idle == Some(Idle::Cut)) {
            moves.push(Move::Prompts(w));
            if waiting && more {
                moves.push(Move::PromptsWithMail(w));
            }
        }
        if down && agent.stream.is_some() {
            moves.push(Move::StreamCloses(w));
        }
        if down && (self.scenario.restarts || !fair) {
            moves.push(Move::Starts(w));
            if hooks && waiting && more {
                moves.push(Move::StartsWithMail(w));
            }
        }
    }

    /// With hooks a batch runs side by side, or one call after the other.
    fn has_room(&self, batch: &[&Call]) -> bool {
        let side_by_side = batch.iter().all(|c| c.client == AtClient::Waits);
        let over = |c: &&Call| matches!(c.client, AtClient::Stored | AtClient::Gone);
        let one_by_one = batch.iter().all(over);
        batch.iter().all(|c| c.kind != Kind::Prompt)
            && (self.scenario.late || side_by_side || one_by_one)
    }

    fn call_moves(&self, c: usize, call: &Call, fair: bool, moves: &mut Vec<Move>) {
        let waits = call.client == AtClient::Waits;
        let dead = call.client == AtClient::Dead;
        if call.kind == Kind::Hub && call.hub == AtHub::Open && !(fair && dead) {
            moves.push(Move::Answers(c));
        }
        if call.hub == AtHub::Answered {
            moves.push(Move::Writes(c));
        }
        if dead && matches!(call.hub, AtHub::Open | AtHub::Answered) {
            moves.push(Move::CloseNoticed(c));
        }
        let answered = matches!(call.hub, AtHub::Written | AtHub::Closed);
        if waits && (call.kind == Kind::Tool || answered) {
            moves.push(Move::Gets(c));
        }
        if self.scenario.hooks && call.client == AtClient::Got {
            moves.push(Move::Hook(c));
        }
        if call.client == AtClient::Hooked && self.scenario.stores == Stores::Sometime {
            moves.push(Move::Stores(c));
        }
        if call.cancel {
            moves.push(Move::CancelArrives(c));
        } else if call.answer.is_some_and(|id| self.post.is_in_grace(id))
            // An answer is taken or dropped before the grace ends.
            && !(waits && self.scenario.is_strict() && !self.scenario.hooks)
        {
            moves.push(Move::GraceEnds(c));
        }
    }

    fn level(&self, fault: Fault) -> Level {
        match fault {
            Fault::ClosedBeforeWritten
            | Fault::TimeoutAndCancel
            | Fault::SilentDrop
            | Fault::AtTheEdge
            | Fault::JustInTime
            | Fault::Repeat
            | Fault::ToolFails
            | Fault::CallFails
            | Fault::Receipt
            | Fault::Reply
            | Fault::Nack => Level::Call,
            Fault::Interrupt
            | Fault::Escape
            | Fault::PromptInTurn
            | Fault::ClientCrash
            | Fault::ExtraBeginning
            | Fault::StartWithoutBeginning
            | Fault::CleanEnd
            | Fault::UncleanEnd
            | Fault::Lost => Level::Agent,
            Fault::Kill | Fault::CleanRestart | Fault::DiskFull => Level::Hub,
            Fault::Expiry | Fault::OperatorCancel => Level::Mail,
        }
    }

    fn can_go(&self, fault: Fault, which: usize) -> bool {
        let call = || &self.calls[which];
        let waits = || call().client == AtClient::Waits;
        let waits_for_hub = || waits() && call().kind == Kind::Hub;
        let read = || call().client == AtClient::Read && !call().given.mail.is_empty();
        let agent = || &self.agents[which];
        let up = || agent().alive && !agent().ended;
        let in_turn = || up() && agent().idle.is_none();
        match fault {
            Fault::ClosedBeforeWritten => {
                waits_for_hub() && matches!(call().hub, AtHub::Open | AtHub::Answered)
            }
            Fault::Repeat => {
                let late = call().hub == AtHub::Written;
                waits_for_hub() && (late || self.scenario.busy && call().hub != AtHub::Closed)
            }
            Fault::TimeoutAndCancel | Fault::SilentDrop => waits_for_hub(),
            Fault::AtTheEdge | Fault::JustInTime => waits_for_hub() && call().hub == AtHub::Open,
            Fault::ToolFails => waits() && call().kind == Kind::Tool,
            Fault::CallFails => waits_for_hub() && self.scenario.hooks,
            Fault::Receipt | Fault::Reply | Fault::Nack => {
                read() && !self.agents[call().agent].ended
            }
            Fault::Escape => in_turn() && self.batch(which).next().is_some(),
            Fault::PromptInTurn => in_turn(),
            Fault::ClientCrash | Fault::ExtraBeginning | Fault::UncleanEnd => up(),
            Fault::StartWithoutBeginning => !agent().alive && !agent().ended,
            Fault::CleanEnd => up() && self.calls.iter().all(|c| !c.cancel),
            Fault::Interrupt => {
                let of = |c: &Call| c.agent == which && c.client == AtClient::Waits;
                up() && self.calls.iter().any(of)
            }
            Fault::Lost => !agent().ended && !self.post.held_by(which).is_empty(),
            Fault::Kill | Fault::CleanRestart => true,
            Fault::DiskFull => !self.post.is_flushed(),
            Fault::Expiry | Fault::OperatorCancel => {
                matches!(self.post.fate(which), Fate::Queued { .. }) && self.post.is_flushed()
            }
        }
    }

    /// Something happens. What it does to others' leases is watched.
    pub(crate) fn goes(&mut self, next: Move) {
        let mine = self.concerns(next);
        let before: Vec<Vec<DeliveryNo>> = match mine {
            Some(_) if self.agents.len() > 1 => self.leases(),
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
                if let Some(name) = SESSION.name_of(&call.name) {
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

    fn fault(&mut self, fault: Fault, which: usize) {
        match fault {
            Fault::ClosedBeforeWritten => {
                if self.calls[which].hub == AtHub::Open {
                    self.answers(which, Duration::ZERO);
                }
                if let Some(running) = &self.calls[which].running {
                    self.post.unwritten(running);
                }
                self.calls[which].hub = AtHub::Unwritten;
                self.calls[which].client = AtClient::Gone;
            }
            Fault::TimeoutAndCancel => {
                self.calls[which].client = AtClient::Gone;
                self.calls[which].cancel = true;
            }
            Fault::SilentDrop => self.calls[which].client = AtClient::Gone,
            Fault::AtTheEdge | Fault::JustInTime => {
                self.answers(which, self.client().limit.unwrap_or_default());
                self.happens(Move::Writes(which));
                if fault == Fault::AtTheEdge {
                    self.calls[which].client = AtClient::Gone;
                }
            }
            Fault::ToolFails | Fault::CallFails => {
                self.calls[which].client = AtClient::Got;
                self.calls[which].failed = true;
            }
            Fault::Repeat => {
                self.calls[which].client = AtClient::Gone;
                let agent = self.calls[which].agent;
                self.calls_anew(agent, Kind::Hub, Some(which));
            }
            Fault::Receipt => {
                let (agent, receipt) = (self.calls[which].agent, self.calls[which].receipt);
                self.post.receipt(agent, receipt);
            }
            Fault::Reply => {
                let (mail, _) = self.calls[which].given.mail[0];
                self.post.replies(self.calls[which].agent, mail);
            }
            Fault::Nack => {
                let (agent, receipt) = (self.calls[which].agent, self.calls[which].receipt);
                self.post.nack(agent, receipt);
            }
            Fault::Interrupt => {
                self.drops(which, AtClient::Gone);
                self.post.interrupted(which);
            }
            Fault::Escape => {
                self.drops(which, AtClient::Gone);
                self.agents[which].idle = Some(Idle::Cut);
                self.agents[which].batch += 1;
            }
            Fault::PromptInTurn => {
                self.post.hooks(which, Moment::Prompt);
            }
            Fault::ClientCrash => self.crashes(which),
            Fault::ExtraBeginning => self.begins(which, Scope::Door(Door::Mcp)),
            Fault::StartWithoutBeginning => self.agents[which].alive = true,
            Fault::CleanEnd => self.ends(which, true),
            Fault::UncleanEnd => self.ends(which, false),
            Fault::Lost => self.post.loses(which),
            Fault::Kill => self.restarts(false),
            Fault::CleanRestart => self.restarts(true),
            Fault::DiskFull => self.post.fails_to_flush(),
            Fault::Expiry => self.post.expires(),
            Fault::OperatorCancel => self.post.cancels_mail(which),
        }
    }

    fn calls_anew(&mut self, agent: usize, kind: Kind, repeats: Option<usize>) {
        let me = &mut self.agents[agent];
        let name = match repeats {
            Some(first) => self.calls[first].name.clone(),
            None => {
                me.calls += 1;
                me.calls.to_string()
            }
        };
        let (receipt, batch) = (self.calls.len() as u64 + 1, me.batch);
        if self.scenario.before && repeats.is_none() {
            let tool = if kind == Kind::Hub { OURS } else { OTHER };
            self.hook_of(agent, Moment::BeforeTool, tool, &name, false);
        }
        let running = (kind == Kind::Hub).then(|| {
            let call = HubCall {
                client: self.client(),
                process: SESSION,
                request: Some(&name),
                call_id: self.scenario.hooks.then_some(&name),
                tool: "check_inbox",
                ..HubCall::through(Door::Mcp)
            };
            self.post.opens_call(agent, &call, receipt)
        });
        self.calls.push(Call {
            agent,
            kind,
            batch,
            name,
            answer: running.as_ref().map(|running| running.id),
            running,
            receipt,
            hub: AtHub::Open,
            client: AtClient::Waits,
            failed: false,
            given: Given::default(),
            cancel: false,
        });
    }

    fn hook_of(
        &mut self,
        agent: usize,
        moment: Moment,
        tool: &str,
        call: &str,
        failed: bool,
    ) -> bool {
        let hook = Hook { tool, call, failed, ..Hook::new(moment, self.client()) };
        self.post.hook(agent, &hook)
    }

    /// The hook after a tool call, of the hub's own tool or of another.
    fn hook(&mut self, c: usize) {
        let Call { agent, kind, failed, .. } = self.calls[c];
        let name = self.calls[c].name.clone();
        let tool = if kind == Kind::Hub { OURS } else { OTHER };
        let carries = self.hook_of(agent, Moment::AfterTool, tool, &name, failed);
        if kind == Kind::Hub {
            let call = &mut self.calls[c];
            call.client = if failed { AtClient::Gone } else { AtClient::Hooked };
        } else {
            let mut carried = false;
            if carries && self.waiting() {
                self.take(c);
                carried = !self.calls[c].given.mail.is_empty();
            }
            let call = &mut self.calls[c];
            if !carried {
                call.hub = AtHub::Closed;
            }
            // Some clients drop what a hook adds to a failed tool.
            call.client = if carried && failed { AtClient::Gone } else { AtClient::Hooked };
        }
        self.store_at_once(agent);
    }

    fn starts(&mut self, agent: usize) {
        self.loses_stream(agent);
        if self.scenario.hooks {
            self.is_noticed_dead(agent);
        }
        self.begins(agent, Scope::All);
        let stream = self.connects(agent);
        let agent = &mut self.agents[agent];
        (agent.alive, agent.calls, agent.stream) = (true, 0, stream);
    }

    /// A prompt's or a refused stop's hook brings mail, and the turn goes on.
    fn carries(&mut self, agent: usize, moment: Moment) {
        self.post.hooks(agent, moment);
        self.agents[agent].idle = None;
        self.brings(agent);
    }

    /// The hook that has just run takes the mail that waits.
    fn brings(&mut self, agent: usize) {
        self.calls.push(Call {
            agent,
            kind: Kind::Prompt,
            batch: self.agents[agent].batch,
            name: String::new(),
            answer: None,
            running: None,
            receipt: self.calls.len() as u64 + 1,
            hub: AtHub::Open,
            client: AtClient::Hooked,
            failed: false,
            given: Given::default(),
            cancel: false,
        });
        self.take(self.calls.len() - 1);
        self.store_at_once(agent);
    }

    /// A hook's answer takes the mail that waits.
    fn take(&mut self, c: usize) {
        let (agent, receipt) = (self.calls[c].agent, self.calls[c].receipt);
        let (running, given) = self.post.carries(agent, receipt);
        self.calls[c].answer = Some(running.id);
        self.calls[c].hub = AtHub::Written;
        self.gives(c, given);
    }

    /// Programs that store at once do so as far as their order allows.
    fn store_at_once(&mut self, agent: usize) {
        let batch = self.agents[agent].batch;
        let over = |c: &Call| !matches!(c.client, AtClient::Waits | AtClient::Got);
        let mine: Vec<usize> = (0..self.calls.len())
            .filter(|c| self.calls[*c].agent == agent && self.calls[*c].batch == batch)
            .collect();
        let whole = mine.iter().all(|c| over(&self.calls[*c]));
        for c in mine {
            match self.scenario.stores {
                Stores::Sometime => return,
                Stores::InOrder if !over(&self.calls[c]) => return,
                Stores::Whole if !whole => return,
                Stores::InOrder | Stores::Whole => {}
            }
            if self.calls[c].client == AtClient::Hooked {
                self.calls[c].client = AtClient::Stored;
            }
        }
    }

    /// The hub answers a call so long after it began.
    fn answers(&mut self, c: usize, waited: Duration) {
        let agent = self.calls[c].agent;
        let Some(running) = self.calls[c].running.clone() else { return };
        let given = self.post.answers_after(agent, &running, waited);
        self.calls[c].hub = AtHub::Answered;
        self.gives(c, given);
    }

    fn gives(&mut self, c: usize, given: Given) {
        for (mail, _) in &given.mail {
            self.truth[*mail].handed_in = Some(c);
        }
        for mail in &given.settled {
            if !matches!(self.post.fate(*mail), Fate::Acked(_)) {
                self.fails(format!("I4 message {mail} was told to be acked and is not"));
            }
        }
        self.calls[c].given = given;
    }

    /// The model takes the results of its calls, and its next batch begins.
    fn reads(&mut self, agent: usize) {
        let readable = if self.scenario.hooks { AtClient::Stored } else { AtClient::Got };
        for c in 0..self.calls.len() {
            let call = &mut self.calls[c];
            if call.agent != agent || call.client != readable {
                continue;
            }
            call.client = AtClient::Read;
            let given = call.given.clone();
            for (mail, marked) in given.mail {
                let truth = &mut self.truth[mail];
                truth.seen = (truth.seen + 1).min(2);
                truth.plain += usize::from(!marked);
                if truth.plain > 1 {
                    self.fails(format!("I2 message {mail} is read twice unmarked"));
                }
            }
            for mail in given.settled {
                self.truth[mail].told = true;
            }
        }
        self.agents[agent].batch += 1;
    }

    fn begins(&mut self, agent: usize, scope: Scope) {
        // As far as the hub knows, an answer without mail has not left before it is
        // written.
        let waits = |c: &Call| match c.hub {
            AtHub::Open => c.kind == Kind::Hub,
            AtHub::Answered => c.given.mail.is_empty(),
            AtHub::Written | AtHub::Unwritten | AtHub::Closed | AtHub::Forgotten => false,
        };
        let alive = self.calls.iter().any(|c| c.agent == agent && waits(c));
        self.agents[agent].shared |= alive;
        match scope {
            Scope::All if self.scenario.hooks => {
                self.post.hooks(agent, Moment::SessionStart);
            }
            scope => self.post.begins(agent, scope),
        }
    }

    /// The connections of a dead process close before its successor runs a hook.
    fn is_noticed_dead(&mut self, agent: usize) {
        for c in 0..self.calls.len() {
            let call = &self.calls[c];
            let open = matches!(call.hub, AtHub::Open | AtHub::Answered);
            if call.agent == agent && call.client == AtClient::Dead && open {
                self.happens(Move::CloseNoticed(c));
            }
        }
    }

    fn loses_stream(&mut self, agent: usize) {
        if let Some(stream) = self.agents[agent].stream.take() {
            self.post.detaches(agent, stream);
        }
    }

    /// What the client had not stored is lost.
    fn drops(&mut self, agent: usize, to: AtClient) {
        for call in self.calls.iter_mut().filter(|c| c.agent == agent) {
            if matches!(call.client, AtClient::Waits | AtClient::Got | AtClient::Hooked) {
                call.client = to;
                if call.kind == Kind::Tool && call.hub == AtHub::Open {
                    call.hub = AtHub::Closed;
                }
            }
        }
    }

    fn crashes(&mut self, agent: usize) {
        self.drops(agent, AtClient::Dead);
        let hooks = self.scenario.hooks;
        let me = &mut self.agents[agent];
        me.alive = false;
        me.batch += 1;
        me.idle = hooks.then_some(Idle::Cut);
    }

    fn ends(&mut self, agent: usize, clean: bool) {
        // A client with hooks says with its stop that its model has finished.
        let finished = self.batch(agent).next().is_none() && !self.scenario.hooks;
        self.agents[agent].ended = true;
        self.crashes(agent);
        self.post.ends(agent, clean && finished);
    }

    fn restarts(&mut self, clean: bool) {
        self.post.restarts(clean);
        for call in &mut self.calls {
            call.hub = match call.hub {
                AtHub::Open | AtHub::Answered => AtHub::Closed,
                AtHub::Written => AtHub::Forgotten,
                AtHub::Unwritten | AtHub::Closed | AtHub::Forgotten => call.hub,
            };
            if call.client == AtClient::Waits {
                call.client = AtClient::Gone;
            }
            call.cancel = false;
            call.answer = None;
        }
        self.agents.iter_mut().for_each(|a| a.shared = false);
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

/// What a fault befalls.
enum Level {
    Call,
    Agent,
    Hub,
    Mail,
}
