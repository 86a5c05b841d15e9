//! A message and its deliveries: all or nothing.

use std::sync::Arc;

use posthaste_core::address::Address;
use posthaste_core::events::EventKind;
use posthaste_core::ledger::{AppendPlan, Ledger, Planned};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::{Draft, MessageId, Principal, Priority, Seq};
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::{Appended, Queue, StoreError, Ticket};
use posthaste_core::time::Timestamp;
use rusqlite::params;
use tokio::sync::oneshot;

use super::settle::write_settled;
use super::work::write_report;
use crate::sqlite::writer::{Db, Op};

pub(crate) const MESSAGE: &str = "INSERT INTO messages (seq, id, thread, created_at, \
    first_delivery, copies, sender, sender_instance, recipient, kind, urgent, label, in_reply_to, \
    expires_at, via, idempotency_key, metadata, hop, late, body) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, \
    ?20)";

pub(crate) const DELIVERY: &str = "INSERT INTO deliveries (no, mailbox, seq, state, size, sender, \
    urgent, marked, attempts, expires_at, room) VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, 0, 0, ?7, \
    x'000000000000000000000000000000000000000000000000000000000000')";

/// What a delivery's row keeps free for its end.
pub(crate) const ROOM: usize = 30;

/// What became of a draft.
#[derive(Debug)]
pub(crate) enum Accepted {
    New(Appended),
    /// The same key was accepted before, as this message; the draft may differ.
    Before(Seq, Box<Draft>),
}

pub(crate) struct Append {
    from: Principal,
    to: Address,
    /// `None` while the plan has its words.
    draft: Option<Draft>,
    plan: Option<Box<AppendPlan>>,
    /// Accepted under the same key.
    before: Option<Seq>,
    outcome: Option<Result<Appended, SendError>>,
    tx: oneshot::Sender<Result<Accepted, SendError>>,
}

impl Append {
    pub(crate) fn new(draft: Draft, tx: oneshot::Sender<Result<Accepted, SendError>>) -> Self {
        let (from, to) = (draft.from, draft.to.clone());
        Self { from, to, draft: Some(draft), plan: None, before: None, outcome: None, tx }
    }
}

impl Op for Append {
    fn is_early(&self) -> bool {
        // Whether a key is new, and what an answer settles, must be looked up.
        self.draft.as_ref().is_some_and(|d| {
            d.details().idempotency_key.is_none() && d.details().in_reply_to.is_none()
        })
    }

    fn is_light(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        let id = MessageId(rand::random());
        let Some(draft) = self.draft.take() else { return false };
        (self.before, self.outcome) = (None, None);
        let draft = match ledger.plan_append(draft, id, now) {
            Planned::New(plan) => {
                self.plan = Some(plan);
                return true;
            }
            Planned::Duplicate(seq, draft) => {
                self.before = Some(seq);
                draft
            }
            Planned::Refused(error, draft) => {
                self.outcome = Some(Err(error));
                draft
            }
        };
        self.draft = Some(*draft);
        false
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        match &self.plan {
            Some(plan) => write_message(db, plan),
            None => Ok(()),
        }
    }

    fn commit(&mut self, ledger: &mut Ledger, tickets: &mut Vec<Ticket>) {
        if let Some(plan) = &mut self.plan {
            ledger.commit_append(plan, tickets);
            self.outcome = Some(Ok(plan.appended()));
        }
    }

    fn look(&mut self, queue: &dyn Queue) {
        if let Some(Ok(appended)) = &mut self.outcome {
            for recipient in &mut appended.recipients {
                recipient.waiting = queue.waiting(&recipient.mailbox, self.from);
            }
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Some(plan) = self.plan.take() {
            ledger.undo_append(&plan);
            // Nobody else has seen the message yet: its words become a draft again.
            let message = Arc::unwrap_or_clone(plan.message);
            self.draft = Some(Draft::again(message, self.from, self.to.clone(), plan.thread));
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let outcome = match (failure, self.before.zip(self.draft), self.outcome) {
            (Some(failure), ..) => Err(failure.into()),
            (None, Some((seq, draft)), _) => Ok(Accepted::Before(seq, Box::new(draft))),
            (None, None, Some(outcome)) => outcome.map(Accepted::New),
            (None, None, None) => Err(StoreError::Closed.into()),
        };
        // A sender that went away has its message accepted all the same.
        let _ = self.tx.send(outcome);
    }
}

/// A message with its deliveries, and what it settles.
pub(super) fn write_message(db: &mut Db<'_>, plan: &AppendPlan) -> rusqlite::Result<()> {
    let m = &*plan.message;
    for (no, mailbox) in &plan.opened {
        let opened = db.connection.execute(
            "INSERT INTO mailboxes (no, key) VALUES (?1, ?2) \
             ON CONFLICT (no) DO UPDATE SET key = excluded.key WHERE key IS NULL",
            params![no, mailbox.to_string()],
        )?;
        // A number that is somebody else's would give him this mail.
        if opened != 1 {
            return Err(rusqlite::Error::StatementChangedRows(opened));
        }
    }
    db.message.execute(params![
        m.seq.0,
        m.id.0.cast_signed(),
        m.thread.0,
        m.created_at.0,
        plan.deliveries.first().map_or(0, |(_, d)| d.0),
        plan.deliveries.len(),
        &*m.from.address,
        m.from.instance.map(|i| i.0),
        m.to,
        m.kind.as_str(),
        m.priority == Priority::Urgent,
        m.label,
        m.in_reply_to.map(|s| s.0),
        m.expires_at.map(|t| t.0),
        m.via.as_str(),
        m.idempotency_key,
        m.metadata,
        m.hop,
        m.late,
        m.body.as_str(),
    ])?;
    db.events.message(EventKind::Accepted, m.seq, DeliveryNo(0));
    for (mailbox, delivery) in &plan.deliveries {
        db.delivery.execute(params![
            delivery.0,
            mailbox,
            m.seq.0,
            m.body.len(),
            m.from.instance.map(|i| i.0),
            m.priority == Priority::Urgent,
            m.expires_at.map(|t| t.0),
        ])?;
    }
    if let Some(digest) = plan.key {
        db.keys.add(digest, m.seq, m.created_at);
    }
    if let Some(reply) = &plan.reply {
        write_settled(db, &reply.settled, reply.at)?;
    }
    match plan.settles {
        Some(task) => write_report(db, task, plan),
        None => Ok(()),
    }
}
