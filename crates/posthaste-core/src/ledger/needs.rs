//! Needs: which are open, who waits for them, and the verdicts that are remembered.
//!
//! The texts are on disk; the ledger has what it decides with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Ledger, Out};
use crate::Map;
use crate::address::{InstanceId, Mailbox, Name};
use crate::messaging::delivery::DeliveryNo;
use crate::messaging::message::{Kind, Message, Principal, SenderKind, Seq};
use crate::needs::{
    Asker, Closed, KnownNeed, Need, NeedId, NeedKind, Outcome, QuestionFacts, Remembered, clipped,
};
use crate::time::Timestamp;

/// The answers to a dead message.
pub(crate) const REQUEUE: &str = "requeue";
pub(crate) const DISMISS: &str = "dismiss";

/// The open needs, and what is known of closed permissions.
#[derive(Debug, Clone, Default)]
pub(super) struct Needs {
    /// The last number given.
    pub(super) last: u64,
    pub(super) open: BTreeMap<NeedId, Open>,
    questions: Map<Seq, NeedId>,
    dead: Map<DeliveryNo, NeedId>,
    /// Open needs that end with their asker.
    asked_by: Map<InstanceId, BTreeSet<NeedId>>,
    /// Requests of instances that have not ended.
    pub(super) requests: Map<InstanceId, Map<String, Request>>,
    pub(super) remembered: BTreeMap<(Name, String), Remembered>,
    /// Grows when needs are closed.
    revision: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) need: KnownNeed,
    /// The need waits for its commit.
    opening: bool,
    /// The end of the need waits for its commit.
    closing: bool,
}

/// A permission request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request {
    Open(NeedId),
    Closed(NeedId, Outcome),
}

/// The needs that one plan opens and closes, before their commit.
#[derive(Debug, Default)]
pub struct NeedsPlan {
    pub opened: Vec<Arc<Need>>,
    pub closed: Vec<(NeedId, Closed)>,
    pub remembered: Option<Remembered>,
}

impl NeedsPlan {
    pub fn is_empty(&self) -> bool {
        self.opened.is_empty() && self.closed.is_empty()
    }
}

/// A need that is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOpen;

impl Needs {
    pub(super) fn load(&mut self, need: KnownNeed) {
        match need.outcome {
            None => self.add(need, false),
            Some(outcome) => {
                if let (Some(id), Some(asked)) = (need.instance, need.asked) {
                    let requests = self.requests.entry(id).or_default();
                    requests.insert(asked.request, Request::Closed(need.id, outcome));
                }
            }
        }
    }

    pub(super) fn remember(&mut self, verdict: Remembered) {
        self.remembered.insert((verdict.profile.clone(), verdict.subject.clone()), verdict);
    }

    fn add(&mut self, need: KnownNeed, opening: bool) {
        let id = need.id;
        if let (NeedKind::Question, Some(seq)) = (need.kind, need.message) {
            self.questions.insert(seq, id);
        }
        if let Some(delivery) = need.delivery {
            self.dead.insert(delivery, id);
        }
        if let Some(asker) = need.instance.filter(|_| need.kind.ends_with_asker()) {
            self.asked_by.entry(asker).or_default().insert(id);
            if let Some(asked) = &need.asked {
                let requests = self.requests.entry(asker).or_default();
                requests.insert(asked.request.clone(), Request::Open(id));
            }
        }
        self.open.insert(id, Open { need, opening, closing: false });
    }

    /// Removes an open need; a permission leaves its outcome.
    fn remove(&mut self, id: NeedId, outcome: Option<Outcome>) {
        let Some(Open { need, .. }) = self.open.remove(&id) else { return };
        if let (NeedKind::Question, Some(seq)) = (need.kind, need.message) {
            self.questions.remove(&seq);
        }
        if let Some(delivery) = need.delivery {
            self.dead.remove(&delivery);
        }
        let Some(asker) = need.instance.filter(|_| need.kind.ends_with_asker()) else { return };
        if let Some(list) = self.asked_by.get_mut(&asker) {
            list.remove(&id);
            if list.is_empty() {
                self.asked_by.remove(&asker);
            }
        }
        if let (Some(asked), Some(requests)) = (need.asked, self.requests.get_mut(&asker)) {
            match outcome {
                Some(outcome) => requests.insert(asked.request, Request::Closed(id, outcome)),
                None => requests.remove(&asked.request),
            };
            if requests.is_empty() {
                self.requests.remove(&asker);
            }
        }
    }

    fn is_open(&self, id: NeedId) -> bool {
        self.open.get(&id).is_some_and(|open| !open.closing)
    }

