//! Stores to try.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use posthaste_core::Limits;
use posthaste_store::{OpenError, Place, StoreConfig};
use posthaste_testkit::store_suite::{HandClock, Rig, SpyQueue};

/// Small limits, so that a test can reach them.
pub(crate) fn limits() -> Limits {
    Limits { mailbox_messages: 60, window_messages: 20, ..Limits::default() }
}

/// No pre-grown log: a test writes little.
pub(crate) fn config() -> StoreConfig {
    StoreConfig { wal_bytes: 0, ..StoreConfig::default() }
}

pub(crate) async fn memory() -> Rig {
    open(&Place::Memory, config(), limits()).expect("a store in memory")
}

pub(crate) async fn file() -> Rig {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut rig = at(folder.path()).expect("a new store");
    rig.keep = Box::new(folder);
    rig
}

pub(crate) fn at(folder: &Path) -> Result<Rig, OpenError> {
    open(&Place::File(folder.to_owned()), config(), limits())
}

/// A start at which the machine's clock says that it is so much later.
pub(crate) fn later(folder: &Path, by: Duration) -> Result<Rig, OpenError> {
    let clock = HandClock::default();
    clock.advance(by);
    open_with(&Place::File(folder.to_owned()), config(), limits(), clock)
}

pub(crate) fn open(place: &Place, config: StoreConfig, limits: Limits) -> Result<Rig, OpenError> {
    open_with(place, config, limits, HandClock::default())
}

fn open_with(
    place: &Place,
    config: StoreConfig,
    limits: Limits,
    clock: HandClock,
) -> Result<Rig, OpenError> {
    let (queue, clock) = (Arc::new(SpyQueue::default()), Arc::new(clock));
    let (bell, time) = (queue.clone(), clock.clone());
    let engine = posthaste_store::open(place, config, limits.clone(), bell, time);
    let engine = engine.now_or_never().expect("it loads at once")?;
    Ok(Rig { engine, queue, clock, limits, keep: Box::new(()) })
}
