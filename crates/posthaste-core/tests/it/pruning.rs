//! The limits as every hub has them: when settled mail goes.

use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::ports::RecordState;
use posthaste_testkit::world::World;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test(start_paused = true)]
async fn settled_mail_goes_within_a_minute_after_its_time_again_and_again() {
    let limits = Limits::default();
    assert_eq!((limits.settled_retention, limits.prune), (DAY, MINUTE), "of every hub");
    // A shorter time, so that fewer looks pass before it is over.
    let kept = 10 * MINUTE;
    let world = World::with(Limits { settled_retention: kept, ..limits });
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let _here = [world.hub.stays(alice.who), world.hub.stays(bob.who)];
    let mut unread = Vec::new();
    for round in 0..3 {
        let read = alice.sends(&bob, "read").await;
        bob.takes().await;
        unread.push(world.operator().sends(&alice, "unread").await);
        sleep(kept - SECOND).await;
        assert!(world.record(read.seq).await.is_some(), "round {round}: not yet");
        sleep(2 * SECOND + MINUTE).await;
        assert!(world.record(read.seq).await.is_none(), "round {round}: its time is over");
    }
    for sent in unread {
        assert_eq!(world.state(sent.seq).await, RecordState::Queued, "age alone removes nothing");
    }
}
