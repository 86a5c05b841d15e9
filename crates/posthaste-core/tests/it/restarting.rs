//! What a restart must not lose, whatever went on at the moment of the stop.

use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::messaging::message::{Details, MessageRef, Principal, Seq};
use posthaste_core::messaging::proof::Scope;
use posthaste_core::messaging::receive::{BatchStatus, WaitFor};
use posthaste_core::ports::RecordState;
use posthaste_core::registry::Status;
use posthaste_store::Place;
use posthaste_testkit::world::{Agent, World};
use tokio::runtime::Builder;

/// One life of a hub. It ends as if killed: only what was committed remains.
fn lives<T>(folder: &Path, limits: Limits, story: impl AsyncFnOnce(&World) -> T) -> T {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let told = runtime.block_on(async {
        let world = World::open(&Place::File(folder.to_owned()), limits);
        story(&world).await
    });
    runtime.shutdown_background();
    told
}

#[test]
fn mail_that_was_accepted_while_the_hub_swept_is_there_after_a_kill() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let bob = lives(folder.path(), Limits::default(), async |world| {
        let bob = world.agent("bob").await;
        let operator = world.operator();
        // The first settled message moves the mark from which a start looks.
        operator.sends(&bob, "earlier").await;
        bob.takes().await;
        for n in 0..20 {
            let text = format!("{n}");
            let (_, swept) = tokio::join!(operator.sends(&bob, &text), world.engine.sweep());
            swept.expect("swept");
            if n < 19 {
                bob.takes().await;
            }
        }
        bob.who
    });
    lives(folder.path(), Limits::default(), async |world| {
        assert_eq!(world.knows(bob).reads().await.texts(), ["19"]);
    });
}

#[test]
fn mail_that_was_accepted_while_the_hub_stopped_is_there_after_the_start() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let bob = lives(folder.path(), Limits::default(), async |world| {
        let bob = world.agent("bob").await;
        let operator = world.operator();
        let (_, closed) = tokio::join!(operator.sends(&bob, "last words"), world.engine.close());
        closed.expect("a clean stop");
        bob.who
    });
    lives(folder.path(), Limits::default(), async |world| {
        assert_eq!(world.knows(bob).reads().await.texts(), ["last words"]);
    });
}

#[test]
fn dead_mail_that_was_queued_again_while_the_hub_swept_is_there_after_a_kill() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let bob = lives(folder.path(), Limits::default(), async |world| {
        let bob = world.agent("bob").await;
        let operator = world.operator();
        let sent = operator.sends(&bob, "once more").await;
        let which = MessageRef::Seq(sent.seq);
        world.hub.cancel(Principal::Operator, which).await.expect("cancelled");
        operator.sends(&bob, "later").await;
        bob.takes().await;
        world.engine.sweep().await.expect("swept");
        let again = world.hub.requeue(Principal::Operator, which);
        let (requeued, swept) = tokio::join!(again, world.engine.sweep());
        requeued.expect("queued again");
        swept.expect("swept");
        bob.who
    });
    lives(folder.path(), Limits::default(), async |world| {
        assert_eq!(world.knows(bob).reads().await.texts(), ["once more"]);
    });
}

#[test]
fn after_the_note_of_a_clean_stop_nothing_is_handed_out_any_more() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (bob, given) = lives(folder.path(), Limits::default(), async |world| {
        let bob = world.agent("bob").await;
        world.operator().sends(&bob, "hello").await;
        let (closed, answer) = tokio::join!(world.engine.close(), async {
            // The note is on its way to the disk.
            tokio::task::yield_now().await;
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            world.hub.receive(bob.ask()).await
        });
        closed.expect("a clean stop");
        let given = answer.map_or(0, |batch| {
            let given = batch.mail.len();
            batch.handed.written();
            given
        });
        (bob.who, given)
    });
    lives(folder.path(), Limits::default(), async |world| {
        let answer = world.knows(bob).reads().await;
        assert_eq!(answer.marked(), [("hello", given > 0)], "read twice unmarked");
    });
}

