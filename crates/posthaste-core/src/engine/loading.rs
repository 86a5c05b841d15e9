//! Loading the backlog after a start.
//!
//! A short backlog is loaded before the doors open. A million open deliveries are loaded
//! behind them: the hub answers and accepts at once, while everything that needs the open
//! deliveries (reads, acks, keys, history) waits until they are loaded.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;

use super::Shared;
use super::commands::set_aside;
use crate::ledger::{Ledger, NoSuchMailbox};
use crate::limits::Limits;
use crate::messaging::delivery::DeliveryNo;
use crate::ports::StoreError;
use crate::ports::store::{BacklogMark, Loaded, RowOf, UnreadableRow};
use crate::time::Timestamp;

/// The progress of the loading.
#[derive(Debug, Clone)]
pub(super) enum Known {
    NotYet,
    All,
    /// The rows cannot be read.
    Broken(StoreError),
}

/// Makes the ledger with the part of the backlog that was loaded at once.
pub(super) fn ledger(
    limits: &Limits,
    loaded: &mut Loaded,
    now: Timestamp,
) -> Result<Ledger, StoreError> {
    let mut ledger = Ledger::load(limits, loaded, now);
    for part in std::mem::take(&mut loaded.backlog) {
        ledger.load_backlog(part, loaded.clean, now).map_err(|error| broken(&error))?;
    }
    ledger.mark_reports(&deliveries(&loaded.unreadable), true);
    Ok(ledger)
}

impl Shared {
    /// Waits until the whole backlog is loaded.
    pub(super) async fn known(&self) -> Result<(), StoreError> {
        if matches!(&*self.known.borrow(), Known::All) {
            return Ok(());
        }
        let mut state: watch::Receiver<Known> = self.known.subscribe();
        let known = state.wait_for(|s| !matches!(s, Known::NotYet)).await;
        match known.as_deref() {
            Ok(Known::Broken(error)) => Err(error.clone()),
            Ok(_) => Ok(()),
            Err(_) => Err(StoreError::Closed),
        }
    }
}

/// Loads the rest of the backlog behind the doors.
pub(super) async fn run(shared: Arc<Shared>, rest: BacklogMark, clean: bool) {
    let known = read(&shared, rest, clean).await;
    if let Err(error) = &known {
        tracing::error!(%error, "what is open cannot be read; stop the hub");
        shared.healthy.store(false, Ordering::Relaxed);
    }
    shared.line.release(known.as_ref().map(drop).map_err(Clone::clone));
    match known {
        Ok(unreadable) => {
            shared.ledger.lock().mark_reports(&deliveries(&unreadable), true);
            shared.known.send_replace(Known::All);
            // The next start finds again a row that is not set aside now.
            let _ = set_aside::all(&shared, unreadable).await;
        }
        Err(error) => drop(shared.known.send_replace(Known::Broken(error))),
    }
}

async fn read(
    shared: &Shared,
    rest: BacklogMark,
    clean: bool,
) -> Result<Vec<UnreadableRow>, StoreError> {
    let mut unreadable = Vec::new();
    let mut next = Some(rest);
    while let Some(from) = next {
        let mut backlog = shared.store.backlog(from).await?;
        unreadable.append(&mut backlog.unreadable);
        let mut ledger = shared.ledger.lock();
        let loaded = ledger.load_backlog(backlog.part, clean, shared.started_at);
        loaded.map_err(|error| broken(&error))?;
        next = backlog.rest;
    }
    Ok(unreadable)
}

/// Makes the error for a missing mailbox. It is damage: the next new mailbox would get
/// the number, and with it the mail.
fn broken(error: &NoSuchMailbox) -> StoreError {
    StoreError::Damaged {
        what: error.to_string().into(),
        hint: "no new mail is accepted. Save what can still be read with `posthaste export`, see \
               `posthaste doctor`, and stop the hub"
            .into(),
    }
}

/// Returns the deliveries whose own rows cannot be read.
fn deliveries(rows: &[UnreadableRow]) -> HashSet<DeliveryNo> {
    let delivery = |row: &UnreadableRow| match row.of {
        RowOf::Delivery(delivery, _) => Some(delivery),
        RowOf::Message(_) => None,
    };
    rows.iter().filter_map(delivery).collect()
}
