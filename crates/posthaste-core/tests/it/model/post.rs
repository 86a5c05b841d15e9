//! The embedded hub without its file, its sockets and its clock: the real rules
//! and the real table, glued as the hub glues them, with a disk that remembers
//! only what was committed.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::address::Mailbox;
use posthaste_core::ledger::{AckPlan, End, Heads, Ledger, Planned, Queued, Settled};
use posthaste_core::messaging::delivery::{AnswerId, DeliveryNo, Proof, Reason};
use posthaste_core::messaging::message::{
    Details, Draft, Message, MessageId, Principal, Priority, Seq, Via,
};
use posthaste_core::messaging::proof::{Door, Effect, Proofs, Proves, Running, Scope};
use posthaste_core::ports::{Acked, Ending, Filter, Leased, Take, What};
use posthaste_core::registry::{Instance, NewInstance, Relation, Status};
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

/// One message on disk.
struct Kept {
    message: Arc<Message>,
    delivery: DeliveryNo,
    mailbox: Mailbox,
    marked: bool,
    attempts: u8,
    end: Option<End>,
}

/// An ack that is decided and not yet flushed.
struct Unflushed {
    by: Principal,
    plan: AckPlan,
    /// Of a reply: all that held what it names.
    answers: Vec<AnswerId>,
    proof: Proof,
}

