//! Senders share a flush, and whoever looks does not pass the writer.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use posthaste_core::Engine;
use posthaste_core::address::Mailbox;
use posthaste_core::messaging::delivery::AnswerId;
use posthaste_core::messaging::message::{Details, Draft, MessageRef, Principal, Via};
use posthaste_core::ports::{Bell, Filter, HistoryQuery, Queue, Take, Ticket};
use posthaste_store::Place;
use posthaste_testkit::store_suite::{HandClock, Rig, SpyQueue};
use tokio::runtime::{Builder, Runtime};

use crate::rig;

const HUMAN: Principal = Principal::Operator;
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn fifty_sends_at_once_share_a_flush_and_none_waits_for_its_turn() {
    let rig = rig::file().await;
    let boss = rig.agent("boss").await.to_string();
    let mut workers = Vec::new();
    for _ in 0..50 {
        workers.push(rig.agent("worker").await);
    }
    let before = rig.engine.figures().await.expect("figures").groups;

    let sent = join_all(workers.iter().map(|worker| rig.send(*worker, &boss, "done"))).await;

    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    let after = rig.engine.figures().await.expect("figures").groups;
    assert_eq!(after.sum - before.sum, 50);
    let flushes = after.total - before.total;
    assert!(flushes <= 2, "{flushes} flushes for fifty sends");
}

/// Holds the writer at the first ticket that it puts, until it is released.
struct Gate {
    reached: Mutex<Sender<()>>,
    /// Closed: whoever comes goes through.
    open: Mutex<Receiver<()>>,
}

impl Queue for Gate {
    fn put(&self, _: Ticket) {
        // The test may be over.
        let _ = self.reached.lock().send(());
        let _ = self.open.lock().recv();
    }

    fn listen(&self, reader: Principal, boxes: Arc<[Mailbox]>, filter: Filter) -> Box<dyn Bell> {
        SpyQueue::default().listen(reader, boxes, filter)
    }

    fn waiting(&self, _: &Mailbox, _: Principal) -> u32 {
        0
    }

    fn cleanup(&self, _: &Mailbox) {}

    fn close(&self) {}
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Everything that shows a mailbox with one message without changing it durably.
async fn looks(store: &Engine, bob: Principal) {
    let own = Mailbox::of(bob);
    let query = HistoryQuery { mailbox: Some(own.clone()), last: 9, ..HistoryQuery::default() };
    let page = store.history(query).await.expect("history");
    let [record] = &page.records[..] else { panic!("one message: {page:?}") };
    let which = MessageRef::Seq(record.message.seq);
    assert!(store.message(which).await.expect("a look").is_some());
    let open = store.open_mail(Some([own.clone()].into())).await.expect("counts");
    let kept = store.kept(None).await.expect("counts");
    assert_eq!((open[0].unread, kept.received[&own]), (1, 1));
    let summary = store.thread_summary(record.message.thread, bob).await.expect("counts");
    assert_eq!((summary.total, summary.unread), (1, 1));
    let take = Take {
        reader: bob,
        answer: AnswerId(1),
        filter: Filter::default(),
        messages: 9,
        bytes: usize::MAX,
        clips: None,
    };
    let mail = store.lease(take).await.expect("a lease").mail;
    assert_eq!(mail[0].message.body, "hello");
}

#[test]
fn whoever_looks_or_reads_does_not_wait_for_the_writer() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (reached, has_reached) = channel();
    let (release, open) = channel::<()>();
    let gate = Arc::new(Gate { reached: Mutex::new(reached), open: Mutex::new(open) });
    let place = Place::File(folder.path().to_owned());
    let (clock, limits) = (Arc::new(HandClock::default()), rig::limits());
    // The writer lives in one thread, and whoever looks in another.
    let writers = runtime();
    let (store, bob) = writers.block_on(async {
        let time = clock.clone();
        let store = posthaste_store::open(&place, rig::config(), limits.clone(), gate, time).await;
        let store = store.expect("a new store");
        let (limits, keep) = (limits.clone(), Box::new(()));
        let rig = Rig { engine: store.clone(), queue: Arc::default(), clock, limits, keep };
        (store, rig.agent("bob").await)
    });
    let to = bob.to_string().parse().expect("an address");
    let draft = Draft::new(HUMAN, to, "hello".into(), Details::default(), Via::Rest, &limits);
    let draft = draft.expect("within the limits");

    // The message is on disk, and the writer cannot go on: nothing else can be written.
    let sending = thread::spawn({
        let store = Arc::clone(&store);
        move || writers.block_on(store.append(draft))
    });
    has_reached.recv_timeout(PATIENCE).expect("the writer is held");
    let (done, is_done) = channel();
    let looking = thread::spawn(move || {
        runtime().block_on(looks(&store, bob));
        done.send(()).expect("somebody waits");
    });
    is_done.recv_timeout(PATIENCE).expect("nobody waits for the writer");
    looking.join().expect("no panic");
    assert!(!sending.is_finished(), "the writer is still held");

    drop(release);
    sending.join().expect("no panic").expect("accepted");
}
