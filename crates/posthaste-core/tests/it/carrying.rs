//! The queue carries tickets: one that is lost costs time and no mail, and what belongs to
//! an instance goes with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use posthaste_core::address::Mailbox;
use posthaste_core::messaging::message::Principal;
use posthaste_core::orchestration::AgentsConfig;
use posthaste_core::ports::{Bell, Filter, Queue, RecordState, Ticket};
use posthaste_core::registry::Status;
use posthaste_core::{Hub, Limits};
use posthaste_queue::LocalQueue;
use posthaste_store::{Place, StoreConfig};
use posthaste_testkit::clock::TestClock;
use posthaste_testkit::world::World;
use tokio::time::sleep;

use crate::working::Yard;

/// A local queue that loses tickets when told to, and remembers what it was told to
/// clean up.
#[derive(Default)]
struct Unreliable {
    inner: LocalQueue,
    loses: AtomicBool,
    cleaned: Mutex<Vec<Mailbox>>,
}

impl Queue for Unreliable {
    fn put(&self, ticket: Ticket) {
        if !self.loses.load(Ordering::SeqCst) {
            self.inner.put(ticket);
        }
    }

    fn listen(
        &self,
        reader: Principal,
        mailboxes: Arc<[Mailbox]>,
        filter: Filter,
    ) -> Box<dyn Bell> {
        self.inner.listen(reader, mailboxes, filter)
    }

    fn waiting(&self, mailbox: &Mailbox, but: Principal) -> u32 {
        self.inner.waiting(mailbox, but)
    }

    fn cleanup(&self, mailbox: &Mailbox) {
        self.cleaned.lock().push(mailbox.clone());
        self.inner.cleanup(mailbox);
    }

    fn close(&self) {
        self.inner.close();
    }
}

impl Unreliable {
    /// What it was told to clean up since the last time.
    fn cleaned(&self) -> Vec<Mailbox> {
        std::mem::take(&mut self.cleaned.lock())
    }
}

fn world(queue: &Arc<Unreliable>) -> World {
    let (limits, clock) = (Limits::default(), Arc::new(TestClock::new()));
    let config = StoreConfig { wal_bytes: 0, ..StoreConfig::default() };
    let queue = Arc::clone(queue);
    let engine = posthaste_store::open(&Place::Memory, config, limits, queue, clock.clone());
    let engine = engine.now_or_never().expect("it loads at once").expect("a store");
    let hub = Hub::start(Arc::clone(&engine));
    World { hub, engine, clock }
}

#[tokio::test(start_paused = true)]
async fn a_put_that_fails_delays_the_mail_and_does_not_fail_the_send() {
    let queue = Arc::new(Unreliable::default());
    let world = world(&queue);
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    queue.loses.store(true, Ordering::SeqCst);
    for to in [bob.address.as_str(), "bob"] {
        let waiting = bob.waits(bob.ask_within(Duration::from_secs(600))).await;
        let sent = alice.sends(to, "hello").await;
        assert_eq!(world.state(sent.seq).await, RecordState::Queued, "accepted and kept");
        sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished(), "nobody rang the bell");

        let answer = waiting.await.expect("no panic");
        assert_eq!(answer.marked(), [("hello", false)]);
        assert!(answer.waited <= world.hub.limits().sweep * 2, "{:?}", answer.waited);
        bob.acks(&answer).await;
    }
    assert!(bob.reads().await.mail.is_empty(), "each came once");
}

#[tokio::test(start_paused = true)]
async fn the_queue_of_an_instance_that_is_over_is_cleaned_up() {
    let queue = Arc::new(Unreliable::default());
    let yard = Yard::with(world(&queue), AgentsConfig::default()).await;
    let hub = &yard.world.hub;

    let bob = yard.world.agent("bob").await;
    assert_eq!(queue.cleaned(), [], "everybody is here");
    hub.end(bob.id(), Status::Stopped, false).await.expect("ended");
    assert_eq!(queue.cleaned(), [Mailbox::Instance(bob.id())], "who ends");

    let worker = yard.puts_to_work(&yard.boss, "build").await;
    yard.answers(&worker, "done").await;
    assert_eq!(queue.cleaned(), [Mailbox::Instance(worker.id())], "a worker that is done");

    let carol = yard.world.agent("carol").await;
    let _here = hub.stays(yard.boss.who);
    sleep(hub.limits().away_after * 2).await;
    let gone = hub.forget_all_gone().await.expect("forgotten");
    assert_eq!(gone.iter().map(|i| i.id).collect::<Vec<_>>(), [carol.id()]);
    assert_eq!(queue.cleaned(), [Mailbox::Instance(carol.id())], "who is forgotten");
}
