//! A hub that has lost a task that it needs says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_core::ports::Clock;
use posthaste_core::{Hub, Limits, Timestamp};
use posthaste_queue::LocalQueue;
use posthaste_store::{Place, StoreConfig};
use posthaste_testkit::world::World;
use tokio::time::timeout;

/// Longer than a hub waits between two sweeps.
const LONG: Duration = Duration::from_secs(600);

/// Goes until it is broken.
#[derive(Default)]
struct FragileClock {
    broken: AtomicBool,
}

impl Clock for FragileClock {
    fn now(&self) -> Timestamp {
        if self.broken.load(Ordering::SeqCst) {
            // A panic without the hook, by which fuzz tests of this process count them.
            std::panic::resume_unwind(Box::new("the clock is broken"));
        }
        Timestamp(1_700_000_000_000)
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_whose_upkeep_has_died_says_that_it_cannot_go_on() {
    let (queue, limits) = (Arc::new(LocalQueue::new()), Limits::default());
    let (config, clock) = (StoreConfig::default(), Arc::new(FragileClock::default()));
    let engine = posthaste_store::open(&Place::Memory, config, limits, queue, clock.clone()).await;
    let hub = Hub::start(engine.expect("a store"));
    clock.broken.store(true, Ordering::SeqCst);
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
