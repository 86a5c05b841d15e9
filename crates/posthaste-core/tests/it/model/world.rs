//! Clients, models and faults around a hub, and what is true of them: what the
//! hub cannot know is kept here, beside the hub's own view.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use posthaste_core::messaging::proof::{Door, Running, Scope};
use tokio::time::Instant;

use super::moves::{Fault, Move, Scenario, reaches_hub};
use super::post::{Fate, Given, Post};

/// The longest that a cancel is on its way.
const CANCEL: Duration = Duration::from_secs(2);
/// Every move takes a moment, so that no two things happen at once.
const MOMENT: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum AtHub {
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
    Read,
    Dead,
}

pub(super) struct Call {
    pub(super) agent: usize,
    /// The calls of one turn of the model run side by side.
    turn: usize,
    name: String,
    running: Running,
    pub(super) receipt: u64,
    hub: AtHub,
    pub(super) client: AtClient,
    given: Given,
    /// A cancel is on its way and arrives by then.
    cancel: Option<Instant>,
}

pub(super) struct Agent {
    alive: bool,
    pub(super) ended: bool,
    turn: usize,
    /// Calls of this process, by which it numbers them.
    calls: usize,
    /// Two processes seem to use the identity: only strong proofs count.
    pub(super) shared: bool,
}

/// What is true of one message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    /// Times read without the mark.
    plain: usize,
    pub(super) seen: bool,
    /// The model read its id under `settled`.
    pub(super) told: bool,
    /// The last agent that was handed it.
    pub(super) handed_to: Option<usize>,
}

pub(crate) struct World {
    scenario: Scenario,
    pub(super) post: Post,
    pub(super) agents: Vec<Agent>,
    pub(super) calls: Vec<Call>,
    pub(super) truth: Vec<Truth>,
    faults: usize,
    hooks: usize,
    /// Messages still to come.
    to_come: usize,
    pub(super) wrong: Option<String>,
    /// A digest of all that the hub was told, in order.
    told_hub: u64,
    /// What happened, for whoever must understand it.
    pub(super) trace: Vec<Move>,
    /// From where on nothing failed any more.
    pub(super) peace: usize,
}

impl World {
    pub(crate) fn new(scenario: Scenario) -> Self {
        let slow_disk = scenario.busy || scenario.kinds.contains(&Fault::Kill);
        let agent = |_| Agent { alive: true, ended: false, turn: 0, calls: 0, shared: false };
        Self {
            post: Post::new(scenario.agents, scenario.mails, scenario.one_of, slow_disk),
            agents: (0..scenario.agents).map(agent).collect(),
            calls: Vec::new(),
            truth: vec![Truth::default(); scenario.mails],
            faults: scenario.faults,
            hooks: scenario.hooks,
            to_come: usize::from(scenario.busy),
            wrong: None,
            told_hub: 0,
            trace: Vec::new(),
            peace: usize::MAX,
            scenario,
        }
    }

    /// What can happen next; in a fair world nothing fails any more.
    pub(crate) fn moves(&self, fair: bool) -> Vec<Move> {
        let mut moves = Vec::new();
        for (w, agent) in self.agents.iter().enumerate() {
            let turn: Vec<&Call> =
                self.calls.iter().filter(|c| c.agent == w && c.turn == agent.turn).collect();
            let (up, down) = (agent.alive && !agent.ended, !agent.alive && !agent.ended);
            let may_call = if fair {
                turn.is_empty()
            } else {
                turn.len() < 2 && self.calls.len() < self.scenario.calls
            };
            if up && may_call {
                moves.push(Move::Calls(w));
            }
            if up && !turn.is_empty() && turn.iter().all(|c| c.client != AtClient::Waits) {
                moves.push(Move::Reads(w));
            }
            if up && self.hooks > 0 && !fair {
                moves.push(Move::Hook(w));
            }
            if down {
                moves.push(Move::Starts(w));
            }
        }
        for (c, call) in self.calls.iter().enumerate() {
            let dead = call.client == AtClient::Dead;
            if call.hub == AtHub::Open && !(fair && dead) {
                moves.push(Move::Answers(c));
            }
            if call.hub == AtHub::Answered && !(fair && dead) {
                moves.push(Move::Writes(c));
            }
            if matches!(call.hub, AtHub::Open | AtHub::Answered) && dead {
                moves.push(Move::CloseNoticed(c));
            }
            let answered = matches!(call.hub, AtHub::Written | AtHub::Closed);
            if call.client == AtClient::Waits && answered {
                moves.push(Move::Gets(c));
            }
            if call.cancel.is_some() {
                moves.push(Move::CancelArrives(c));
            }
        }
        let cancels = self.calls.iter().filter_map(|c| c.cancel);
        if let Some(due) = self.post.next_due()
            && cancels.min().is_none_or(|by| due <= by)
        {
            moves.push(Move::TimePasses);
        }
        if !self.post.is_flushed() {
            moves.push(Move::Flushes);
        }
        if self.to_come > 0 && !fair && !self.agents[0].ended {
            moves.push(Move::Arrives);
        }
        if !fair && self.faults > 0 {
            moves.extend(self.possible_faults());
        }
        moves
    }

