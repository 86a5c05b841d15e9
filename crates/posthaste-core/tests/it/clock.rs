//! A clock that goes back although it promises not to.

use std::time::Duration;

use posthaste_core::messaging::receive::{Ask, BatchStatus};
use posthaste_testkit::world::World;

const HOUR: Duration = Duration::from_secs(3_600);
const WINDOW: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn mail_with_a_time_in_the_future_counts_as_arrived() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    alice.sends(&bob, "from an hour ahead").await;
    world.clock.set_back(HOUR);
    let answer = bob.asks(Ask { window: WINDOW, ..bob.ask_within(TIMEOUT) }).await;
    assert_eq!(answer.texts(), ["from an hour ahead"]);
    assert_eq!(answer.waited, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_read_ends_in_its_time_although_the_clock_goes_back_all_the_while() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let waiting = bob.waits(Ask { window: WINDOW, ..bob.ask_within(TIMEOUT) }).await;
    alice.sends(&bob, "hello").await;
    // As fast as time passes, for longer than the read may take.
    let clock = std::sync::Arc::clone(&world.clock);
    let setting = tokio::spawn(async move {
        for _ in 0..10_000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            clock.set_back(Duration::from_millis(1));
        }
    });
    let answer = waiting.await.expect("no panic");
    setting.abort();
    assert_eq!((answer.status, answer.texts()), (BatchStatus::Complete, vec!["hello"]));
    assert!(answer.waited <= TIMEOUT + WINDOW, "it waited {:?}", answer.waited);
}
