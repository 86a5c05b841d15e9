//! Turns of a worker whose driver holds a conversation with it.
//!
//! The driver reads the worker's mail like any reader, under the same lease, so a message
//! goes one way only: an idle worker is prompted with all of its mail in one turn, and
//! urgent mail may be put into a running turn. Writing a prompt proves nothing. The mail
//! is proved when the worker's own output shows that the turn with it began, and what the
//! worker read by itself meanwhile is proved when its model finishes that turn.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use super::lifecycle::RETRY;
use crate::Hub;
use crate::address::InstanceId;
use crate::messaging::message::{Principal, Seq};
use crate::messaging::proof::{Call, Door};
use crate::messaging::receive::{Ask, Batch, Budget};
use crate::ports::{Filter, StoreError};
use crate::registry::RegistryError;
use crate::time::Timestamp;

/// The activity of a worker, as its driver sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnActivity {
    Starting,
    Idle,
    Busy,
    /// Its program asks the operator for permission.
    Asking,
}

impl Hub {
    /// Waits for mail for an idle worker, and takes all of it. While the hub stops it does
    /// not complete.
    pub async fn mail_for_prompt(self: &Arc<Self>, who: InstanceId) -> Batch {
        let filter = Filter { quiet: true, ..Filter::default() };
        self.wait_for_driver(who, &filter, false, self.prompt_budget()).await
    }

    /// Does the same for an assistant, whose mail is stored whole: so many bytes of it, or
    /// one message.
    pub async fn mail_to_store(self: &Arc<Self>, who: InstanceId, bytes: usize) -> Batch {
        let filter = Filter { quiet: true, ..Filter::default() };
        self.wait_for_driver(who, &filter, false, Budget::Bodies(bytes)).await
    }

    /// Waits for urgent mail for a worker in mid-turn, and takes it. Mail that the worker
    /// waits for by itself is left to that call.
    pub async fn urgent_mail(self: &Arc<Self>, who: InstanceId) -> Batch {
        let filter = Filter { quiet: true, urgent: true, ..Filter::default() };
        self.wait_for_driver(who, &filter, true, self.prompt_budget()).await
    }