    fn possible_faults(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for kind in self.scenario.kinds {
            let over = match kind {
                Fault::Kill | Fault::CleanRestart | Fault::DiskFull => 1,
                Fault::Expiry | Fault::OperatorCancel => self.truth.len(),
                Fault::ClosedBeforeWritten
                | Fault::TimeoutAndCancel
                | Fault::SilentDrop
                | Fault::Repeat
                | Fault::Receipt
                | Fault::Reply
                | Fault::Nack => self.calls.len(),
                Fault::Interrupt
                | Fault::ClientCrash
                | Fault::ExtraBeginning
                | Fault::CleanEnd
                | Fault::UncleanEnd
                | Fault::Lost => self.agents.len(),
            };
            let possible = (0..over).filter(|which| self.can_go(*kind, *which));
            moves.extend(possible.map(|which| Move::Goes(*kind, which)));
        }
        moves
    }

    fn can_go(&self, fault: Fault, which: usize) -> bool {
        let waits = || self.calls[which].client == AtClient::Waits;
        let read = || {
            let call = &self.calls[which];
            call.client == AtClient::Read && !call.given.mail.is_empty()
        };
        let up = || self.agents[which].alive && !self.agents[which].ended;
        match fault {
            Fault::ClosedBeforeWritten => {
                waits() && matches!(self.calls[which].hub, AtHub::Open | AtHub::Answered)
            }
            Fault::Repeat => {
                let late = self.calls[which].hub == AtHub::Written;
                waits() && (late || self.scenario.busy && self.calls[which].hub != AtHub::Closed)
            }
            Fault::TimeoutAndCancel | Fault::SilentDrop => waits(),
            Fault::Receipt | Fault::Reply | Fault::Nack => {
                read() && !self.agents[self.calls[which].agent].ended
            }
            Fault::ClientCrash | Fault::ExtraBeginning | Fault::UncleanEnd => up(),
            Fault::CleanEnd => up() && self.calls.iter().all(|c| c.cancel.is_none()),
            Fault::Interrupt => {
                let of = |c: &&Call| c.agent == which && c.client == AtClient::Waits;
                up() && self.calls.iter().any(|c| of(&c))
            }
            Fault::Lost => !self.agents[which].ended && !self.post.held_by(which).is_empty(),
            Fault::Kill | Fault::CleanRestart => true,
            Fault::DiskFull => !self.post.is_flushed(),
            Fault::Expiry | Fault::OperatorCancel => {
                matches!(self.post.fate(which), Fate::Queued { .. }) && self.post.is_flushed()
            }
        }
    }

    /// Something happens. What it does to others' leases is watched.
    pub(crate) fn goes(&mut self, next: Move) {
        self.trace.push(next);
        if reaches_hub(next) {
            self.told_hub = digest(&(self.told_hub, next));
        }
        let before = self.leases();
        self.happens(next);
        self.see_cuts();
        for (w, held) in before.into_iter().enumerate() {
            let theirs = self.concerns(next) == Some(w) || self.concerns(next).is_none();
            if !theirs && self.post.held_by(w) != held {
                self.fails(format!("I3 taken from its holder {w} by another"));
            }
        }
        for mail in 0..self.truth.len() {
            if self.post.fate(mail) == Fate::Vanished {
                self.fails(format!("message {mail} is neither on disk nor in the table"));
            }
        }
        let soon = self.post.now() + MOMENT;
        if self.post.next_due().is_none_or(|due| soon < due) {
            self.post.pass(soon);
        }
    }

