//! The embedded hub without its file, its sockets and its clock: the real rules at the
//! real desk, over the real ledger and a disk that remembers only what was committed
//! ([`disk`]). What the hub does with a store that answers later, this does when the acks
//! are flushed.

mod disk;

use std::hash::{Hash, Hasher};
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::messaging::clients;
use posthaste_core::messaging::delivery::{AnswerId, DeliveryNo};
use posthaste_core::messaging::desk::{Desk, Nack};
use posthaste_core::messaging::message::{Principal, Seq};
use posthaste_core::messaging::proof::{
    Call, Door, Hello, Hook, Moment, Process, Proofs, Proves, Rules, Running, Scope,
};
use posthaste_core::ports::store::Epoch;
use posthaste_core::ports::{Acked, Ending, Leased};
use posthaste_core::registry::Status;
use tokio::time::Instant;

use self::disk::{Disk, Unflushed, WALL};

/// Where a message stands, as the hub would tell its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    Queued {
        marked: bool,
    },
    Leased {
        by: usize,
        marked: bool,
    },
    Acked(&'static str),
    Dead {
        reason: &'static str,
        maybe_seen: bool,
    },
    /// Neither on disk nor in the table: that must never be.
    Vanished,
}

/// A promise of the store that the model can leave out, as it leaves out rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    Clean,
    Commit,
    Maybe,
    Fence,
}

impl Promise {
    pub(crate) const ALL: [Self; 4] = [Self::Clean, Self::Commit, Self::Maybe, Self::Fence];
}

#[derive(Clone)]
pub(crate) struct Post {
    desk: Desk,
    books: Disk,
    rules: Rules,
    limits: Limits,
    now: Instant,
    /// Acks lie unflushed until told.
    slow_disk: bool,
    to: String,
}

/// What one answer brought: messages with their marks, and ids under `settled`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Given {
    pub(crate) mail: Vec<(usize, bool)>,
    pub(crate) settled: Vec<usize>,
}

impl Post {
    pub(crate) fn new(agents: usize, mails: usize, one_of: bool, slow_disk: bool) -> Self {
        let limits = Limits::default();
        let mut post = Self {
            desk: Desk::new(Proofs::new(&limits, Epoch(1))),
            books: Disk::new(&limits),
            rules: Rules::ALL,
            limits,
            now: Instant::now(),
            slow_disk,
            to: "mason".into(),
        };
        (0..agents).for_each(|n| post.books.joins(n));
        if !one_of {
            post.to = post.books.people[0].id.to_string();
        }
        (0..mails).for_each(|_| post.arrives());
        post
    }

    /// The same without a rule, or with a broken promise.
    pub(crate) fn with(mut self, rules: Rules, broken: Option<Promise>) -> Self {
        (self.rules, self.books.broken) = (rules, broken);
        self.desk = Desk::new(Proofs::new(&self.limits, Epoch(1)).with_rules(rules));
        self
    }

    /// One that remembers no more than so many answers of each reader.
    pub(crate) fn forgetful(mails: usize, answers: usize) -> Self {
        let mut post = Self::new(1, 0, false, false);
        post.limits.receipts = answers;
        post.desk = Desk::new(Proofs::new(&post.limits, Epoch(1)));
        (0..mails).for_each(|_| post.arrives());
        post
    }

    /// The operator sends one message more.
    pub(crate) fn arrives(&mut self) {
        self.books.keeps(&self.to, &self.limits);
    }

    /// The identity of an agent. Where there are fewer, processes share the last one.
    pub(crate) fn reader(&self, agent: usize) -> Principal {
        let last = self.books.people.len() - 1;
        Principal::Instance(self.books.people[agent.min(last)].id)
    }

    /// A call begins: any call is a sign of life, too.
    pub(crate) fn opens(&mut self, agent: usize, call: &str, receipt: u64) -> Running {
        let call = Call { call_id: Some(call), ..Call::through(Door::Mcp) };
        self.opens_call(agent, &call, receipt)
    }

    /// A call of one of the agent's processes.
    pub(crate) fn opens_from(
        &mut self,
        agent: usize,
        bridge: &str,
        request: &str,
        receipt: u64,
    ) -> Running {
        let process = Process { bridge: Some(bridge), ..Process::default() };
        let call = Call { process, request: Some(request), ..Call::through(Door::Mcp) };
        self.opens_call(agent, &call, receipt)
    }

    pub(crate) fn opens_call(&mut self, agent: usize, call: &Call<'_>, receipt: u64) -> Running {
        let who = self.reader(agent);
        self.books.ledger.seen(who, WALL);
        let running = self.desk.open(&mut self.books, who, call, receipt, self.now);
        self.writes();
        running
    }