    async fn wait_for_driver(
        self: &Arc<Self>,
        who: InstanceId,
        filter: &Filter,
        urgent: bool,
        budget: Budget,
    ) -> Batch {
        loop {
            while urgent && self.is_waiting(who) {
                tokio::time::sleep(LOOK).await;
            }
            let window = match urgent {
                true => Duration::ZERO,
                false => self.batch_window(Principal::Instance(who)),
            };
            match self.take_for_driver(who, filter.clone(), Some(window), budget).await {
                Ok(batch) if !batch.mail.is_empty() => return batch,
                _ if self.stopping.is_cancelled() => return pending().await,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%who, %error, "a worker's mail was not read; it is tried again");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Takes mail that the driver was given before the hub started anew.
    pub async fn mail_again(
        self: &Arc<Self>,
        who: InstanceId,
        seqs: &[Seq],
    ) -> Result<Batch, StoreError> {
        let filter = Filter { quiet: true, among: seqs.into(), ..Filter::default() };
        self.take_for_driver(who, filter, None, Budget::Whole).await
    }

    fn prompt_budget(&self) -> Budget {
        let chars = self.staff.get().map_or(usize::MAX, |staff| staff.config.prompt_chars);
        Budget::Chars(chars)
    }

    /// Takes mail for a worker, or waits for it with this window.
    pub(super) async fn take_for_driver(
        self: &Arc<Self>,
        who: InstanceId,
        filter: Filter,
        waits: Option<Duration>,
        budget: Budget,
    ) -> Result<Batch, StoreError> {
        let me = Principal::Instance(who);
        let ask = Ask { door: Door::Driver, filter, budget, ..Ask::now(me) };
        let ask = match waits {
            Some(window) => Ask { timeout: self.limits.wait, window, ..ask },
            None => ask,
        };
        let open = self.open(me, &Call::through(Door::Driver));
        match self.receive_on(open, ask).await {
            // The stop ended the wait, and would end the next one at once.
            Ok(batch) if waits.is_some() && batch.mail.is_empty() && self.is_stopping() => {
                std::future::pending().await
            }
            Err(StoreError::Closed) => std::future::pending().await,
            Err(error) => {
                tokio::time::sleep(RETRY).await;
                Err(error)
            }
            taken => taken,
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Notes that the worker's own output shows that its model was given these messages.
    pub async fn turn_began(&self, who: InstanceId, seqs: Vec<Seq>) {
        let me = Principal::Instance(who);
        self.seen(me);
        while let Err(error) = self.ack_by_turn(me, seqs.clone()).await {
            if matches!(error, StoreError::Closed) || self.tasks.is_closed() {
                return;
            }
            tracing::warn!(%who, %error, "mail of a prompt was not acked; it is tried again");
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Notes that the worker's model finished its turn with this answer: what it read
    /// meanwhile has arrived, and its open assignments are settled, except those whose
    /// task it has not had: those that wait in its mailbox, and those in `unseen`. An
    /// assignment that the worker reported on itself is settled already.
    pub async fn turn_ended(self: &Arc<Self>, who: InstanceId, answer: String, unseen: Vec<Seq>) {
        let me = Principal::Instance(who);
        self.seen(me);
        self.at_desk(|desk, books| desk.turn_ended(books, me));
        let answer = match answer.trim().is_empty() {
            true => super::SAID_NOTHING.to_owned(),
            false => answer,
        };
        let place = self.worktree_of(who).unwrap_or_default();
        let most = self.limits.body_bytes.saturating_sub(place.len());
        let answer = super::lifecycle::clip(answer, most) + &place;
        loop {
            match self.engine.report(who, answer.clone(), unseen.clone()).await {
                Ok(_) | Err(RegistryError::Ended(_) | RegistryError::NotFound { .. }) => break,
                Err(error) if !self.tasks.is_closed() => {
                    tracing::warn!(%who, %error, "a report was not kept; it is tried again");
                    tokio::time::sleep(RETRY).await;
                }
                Err(_) => return,
            }
        }
        if let Some(staff) = self.staff.get() {
            staff.line_moves();
        }
    }

    /// Returns the last line of a report by a worker that has a worktree of its own.
    fn worktree_of(&self, who: InstanceId) -> Option<String> {
        let work = self.instance(who)?.instance.work?;
        let (branch, directory) = (work.branch.as_deref()?, work.directory.as_deref()?);
        Some(format!("\n[its worktree is {directory}, on the branch {branch}]"))
    }

    /// Notes that the worker did not take these messages: each counts as refused.
    pub async fn mail_refused(&self, who: InstanceId, seqs: Vec<Seq>) {
        if let Err(error) = self.nack_messages(Principal::Instance(who), seqs).await {
            tracing::warn!(%who, %error, "a refusal was not kept");
        }
    }

    /// Notes the activity of a worker, for those who look; `None` when it has ended.
    pub fn note_activity(&self, who: InstanceId, activity: Option<TurnActivity>) {
        let Some(staff) = self.staff.get() else { return };
        let now = self.clock.now();
        let mut all = staff.activities.lock();
        match activity {
            Some(activity) => {
                let known = all.entry(who).or_insert((activity, now));
                if known.0 != activity {
                    *known = (activity, now);
                }
            }
            None => drop(all.remove(&who)),
        }
    }

    /// Returns the activity of a worker, if its driver tells.
    pub fn turn_activity(&self, who: InstanceId) -> Option<TurnActivity> {
        self.staff.get()?.activities.lock().get(&who).map(|(activity, _)| *activity)
    }

    /// Returns when the last turn of a worker ended, if it is between two turns.
    pub(crate) fn idle_since(&self, who: InstanceId) -> Option<Timestamp> {
        let activity = self.staff.get()?.activities.lock().get(&who).copied();
        activity.filter(|(activity, _)| *activity == TurnActivity::Idle).map(|(_, since)| since)
    }
}

/// Time between two looks for urgent mail of a worker that waits for mail by itself.
const LOOK: Duration = Duration::from_millis(100);