    fn leases(&self) -> Vec<Vec<posthaste_core::messaging::delivery::DeliveryNo>> {
        (0..self.agents.len()).map(|w| self.post.held_by(w)).collect()
    }

    /// Whose own move this is.
    fn concerns(&self, next: Move) -> Option<usize> {
        match next {
            Move::Calls(w) | Move::Reads(w) | Move::Hook(w) | Move::Starts(w) => Some(w),
            Move::Answers(c)
            | Move::Writes(c)
            | Move::CloseNoticed(c)
            | Move::Gets(c)
            | Move::CancelArrives(c) => Some(self.calls[c].agent),
            Move::TimePasses | Move::Flushes | Move::Arrives => None,
            Move::Goes(fault, which) => match fault {
                Fault::ClosedBeforeWritten
                | Fault::TimeoutAndCancel
                | Fault::SilentDrop
                | Fault::Repeat
                | Fault::Receipt
                | Fault::Reply
                | Fault::Nack => Some(self.calls[which].agent),
                Fault::Interrupt
                | Fault::ClientCrash
                | Fault::ExtraBeginning
                | Fault::CleanEnd
                | Fault::UncleanEnd
                | Fault::Lost => Some(which),
                Fault::Kill
                | Fault::CleanRestart
                | Fault::DiskFull
                | Fault::Expiry
                | Fault::OperatorCancel => None,
            },
        }
    }

