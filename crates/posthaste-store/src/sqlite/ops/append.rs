//! A message and its deliveries: all or nothing.

use posthaste_core::ledger::{AppendPlan, Ledger, Planned};
use posthaste_core::messaging::message::{Draft, MessageId, Priority, Seq};
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::{Appended, Queue, StoreError, Ticket};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::settle::write_settled;
use crate::sqlite::writer::Op;

/// What became of a draft.
#[derive(Debug)]
pub(crate) enum Accepted {
    New(Appended),
    /// The same key was accepted before, as this message.
    Before(Seq),
}

pub(crate) struct Append {
    draft: Draft,
    plan: Option<Box<AppendPlan>>,
    outcome: Option<Result<Accepted, SendError>>,
    tx: oneshot::Sender<Result<Accepted, SendError>>,
}

impl Append {
    pub(crate) fn new(draft: Draft, tx: oneshot::Sender<Result<Accepted, SendError>>) -> Self {
        Self { draft, plan: None, outcome: None, tx }
    }
}

impl Op for Append {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        let id = MessageId(rand::random());
        match ledger.plan_append(self.draft.clone(), id, now) {
            Ok(Planned::New(plan)) => {
                self.plan = Some(plan);
                return true;
            }
            Ok(Planned::Duplicate(seq)) => self.outcome = Some(Ok(Accepted::Before(seq))),
            Err(error) => self.outcome = Some(Err(error)),
        }
        false
    }

    fn write(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let Some(plan) = &self.plan else { return Ok(()) };
        let m = &*plan.message;
        for (no, mailbox) in &plan.opened {
            db.prepare_cached("INSERT INTO mailboxes (no, key) VALUES (?1, ?2)")?
                .execute(params![no, mailbox.to_string()])?;
        }
        db.prepare_cached(
            "INSERT INTO messages (seq, id, thread, created_at, first_delivery, copies, sender, \
             sender_instance, recipient, kind, urgent, label, in_reply_to, expires_at, via, \
             idempotency_key, metadata, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        )?
        .execute(params![
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
            m.body,
        ])?;
        let mut insert = db.prepare_cached(
            "INSERT INTO deliveries (no, mailbox, seq, state, size, sender, urgent, marked, attempts, expires_at) \
             VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, 0, 0, ?7)",
        )?;
        for (mailbox, delivery) in &plan.deliveries {
            insert.execute(params![
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
            db.prepare_cached("INSERT INTO keys (key, body, seq, at) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![
                    digest.key.to_be_bytes(),
                    digest.body.cast_signed(),
                    m.seq.0,
                    m.created_at.0
                ])?;
        }
        if let Some(reply) = &plan.reply {
            write_settled(db, &reply.settled, reply.at)?;
        }
        Ok(())
    }

    fn commit(&mut self, ledger: &mut Ledger, tickets: &mut Vec<Ticket>) {
        if let Some(plan) = &mut self.plan {
            ledger.commit_append(plan, tickets);
            self.outcome = Some(Ok(Accepted::New(plan.appended())));
        }
    }

    fn look(&mut self, queue: &dyn Queue) {
        if let Some(Ok(Accepted::New(appended))) = &mut self.outcome {
            for recipient in &mut appended.recipients {
                recipient.waiting = queue.waiting(&recipient.mailbox, self.draft.from);
            }
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Some(plan) = self.plan.take() {
            ledger.undo_append(&plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let failed = failure.unwrap_or(StoreError::Closed);
        let outcome = self.outcome.unwrap_or(Err(failed.into()));
        // A sender that went away has its message accepted all the same.
        let _ = self.tx.send(outcome);
    }
}
