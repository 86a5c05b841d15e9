//! The embedded hub without its file, its sockets and its clock: the real rules
//! and the real ledger, glued as the hub glues them, with a disk that remembers
//! only what was committed.

use std::hash::{Hash, Hasher};

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::address::Mailbox;
use posthaste_core::ledger::{AckPlan, End, Heads, Ledger, Planned, Queued, Settled};
use posthaste_core::messaging::clients;
use posthaste_core::messaging::delivery::{AnswerId, DeliveryNo, Proof, Reason};
use posthaste_core::messaging::desk::{Books, Desk};
use posthaste_core::messaging::message::{
    Details, Draft, Message, MessageId, Principal, Priority, Seq, Via,
};
use posthaste_core::messaging::proof::{
    Call, Door, Hello, Hook, Moment, Process, Proofs, Proves, Rules, Running, Scope,
};
use posthaste_core::ports::{Acked, Ending, Filter, Leased, Take, What};
use posthaste_core::registry::{Instance, NewInstance, Origin, Relation, Status};
use posthaste_core::time::Timestamp;
use tokio::time::Instant;

const WALL: Timestamp = Timestamp(1_700_000_000_000);
const TTL: Duration = Duration::from_secs(3600);

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

/// One message on disk.
#[derive(Clone)]
struct Kept {
    message: Arc<Message>,
    delivery: DeliveryNo,
    mailbox: Mailbox,
    marked: bool,
    attempts: u8,
    end: Option<End>,
}

/// An ack that is decided and not yet flushed.
#[derive(Clone)]
struct Unflushed {
    by: Principal,
    plan: AckPlan,
    /// Of a reply: all that held what it names.
    answers: Vec<AnswerId>,
    proof: Proof,
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

/// The ledger, and what a restart finds.
#[derive(Clone)]
struct Disk {
    ledger: Ledger,
    unflushed: Vec<Unflushed>,
    /// A promise that this store breaks.
    broken: Option<Promise>,
    kept: Vec<Kept>,
    mailboxes: Vec<Mailbox>,
    people: Vec<Instance>,
    taken: Vec<(Principal, Seq)>,
}

impl Books for Disk {
    fn taken(&self, who: Principal) -> Vec<Seq> {
        let mine = self.taken.iter().filter(|(reader, _)| *reader == who);
        mine.map(|(_, seq)| *seq).collect()
    }

    fn give_back(&mut self, by: Principal, what: Vec<DeliveryNo>, from: AnswerId, doubt: bool) {
        self.ledger.give_back(by, &what, Some(from), doubt);
    }

    fn put_back(&mut self, by: Principal, what: Vec<DeliveryNo>, from: AnswerId) {
        self.ledger.put_back(by, &what, from);
    }

    fn ack(&mut self, by: Principal, answer: AnswerId, what: What, proof: Proof) {
        let plan = self.ledger.plan_ack(by, &what, proof, WALL, false);
        self.unflushed.push(Unflushed { by, plan, answers: vec![answer], proof });
    }
}

impl Disk {
    /// Writes ends down.
    fn settle(&mut self, list: &[Settled]) {
        for settled in list {
            self.kept(settled.delivery).end = Some(settled.end);
            if let (End::Acked(proof), Some(by)) = (settled.end, settled.by)
                && proof.is_weak()
            {
                self.taken.push((by, settled.seq));
            }
        }
    }