    /// Returns the open needs of this asker that end with it.
    pub(super) fn of(&self, asker: InstanceId) -> impl Iterator<Item = &KnownNeed> {
        let ids = self.asked_by.get(&asker).into_iter().flatten();
        ids.filter_map(|id| self.open.get(id)).filter(|open| !open.closing).map(|open| &open.need)
    }
}

impl Ledger {
    /// Opens and closes what a new message does: a question or the report of a failure
    /// opens a need in the operator's mailbox, and a reply of the operator answers the
    /// question that it names.
    pub(super) fn needs_of_message(
        &mut self,
        message: &Message,
        to_human: bool,
    ) -> Option<Box<NeedsPlan>> {
        let opens = match () {
            () if !to_human || message.from.instance.is_none() => None,
            () if message.kind == Kind::QUESTION => Some(NeedKind::Question),
            () if message.kind == Kind::AGENT_FAILED => Some(NeedKind::Failed),
            () => None,
        };
        let answers = match (message.from.kind, message.in_reply_to) {
            (SenderKind::Human, Some(question)) => self.needs.questions.get(&question).copied(),
            _ => None,
        };
        let answers = answers.filter(|id| self.needs.is_open(*id));
        if opens.is_none() && answers.is_none() {
            return None;
        }
        let mut plan = NeedsPlan::default();
        if let Some(kind) = opens {
            let QuestionFacts { blocking, options } = match kind {
                NeedKind::Question => QuestionFacts::read(message.metadata.as_deref()),
                _ => QuestionFacts::default(),
            };
            let from = Asker {
                instance: message.from.instance,
                address: Arc::clone(&message.from.address),
            };
            self.open_need(&mut plan, |id| Need {
                blocking,
                options,
                message: Some(message.seq),
                ..Need::new(id, kind, from, message.body.as_str(), message.created_at)
            });
        }
        if let Some(id) = answers {
            let closed = Closed {
                text: Some(clipped(&message.body, self.limits.need_text_chars)),
                message: Some(message.seq),
                ..Closed::new(Outcome::Answered, message.created_at)
            };
            self.close_need(&mut plan, id, closed);
        }
        Some(Box::new(plan))
    }

    /// Opens a need for a delivery that was refused for the last time.
    pub(super) fn need_of_refused(
        &mut self,
        plan: &mut NeedsPlan,
        out: &Out,
        by: Principal,
        now: Timestamp,
    ) {
        let entry = &out.entry;
        let address = match (&entry.message, entry.sender) {
            (Some(message), _) => Arc::clone(&message.from.address),
            (None, Some(sender)) => self.known_as(Principal::Instance(sender)),
            (None, None) => self.known_as(Principal::Operator),
        };
        let (to, refused_by) =
            (self.spoken(&self.queues[out.at as usize].mailbox), self.known_as(by));
        let times = self.limits.attempts;
        let is_worker = |id: &InstanceId| self.instances.get(id).is_some_and(|i| i.work.is_some());
        let worker = by.instance().filter(is_worker);
        let why = worker.map(|id| format!("; `posthaste logs {id}` tells why"));
        let text = format!(
            "message {} to {to} was refused {times} times, the last time by {refused_by}{}",
            entry.seq,
            why.unwrap_or_default()
        );
        let from = Asker { instance: entry.sender, address };
        let (message, delivery) = (Some(entry.seq), Some(entry.delivery));
        self.open_need(plan, |id| Need {
            options: vec![REQUEUE.to_owned(), DISMISS.to_owned()],
            message,
            delivery,
            ..Need::new(id, NeedKind::Dead, from, text, now)
        });
    }

    /// Closes the needs of dead deliveries that are queued again.
    pub(super) fn close_requeued(
        &mut self,
        deliveries: impl Iterator<Item = DeliveryNo>,
        now: Timestamp,
    ) -> NeedsPlan {
        let mut plan = NeedsPlan::default();
        for delivery in deliveries {
            if let Some(id) = self.needs.dead.get(&delivery).copied() {
                self.close_need(&mut plan, id, Closed::new(Outcome::Requeued, now));
            }
        }
        plan
    }

    /// Withdraws the open questions and requests of an instance that ends.
    pub(super) fn withdraw_needs(&mut self, of: InstanceId, now: Timestamp) -> NeedsPlan {
        let mut plan = NeedsPlan::default();
        let open: Vec<NeedId> = self.needs.of(of).map(|need| need.id).collect();
        for id in open {
            self.close_need(&mut plan, id, Closed::new(Outcome::Withdrawn, now));
        }
        plan
    }

