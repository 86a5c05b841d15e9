//! Waiting for one report.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::Hub;
use crate::messaging::message::{Principal, Seq};
use crate::messaging::receive::Open;
use crate::ports::{Filter, StoreError};

/// How a wait for a report ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// This is the report; it waits in the mailbox, unless it was read meanwhile.
    Reported(Seq),
    /// Something came that ends every wait.
    Interrupted,
    /// Time is up, or the hub stops: the work goes on.
    TimeUp,
}

impl Hub {
    /// Waits until a task is settled. Nothing is taken: the report is ordinary mail.
    /// Questions, urgent and human mail end an agent's wait; the operator's own mail
    /// does not keep them from waiting.
    pub async fn await_report(
        self: &Arc<Self>,
        open: &Open,
        task: Seq,
        timeout: Duration,
    ) -> Result<Waited, StoreError> {
        let reader = open.reader();
        let deadline = Instant::now() + timeout;
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
            if reader != Principal::Operator
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
}
