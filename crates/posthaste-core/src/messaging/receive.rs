//! Waiting for mail: listen, look, gather, lease.
//!
//! Nothing is leased while the reader waits: a wait only counts the mail, and the lease
//! is taken when the answer is made. So a reader that goes away in mid-wait holds
//! nothing, and two readers cannot starve each other.

mod answer;
mod budget;
mod gather;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::Either;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::Hub;
use crate::messaging::delivery::{AnswerId, DeliveryNo};
use crate::messaging::message::{Principal, Seq};
use crate::messaging::proof::{Call, Door, Running, Scope};
use crate::ports::{Bell, Filter, Lease, StoreError, Survey, Take};

use self::answer::Judged;
pub use self::answer::{Already, Batch, BatchStatus, Handed, Missing, OpenCall};
pub use self::budget::{Budget, Clip, Entry, json_cost};
use self::budget::{Room, TooLarge};
use self::gather::Gathered;

/// The request of a read.
#[derive(Debug, Clone)]
pub struct Ask {
    pub reader: Principal,
    pub door: Door,
    /// The client's name for this call, if the client tells it.
    pub call: Option<String>,
    pub timeout: Duration,
    /// Time that the reader's client waits for an answer. A wait that this cuts short
    /// ends with `call_again`.
    pub patience: Duration,
    pub window: Duration,
    /// Collects through the whole window, whatever comes: each answer costs the reader a
    /// turn of its own.
    pub whole_window: bool,
    pub wait_for: WaitFor,
    pub filter: Filter,
    pub budget: Budget,
    /// Maximum number of messages.
    pub most: usize,
    /// Ack the mail once the answer is written, at the caller's own risk.
    pub auto_ack: bool,
    /// The call is a beginning of the reader.
    pub begin: bool,
    /// The receipt of an answer that the reader has.
    pub receipt: Option<u64>,
}

impl Ask {
    /// Makes a read of the mail that waits for `reader` now.
    pub fn now(reader: Principal) -> Self {
        Self {
            reader,
            door: Door::Rest,
            call: None,
            timeout: Duration::ZERO,
            patience: Duration::MAX,
            window: Duration::ZERO,
            whole_window: false,
            wait_for: WaitFor::Any,
            filter: Filter::default(),
            budget: Budget::Whole,
            most: usize::MAX,
            auto_ack: false,
            begin: false,
            receipt: None,
        }
    }
}

/// The condition that ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    Any,
    /// Reports of all in `from`; if it is empty, of all work that the reader gave out.
    All,
    /// Mail of this number of distinct senders.
    Senders(usize),
}

impl Hub {
    /// Waits for mail. Time up is an empty answer, not an error.
    // Not async: a waiting call would hold everything twice.
    pub fn receive(
        self: &Arc<Self>,
        mut ask: Ask,
    ) -> impl Future<Output = Result<Batch, StoreError>> + Send + use<> {
        match ask.receipt.take() {
            // A beginning returns unproven mail, so the proof comes first; if the ack
            // fails, its mail comes again. Boxed: it is rare.
            Some(receipt) if ask.begin => {
                let hub = Arc::clone(self);
                Either::Right(Box::pin(async move {
                    drop(hub.ack_receipt(ask.reader, receipt).await);
                    hub.open_and_receive(ask).await
                }))
            }
            Some(receipt) => {
                self.ack_receipt_beside(ask.reader, receipt);
                Either::Left(self.open_and_receive(ask))
            }
            None => Either::Left(self.open_and_receive(ask)),
        }
    }

    fn open_and_receive(
        self: &Arc<Self>,
        ask: Ask,
    ) -> impl Future<Output = Result<Batch, StoreError>> + Send + use<> {
        if ask.begin {
            self.begin(ask.reader, Scope::Door(ask.door));
        }
        let call_id = ask.call.as_deref();
        let open = self.open(ask.reader, &Call { call_id, ..Call::through(ask.door) });
        self.receive_on(open, ask)
    }

    /// Returns the time for which a read collects more after the first message, if the
    /// call does not set it.
    pub fn batch_window(&self, reader: Principal) -> Duration {
        let window = match self.is_owed(reader) {
            true => self.limits.gather_window,
            false => self.limits.default_window,
        };
        window.min(self.limits.batch_window)
    }

    /// Begins a call. Through the MCP door it is the later call that proves the answers
    /// that the same process was given before.
    pub fn open(self: &Arc<Self>, reader: Principal, call: &Call<'_>) -> OpenCall {
        OpenCall::new(self, reader, self.open_call(reader, call))
    }

