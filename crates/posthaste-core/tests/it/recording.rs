//! What the hub itself writes into a message.

use std::time::Duration;

use posthaste_core::messaging::message::Details;
use posthaste_testkit::world::World;
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn a_message_has_the_time_of_its_acceptance_and_begins_unread_and_plain() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let draft = alice.draft(&bob, "written before it is sent", Details::default());
    sleep(Duration::from_millis(1_234)).await;
    let now = world.hub.now();

    let sent = world.hub.send(draft).await.expect("accepted");

    let record = world.record(sent.seq).await.expect("kept");
    assert_eq!(record.message.created_at, now, "the hub's clock, at the moment of acceptance");
    assert_eq!(record.message.kind.as_str(), "text");
    assert_eq!(record.message.metadata, None);
    assert!(record.is_unread_by(bob.who));
    assert_eq!(record.read_at(bob.who), None);
    let utc = record.message.created_at.to_string();
    assert_eq!(utc, "2023-11-14T22:13:21.234Z");
}