    /// The call is answered with what is there.
    pub(crate) fn answers(&mut self, agent: usize, call: &Running) -> Given {
        self.answers_after(agent, call, Duration::ZERO)
    }

    /// The same, so long after the call began.
    pub(crate) fn answers_after(
        &mut self,
        agent: usize,
        call: &Running,
        waited: Duration,
    ) -> Given {
        let mail = self.leases(agent, call);
        self.gives(agent, call, mail, waited)
    }

    /// The first half of an answer: the mail is fetched.
    pub(crate) fn leases(&mut self, agent: usize, call: &Running) -> Vec<Leased> {
        self.books.leases(self.reader(agent), call.id)
    }

    /// The second half: the mail goes into the answer, unless the call has ended.
    pub(crate) fn gives(
        &mut self,
        agent: usize,
        call: &Running,
        mail: Vec<Leased>,
        waited: Duration,
    ) -> Given {
        let by = self.reader(agent);
        let told = self.desk.answered(&mut self.books, by, call.id, &mail, waited);
        let Some(told) = told else { return Given::default() };
        let given = mail.iter().map(|l| (self.number(l.message.seq), l.redelivered));
        Given {
            mail: given.collect(),
            settled: told.settled.iter().map(|seq| self.number(*seq)).collect(),
        }
    }

    pub(crate) fn written(&mut self, call: &Running) {
        self.desk.written(&mut self.books, call.id, None);
    }

    pub(crate) fn unwritten(&mut self, call: &Running) {
        self.desk.unwritten(&mut self.books, call.id);
    }

    /// The call is answered with an error.
    pub(crate) fn errs(&mut self, call: &Running) {
        self.desk.erred(call.id);
    }

    pub(crate) fn begins(&mut self, agent: usize, scope: Scope) {
        let who = self.reader(agent);
        self.desk.begin(&mut self.books, who, scope);
    }

    /// A request of this process of the agent.
    pub(crate) fn meets(&mut self, agent: usize, process: Process<'_>, hello: Option<Hello>) {
        let who = self.reader(agent);
        self.desk.meet(&mut self.books, who, process, hello);
    }

    /// A stream of the agent is open.
    pub(crate) fn attaches(&mut self, agent: usize) -> u64 {
        self.desk.attach(&self.books, self.reader(agent), 9).expect("room for a stream")
    }

    pub(crate) fn detaches(&mut self, agent: usize, stream: u64) {
        let who = self.reader(agent);
        self.desk.detach(&mut self.books, who, stream);
    }

    pub(crate) fn cancelled(&mut self, agent: usize, call: &str) {
        let who = self.reader(agent);
        self.desk.cancelled(&mut self.books, who, call);
    }

    pub(crate) fn interrupted(&mut self, agent: usize) {
        let who = self.reader(agent);
        self.desk.interrupted(&mut self.books, who);
    }

    /// A hook runs. Whether its answer may carry mail.
    pub(crate) fn hook(&mut self, agent: usize, hook: &Hook<'_>) -> bool {
        let who = self.reader(agent);
        self.books.ledger.seen(who, WALL);
        let carries = self.desk.hook(&mut self.books, who, hook, self.now);
        self.writes();
        carries
    }

    pub(crate) fn hooks(&mut self, agent: usize, moment: Moment) -> bool {
        self.hook(agent, &Hook::new(moment, &clients::UNKNOWN))
    }

    /// The hook's answer takes what is there, and is written.
    pub(crate) fn carries(&mut self, agent: usize, receipt: u64) -> (Running, Given) {
        let call = self.opens_call(agent, &Call::through(Door::Hook), receipt);
        let given = self.answers(agent, &call);
        self.written(&call);
        (call, given)
    }

    /// The reader names the receipt of an answer.
    pub(crate) fn receipt(&mut self, agent: usize, receipt: u64) {
        let by = self.reader(agent);
        self.desk.receipt_beside(&mut self.books, by, receipt);
        self.writes();
    }

    /// The reader answers a message. What the reply itself brings is not followed here.
    pub(crate) fn replies(&mut self, agent: usize, mail: usize) {
        let (by, seq) = (self.reader(agent), self.books.kept[mail].message.seq);
        let pending = self.desk.reply(by, &[seq]);
        self.books.reply(by, seq, pending);
        self.writes();
    }

    /// The reader refuses what an answer brought.
    pub(crate) fn nack(&mut self, agent: usize, receipt: u64) {
        let by = self.reader(agent);
        let Some(Nack { what, pending }) = self.desk.nack_receipt(by, receipt) else { return };
        if let Some(lost) = self.books.nack(by, &what) {
            self.desk.nacked(&pending, &lost);
        }
    }