    /// Makes the piggyback of another answer: the mail that a read would get, as far as
    /// it fits. Reports on the reader's assignments are left for a gather at first
    /// (`limits.report_hold`). Without a budget nothing is taken.
    pub async fn enclose(
        self: &Arc<Self>,
        open: OpenCall,
        budget: Option<Budget>,
    ) -> Result<Batch, StoreError> {
        self.enclose_of(open, budget, along(), TooLarge::Leave).await
    }

    /// Does the same for a reader that is about to finish: it will not gather any more,
    /// so reports are not left out, and at least one message comes.
    pub async fn enclose_at_stop(
        self: &Arc<Self>,
        open: OpenCall,
        budget: Option<Budget>,
    ) -> Result<Batch, StoreError> {
        let filter = Filter { holds_reports: false, ..along() };
        self.enclose_of(open, budget, filter, TooLarge::Clip).await
    }

    async fn enclose_of(
        self: &Arc<Self>,
        open: OpenCall,
        budget: Option<Budget>,
        filter: Filter,
        too_large: TooLarge,
    ) -> Result<Batch, StoreError> {
        let began = Instant::now();
        let lease = match budget {
            None => Lease::default(),
            Some(budget) => {
                let ask = Ask { filter, budget, ..Ask::now(open.reader) };
                self.engine.lease(self.take(&ask, open.running.id)).await?
            }
        };
        let status = if lease.mail.is_empty() { BatchStatus::Empty } else { BatchStatus::Complete };
        let found = Gathered::default();
        let judged = Judged { status, found, gathers: false, cut_short: false };
        Ok(self.hand(open, lease, budget.unwrap_or(Budget::Whole), too_large, judged, began))
    }

    /// Counts the mail that another answer could carry, without taking any of it.
    pub async fn glance(&self, reader: Principal) -> Result<Survey, StoreError> {
        self.engine.survey(reader, along()).await
    }

    /// Waits in a hook of an idle client for the mail of its next turn: all that waits,
    /// reports included, because the reader has stopped and gathers nothing.
    pub fn wait_while_idle(
        self: &Arc<Self>,
        open: OpenCall,
        budget: Budget,
        timeout: Duration,
    ) -> impl Future<Output = Result<Batch, StoreError>> + Send + use<> {
        let reader = open.reader;
        let window = self.batch_window(reader);
        let ask = Ask { timeout, window, whole_window: true, budget, ..Ask::now(reader) };
        self.receive_on(open, ask)
    }

    /// Waits for mail in a call that has begun.
    // Not async either: thousands wait here, and each future would hold its request
    // twice.
    pub fn receive_on(
        self: &Arc<Self>,
        mut open: OpenCall,
        ask: Ask,
    ) -> impl Future<Output = Result<Batch, StoreError>> + Send + use<> {
        if let Some(receipt) = ask.receipt {
            self.ack_receipt_beside(ask.reader, receipt);
        }
        let (hub, began) = (Arc::clone(self), Instant::now());
        async move {
            // The call waits for the assignments that are open now.
            let owed = hub.owed(&ask);
            // Before the call waits, it listens, then looks again: mail that arrives in
            // between rings the bell. Mail that is there at the first look needs no bell.
            let mut bell: Option<Box<dyn Bell>> = None;
            let deadline = began + ask.timeout.min(ask.patience);
            let mut endings = hub.endings_for(&ask);
            let (lease, status, found) = loop {
                let until = match hub.look(&ask, &owed, deadline).await? {
                    Look::WaitUntil(until) => until,
                    Look::Take { met, at_once } => {
                        let asked = hub.road.get().map(|road| (road, Instant::now()));
                        let lease = hub.engine.lease(hub.take(&ask, open.running.id)).await?;
                        if let Some((road, asked)) = asked {
                            road.leased(&lease.mail, ask.reader, asked.elapsed());
                        }
                        let over = Instant::now() >= deadline;
                        let all_here = ask.wait_for == WaitFor::All && met;
                        if !lease.mail.is_empty() || over || all_here || at_once {
                            let (status, found) = hub.judge(&ask, &owed, &lease, met);
                            let status = status.interrupted(at_once);
                            break (lease, status, found);
                        }
                        // Nothing yet, or another reader was quicker.
                        deadline
                    }
                };
                match &mut bell {
                    None => {
                        let keys = hub.engine.ledger(|l| l.keys_of(ask.reader));
                        bell = Some(hub.queue.listen(ask.reader, keys, ask.filter.clone()));
                        hub.begins_to_wait(ask.reader);
                    }
                    Some(bell) => {
                        let bell = &mut **bell;
                        let goes_on = match &mut endings {
                            None => hub.wait(bell, &open.running, until).await,
                            // Boxed: it is rare.
                            Some(endings) => {
                                let waits = hub.wait_or_end(bell, &open.running, until, endings);
                                Box::pin(waits).await
                            }
                        };
                        if !goes_on {
                            let found = Gathered::default();
                            break (Lease::default(), BatchStatus::CallAgain, found);
                        }
                    }
                }
            };

            let taken: Vec<DeliveryNo> = lease.mail.iter().map(|l| l.delivery).collect();
            if let Some(bell) = &mut bell {
                bell.answered(&taken);
            }
            if ask.auto_ack {
                open.handed.consumes(ask.reader, taken);
            }
            let gathers = ask.wait_for != WaitFor::Any;
            let cut_short = ask.patience < ask.timeout && began.elapsed() >= ask.patience;
            let judged = Judged { status, found, gathers, cut_short };
            Ok(hub.hand(open, lease, ask.budget, TooLarge::Clip, judged, began))
        }
    }

