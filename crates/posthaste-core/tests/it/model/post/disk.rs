//! The ledger over a disk that remembers only what was committed.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::address::Mailbox;
use posthaste_core::ledger::{AckPlan, End, Heads, Ledger, Planned, Queued, Settled};
use posthaste_core::messaging::delivery::{AnswerId, DeliveryNo, Proof, Reason};
use posthaste_core::messaging::desk::{Ack, Books, PendingAck};
use posthaste_core::messaging::message::{Details, Draft, Message, Principal, Priority, Seq, Via};
use posthaste_core::ports::store::{BacklogPart, Loaded};
use posthaste_core::ports::{Ending, Filter, Leased, Take, What};
use posthaste_core::registry::{Instance, NewInstance, Origin, Relation};
use posthaste_core::time::Timestamp;

use super::{Fate, Promise};

pub(super) const WALL: Timestamp = Timestamp(1_700_000_000_000);
const TTL: Duration = Duration::from_secs(3600);

/// One message on disk.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) message: Arc<Message>,
    pub(super) delivery: DeliveryNo,
    mailbox: Mailbox,
    pub(super) marked: bool,
    pub(super) attempts: u8,
    end: Option<End>,
}

/// An ack that is decided and not yet flushed.
#[derive(Clone)]
pub(super) struct Unflushed {
    pub(super) plan: AckPlan,
    pub(super) proof: Proof,
    /// What the desk waits to hear; nothing of a reply to what no answer held.
    pub(super) pending: Option<PendingAck>,
}

/// The ledger, and what a restart finds.
#[derive(Clone)]
pub(super) struct Disk {
    pub(super) ledger: Ledger,
    pub(super) unflushed: Vec<Unflushed>,
    /// A promise that this store breaks.
    pub(super) broken: Option<Promise>,
    pub(super) kept: Vec<Kept>,
    mailboxes: Vec<Mailbox>,
    pub(super) people: Vec<Instance>,
    /// Ids that were acked by weak proof.
    pub(super) taken: Vec<(Principal, Seq)>,
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

    fn ack(&mut self, Ack { what, pending }: Ack) {
        let plan = self.ledger.plan_ack(pending.by, &what, pending.proof, WALL, false);
        self.unflushed.push(Unflushed { plan, proof: pending.proof, pending: Some(pending) });
    }
}

