//! The sweep: expiry, lost instances, signs of life, pruning, lost tickets.

use std::sync::atomic::Ordering;

use super::commands::upkeep::{Chore, ChoreKind, Expire, FreeMailboxes};
use super::line::unanswered;
use super::{Engine, Shared};
use crate::address::Mailbox;
use crate::messaging::message::Principal;
use crate::ports::change::Old;
use crate::ports::store::Ages;
use crate::ports::{StoreError, Swept};
use crate::time::Timestamp;

/// Number of messages pruned in one group.
const PRUNE_STEP: usize = 1_000;

impl Engine {
    /// Does all upkeep that is due: expires, prunes, marks lost instances, writes signs
    /// of life, puts tickets of mail that waits.
    pub async fn sweep(&self) -> Result<Swept, StoreError> {
        self.shared.sweep().await
    }
}

impl Shared {
    async fn sweep(&self) -> Result<Swept, StoreError> {
        let now = self.clock.now();
        let expired = self.line.push(Expire::new).await.map_err(unanswered)??;

        let (lost, mut tickets) = {
            let mut ledger = self.ledger.lock();
            ledger.forget_rates(now);
            ledger.fade(now);
            ledger.keep_alive(now);
            let (lost, tickets) = ledger.lose(now - self.limits.lost_after);
            (lost.len(), tickets)
        };
        let waited_for = |m: &Mailbox| self.queue.waiting(m, Principal::Operator) > 0;
        tickets.extend(self.ledger.lock().waiting_tickets(waited_for));
        self.put_all(tickets);

        self.chore(ChoreKind::Signs).await?;
        let pruned = if self.is_time_to_prune(now) { self.prune(now).await? } else { 0 };
        Ok(Swept { expired, pruned, lost })
    }

    async fn chore(&self, work: ChoreKind) -> Result<(), StoreError> {
        self.line.push(|tx| Chore::new(work, tx)).await.map_err(unanswered)?
    }

    fn is_time_to_prune(&self, now: Timestamp) -> bool {
        let last = Timestamp(self.pruned_at.load(Ordering::Relaxed));
        let due = now.since(last) >= self.limits.prune;
        if due {
            self.pruned_at.store(now.0, Ordering::Relaxed);
        }
        due
    }

    /// Removes old messages, and counts them.
    async fn prune(&self, now: Timestamp) -> Result<usize, StoreError> {
        let old = |kept| Old::new(now, self.started_at, kept);
        let ages = Ages {
            acked: old(self.limits.settled_retention),
            dead: old(self.limits.dead_retention),
            events: old(self.limits.event_retention),
            needs: old(self.limits.need_retention),
        };
        let mut aged = self.store.aged(ages, PRUNE_STEP).await?;
        self.chore(ChoreKind::Forget {
            keys: old(self.limits.key_retention),
            ended: ages.dead,
            settled: ages.acked,
            events: ages.events,
            needs: ages.needs,
            is_due: aged.has_events || aged.has_needs,
        })
        .await?;
        let mut pruned = 0;
        loop {
            let found = aged.messages.len();
            if found > 0 {
                self.chore(ChoreKind::Prune(aged.messages)).await?;
            }
            pruned += found;
            if found < PRUNE_STEP {
                break;
            }
            aged = self.store.aged(ages, PRUNE_STEP).await?;
        }
        self.free_mailboxes().await?;
        Ok(pruned)
    }

    /// Frees the numbers of abandoned mailboxes that no kept delivery names.
    async fn free_mailboxes(&self) -> Result<(), StoreError> {
        let abandoned = self.ledger.lock().abandoned();
        if abandoned.is_empty() {
            return Ok(());
        }
        let free = self.store.unnamed(abandoned).await?;
        if free.is_empty() {
            return Ok(());
        }
        self.line.push(|tx| FreeMailboxes::new(free, tx)).await.map_err(unanswered)?
    }
}
