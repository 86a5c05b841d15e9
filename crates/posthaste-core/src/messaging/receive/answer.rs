//! An answer: its content, and its way to the client.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::budget::{Budget, Entry, TooLarge, fit};
use super::gather::Gathered;
use crate::Hub;
use crate::address::InstanceId;
use crate::messaging::delivery::{AnswerId, DeliveryNo};
use crate::messaging::message::{Principal, Seq};
use crate::messaging::proof::Running;
use crate::ports::{Lease, Leased};
use crate::presence::Calling;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchStatus {
    /// Everything that was waited for is here.
    Complete,
    /// A part of it; the rest is `missing`, or is one-of mail that several could take.
    Partial,
    /// The time is up and nothing came.
    Empty,
    /// The wait was ended from outside, or by the client's patience: call again.
    CallAgain,
}

impl BatchStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Empty => "empty",
            Self::CallAgain => "call_again",
        }
    }

    /// Returns the status of a wait that was interrupted by what it does not take.
    pub(super) fn interrupted(self, by_others: bool) -> Self {
        match self {
            Self::Empty if by_others => Self::CallAgain,
            status => status,
        }
    }
}

/// A sender that the call waited for and that has not sent yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub instance: Option<InstanceId>,
    pub label: Option<String>,
    pub status: &'static str,
}

/// A report that an earlier answer held before the gather that waited for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Already {
    pub id: Seq,
    pub label: Option<String>,
}

/// An answer. Its mail is leased until [`Handed::written`] and a proof, or until the
/// answer is dropped unwritten.
#[derive(Debug)]
pub struct Batch {
    pub mail: Vec<Entry>,
    pub status: BatchStatus,
    pub waited: Duration,
    pub missing: Vec<Missing>,
    pub already: Vec<Already>,
    pub remaining: usize,
    pub settled: Vec<Seq>,
    pub receipt: u64,
    pub handed: Handed,
}

/// The answer on its way to the client. If it is dropped before [`Handed::written`], it
/// was not written, and its mail goes back, marked.
#[derive(Debug)]
pub struct Handed {
    hub: Arc<Hub>,
    id: AnswerId,
    auto: Option<(Principal, Vec<DeliveryNo>)>,
    done: bool,
}

impl Handed {
    /// Acks these deliveries once the answer is written.
    pub(super) fn consumes(&mut self, by: Principal, what: Vec<DeliveryNo>) {
        self.auto = Some((by, what));
    }

    /// Returns a number that is unique for each answer.
    pub fn number(&self) -> u64 {
        self.id.0
    }

    /// Returns the messages that the answer holds.
    pub fn mail(&self) -> Vec<Seq> {
        self.hub.desk.lock().mail_in(self.id)
    }

    /// Notes that the answer is an error and carries no mail.
    pub fn erred(&self) {
        self.hub.desk.lock().erred(self.id);
    }

    /// Notes that the answer does not name the ids acked by weak proof after all.
    pub fn names_nothing(&self) {
        self.hub.desk.lock().names_nothing(self.id);
    }

    /// Notes that the whole answer is in the kernel's hands.
    pub fn written(mut self) {
        self.done = true;
        self.hub.answer_written(self.id, self.auto.take());
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if !self.done {
            self.hub.answer_unwritten(self.id);
        }
    }
}

/// A call that has begun and is not answered yet. If it is dropped, its client is gone.
#[derive(Debug)]
pub struct OpenCall {
    pub(super) reader: Principal,
    pub(super) running: Running,
    pub(super) handed: Handed,
    began: Instant,
    /// Its instance is alive while the call is open.
    _calling: Calling,
}

impl OpenCall {
    pub(crate) fn reader(&self) -> Principal {
        self.reader
    }

    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    pub(super) fn new(hub: &Arc<Hub>, reader: Principal, running: Running) -> Self {
        let handed = Handed { hub: Arc::clone(hub), id: running.id, auto: None, done: false };
        let calling = Calling::new(&hub.engine, reader);
        Self { reader, running, handed, began: Instant::now(), _calling: calling }
    }
}

/// The statements about a read, before it is known how much of it fits.
pub(super) struct Judged {
    pub(super) status: BatchStatus,
    pub(super) found: Gathered,
    /// Set if the read is complete only with all that it waited for.
    pub(super) gathers: bool,
    /// Set if the client's patience ended before the time that it asked for.
    pub(super) cut_short: bool,
}

impl Hub {
    /// Makes the answer: mail that fits is in it, the rest goes back.
    pub(super) fn hand(
        &self,
        open: OpenCall,
        lease: Lease,
        budget: Budget,
        too_large: TooLarge,
        judged: Judged,
        began: Instant,
    ) -> Batch {
        let OpenCall { reader, running, mut handed, began: opened, .. } = open;
        let (id, mail, waited) = (running.id, &lease.mail, opened.elapsed());
        let told = self.at_desk(|desk, books| desk.answered(books, reader, id, mail, waited));
        let Some(told) = told else {
            // The call was ended from outside while the mail was fetched.
            handed.auto = None;
            return Batch {
                mail: Vec::new(),
                status: BatchStatus::CallAgain,
                waited: began.elapsed(),
                missing: Vec::new(),
                already: Vec::new(),
                remaining: 0,
                settled: Vec::new(),
                receipt: 0,
                handed,
            };
        };
        let Judged { mut status, found, gathers, cut_short } = judged;
        if lease.shared > 0 && status == BatchStatus::Complete {
            // A read takes one message of a mailbox that several could read.
            status = BatchStatus::Partial;
        }
        let crossed = |l: &Leased| {
            l.message.from.instance.is_some_and(|from| self.crossed(reader, from, l.message.seq))
        };
        let (mail, rest) = fit(lease.mail, budget, &self.limits, too_large, crossed);
        if !rest.is_empty() {
            self.put_back(reader, &mut handed, &rest);
            if gathers && status == BatchStatus::Complete {
                status = BatchStatus::CallAgain;
            }
        }
        if cut_short && matches!(status, BatchStatus::Empty | BatchStatus::Partial) {
            status = BatchStatus::CallAgain;
        }
        Batch {
            mail,
            status,
            waited: began.elapsed(),
            missing: found.missing,
            already: found.already,
            remaining: lease.remaining + rest.len(),
            settled: told.settled,
            receipt: told.receipt,
            handed,
        }
    }

    /// Returns deliveries that are not in the answer after all: no reader was shown them.
    fn put_back(&self, by: Principal, handed: &mut Handed, rest: &[Leased]) {
        let what: Vec<DeliveryNo> = rest.iter().map(|l| l.delivery).collect();
        if let Some((_, taken)) = &mut handed.auto {
            taken.retain(|d| !what.contains(d));
        }
        self.at_desk(|desk, books| desk.left_behind(books, by, handed.id, rest));
    }
}