    /// Waits for the bell; `false` when the call was ended from outside.
    pub(crate) async fn wait(&self, bell: &mut dyn Bell, call: &Running, until: Instant) -> bool {
        // A lost ticket costs a sweep, never a message.
        let next_look = until.min(Instant::now() + self.limits.sweep);
        let _one_more = Waiting::new(&self.waiting);
        tokio::select! {
            biased;
            () = call.cut.cancelled() => false,
            () = self.stopping.cancelled() => false,
            () = bell.rung() => true,
            () = sleep_until(next_look) => true,
        }
    }

    /// Waits for the bell or the end of an instance, for a call that waits for instances.
    async fn wait_or_end(
        &self,
        bell: &mut dyn Bell,
        call: &Running,
        until: Instant,
        endings: &mut watch::Receiver<()>,
    ) -> bool {
        tokio::select! {
            goes_on = self.wait(bell, call, until) => goes_on,
            _ = endings.changed() => true,
        }
    }

    /// Decides whether it is time to take the mail.
    async fn look(&self, ask: &Ask, owed: &[Seq], deadline: Instant) -> Result<Look, StoreError> {
        let over = Instant::now() >= deadline;
        let plain = ask.wait_for == WaitFor::Any;
        if plain && (ask.window.is_zero() || ask.timeout.is_zero()) {
            // Nothing to weigh: the answer is the mail that is there.
            return Ok(Look::Take { met: true, at_once: false });
        }
        let survey = self.survey(ask).await?;
        let met = self.is_met(ask, owed, &survey);
        let at_once = ask.filter.leaves_human && survey.ends_wait;
        if at_once {
            return Ok(Look::Take { met, at_once });
        }
        if survey.waiting == 0 && !over && !met {
            return Ok(Look::WaitUntil(deadline));
        }
        if !plain {
            let take = met || over || survey.ends_wait;
            return Ok(match take {
                true => Look::Take { met, at_once },
                false => Look::WaitUntil(deadline),
            });
        }
        // The window starts at the first message's arrival, so a backlog does not wait.
        // The window may outlast the timeout, which was for the first message. Mail with
        // a time in the future counts as arrived.
        let (now, last) = (self.clock.now(), deadline + ask.window);
        let left = match survey.first_at {
            Some(at) if at <= now => ask.window.saturating_sub(now.since(at)),
            _ => Duration::ZERO,
        };
        // Urgent and human mail and questions do not wait for more, and no call waits
        // when all reports are here.
        let pressing = survey.ends_wait || !owed.is_empty() && self.are_settled(owed);
        let pressing = pressing && !ask.whole_window;
        let closed = left.is_zero() || Instant::now() >= last;
        if closed || pressing || survey.waiting >= self.limits.answer_messages {
            return Ok(Look::Take { met: true, at_once });
        }
        Ok(Look::WaitUntil(last.min(Instant::now() + left)))
    }

    async fn survey(&self, ask: &Ask) -> Result<Survey, StoreError> {
        self.engine.survey(ask.reader, ask.filter.clone()).await
    }

    fn take(&self, ask: &Ask, answer: AnswerId) -> Take {
        let Room { messages, bytes, clips } = ask.budget.room(&self.limits);
        let messages = messages.min(ask.most);
        Take { reader: ask.reader, answer, filter: ask.filter.clone(), messages, bytes, clips }
    }
}

/// Returns the filter for mail that other answers carry along.
fn along() -> Filter {
    Filter { holds_reports: true, ..Filter::default() }
}

/// Counts a waiting call as long as it is kept.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

enum Look {
    Take {
        met: bool,
        /// The call ends also without mail: what ended it is left to another read.
        at_once: bool,
    },
    WaitUntil(Instant),
}