    /// Forgets the requests of an ended instance.
    pub(super) fn forget_requests(&mut self, of: InstanceId) {
        self.needs.requests.remove(&of);
    }

    /// Returns whether a question of this instance waits for the operator.
    pub(super) fn asks_operator(&self, id: InstanceId) -> bool {
        self.needs.of(id).next().is_some()
    }

    /// Plans the end of an open need. `remember` keeps a verdict for the asker's profile.
    pub fn plan_close_need(
        &mut self,
        id: NeedId,
        closed: Closed,
        remember: bool,
    ) -> Result<NeedsPlan, NotOpen> {
        let open = self.needs.open.get(&id).filter(|open| !open.closing).ok_or(NotOpen)?;
        let profile =
            open.need.instance.and_then(|id| Some(self.instances.get(&id)?.agent.clone()));
        let subject = open.need.asked.as_ref().and_then(|asked| asked.subject.clone());
        let remembered = profile.zip(subject).filter(|_| remember).map(|(profile, subject)| {
            let allow = closed.outcome == Outcome::Allowed;
            Remembered { profile, subject, allow, at: closed.at }
        });
        let mut plan = NeedsPlan { remembered, ..NeedsPlan::default() };
        self.close_need(&mut plan, id, closed);
        Ok(plan)
    }

    pub fn commit_needs(&mut self, plan: &NeedsPlan) {
        for need in &plan.opened {
            if let Some(open) = self.needs.open.get_mut(&need.id) {
                open.opening = false;
            }
        }
        for (id, closed) in &plan.closed {
            self.needs.remove(*id, Some(closed.outcome));
            self.needs.revision += 1;
        }
        if let Some(verdict) = &plan.remembered {
            self.needs.remember(verdict.clone());
        }
    }

    pub fn undo_needs(&mut self, plan: &NeedsPlan) {
        for (id, _) in plan.closed.iter().rev() {
            if let Some(open) = self.needs.open.get_mut(id) {
                open.closing = false;
            }
        }
        for need in plan.opened.iter().rev() {
            self.needs.remove(need.id, None);
            self.needs.last = need.id.0 - 1;
        }
    }

    /// Returns the open needs of this asker that end with it.
    pub fn needs_of(&self, asker: InstanceId) -> Vec<NeedId> {
        self.needs.of(asker).map(|need| need.id).collect()
    }

    /// Returns the closed permission requests of an instance that has not ended.
    pub fn closed_permissions(&self, of: InstanceId) -> Vec<NeedId> {
        let requests = self.needs.requests.get(&of).into_iter().flat_map(|all| all.values());
        let closed = requests.filter_map(|request| match request {
            Request::Closed(id, _) => Some(*id),
            Request::Open(_) => None,
        });
        closed.collect()
    }

    /// Counts the open needs.
    pub fn open_needs(&self) -> usize {
        self.needs.open.values().filter(|open| !open.opening).count()
    }

    pub fn is_need_open(&self, id: NeedId) -> bool {
        self.needs.is_open(id)
    }

    /// Returns the revision, which grows when needs are closed.
    pub fn needs_revision(&self) -> u64 {
        self.needs.revision
    }

    pub(super) fn open_need(&mut self, plan: &mut NeedsPlan, make: impl FnOnce(NeedId) -> Need) {
        self.needs.last += 1;
        let mut need = make(NeedId(self.needs.last));
        need.text = clipped(&need.text, self.limits.need_text_chars);
        self.needs.add(need.known(), true);
        plan.opened.push(Arc::new(need));
    }

    fn close_need(&mut self, plan: &mut NeedsPlan, id: NeedId, closed: Closed) {
        if let Some(open) = self.needs.open.get_mut(&id).filter(|open| !open.closing) {
            open.closing = true;
            plan.closed.push((id, closed));
        }
    }

    /// Returns the address of somebody, or the id of an instance that is forgotten.
    fn known_as(&self, who: Principal) -> Arc<str> {
        let known = who.instance().and_then(|id| self.instances.get(&id));
        known.map_or_else(|| who.to_string().into(), |i| Arc::clone(&i.address))
    }

    /// Returns a mailbox as people write its address.
    fn spoken(&self, mailbox: &Mailbox) -> String {
        match mailbox {
            Mailbox::Human => "human".to_owned(),
            Mailbox::Instance(id) => self.known_as(Principal::Instance(*id)).to_string(),
            Mailbox::Name(name) => name.to_string(),
            Mailbox::NameIn(name, team) => format!("{name}@{team}"),
            Mailbox::Anyone => "@anyone".to_owned(),
            Mailbox::AnyoneIn(team) => format!("@anyone@{team}"),
        }
    }
}