    fn happens(&mut self, next: Move) {
        match next {
            Move::Calls(w) => self.calls_anew(w, None),
            Move::Reads(w) => self.reads(w),
            Move::Hook(w) => {
                self.hooks -= 1;
                self.post.hook(w);
            }
            Move::Starts(w) => {
                self.agents[w].alive = true;
                self.agents[w].calls = 0;
                self.begins(w, Scope::All);
            }
            Move::Answers(c) => {
                self.answers(c);
                if !self.scenario.busy {
                    self.happens(Move::Writes(c));
                }
            }
            Move::Writes(c) => {
                self.post.written(&self.calls[c].running);
                self.calls[c].hub = AtHub::Written;
            }
            Move::Arrives => {
                self.to_come -= 1;
                self.post.arrives();
                self.truth.push(Truth::default());
            }
            Move::CloseNoticed(c) => {
                self.post.unwritten(&self.calls[c].running);
                self.calls[c].hub = AtHub::Closed;
            }
            Move::Gets(c) => {
                let call = &mut self.calls[c];
                call.client = AtClient::Got;
                if self.scenario.always_cancels && call.hub == AtHub::Written {
                    call.cancel = Some(self.post.now() + CANCEL);
                }
            }
            Move::CancelArrives(c) => {
                self.calls[c].cancel = None;
                let call = &self.calls[c];
                self.post.cancelled(call.agent, &call.name);
            }
            Move::TimePasses => {
                let due = self.post.next_due().expect("something is due");
                self.post.pass(due);
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
                    self.answers(which);
                }
                self.post.unwritten(&self.calls[which].running);
                self.calls[which].hub = AtHub::Unwritten;
                self.calls[which].client = AtClient::Gone;
            }
            Fault::TimeoutAndCancel => {
                self.calls[which].client = AtClient::Gone;
                self.calls[which].cancel = Some(self.post.now() + CANCEL);
            }
            Fault::SilentDrop => self.calls[which].client = AtClient::Gone,
            Fault::Repeat => {
                self.calls[which].client = AtClient::Gone;
                let agent = self.calls[which].agent;
                self.calls_anew(agent, Some(which));
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
                for call in self.calls.iter_mut().filter(|c| c.agent == which) {
                    if matches!(call.client, AtClient::Waits | AtClient::Got) {
                        call.client = AtClient::Gone;
                    }
                }
                self.post.interrupted(which);
            }
            Fault::ClientCrash => self.crashes(which),
            Fault::ExtraBeginning => self.begins(which, Scope::Door(Door::Mcp)),
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

    fn calls_anew(&mut self, agent: usize, repeats: Option<usize>) {
        let me = &mut self.agents[agent];
        let name = match repeats {
            Some(first) => self.calls[first].name.clone(),
            None => {
                me.calls += 1;
                me.calls.to_string()
            }
        };
        let receipt = self.calls.len() as u64 + 1;
        let turn = me.turn;
        let running = self.post.opens(agent, &name, receipt);
        self.calls.push(Call {
            agent,
            turn,
            name,
            running,
            receipt,
            hub: AtHub::Open,
            client: AtClient::Waits,
            given: Given::default(),
            cancel: None,
        });
    }

    fn answers(&mut self, c: usize) {
        let call = &self.calls[c];
        let agent = call.agent;
        let given = self.post.answers(agent, &call.running);
        for (mail, _) in &given.mail {
            self.truth[*mail].handed_to = Some(agent);
        }
        for mail in &given.settled {
            if !matches!(self.post.fate(*mail), Fate::Acked(_)) {
                self.fails(format!("I4 message {mail} was told to be acked and is not"));
            }
        }
        self.calls[c].given = given;
        self.calls[c].hub = AtHub::Answered;
    }

    /// The model takes the results of its calls, and its next turn begins.
    fn reads(&mut self, agent: usize) {
        for c in 0..self.calls.len() {
            let call = &mut self.calls[c];
            if call.agent != agent || call.client != AtClient::Got {
                continue;
            }
            call.client = AtClient::Read;
            let given = call.given.clone();
            for (mail, marked) in given.mail {
                let truth = &mut self.truth[mail];
                truth.seen = true;
                truth.plain += usize::from(!marked);
                if truth.plain > 1 {
                    self.fails(format!("I2 message {mail} is read twice unmarked"));
                }
            }
            for mail in given.settled {
                self.truth[mail].told = true;
            }
        }
        self.agents[agent].turn += 1;
    }

    fn begins(&mut self, agent: usize, scope: Scope) {
        // As far as the hub knows, an answer without mail has not left before it is
        // written.
        let waits = |c: &Call| match c.hub {
            AtHub::Open => true,
            AtHub::Answered => c.given.mail.is_empty(),
            AtHub::Written | AtHub::Unwritten | AtHub::Closed | AtHub::Forgotten => false,
        };
        let alive = self.calls.iter().any(|c| c.agent == agent && waits(c));
        self.agents[agent].shared |= alive;
        self.post.begins(agent, scope);
    }

    fn crashes(&mut self, agent: usize) {
        self.agents[agent].alive = false;
        self.agents[agent].turn += 1;
        for call in self.calls.iter_mut().filter(|c| c.agent == agent) {
            if matches!(call.client, AtClient::Waits | AtClient::Got) {
                call.client = AtClient::Dead;
            }
        }
    }

    fn ends(&mut self, agent: usize, clean: bool) {
        let turn = self.agents[agent].turn;
        let finished = !self.calls.iter().any(|c| c.agent == agent && c.turn == turn);
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
            call.cancel = None;
        }
        self.agents.iter_mut().for_each(|a| a.shared = false);
    }

    /// Calls that the hub ended are answered without mail.
    fn see_cuts(&mut self) {
        for call in &mut self.calls {
            if call.hub == AtHub::Open && call.running.cut.is_cancelled() {
                call.hub = AtHub::Closed;
            }
        }
    }

    fn fails(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// Two worlds with the same key go on alike.
    pub(crate) fn key(&self) -> u64 {
        let agents: Vec<_> = self.agents.iter().map(|a| (a.alive, a.turn)).collect();
        let calls: Vec<_> = self.calls.iter().map(|c| (c.client, c.cancel.is_some())).collect();
        digest(&(self.told_hub, &self.truth, agents, calls, self.faults))
    }
}

fn digest(what: &impl Hash) -> u64 {
    let mut hash = DefaultHasher::new();
    what.hash(&mut hash);
    hash.finish()
}