    /// The instance ends; `finished` if its model was seen to end its own turn.
    pub(crate) fn ends(&mut self, agent: usize, finished: bool) {
        let who = self.reader(agent);
        let (status, proves) = match finished {
            true => (Status::Finished, Proves::All),
            false => (Status::Failed, Proves::Nothing),
        };
        let acked = self.desk.proved_by_end(who, proves);
        self.books.ends(agent, &Ending::plain(status, acked));
        self.desk.end(who);
    }

    /// No sign of life of this one, while all others are well.
    pub(crate) fn loses(&mut self, agent: usize) {
        self.books.loses(agent);
    }

    pub(crate) fn expires(&mut self) {
        self.books.expires();
    }

    pub(crate) fn cancels_mail(&mut self, mail: usize) {
        self.books.cancels(mail);
    }

    /// A new process on the same disk.
    pub(crate) fn restarts(&mut self, clean: bool) {
        if clean {
            // Nothing is left unflushed.
            self.flush();
            self.books.stops();
        }
        self.books.loads(&self.limits, clean);
        self.desk = Desk::new(Proofs::new(&self.limits, Epoch(1)).with_rules(self.rules));
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn pass(&mut self, until: Instant) {
        self.now = self.now.max(until);
        self.desk.pass(&mut self.books, self.now);
        self.writes();
    }

    /// The later call of this answer stays uncancelled for long enough.
    pub(crate) fn grace_is_over(&mut self, id: AnswerId) {
        self.desk.grace_is_over(&mut self.books, id);
        self.writes();
    }

    /// How many answers to this agent the hub remembers.
    pub(crate) fn remembered(&self, agent: usize) -> usize {
        self.desk.proofs().remembered(self.reader(agent))
    }

    /// Whether a later call may prove this answer soon.
    pub(crate) fn is_in_grace(&self, id: AnswerId) -> bool {
        self.desk.proofs().is_in_grace(id)
    }

    /// Whether the hub would still answer this call.
    pub(crate) fn is_open(&self, id: AnswerId) -> bool {
        self.desk.proofs().is_open(id)
    }

    pub(crate) fn is_doubted(&self, mail: usize) -> bool {
        self.books.is_doubted(mail)
    }

    pub(crate) fn fate(&self, mail: usize) -> Fate {
        self.books.fate(mail)
    }

    /// Hashes all that decides how the hub goes on. `call` numbers answers alike in
    /// every world.
    pub(crate) fn hash(&self, call: &dyn Fn(AnswerId) -> usize, into: &mut impl Hasher) {
        let seen = self.books.ledger.possibly_seen();
        for (mail, kept) in self.books.kept.iter().enumerate() {
            (self.fate(mail), self.is_doubted(mail), kept.attempts, kept.marked).hash(into);
            seen.contains(&kept.delivery).hash(into);
            let holder = self.books.ledger.holder(kept.delivery);
            holder.map(|(_, answer)| call(answer)).hash(into);
        }
        self.books.taken.len().hash(into);
        for ack in &self.books.unflushed {
            let settled = ack.plan.settled.iter().map(|s| s.delivery.0).collect::<Vec<_>>();
            (settled, ack.proof.as_str()).hash(into);
        }
        for agent in 0..self.books.people.len() {
            self.desk.proofs().hash(self.reader(agent), call, into);
        }
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.books.unflushed.is_empty()
    }

    pub(crate) fn flush(&mut self) {
        for Unflushed { plan, pending, .. } in std::mem::take(&mut self.books.unflushed) {
            self.books.commits(&plan);
            let settled: Vec<Seq> = plan.settled.iter().map(|s| s.seq).collect();
            let acked = Acked { settled, settling: plan.settling, ..Acked::default() };
            if let Some(pending) = pending {
                self.desk.acked(&pending, &acked);
            }
        }
    }

    /// The disk is full: the acks are undone, and everybody is told.
    pub(crate) fn fails_to_flush(&mut self) {
        let group = std::mem::take(&mut self.books.unflushed);
        group.iter().rev().for_each(|ack| self.books.ledger.undo_ack(&ack.plan));
        for pending in group.iter().filter_map(|ack| ack.pending.as_ref()) {
            self.desk.unacked(pending, self.now);
        }
    }

    /// What a reader holds, whatever it is.
    pub(crate) fn held_by(&self, agent: usize) -> Vec<DeliveryNo> {
        self.books.ledger.held_by(self.reader(agent))
    }

    /// A quick disk flushes acks at once.
    fn writes(&mut self) {
        if !self.slow_disk {
            self.flush();
        }
    }

    fn number(&self, seq: Seq) -> usize {
        self.books.number(seq)
    }
}