    fn kept(&mut self, delivery: DeliveryNo) -> &mut Kept {
        let found = self.kept.iter_mut().find(|kept| kept.delivery == delivery);
        found.expect("a delivery that was sent")
    }
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
            desk: Desk::new(Proofs::new(&limits)),
            books: Disk {
                ledger: Ledger::new(limits.clone()),
                unflushed: Vec::new(),
                broken: None,
                kept: Vec::new(),
                mailboxes: Vec::new(),
                people: Vec::new(),
                taken: Vec::new(),
            },
            rules: Rules::ALL,
            limits,
            now: Instant::now(),
            slow_disk,
            to: "mason".into(),
        };
        (0..agents).for_each(|n| post.joins(n));
        if !one_of {
            post.to = post.books.people[0].id.to_string();
        }
        (0..mails).for_each(|_| post.arrives());
        post
    }

    /// The same without a rule, or with a broken promise.
    pub(crate) fn with(mut self, rules: Rules, broken: Option<Promise>) -> Self {
        (self.rules, self.books.broken) = (rules, broken);
        self.desk = Desk::new(Proofs::new(&self.limits).with_rules(rules));
        self
    }

    /// One that remembers no more than so many answers of each reader.
    pub(crate) fn forgetful(mails: usize, answers: usize) -> Self {
        let mut post = Self::new(1, 0, false, false);
        post.limits.receipts = answers;
        post.desk = Desk::new(Proofs::new(&post.limits));
        (0..mails).for_each(|_| post.arrives());
        post
    }

    fn joins(&mut self, n: usize) {
        let mut dice = 100 * u32::try_from(n + 1).expect("few agents");
        let new = NewInstance {
            agent: "mason".parse().expect("a good name"),
            team: None,
            label: None,
            parent: None,
            kind: None,
            key: None,
            origin: Origin::Operator,
            token: [u8::try_from(n).expect("few agents"); 32],
        };
        let roll = || {
            dice += 1;
            dice
        };
        let plan = self.books.ledger.plan_join(new, WALL, roll).expect("a new instance");
        self.books.people.push(plan.instance);
    }

    /// The operator sends one message more.
    pub(crate) fn arrives(&mut self) {
        let to = self.to.parse().expect("a good address");
        let details = Details { ttl: Some(TTL), ..Details::default() };
        let draft =
            Draft::new(Principal::Operator, to, "hello".into(), details, Via::Rest, &self.limits)
                .expect("within the limits");
        let id = MessageId(self.books.kept.len() as u64);
        let plan = match self.books.ledger.plan_append(draft, id, WALL) {
            Planned::New(plan) => plan,
            Planned::Duplicate(..) => unreachable!("no keys are used"),
            Planned::Refused(error, _) => panic!("accepted: {error}"),
        };
        self.books.ledger.commit_append(&plan, &mut Vec::new());
        self.books.mailboxes.extend(plan.opened.iter().map(|(_, mailbox)| mailbox.clone()));
        let (at, delivery) = plan.deliveries[0];
        self.books.kept.push(Kept {
            message: Arc::clone(&plan.message),
            delivery,
            mailbox: self.books.mailboxes[at as usize].clone(),
            marked: false,
            attempts: 0,
            end: None,
        });
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
        let take = Take {
            reader: self.reader(agent),
            answer: call.id,
            filter: Filter::default(),
            messages: usize::MAX,
            bytes: usize::MAX,
            clips: None,
        };
        let (found, _) = self.books.ledger.lease(&take, WALL, &Heads::new());
        let leased = found.into_iter().map(|sought| Leased {
            delivery: sought.delivery,
            mailbox: sought.mailbox,
            message: Arc::clone(&self.books.kept[self.number(sought.seq)].message),
            redelivered: sought.redelivered,
            doubted: sought.doubted,
            relation: Relation::Human,
        });
        leased.collect()
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
        let answers = self.desk.holding(by, &[seq]);
        let what = What::Messages(vec![seq]);
        let plan = self.books.ledger.plan_ack(by, &what, Proof::Reply, WALL, true);
        self.books.unflushed.push(Unflushed { by, plan, answers, proof: Proof::Reply });
        self.writes();
    }

    /// The reader refuses what an answer brought.
    pub(crate) fn nack(&mut self, agent: usize, receipt: u64) {
        let by = self.reader(agent);
        let Some((answer, what)) = self.desk.receipt(by, receipt) else { return };
        let what = match self.books.broken {
            Some(Promise::Fence) => return self.takes_back(&what),
            _ => What::Held(answer, what),
        };
        let plan = self.books.ledger.plan_nack(by, &what, WALL);
        for (delivery, attempts, _) in &plan.returned {
            let kept = self.books.kept(*delivery);
            (kept.attempts, kept.marked) = (*attempts, true);
        }
        self.books.settle(&plan.dead);
        self.books.ledger.commit_nack(&plan, &mut Vec::new());
        self.desk.refused(answer, &plan.lost);
    }

    /// Without the fence: whoever holds it, it goes back.
    fn takes_back(&mut self, what: &[DeliveryNo]) {
        for agent in 0..self.books.people.len() {
            self.books.ledger.give_back(self.reader(agent), what, None, false);
        }
    }

    /// The instance ends; `finished` if its model was seen to end its own turn.
    pub(crate) fn ends(&mut self, agent: usize, finished: bool) {
        let id = self.books.people[agent].id;
        let who = Principal::Instance(id);
        let proves = if finished { Proves::All } else { Proves::Nothing };
        let acked = self.desk.proved_by_end(who, proves);
        let status = if finished { Status::Finished } else { Status::Failed };
        let ending = Ending::plain(status, acked);
        let plan = self.books.ledger.plan_end(id, &ending, WALL, || 1).expect("it was running");
        self.books.people[agent] = plan.instance.clone();
        self.books.settle(&plan.settled);
        self.books.ledger.commit_end(&plan, &mut Vec::new());
        self.desk.end(who);
    }

    /// No sign of life of this one, while all others are well.
    pub(crate) fn loses(&mut self, agent: usize) {
        let soon = Timestamp(WALL.0 + 1);
        for (n, other) in self.books.people.iter().enumerate() {
            if n != agent {
                self.books.ledger.seen(Principal::Instance(other.id), soon);
            }
        }
        self.books.ledger.lose(soon);
    }

    pub(crate) fn expires(&mut self) {
        let plan = self.books.ledger.plan_expiry(WALL + TTL);
        self.books.settle(&plan.dead);
        self.books.ledger.commit_die(&plan);
    }

    pub(crate) fn cancels_mail(&mut self, mail: usize) {
        let target = (self.books.kept[mail].mailbox.clone(), self.books.kept[mail].delivery);
        let plan = self.books.ledger.plan_cancel(&[target], WALL).expect("queued mail");
        self.books.settle(&plan.dead);
        self.books.ledger.commit_die(&plan);
    }

    /// A new process on the same disk.
    pub(crate) fn restarts(&mut self, clean: bool) {
        if clean {
            // Nothing is left unflushed, and what was handed out is noted.
            self.flush();
            let notes = self.books.broken != Some(Promise::Clean);
            for delivery in self.books.ledger.possibly_seen().into_iter().filter(|_| notes) {
                self.books.kept(delivery).marked = true;
            }
        }
        self.books.unflushed.clear();
        self.books.ledger = Ledger::new(self.limits.clone());
        self.desk = Desk::new(Proofs::new(&self.limits).with_rules(self.rules));
        let last = self.books.kept.len() as u64;
        self.books.ledger.load_counters(last, last);
        for instance in &self.books.people {
            self.books.ledger.load_instance(instance.clone());
        }
        let mailboxes = (0..).zip(self.books.mailboxes.iter().cloned()).collect();
        self.books.ledger.load_mailboxes(mailboxes);
        for kept in self.books.kept.iter().filter(|kept| kept.end.is_none()) {
            let at = self.books.mailboxes.iter().position(|m| *m == kept.mailbox);
            let entry = Queued {
                delivery: kept.delivery,
                seq: kept.message.seq,
                message: None,
                size: u32::try_from(kept.message.body.len()).expect("a short text"),
                sender: kept.message.from.instance,
                urgent: kept.message.priority == Priority::Urgent,
                marked: !clean || kept.marked,
                leased_before: false,
                doubted: false,
                attempts: kept.attempts,
                expires_at: kept.message.expires_at,
            };
            let at = u32::try_from(at.expect("a known mailbox")).expect("few mailboxes");
            assert!(self.books.ledger.load_delivery(at, entry));
        }
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
        let kept = &self.books.kept[mail];
        self.books.ledger.standing(&kept.mailbox, kept.delivery).is_some_and(|s| s.doubted)
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
        for ack in std::mem::take(&mut self.books.unflushed) {
            self.commit(ack);
        }
    }

    /// The disk is full: the acks are undone, and everybody is told.
    pub(crate) fn fails_to_flush(&mut self) {
        let group = std::mem::take(&mut self.books.unflushed);
        group.iter().rev().for_each(|ack| self.books.ledger.undo_ack(&ack.plan));
        for ack in group.iter().filter(|ack| ack.proof != Proof::Reply) {
            ack.answers.iter().for_each(|answer| self.desk.unacked(*answer, ack.proof, self.now));
        }
    }

    pub(crate) fn fate(&self, mail: usize) -> Fate {
        let kept = &self.books.kept[mail];
        match kept.end {
            Some(End::Acked(proof)) => return Fate::Acked(proof.as_str()),
            Some(End::Dead { reason, maybe_seen }) => {
                let maybe_seen = maybe_seen
                    && (self.books.broken != Some(Promise::Maybe)
                        || reason == Reason::RecipientGone);
                return Fate::Dead { reason: Reason::as_str(reason), maybe_seen };
            }
            None if self.books.broken == Some(Promise::Commit) => {
                let told =
                    |ack: &&Unflushed| ack.plan.settled.iter().any(|s| s.delivery == kept.delivery);
                if let Some(ack) = self.books.unflushed.iter().find(told) {
                    return Fate::Acked(ack.proof.as_str());
                }
            }
            None => {}
        }
        match self.books.ledger.standing(&kept.mailbox, kept.delivery) {
            None => Fate::Vanished,
            Some(standing) => {
                let holder = standing.by.and_then(Principal::instance);
                let by = holder.and_then(|id| self.books.people.iter().position(|p| p.id == id));
                match by {
                    Some(by) => Fate::Leased { by, marked: standing.marked },
                    None => Fate::Queued { marked: standing.marked },
                }
            }
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

    fn commit(&mut self, Unflushed { by, plan, answers, proof }: Unflushed) {
        self.books.settle(&plan.settled);
        self.books.ledger.commit_ack(&plan);
        let settled: Vec<Seq> = plan.settled.iter().map(|s| s.seq).collect();
        if proof == Proof::Reply {
            return self.desk.let_go(&answers, &settled);
        }
        let acked = Acked { settled, settling: plan.settling, ..Acked::default() };
        for answer in answers {
            self.desk.acked(by, answer, proof, &acked);
        }
    }

    fn number(&self, seq: Seq) -> usize {
        let found = self.books.kept.iter().position(|kept| kept.message.seq == seq);
        found.expect("a message that was sent")
    }
}