#[test]
fn a_gather_finds_labels_and_questions_of_before_the_start() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let details = |label: &str, kind: &str| Details {
        label: Some(label.into()),
        kind: kind.parse().expect("a good type"),
        ..Details::default()
    };
    let boss = lives(folder.path(), Limits::default(), async |world| {
        let (boss, worker) = (world.agent("boss").await, world.agent("worker").await);
        worker.sends_with(&boss, "done", details("tests", "result")).await;
        boss.who
    });
    let gather = |wait_for, from| {
        async move |world: &World| {
            let boss = world.knows(boss);
            // Time passes only while nobody has anything to do.
            tokio::time::pause();
            let began = tokio::time::Instant::now();
            let hour = Duration::from_secs(3600);
            let answer = boss.asks(boss.gather(hour, wait_for, from)).await;
            assert!(began.elapsed() < world.hub.limits().sweep, "it waited for what was there");
            (answer.texts().join(" "), answer.status)
        }
    };
    let found = lives(folder.path(), Limits::default(), gather(WaitFor::All, &["tests"]));
    assert_eq!(found, ("done".into(), BatchStatus::Complete));

    lives(folder.path(), Limits::default(), async |world| {
        let worker = world.agent("worker").await;
        let to = world.knows(boss);
        to.takes().await;
        worker.sends_with(&to, "which?", details("docs", "question")).await;
    });
    let found = lives(folder.path(), Limits::default(), gather(WaitFor::Senders(9), &[]));
    assert_eq!(found, ("which?".into(), BatchStatus::Partial));
}

/// A hub whose every text is on disk, and the disk is busy while `meanwhile`
/// happens to a call that waits for a text.
fn fetches<T>(meanwhile: impl AsyncFnOnce(World, Agent) -> T) -> T {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let place = Place::File(folder.path().to_owned());
    let limits = Limits { window_messages: 0, ..Limits::default() };
    // One thread for the disk: whoever occupies it keeps others waiting.
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(1).build().expect("a runtime");
    runtime.block_on(async {
        let world = World::open(&place, limits);
        let bob = world.agent("bob").await;
        world.operator().sends(&bob, "hello").await;
        meanwhile(world, bob).await
    })
}

/// Keeps the disk busy until what it returns is dropped.
fn occupies_the_disk() -> mpsc::Sender<()> {
    let (release, occupied) = mpsc::channel();
    tokio::task::spawn_blocking(move || occupied.recv());
    release
}

/// Looks once; whether there is still something to wait for.
async fn glances<F: Future + Unpin>(mut future: &mut F) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut future).poll(cx).is_pending())).await
}

#[test]
fn a_call_that_goes_away_while_its_mail_is_fetched_leaves_it_unmarked() {
    fetches(async |world, bob| {
        let disk = occupies_the_disk();
        let mut call = Box::pin(world.hub.receive(bob.ask()));
        assert!(glances(&mut call).await, "the text is on disk");
        drop(call);
        drop(disk);
        assert_eq!(bob.reads().await.marked(), [("hello", false)]);
    });
}

#[test]
fn a_call_that_is_ended_while_its_mail_is_fetched_gets_none() {
    fetches(async |world, bob| {
        let disk = occupies_the_disk();
        let mut call = Box::pin(world.hub.receive(bob.ask()));
        assert!(glances(&mut call).await, "the text is on disk");
        world.hub.begin(bob.who, Scope::All);
        drop(disk);
        let ended = call.await.expect("an answer");
        assert_eq!((ended.mail.len(), ended.status), (0, BatchStatus::CallAgain));
        assert_eq!(bob.reads().await.texts(), ["hello"]);
    });
}

#[test]
fn mail_that_is_fetched_when_its_reader_ends_dies_with_it() {
    fetches(async |world, bob| {
        let disk = occupies_the_disk();
        let mut call = Box::pin(world.hub.receive(bob.ask()));
        assert!(glances(&mut call).await, "the text is on disk");
        let hub = Arc::clone(&world.hub);
        let end = tokio::spawn(async move { hub.end(bob.id(), Status::Stopped, false).await });
        tokio::task::yield_now().await;
        drop(disk);
        let answer = call.await.expect("an answer");
        let given = answer.mail.len();
        answer.handed.written();
        end.await.expect("no panic").expect("ended");
        let dead = world.state(Seq(1)).await;
        let RecordState::Dead { maybe_seen, .. } = dead else { panic!("{dead:?}") };
        assert!(maybe_seen || given == 0);
    });
}
