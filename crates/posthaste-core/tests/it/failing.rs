//! A hub that has lost a task that it needs says so.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::ports::Clock;
use posthaste_core::{Hub, Limits, SystemClock, Timestamp};
use posthaste_queue::LocalQueue;
use posthaste_store::{Place, SqliteStore, StoreConfig};
use posthaste_testkit::world::World;
use tokio::time::timeout;

/// Longer than a hub waits between two sweeps.
const LONG: Duration = Duration::from_secs(600);

struct BrokenClock;

impl Clock for BrokenClock {
    fn now(&self) -> Timestamp {
        // A panic without the hook, by which fuzz tests of this process count them.
        std::panic::resume_unwind(Box::new("the clock is broken"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_whose_upkeep_has_died_says_that_it_cannot_go_on() {
    let (queue, limits) = (Arc::new(LocalQueue::new()), Limits::default());
    let (config, clock) = (StoreConfig::default(), Arc::new(SystemClock::new()));
    let store = SqliteStore::open(&Place::Memory, config, limits.clone(), queue.clone(), clock);
    let hub = Hub::start(store.expect("a store"), queue, Arc::new(BrokenClock), limits);
    let why = timeout(LONG, hub.failed()).await.expect("it looks at its clock");
    assert!(why.contains("upkeep"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_was_stopped_has_not_failed() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let world = World::at(folder.path());
    world.hub.close().await.expect("a clean stop");
    timeout(LONG, world.hub.failed()).await.expect_err("nothing has failed");
}
