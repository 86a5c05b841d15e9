//! Giving an agent work and waiting for its report in the same call.
//!
//! A handoff is an assignment whose giver stays: `assign`, wait, and take the report as a
//! read would. The report is ordinary mail, so a giver that goes away loses nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Assign, AssignError, Assigned};
use crate::Hub;
use crate::messaging::message::{Kind, Message, MessageRef, Principal, Seq};
use crate::messaging::receive::{Ask, Batch, Budget, Clip, OpenCall};
use crate::ports::{Filter, StoreError};
use crate::registry::Status;

/// A request for work whose giver waits for the report.
#[derive(Debug)]
pub struct Handoff<R> {
    pub assign: Assign,
    /// Maximum wait for the report.
    pub timeout: Duration,
    /// The budget of the report in the answer.
    pub budget: Budget,
    /// The door's data of the request. Dropped once the task is stored, before the wait:
    /// a waiting call keeps nothing of its request.
    pub request: R,
}

/// The way in which a giver waits for a report.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Maximum wait for the report.
    pub timeout: Duration,
    /// The budget of the report in the answer.
    pub budget: Budget,
    /// Set for a giver whose client knows neither jobs nor receipts: no mail ends the
    /// wait, and the report is acked once the answer is written.
    pub plain: bool,
}

/// The result of a handoff.
#[derive(Debug)]
pub struct HandedOff {
    pub assigned: Assigned,
    /// The worker's status at the end of the wait.
    pub status: Status,
    pub end: HandoffEnd,
}

/// The end of a handoff.
#[derive(Debug)]
pub enum HandoffEnd {
    /// The report is in this answer, which is proven like any other. The answer holds no
    /// mail if another call of the same reader took the report first.
    Reported { report: WorkerReport, batch: Batch },
    /// The work goes on, and its report comes by mail. The call is still open.
    Job {
        /// Set if a question, urgent or human mail came first.
        interrupted: bool,
        open: OpenCall,
    },
}

/// The reason why a handoff has neither a report nor a job.
#[derive(Debug, thiserror::Error)]
pub enum HandoffError {
    /// Nobody got the work. The call is still open: its answer may carry mail.
    #[error("{error}")]
    Refused { error: Box<AssignError>, open: Box<OpenCall> },
    /// The report was read before, and is pruned.
    #[error("report {0} is kept no more")]
    ReportPruned(Seq),
    /// The work goes on.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The report of a worker, or of the hub in its place.
#[derive(Debug)]
pub struct WorkerReport {
    pub message: Arc<Message>,
    /// The part of its text that fits; `None` if all of it does.
    pub clip: Option<Clip>,
    /// A reader may have seen it before.
    pub redelivered: bool,
    /// The exit code of the worker's process, if it has ended.
    pub exit_code: Option<i32>,
}

impl WorkerReport {
    pub fn text(&self) -> &str {
        let body = &self.message.body;
        self.clip.map_or(body, |clip| &body[..clip.bytes])
    }

    /// Returns the offset of the rest of a clipped text, in characters.
    pub fn next_offset(&self) -> Option<usize> {
        self.clip.map(|clip| clip.chars)
    }

    pub fn failed(&self) -> bool {
        self.message.kind == Kind::AGENT_FAILED
    }
}

/// Keeps the drivers from the report while a call waits for it.
struct Awaited<'a> {
    hub: &'a Hub,
    task: Seq,
}

impl<'a> Awaited<'a> {
    fn new(hub: &'a Hub, task: Seq) -> Self {
        hub.engine.ledger(|l| l.begin_to_await(task));
        Self { hub, task }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.hub.engine.ledger(|l| l.end_to_await(self.task));
    }
}

/// The result of a wait for a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    /// The report has come; it waits in the mailbox, unless it was read meanwhile.
    Reported(Seq),
    /// Mail came that ends every wait.
    Interrupted,
    /// The time is up, or the call or the hub ends: the work goes on.
    TimeUp,
}

