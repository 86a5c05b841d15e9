//! What is counted of a mailbox, and how old it is.

use std::time::Duration;

use posthaste_core::address::Mailbox;
use posthaste_core::messaging::message::Principal;
use posthaste_testkit::world::{Agent, World};
use tokio::time::sleep;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Total, unread, and the age of the oldest unread in seconds.
async fn counted(world: &World, of: &Agent) -> (u64, usize, u64) {
    let own = Mailbox::Instance(of.id());
    let list = world.hub.mailbox_stats(Principal::Operator).await.expect("counts");
    let stats = list.iter().find(|stats| stats.mailbox == own).expect("its mailbox");
    (stats.total, stats.unread, stats.oldest_unread.as_secs())
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_mailbox_is_that_of_its_oldest_unread_message() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let _here = [world.hub.stays(alice.who), world.hub.stays(bob.who)];
    assert_eq!(counted(&world, &bob).await, (0, 0, 0));

    alice.sends(&bob, "one").await;
    sleep(secs(90)).await;
    alice.sends(&bob, "two").await;
    sleep(secs(30)).await;
    assert_eq!(counted(&world, &bob).await, (2, 2, 120));

    let answer = bob.reads().await;
    assert_eq!(counted(&world, &bob).await, (2, 2, 120), "handed out is not read");
    alice.sends(&bob, "three").await;
    sleep(secs(5)).await;
    bob.acks(&answer).await;
    assert_eq!(counted(&world, &bob).await, (3, 1, 5), "what is left is younger");
    bob.takes().await;
    assert_eq!(counted(&world, &bob).await, (3, 0, 0), "nothing is unread");
}
