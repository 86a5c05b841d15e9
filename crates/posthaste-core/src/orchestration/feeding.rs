//! Feeding mail into a running worker whose driver can take it.
//!
//! The driver reads the worker's mail like any reader, under the same lease, so a message
//! goes one way only. Writing it is no proof: it is proved when the worker answers it, or
//! ends by itself.

use std::sync::Arc;

use super::lifecycle::RETRY;
use super::line::Staff;
use crate::Hub;
use crate::address::InstanceId;
use crate::messaging::message::Principal;
use crate::messaging::proof::{Call, Door};
use crate::messaging::receive::Ask;
use crate::ports::{Filter, Letter, StoreError};

impl Hub {
    pub(super) fn feed_if_it_hears(self: &Arc<Self>, staff: &Staff, who: InstanceId) {
        if staff.launcher.hears(who) {
            self.tasks.spawn(Arc::clone(self).feed(who));
        }
    }

    /// Feeds mail until the worker ends.
    async fn feed(self: Arc<Self>, who: InstanceId) {
        let Some(staff) = self.staff.get() else { return };
        let me = Principal::Instance(who);
        let filter = Filter { quiet: true, ..Filter::default() };
        while self.lives(who) && !self.stopping.is_cancelled() {
            let timeout = self.limits.wait;
            let ask = Ask { door: Door::Driver, timeout, filter: filter.clone(), ..Ask::now(me) };
            let open = self.open(me, &Call::through(Door::Driver));
            let batch = match self.receive_on(open, ask).await {
                Ok(batch) => batch,
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::warn!(%who, %error, "a worker's mail was not read; it is tried again");
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            };
            let letters: Vec<Letter> = batch
                .mail
                .iter()
                .map(|entry| Letter {
                    message: Arc::clone(&entry.leased.message),
                    redelivered: entry.leased.redelivered,
                })
                .collect();
            if letters.is_empty() {
                continue;
            }
            if let Err(error) = staff.launcher.tell(who, &letters) {
                // The mail goes back, marked, and can be read in every other way.
                tracing::warn!(%who, %error, "a worker could not be told of its mail");
                return;
            }
            batch.handed.written();
        }
    }
}