impl Hub {
    /// Gives an agent work and waits for its report in the call that is `open`.
    ///
    /// The same idempotency key waits on for the same worker. Questions, urgent and human
    /// mail end an agent's wait with a job; the operator's own mail does not keep the
    /// operator from waiting.
    pub async fn handoff<R: Send>(
        self: &Arc<Self>,
        open: OpenCall,
        handoff: Handoff<R>,
    ) -> Result<HandedOff, HandoffError> {
        let Handoff { assign, timeout, budget, request } = handoff;
        let assigned = match self.assign(assign).await {
            Ok(assigned) => assigned,
            Err(error) => {
                let (error, open) = (Box::new(error), Box::new(open));
                return Err(HandoffError::Refused { error, open });
            }
        };
        drop(request);
        self.report_on(open, assigned, Patience { timeout, budget, plain: false }).await
    }

    /// Waits for the report of work that was given out, in the call that is `open`.
    pub async fn report_on(
        self: &Arc<Self>,
        open: OpenCall,
        assigned: Assigned,
        patience: Patience,
    ) -> Result<HandedOff, HandoffError> {
        let _awaited = Awaited::new(self, assigned.task);
        let end = match self.await_report(&open, assigned.task, patience).await? {
            Waited::Reported(seq) => self.take_report(open, seq, patience).await?,
            Waited::Interrupted => HandoffEnd::Job { interrupted: true, open },
            Waited::TimeUp => HandoffEnd::Job { interrupted: false, open },
        };
        let worker = self.instance(assigned.instance.id);
        let status = worker.map_or(assigned.instance.status, |view| view.instance.status);
        Ok(HandedOff { assigned, status, end })
    }

    /// Waits until the task is settled. Leases nothing.
    async fn await_report(
        self: &Arc<Self>,
        open: &OpenCall,
        task: Seq,
        patience: Patience,
    ) -> Result<Waited, StoreError> {
        let reader = open.reader();
        let deadline = Instant::now() + patience.timeout;
        // Listen, then look.
        let filter = Filter { or_ends_wait: true, ..Filter::default() };
        let mut bell =
            self.queue.listen(reader, self.engine.ledger(|l| l.keys_of(reader)), filter.clone());
        self.begins_to_wait(reader);
        loop {
            match self.engine.ledger(|l| l.assignment(task)).map(|given| given.assignment.report) {
                Some(Some(report)) => return Ok(Waited::Reported(report.seq)),
                Some(None) => {}
                None => return Ok(Waited::TimeUp),
            }
            if !patience.plain
                && reader != Principal::Operator
                && self.engine.survey(reader, filter.clone()).await?.ends_wait
            {
                return Ok(Waited::Interrupted);
            }
            if Instant::now() >= deadline {
                return Ok(Waited::TimeUp);
            }
            let until = deadline.min(Instant::now() + self.limits.sweep);
            if !self.wait(&mut *bell, open.running(), until).await {
                return Ok(Waited::TimeUp);
            }
        }
    }

    /// Takes the report as a read would. If another call of the same reader took it
    /// first, the text is read again.
    async fn take_report(
        self: &Arc<Self>,
        open: OpenCall,
        seq: Seq,
        patience: Patience,
    ) -> Result<HandoffEnd, HandoffError> {
        let Patience { budget, plain: auto_ack, .. } = patience;
        let reader = open.reader();
        let filter = Filter { among: [seq].into(), own: true, ..Filter::default() };
        let batch =
            self.receive_on(open, Ask { filter, budget, auto_ack, ..Ask::now(reader) }).await?;
        let (message, clip, redelivered) = match batch.mail.first() {
            Some(entry) => {
                let leased = &entry.leased;
                (Arc::clone(&leased.message), entry.clip, leased.redelivered)
            }
            None => {
                let record = self.message(reader, MessageRef::Seq(seq)).await?;
                let message = record.ok_or(HandoffError::ReportPruned(seq))?.message;
                let clip = budget.clip(&message.body);
                (message, clip, true)
            }
        };
        let worker = message.from.instance.and_then(|id| self.instance(id));
        let exit_code = worker.and_then(|view| view.instance.work?.exit_code);
        let report = WorkerReport { message, clip, redelivered, exit_code };
        Ok(HandoffEnd::Reported { report, batch })
    }
}