pub(crate) struct Post {
    ledger: Ledger,
    proofs: Proofs,
    limits: Limits,
    now: Instant,
    /// Acks lie unflushed until told.
    slow_disk: bool,
    to: String,
    unflushed: Vec<Unflushed>,
    // What a restart finds.
    disk: Vec<Kept>,
    mailboxes: Vec<Mailbox>,
    people: Vec<Instance>,
    taken: Vec<(Principal, Seq)>,
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
            ledger: Ledger::new(limits.clone()),
            proofs: Proofs::new(limits.proof_grace, limits.receipts),
            limits,
            now: Instant::now(),
            slow_disk,
            to: "mason".into(),
            unflushed: Vec::new(),
            disk: Vec::new(),
            mailboxes: Vec::new(),
            people: Vec::new(),
            taken: Vec::new(),
        };
        (0..agents).for_each(|n| post.joins(n));
        if !one_of {
            post.to = post.people[0].id.to_string();
        }
        (0..mails).for_each(|_| post.arrives());
        post
    }

    /// One that remembers no more than so many answers of each reader.
    pub(crate) fn forgetful(mails: usize, answers: usize) -> Self {
        let mut post = Self::new(1, 0, false, false);
        post.limits.receipts = answers;
        post.proofs = Proofs::new(post.limits.proof_grace, answers);
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
            token: [u8::try_from(n).expect("few agents"); 32],
        };
        let roll = || {
            dice += 1;
            dice
        };
        let plan = self.ledger.plan_join(new, WALL, roll).expect("a new instance");
        self.people.push(plan.instance);
    }

    /// The operator sends one message more.
    pub(crate) fn arrives(&mut self) {
        let to = self.to.parse().expect("a good address");
        let details = Details { ttl: Some(TTL), ..Details::default() };
        let draft =
            Draft::new(Principal::Operator, to, "hello".into(), details, Via::Rest, &self.limits)
                .expect("within the limits");
        let id = MessageId(self.disk.len() as u64);
        let plan = match self.ledger.plan_append(draft, id, WALL) {
            Planned::New(plan) => plan,
            Planned::Duplicate(..) => unreachable!("no keys are used"),
            Planned::Refused(error, _) => panic!("accepted: {error}"),
        };
        self.ledger.commit_append(&plan, &mut Vec::new());
        self.mailboxes.extend(plan.opened.iter().map(|(_, mailbox)| mailbox.clone()));
        let (at, delivery) = plan.deliveries[0];
        self.disk.push(Kept {
            message: Arc::clone(&plan.message),
            delivery,
            mailbox: self.mailboxes[at as usize].clone(),
            marked: false,
            attempts: 0,
            end: None,
        });
    }

    pub(crate) fn reader(&self, agent: usize) -> Principal {
        Principal::Instance(self.people[agent].id)
    }

    /// A call begins: any call is a sign of life, too.
    pub(crate) fn opens(&mut self, agent: usize, call: &str, receipt: u64) -> Running {
        self.opens_as(agent, &[call], receipt)
    }

    pub(crate) fn opens_as(&mut self, agent: usize, names: &[&str], receipt: u64) -> Running {
        self.opens_labelled(agent, "", names, receipt)
    }

    /// A call of one of the agent's processes.
    pub(crate) fn opens_from(
        &mut self,
        agent: usize,
        label: &str,
        call: &str,
        receipt: u64,
    ) -> Running {
        self.opens_labelled(agent, label, &[&format!("{label}|{call}")], receipt)
    }

    fn opens_labelled(
        &mut self,
        agent: usize,
        label: &str,
        names: &[&str],
        receipt: u64,
    ) -> Running {
        let who = self.reader(agent);
        self.ledger.seen(who, WALL);
        self.recall(who);
        let (running, effects) = self.proofs.open(who, Door::Mcp, label, names, receipt, self.now);
        self.perform(effects);
        running
    }

    /// The call is answered with what is there.
    pub(crate) fn answers(&mut self, agent: usize, call: &Running) -> Given {
        let mail = self.leases(agent, call);
        self.gives(agent, call, mail)
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
        let (found, _) = self.ledger.lease(&take, WALL, &Heads::new());
        let leased = found.into_iter().map(|sought| Leased {
            delivery: sought.delivery,
            mailbox: sought.mailbox,
            message: Arc::clone(&self.disk[self.number(sought.seq)].message),
            redelivered: sought.redelivered,
            doubted: sought.doubted,
            relation: Relation::Human,
        });
        leased.collect()
    }

    /// The second half: the mail goes into the answer, unless the call has ended.
    pub(crate) fn gives(&mut self, agent: usize, call: &Running, mail: Vec<Leased>) -> Given {
        let Some(told) = self.proofs.answered(call.id, &mail) else {
            let what: Vec<DeliveryNo> = mail.iter().map(|l| l.delivery).collect();
            self.ledger.put_back(self.reader(agent), &what, call.id);
            return Given::default();
        };
        let given = mail.iter().map(|l| (self.number(l.message.seq), l.redelivered));
        Given {
            mail: given.collect(),
            settled: told.settled.iter().map(|seq| self.number(*seq)).collect(),
        }
    }

    pub(crate) fn written(&mut self, call: &Running) {
        self.proofs.written(call.id);
    }

    pub(crate) fn unwritten(&mut self, call: &Running) {
        let effects = self.proofs.unwritten(call.id);
        self.perform(effects);
    }

    /// So close to the client's limit that the answer may have been dropped.
    pub(crate) fn came_late(&mut self, call: &Running) {
        self.proofs.came_late(call.id);
    }

    pub(crate) fn begins(&mut self, agent: usize, scope: Scope) {
        let who = self.reader(agent);
        self.recall(who);
        let effects = self.proofs.begin(who, scope);
        self.perform(effects);
    }

    /// A stream of the agent is open.
    pub(crate) fn attaches(&mut self, agent: usize) -> u64 {
        self.proofs.attach(self.reader(agent), 9).expect("room for a stream")
    }

    pub(crate) fn detaches(&mut self, agent: usize, stream: u64) {
        self.proofs.detach(self.reader(agent), stream);
    }

    pub(crate) fn cancelled(&mut self, agent: usize, call: &str) {
        let effects = self.proofs.cancelled(self.reader(agent), call);
        self.perform(effects);
    }

    pub(crate) fn interrupted(&mut self, agent: usize) {
        let effects = self.proofs.interrupted(self.reader(agent));
        self.perform(effects);
    }

    /// A hook fires, and its answer is empty.
    pub(crate) fn hook(&mut self, agent: usize) {
        let who = self.reader(agent);
        self.ledger.seen(who, WALL);
        self.recall(who);
        let (hook, effects) = self.proofs.open(who, Door::Hook, "", &[], u64::MAX, self.now);
        self.perform(effects);
        self.proofs.answered(hook.id, &[]);
        self.proofs.names_nothing(hook.id);
        self.written(&hook);
    }

    /// The reader names the receipt of an answer.
    pub(crate) fn receipt(&mut self, agent: usize, receipt: u64) {
        let by = self.reader(agent);
        if let Some((answer, what)) = self.proofs.receipt(by, receipt) {
            self.ack(by, answer, What::Deliveries(what), Proof::Receipt);
        }
    }

    /// The reader answers a message. What the reply itself brings is not followed here.
    pub(crate) fn replies(&mut self, agent: usize, mail: usize) {
        let (by, seq) = (self.reader(agent), self.disk[mail].message.seq);
        let answers = self.proofs.holding(by, &[seq]);
        let what = What::Messages(vec![seq]);
        let plan = self.ledger.plan_ack(by, &what, Proof::Reply, WALL, true);
        self.writes(Unflushed { by, plan, answers, proof: Proof::Reply });
    }

    /// The reader refuses what an answer brought.
    pub(crate) fn nack(&mut self, agent: usize, receipt: u64) {
        let by = self.reader(agent);
        let Some((answer, what)) = self.proofs.receipt(by, receipt) else { return };
        let plan = self.ledger.plan_nack(by, &What::Held(answer, what), WALL);
        for (delivery, attempts, _) in &plan.returned {
            let kept = self.kept(*delivery);
            (kept.attempts, kept.marked) = (*attempts, true);
        }
        self.settle(&plan.dead);
        self.ledger.commit_nack(&plan, &mut Vec::new());
        self.proofs.refused(answer, &plan.lost);
    }

    /// The instance ends; `finished` if its model was seen to end its own turn.
    pub(crate) fn ends(&mut self, agent: usize, finished: bool) {
        let id = self.people[agent].id;
        let who = Principal::Instance(id);
        let proves = if finished { Proves::All } else { Proves::Nothing };
        let acked = self.proofs.proved_by_end(who, proves);
        let status = if finished { Status::Finished } else { Status::Failed };
        let ending = Ending::plain(status, acked);
        let plan = self.ledger.plan_end(id, &ending, WALL, || 1).expect("it was running");
        self.people[agent] = plan.instance.clone();
        self.settle(&plan.settled);
        self.ledger.commit_end(&plan, &mut Vec::new());
        self.proofs.end(who);
    }

    /// No sign of life of this one, while all others are well.
    pub(crate) fn loses(&mut self, agent: usize) {
        let soon = Timestamp(WALL.0 + 1);
        for (n, other) in self.people.iter().enumerate() {
            if n != agent {
                self.ledger.seen(Principal::Instance(other.id), soon);
            }
        }
        self.ledger.lose(soon);
    }

    pub(crate) fn expires(&mut self) {
        let plan = self.ledger.plan_expiry(WALL + TTL);
        self.settle(&plan.dead);
        self.ledger.commit_die(&plan);
    }

    pub(crate) fn cancels_mail(&mut self, mail: usize) {
        let target = (self.disk[mail].mailbox.clone(), self.disk[mail].delivery);
        let plan = self.ledger.plan_cancel(&[target], WALL).expect("queued mail");
        self.settle(&plan.dead);
        self.ledger.commit_die(&plan);
    }

    /// A new process on the same disk.
    pub(crate) fn restarts(&mut self, clean: bool) {
        if clean {
            // Nothing is left unflushed, and what was handed out is noted.
            self.flush();
            for delivery in self.ledger.possibly_seen() {
                self.kept(delivery).marked = true;
            }
        }
        self.unflushed.clear();
        self.ledger = Ledger::new(self.limits.clone());
        self.proofs = Proofs::new(self.limits.proof_grace, self.limits.receipts);
        let last = self.disk.len() as u64;
        self.ledger.load_counters(last, last);
        for instance in &self.people {
            self.ledger.load_instance(instance.clone());
        }
        for (no, mailbox) in (0..).zip(&self.mailboxes) {
            assert!(self.ledger.load_mailbox(no, mailbox.clone()));
        }
        for kept in self.disk.iter().filter(|kept| kept.end.is_none()) {
            let at = self.mailboxes.iter().position(|m| *m == kept.mailbox);
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
            assert!(self.ledger.load_delivery(at, entry));
        }
    }

    /// When the next proof is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.proofs.next_due()
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn pass(&mut self, until: Instant) {
        self.now = self.now.max(until);
        let effects = self.proofs.due(self.now);
        self.perform(effects);
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.unflushed.is_empty()
    }

    pub(crate) fn flush(&mut self) {
        for ack in std::mem::take(&mut self.unflushed) {
            self.commit(ack);
        }
    }

    /// The disk is full: the acks are undone, and everybody is told.
    pub(crate) fn fails_to_flush(&mut self) {
        let group = std::mem::take(&mut self.unflushed);
        group.iter().rev().for_each(|ack| self.ledger.undo_ack(&ack.plan));
        for ack in group.iter().filter(|ack| ack.proof != Proof::Reply) {
            ack.answers.iter().for_each(|answer| self.proofs.unacked(*answer));
        }
    }

    pub(crate) fn fate(&self, mail: usize) -> Fate {
        let kept = &self.disk[mail];
        match kept.end {
            Some(End::Acked(proof)) => return Fate::Acked(proof.as_str()),
            Some(End::Dead { reason, maybe_seen }) => {
                return Fate::Dead { reason: Reason::as_str(reason), maybe_seen };
            }
            None => {}
        }
        match self.ledger.standing(&kept.mailbox, kept.delivery) {
            None => Fate::Vanished,
            Some(standing) => {
                let holder = standing.by.and_then(Principal::instance);
                let by = holder.and_then(|id| self.people.iter().position(|p| p.id == id));
                match by {
                    Some(by) => Fate::Leased { by, marked: standing.marked },
                    None => Fate::Queued { marked: standing.marked },
                }
            }
        }
    }

    /// What a reader holds, whatever it is.
    pub(crate) fn held_by(&self, agent: usize) -> Vec<DeliveryNo> {
        self.ledger.held_by(self.reader(agent))
    }

    fn recall(&mut self, who: Principal) {
        if !self.proofs.knows(who) {
            let mine = self.taken.iter().filter(|(reader, _)| *reader == who);
            let seqs: Vec<Seq> = mine.map(|(_, seq)| *seq).collect();
            self.proofs.remember(who, &seqs);
        }
    }

    fn perform(&mut self, effects: impl IntoIterator<Item = Effect>) {
        for effect in effects {
            match effect {
                Effect::Ack { by, answer, what, proof } => {
                    self.ack(by, answer, What::Held(answer, what), proof);
                }
                Effect::Return { by, answer, what, doubt } => {
                    self.ledger.give_back(by, &what, Some(answer), doubt);
                }
            }
        }
    }

    fn ack(&mut self, by: Principal, answer: AnswerId, what: What, proof: Proof) {
        let plan = self.ledger.plan_ack(by, &what, proof, WALL, false);
        self.writes(Unflushed { by, plan, answers: vec![answer], proof });
    }

    fn writes(&mut self, ack: Unflushed) {
        if self.slow_disk && !ack.plan.settled.is_empty() {
            self.unflushed.push(ack);
        } else {
            self.commit(ack);
        }
    }

    fn commit(&mut self, Unflushed { by, plan, answers, proof }: Unflushed) {
        self.settle(&plan.settled);
        self.ledger.commit_ack(&plan);
        let settled: Vec<Seq> = plan.settled.iter().map(|s| s.seq).collect();
        if proof == Proof::Reply {
            return self.proofs.let_go(&answers, &settled);
        }
        let acked = Acked { settled, settling: plan.settling, ..Acked::default() };
        for answer in answers {
            self.proofs.acked(by, answer, proof, &acked);
        }
    }

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
        let found = self.disk.iter_mut().find(|kept| kept.delivery == delivery);
        found.expect("a delivery that was sent")
    }

    fn number(&self, seq: Seq) -> usize {
        let found = self.disk.iter().position(|kept| kept.message.seq == seq);
        found.expect("a message that was sent")
    }
}
