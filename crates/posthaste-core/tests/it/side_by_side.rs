//! Readers do not wait for each other.

use std::sync::mpsc;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_store::Place;
use posthaste_testkit::world::World;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A runtime with one thread for the disk: whoever occupies it keeps others waiting.
fn with_a_slow_disk<T>(story: impl Future<Output = T>) -> T {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(1).build().expect("a runtime");
    let told = runtime.block_on(story);
    runtime.shutdown_background();
    told
}

#[test]
fn a_reader_whose_mail_is_on_disk_does_not_hold_up_another() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let place = Place::File(folder.path().to_owned());
    // Of each mailbox one text is in memory.
    let limits = Limits { window_messages: 1, ..Limits::default() };
    with_a_slow_disk(async {
        let world = World::open(&place, limits);
        let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
        for text in ["one", "two"] {
            world.operator().sends(&alice, text).await;
        }
        world.operator().sends(&bob, "in memory").await;
        let (release, occupied) = mpsc::channel::<()>();
        let disk = tokio::task::spawn_blocking(move || occupied.recv());

        let slow = alice.waits(alice.ask()).await;
        let quick = timeout(PATIENCE, bob.reads()).await.expect("bob does not wait for alice");
        assert_eq!(quick.texts(), ["in memory"]);
        assert!(!slow.is_finished(), "her second text is on disk");

        drop(release);
        disk.await.expect("no panic").expect_err("released");
        assert_eq!(slow.await.expect("no panic").texts(), ["one", "two"]);
    });
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_waits_or_does_not_take_its_answer_does_not_hold_up_another() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let waits = alice.waits(alice.ask_within(PATIENCE)).await;
    let carol = world.agent("carol").await;
    world.operator().sends(&carol, "for carol").await;
    // Her answer is made and on its way, for as long as this is kept.
    let unwritten = carol.receives(carol.ask()).await;

    world.operator().sends(&bob, "for bob").await;
    assert_eq!(bob.takes().await.texts(), ["for bob"]);
    assert!(!waits.is_finished());
    assert_eq!(unwritten.written().texts(), ["for carol"]);
    world.operator().sends(&alice, "for alice").await;
    assert_eq!(waits.await.expect("no panic").texts(), ["for alice"]);
}