impl Disk {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            ledger: Ledger::new(limits.clone()),
            unflushed: Vec::new(),
            broken: None,
            kept: Vec::new(),
            mailboxes: Vec::new(),
            people: Vec::new(),
            taken: Vec::new(),
        }
    }

    pub(super) fn joins(&mut self, n: usize) {
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
        let plan = self.ledger.plan_join(new, WALL, roll).expect("a new instance");
        self.people.push(plan.instance);
    }

    /// The operator sends one message more.
    pub(super) fn keeps(&mut self, to: &str, limits: &Limits) {
        let to = to.parse().expect("a good address");
        let details = Details { ttl: Some(TTL), ..Details::default() };
        let draft = Draft::new(Principal::Operator, to, "hello".into(), details, Via::Rest, limits)
            .expect("within the limits");
        let plan = match self.ledger.plan_append(draft, WALL) {
            Planned::New(plan) => plan,
            Planned::Duplicate(..) | Planned::Unsure(..) => unreachable!("no keys are used"),
            Planned::Refused(error, _) => panic!("accepted: {error}"),
        };
        self.ledger.commit_append(&plan, &mut Vec::new());
        self.mailboxes.extend(plan.opened.iter().map(|(_, mailbox)| mailbox.clone()));
        let (at, delivery) = plan.copies[0];
        self.kept.push(Kept {
            message: Arc::clone(&plan.message),
            delivery,
            mailbox: self.mailboxes[at as usize].clone(),
            marked: false,
            attempts: 0,
            end: None,
        });
    }

    pub(super) fn leases(&mut self, reader: Principal, answer: AnswerId) -> Vec<Leased> {
        let take = Take {
            reader,
            answer,
            filter: Filter::default(),
            messages: usize::MAX,
            bytes: usize::MAX,
            clips: None,
        };
        let (found, _) = self.ledger.lease(&take, WALL, &Heads::new());
        let leased = found.into_iter().map(|sought| Leased {
            delivery: sought.delivery,
            mailbox: sought.mailbox,
            message: Arc::clone(&self.kept[self.number(sought.seq)].message),
            redelivered: sought.redelivered,
            doubted: sought.doubted,
            relation: Relation::Human,
        });
        leased.collect()
    }

    /// A reply that names a message acks it for its holder.
    pub(super) fn reply(&mut self, by: Principal, to: Seq, pending: Option<PendingAck>) {
        let (what, proof) = (What::Messages(vec![to]), Proof::Reply);
        let plan = self.ledger.plan_ack(by, &what, proof, WALL, true);
        self.unflushed.push(Unflushed { plan, proof, pending });
    }

    /// Refuses mail, and tells what its reader no longer held. Without the fence it goes
    /// back, whoever holds it.
    pub(super) fn nack(&mut self, by: Principal, what: &What) -> Option<Vec<Seq>> {
        if let (Some(Promise::Fence), What::Held(_, what)) = (self.broken, what) {
            for person in &self.people {
                self.ledger.give_back(Principal::Instance(person.id), what, None, false);
            }
            return None;
        }
        let plan = self.ledger.plan_nack(by, what, WALL);
        for (delivery, attempts, _) in &plan.returned {
            let kept = self.find(*delivery);
            (kept.attempts, kept.marked) = (*attempts, true);
        }
        self.settle(&plan.dead);
        self.ledger.commit_nack(&plan, &mut Vec::new());
        Some(plan.lost)
    }

    pub(super) fn ends(&mut self, agent: usize, ending: &Ending) {
        let id = self.people[agent].id;
        let plan = self.ledger.plan_end(id, ending, WALL).expect("it was running");
        self.people[agent] = plan.instance.clone();
        self.settle(&plan.settled);
        self.ledger.commit_end(&plan, &mut Vec::new());
    }

    /// No sign of life of this one, while all others are well.
    pub(super) fn loses(&mut self, agent: usize) {
        let soon = Timestamp(WALL.0 + 1);
        for (n, other) in self.people.iter().enumerate() {
            if n != agent {
                self.ledger.seen(Principal::Instance(other.id), soon);
            }
        }
        self.ledger.lose(soon);
    }

    pub(super) fn expires(&mut self) {
        let plan = self.ledger.plan_expiry(WALL + TTL);
        self.settle(&plan.dead);
        self.ledger.commit_die(&plan);
    }

    pub(super) fn cancels(&mut self, mail: usize) {
        let target = (self.kept[mail].mailbox.clone(), self.kept[mail].delivery);
        let plan = self.ledger.plan_cancel(&[target], WALL).expect("queued mail");
        self.settle(&plan.dead);
        self.ledger.commit_die(&plan);
    }

    /// A clean stop notes what was handed out.
    pub(super) fn stops(&mut self) {
        if self.broken != Some(Promise::Clean) {
            for delivery in self.ledger.possibly_seen() {
                self.find(delivery).marked = true;
            }
        }
    }

    /// A new process finds what was committed.
    pub(super) fn loads(&mut self, limits: &Limits, clean: bool) {
        self.unflushed.clear();
        let last = self.kept.len() as u64;
        let mut loaded = Loaded {
            last_seq: last,
            last_delivery: last,
            instances: self.people.clone(),
            mailboxes: (0..).zip(self.mailboxes.iter().cloned()).collect(),
            ..Loaded::default()
        };
        self.ledger = Ledger::load(limits, &mut loaded, WALL);
        let mut backlog = Vec::new();
        for kept in self.kept.iter().filter(|kept| kept.end.is_none()) {
            let at = self.mailboxes.iter().position(|m| *m == kept.mailbox);
            let entry = Queued {
                delivery: kept.delivery,
                seq: kept.message.seq,
                message: None,
                size: u32::try_from(kept.message.body.len()).expect("a short text"),
                sender: kept.message.from.instance,
                urgent: kept.message.priority == Priority::Urgent,
                marked: kept.marked,
                leased_before: false,
                doubted: false,
                attempts: kept.attempts,
                expires_at: kept.message.expires_at,
            };
            let at = u32::try_from(at.expect("a known mailbox")).expect("few mailboxes");
            backlog.push((at, entry));
        }
        let backlog = BacklogPart::Deliveries(backlog);
        self.ledger.load_backlog(backlog, clean, WALL).expect("known mailboxes");
    }

    /// Writes an ack down.
    pub(super) fn commits(&mut self, plan: &AckPlan) {
        self.settle(&plan.settled);
        self.ledger.commit_ack(plan);
    }

    fn settle(&mut self, list: &[Settled]) {
        for settled in list {
            self.find(settled.delivery).end = Some(settled.end);
            if let (End::Acked(proof), Some(by)) = (settled.end, settled.by)
                && proof.is_weak()
            {
                self.taken.push((by, settled.seq));
            }
        }
    }

    fn find(&mut self, delivery: DeliveryNo) -> &mut Kept {
        let found = self.kept.iter_mut().find(|kept| kept.delivery == delivery);
        found.expect("a delivery that was sent")
    }

    pub(super) fn is_doubted(&self, mail: usize) -> bool {
        let kept = &self.kept[mail];
        self.ledger.open_delivery(&kept.mailbox, kept.delivery).is_some_and(|s| s.doubted)
    }

    pub(super) fn fate(&self, mail: usize) -> Fate {
        let kept = &self.kept[mail];
        match kept.end {
            Some(End::Acked(proof)) => return Fate::Acked(proof.as_str()),
            Some(End::Dead { reason, maybe_seen }) => {
                let maybe_seen = maybe_seen
                    && (self.broken != Some(Promise::Maybe) || reason == Reason::RecipientGone);
                return Fate::Dead { reason: Reason::as_str(reason), maybe_seen };
            }
            None if self.broken == Some(Promise::Commit) => {
                let told =
                    |ack: &&Unflushed| ack.plan.settled.iter().any(|s| s.delivery == kept.delivery);
                if let Some(ack) = self.unflushed.iter().find(told) {
                    return Fate::Acked(ack.proof.as_str());
                }
            }
            None => {}
        }
        match self.ledger.open_delivery(&kept.mailbox, kept.delivery) {
            None => Fate::Vanished,
            Some(open) => {
                let holder = open.by.and_then(Principal::instance);
                let by = holder.and_then(|id| self.people.iter().position(|p| p.id == id));
                match by {
                    Some(by) => Fate::Leased { by, marked: open.marked },
                    None => Fate::Queued { marked: open.marked },
                }
            }
        }
    }

    pub(super) fn number(&self, seq: Seq) -> usize {
        let found = self.kept.iter().position(|kept| kept.message.seq == seq);
        found.expect("a message that was sent")
    }
}
