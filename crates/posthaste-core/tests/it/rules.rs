//! Each rule of delivery by the shortest story that goes wrong without it.
//!
//! The rules are told in `messaging::proof`; the model test walks everything that
//! lies between these stories. `clean` and `commit` are promises of the store and
//! tested with a real one.

use std::sync::mpsc;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::messaging::clients::Client;
use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::proof::{Call, Door, Moment, Process, Running, Scope};
use posthaste_core::ports::RecordState;
use posthaste_store::Place;
use posthaste_testkit::world::World;
use tokio::runtime::Builder;

use crate::model::post::{Fate, Given, Post};

mod hooks;
mod own;

use hooks::{CHECK_INBOX, after};

const HELD: Fate = Fate::Leased { by: 0, marked: false };
const HELD_AGAIN: Fate = Fate::Leased { by: 0, marked: true };
const BACK: Fate = Fate::Queued { marked: true };
const AS_IT_WAS: Fate = Fate::Queued { marked: false };
const TAKEN: Fate = Fate::Acked("next_call");

/// So long after its call Codex may have given up.
const AT_THE_EDGE: Duration = Duration::from_secs(297);

/// The one message, as it came the first time.
fn first() -> Given {
    Given { mail: vec![(0, false)], settled: vec![] }
}

/// One agent and one message for it.
fn one_message() -> Post {
    Post::new(1, 1, false, false)
}

/// A program with a hard limit calls `check_inbox`.
fn opens_as_codex(post: &mut Post) -> Running {
    let through = Call::through(Door::Mcp);
    let client = Client::called("codex");
    let call = Call { client, call_id: Some("1"), tool: "check_inbox", ..through };
    post.opens_call(0, &call, 1)
}

/// Two seconds pass, and a moment more.
fn waits_out_the_grace(post: &mut Post) {
    let until = post.now() + Limits::default().proof_grace + Duration::from_millis(1);
    post.pass(until);
}

fn waits_a_little(post: &mut Post) {
    let until = post.now() + Limits::default().proof_grace - Duration::from_millis(1);
    post.pass(until);
}

#[test]
fn return_gives_the_mail_of_an_unwritten_answer_back_at_once_and_marked() {
    let mut post = one_message();
    let call = post.opens(0, "1", 1);
    assert_eq!(post.answers(0, &call), first());

    post.unwritten(&call);

    assert_eq!(post.fate(0), BACK);
}

#[test]
fn late_an_answer_at_the_edge_of_patience_goes_back_at_the_next_call() {
    let mut post = one_message();
    let call = opens_as_codex(&mut post);
    assert_eq!(post.answers_after(0, &call, AT_THE_EDGE), first());
    post.written(&call);
    assert_eq!(post.fate(0), HELD, "nothing is known yet");

    let next = post.opens(0, "2", 2);

    assert_eq!(post.answers(0, &next).mail, [(0, true)]);
}

#[test]
fn late_an_answer_at_the_edge_of_patience_is_proved_neither_by_a_stop_nor_by_an_end() {
    let late = || {
        let mut post = one_message();
        let call = opens_as_codex(&mut post);
        post.answers_after(0, &call, AT_THE_EDGE);
        post.written(&call);
        post
    };
    let mut post = late();
    post.hook(0, &after(CHECK_INBOX));
    post.hooks(0, Moment::Stop);
    assert_eq!(post.fate(0), BACK);

    let mut post = late();
    post.ends(0, true);
    let gone = Fate::Dead { reason: "recipient_gone", maybe_seen: true };
    assert_eq!(post.fate(0), gone);
}

#[test]
fn return_an_answer_that_is_forgotten_because_there_are_many_gives_its_mail_back() {
    let mut post = Post::forgetful(0, 2);
    for receipt in 1..=25 {
        post.arrives();
        let name = receipt.to_string();
        assert!(!next_answer(&mut post, &name, receipt).mail.is_empty());
    }
    post.begins(0, Scope::All);
    for mail in 0..25 {
        assert_eq!(post.fate(mail), BACK, "message {mail}");
    }
}

#[test]
fn return_at_a_beginning_reaches_leases_of_long_ago() {
    let mut post = Post::forgetful(0, 2);
    for receipt in 1..=9 {
        post.arrives();
        let name = receipt.to_string();
        assert_eq!(next_answer(&mut post, &name, receipt).mail.len(), 1);
    }
    post.begins(0, Scope::All);
    for mail in 0..9 {
        assert_eq!(post.fate(mail), BACK, "message {mail}");
    }
}

#[test]
fn of_answers_that_are_settled_the_hub_remembers_the_last_few() {
    let mut post = Post::new(1, 0, false, false);
    for receipt in 1..=200 {
        post.arrives();
        let name = receipt.to_string();
        assert_eq!(next_answer(&mut post, &name, receipt).mail.len(), 1);
        waits_out_the_grace(&mut post);
    }
    assert_eq!(post.fate(0), TAKEN);
    // The last two are not proven yet.
    let most = Limits::default().settled_answers + 2;
    assert!((3..=most).contains(&post.remembered(0)), "{} answers", post.remembered(0));
}

#[test]
fn return_what_was_cancelled_while_its_ack_could_not_be_written() {
    let mut post = Post::new(1, 1, false, true);
    next_answer(&mut post, "1", 1);
    post.opens(0, "2", 2);
    waits_out_the_grace(&mut post);
    post.cancelled(0, "1");
    assert!(!post.is_flushed());
    post.fails_to_flush();
    assert_eq!(post.fate(0), BACK);
}

#[test]
fn return_what_was_cancelled_while_its_reply_could_not_be_written() {
    let mut post = Post::new(1, 1, false, true);
    next_answer(&mut post, "1", 1);
    post.replies(0, 0);
    post.cancelled(0, "1");
    assert!(!post.is_flushed());
    post.fails_to_flush();
    assert_eq!(post.fate(0), BACK);
    assert_eq!(next_answer(&mut post, "2", 2).mail, [(0, true)]);
}

#[test]
fn return_reaches_what_a_receipt_came_too_late_to_settle() {
    let mut post = Post::new(1, 1, false, true);
    next_answer(&mut post, "1", 1);
    post.replies(0, 0);
    post.receipt(0, 1);
    post.fails_to_flush();
    assert_eq!(post.fate(0), HELD, "neither of them was kept");
    post.begins(0, Scope::All);
    assert_eq!(post.fate(0), BACK);
}

#[test]
fn return_reaches_what_a_refusal_came_too_late_for() {
    let mut post = Post::new(1, 1, false, true);
    next_answer(&mut post, "1", 1);
    post.replies(0, 0);
    post.nack(0, 1);
    post.fails_to_flush();
    assert_eq!(post.fate(0), HELD, "neither of them was kept");
    post.begins(0, Scope::All);
    assert_eq!(post.fate(0), BACK);
}

#[test]
fn grace_lets_a_cancel_overtake_the_next_call_for_two_seconds() {
    let mut post = one_message();
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);

    post.opens(0, "2", 2);
    waits_a_little(&mut post);
    assert_eq!(post.fate(0), HELD, "a later call alone proves nothing yet");
    post.cancelled(0, "1");

    assert_eq!(post.fate(0), BACK);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), BACK, "what was cancelled is not proved by waiting");
}

#[test]
fn grace_over_the_next_call_proves_the_answer_before_it() {
    let mut post = one_message();
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);
    post.opens(0, "2", 2);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), TAKEN);
}

#[test]
fn grace_over_the_next_call_proves_what_an_earlier_one_came_too_soon_for() {
    let mut post = Post::new(1, 1, false, true);
    next_answer(&mut post, "1", 1);
    post.replies(0, 0);
    post.opens(0, "2", 2);
    waits_out_the_grace(&mut post);
    post.fails_to_flush();
    assert_eq!(post.fate(0), HELD, "the reply was settling it, and was not kept");
    post.opens(0, "3", 3);
    waits_out_the_grace(&mut post);
    post.flush();
    assert_eq!(post.fate(0), TAKEN);
}

#[test]
fn again_a_repeated_call_is_no_later_call_and_makes_the_first_suspicious() {
    let mut post = one_message();
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);

    let repeat = post.opens(0, "1", 2);
    assert_eq!(post.fate(0), BACK);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), BACK);

    assert_eq!(post.answers(0, &repeat).mail, [(0, true)]);
}

#[test]
fn again_a_call_that_is_repeated_while_it_waits_ends_without_mail() {
    let mut post = one_message();
    let first = post.opens(0, "1", 1);
    let repeat = post.opens(0, "1", 2);

    assert!(first.cut.is_cancelled(), "nobody listens to it any more");
    assert_eq!(post.answers(0, &first), Given::default());
    post.written(&first);

    assert_eq!(post.answers(0, &repeat).mail.len(), 1);
    post.written(&repeat);
    post.opens(0, "2", 3);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), TAKEN);
}

#[test]
fn again_the_numbers_of_a_new_process_repeat_nothing() {
    let mut post = one_message();
    for (name, receipt) in [("1", 1), ("2", 2)] {
        assert_eq!(next_answer(&mut post, name, receipt).mail.len(), 1);
        post.nack(0, receipt);
    }
    post.begins(0, Scope::All);

    assert_eq!(next_answer(&mut post, "1", 3).mail.len(), 1);
    assert_eq!(next_answer(&mut post, "2", 4).mail.len(), 0);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), TAKEN, "the newcomer's second call was its own, not an old one again");
}

#[test]
fn driver_an_interrupt_by_the_hub_makes_the_running_calls_suspicious() {
    let mut post = one_message();
    let written = post.opens(0, "1", 1);
    post.answers(0, &written);
    post.written(&written);
    let waiting = post.opens(0, "2", 2);

    post.interrupted(0);

    assert_eq!(post.fate(0), BACK);
    assert!(waiting.cut.is_cancelled());
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), BACK);
}

#[test]
fn doubt_comes_once_per_delivery_or_a_client_that_always_cancels_reads_for_ever() {
    let mut post = one_message();
    let first = post.opens(0, "1", 1);
    post.answers(0, &first);
    post.written(&first);
    post.cancelled(0, "1");
    assert_eq!(post.fate(0), BACK, "the first cancel may mean that it was dropped");

    let second = post.opens(0, "2", 2);
    post.answers(0, &second);
    post.written(&second);
    post.cancelled(0, "2");
    assert_eq!(post.fate(0), HELD_AGAIN, "the second is this client's habit");

    post.opens(0, "3", 3);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), TAKEN);
}

#[test]
fn cut_a_beginning_ends_the_open_calls_of_the_readers_before_it() {
    let mut post = one_message();
    let old = post.opens(0, "1", 1);

    post.begins(0, Scope::All);

    assert!(old.cut.is_cancelled());
    assert_eq!(post.answers(0, &old), Given::default(), "no mail for a reader that is gone");
    let new = post.opens(0, "1", 2);
    assert_eq!(post.answers(0, &new).mail.len(), 1);
}

#[test]
fn cut_a_call_that_was_ended_while_its_mail_was_fetched_gives_it_back() {
    let mut post = one_message();
    let old = post.opens(0, "1", 1);
    let fetched = post.leases(0, &old);
    assert_eq!(post.fate(0), HELD);

    post.begins(0, Scope::All);
    assert_eq!(post.gives(0, &old, fetched, Duration::ZERO), Given::default());

    assert_eq!(post.fate(0), AS_IT_WAS, "nobody was shown it");
}

/// A message that was taken as received though its reader died with it.
fn taken_but_never_read() -> Post {
    let mut post = one_message();
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);
    let parallel = post.opens(0, "2", 2);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), TAKEN);
    // The client crashed before its model saw anything.
    post.unwritten(&parallel);
    post.begins(0, Scope::All);
    post
}

/// The next call's answer; it is written.
fn next_answer(post: &mut Post, name: &str, receipt: u64) -> Given {
    let call = post.opens(0, name, receipt);
    let given = post.answers(0, &call);
    post.written(&call);
    given
}

#[test]
fn settled_ids_are_named_in_each_answer_until_one_is_proven() {
    let mut post = taken_but_never_read();
    assert_eq!(next_answer(&mut post, "3", 3).settled, [0]);
    assert_eq!(next_answer(&mut post, "4", 4).settled, [0], "the answer before is not proven yet");
    waits_out_the_grace(&mut post);
    assert_eq!(next_answer(&mut post, "5", 5).settled, [0; 0]);
}

#[test]
fn settled_starts_over_with_a_beginning() {
    let mut post = taken_but_never_read();
    next_answer(&mut post, "3", 3);
    post.opens(0, "4", 4);
    waits_out_the_grace(&mut post);
    post.begins(0, Scope::All);
    assert_eq!(next_answer(&mut post, "5", 5).settled, [0]);
}

#[test]
fn settled_starts_over_when_the_answer_that_named_it_is_cancelled() {
    let mut post = taken_but_never_read();
    next_answer(&mut post, "3", 3);
    post.opens(0, "4", 4);
    waits_out_the_grace(&mut post);
    post.cancelled(0, "3");
    assert_eq!(next_answer(&mut post, "5", 5).settled, [0]);
}

#[test]
fn settled_starts_over_when_the_driver_interrupts_the_answer_that_named_it() {
    let mut post = taken_but_never_read();
    next_answer(&mut post, "3", 3);
    post.opens(0, "4", 4);
    waits_out_the_grace(&mut post);
    post.interrupted(0);
    assert_eq!(next_answer(&mut post, "5", 5).settled, [0]);
}

#[test]
fn settled_starts_over_with_a_hub_start() {
    let mut post = taken_but_never_read();
    next_answer(&mut post, "3", 3);
    post.opens(0, "4", 4);
    waits_out_the_grace(&mut post);
    post.restarts(true);
    assert_eq!(next_answer(&mut post, "5", 5).settled, [0]);
}

#[test]
fn settled_names_what_was_cancelled_while_its_ack_was_written() {
    let mut post = Post::new(1, 1, false, true);
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);
    post.opens(0, "2", 2);
    waits_out_the_grace(&mut post);
    assert!(!post.is_flushed());
    post.cancelled(0, "1");
    post.flush();
    assert_eq!(post.fate(0), TAKEN, "an ack is final");
    assert_eq!(next_answer(&mut post, "3", 3).settled, [0]);
}

#[test]
fn commit_nobody_is_told_acked_before_it_is_flushed() {
    let mut post = Post::new(1, 1, false, true);
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);
    post.opens(0, "2", 2);
    waits_out_the_grace(&mut post);

    assert_eq!(post.fate(0), HELD);
    assert_eq!(next_answer(&mut post, "3", 3), Given::default());
    post.restarts(false);

    assert_eq!(post.fate(0), BACK, "the kill came before the flush");
    assert_eq!(next_answer(&mut post, "4", 4).settled, [0; 0]);
}

#[test]
fn maybe_dead_mail_says_whether_it_may_have_been_seen() {
    let mut post = one_message();
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);
    post.nack(0, 1);
    assert_eq!(post.fate(0), BACK);
    post.expires();
    assert_eq!(post.fate(0), Fate::Dead { reason: "expired", maybe_seen: true });

    let mut untouched = one_message();
    untouched.cancels_mail(0);
    assert_eq!(untouched.fate(0), Fate::Dead { reason: "cancelled", maybe_seen: false });

    // After a kill nobody can tell.
    let mut killed = one_message();
    killed.restarts(false);
    killed.cancels_mail(0);
    assert_eq!(killed.fate(0), Fate::Dead { reason: "cancelled", maybe_seen: true });
}

#[test]
fn fence_a_nack_acts_on_the_callers_own_lease_only() {
    let mut post = Post::new(2, 1, true, false);
    let slow = post.opens(0, "1", 1);
    let quick = post.opens(1, "1", 2);
    post.answers(0, &slow);
    post.written(&slow);
    post.loses(0);
    assert_eq!(post.fate(0), BACK);
    post.answers(1, &quick);
    post.written(&quick);

    post.nack(0, 1);

    assert_eq!(post.fate(0), Fate::Leased { by: 1, marked: true });
}

#[test]
fn fence_a_stale_answer_neither_refuses_nor_proves_what_a_later_one_holds() {
    let mut post = one_message();
    let first = post.opens(0, "1", 1);
    post.answers(0, &first);
    post.written(&first);
    post.nack(0, 1);
    let second = post.opens(0, "2", 2);
    post.answers(0, &second);

    post.nack(0, 1);
    assert_eq!(post.fate(0), HELD_AGAIN, "refused once, by the answer that had it");
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), HELD_AGAIN, "the second answer has not even left");
}

#[test]
fn fence_what_was_refused_is_not_proved_by_going_on() {
    let mut post = one_message();
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);
    post.nack(0, 1);
    post.opens(0, "2", 2);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), BACK);
}

#[test]
fn fence_what_was_taken_from_the_lost_is_not_proved_by_their_coming_back() {
    let mut post = Post::new(1, 1, true, false);
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);
    post.loses(0);
    assert_eq!(post.fate(0), BACK);
    post.opens(0, "2", 2);
    waits_out_the_grace(&mut post);
    assert_eq!(post.fate(0), BACK);
}

#[test]
fn fence_what_was_refused_is_not_proved_by_an_end() {
    let mut post = one_message();
    next_answer(&mut post, "1", 1);
    post.nack(0, 1);
    let second = post.opens(0, "2", 2);
    assert_eq!(post.answers(0, &second).mail, [(0, true)]);
    post.ends(0, true);
    let gone = Fate::Dead { reason: "recipient_gone", maybe_seen: true };
    assert_eq!(post.fate(0), gone, "the second answer never left");
}

#[test]
fn end_acks_only_what_a_turn_finished_by_the_model_itself_followed() {
    let held = || {
        let mut post = one_message();
        let call = post.opens(0, "1", 1);
        post.answers(0, &call);
        post.written(&call);
        post
    };
    let mut in_the_middle = held();
    in_the_middle.ends(0, false);
    let gone = Fate::Dead { reason: "recipient_gone", maybe_seen: true };
    assert_eq!(in_the_middle.fate(0), gone);

    let mut finished = held();
    finished.ends(0, true);
    assert_eq!(finished.fate(0), Fate::Acked("end"));

    let mut suspicious = held();
    suspicious.cancelled(0, "1");
    suspicious.ends(0, true);
    assert_eq!(suspicious.fate(0), gone);

    let mut never_read = one_message();
    never_read.ends(0, true);
    assert_eq!(never_read.fate(0), Fate::Dead { reason: "recipient_gone", maybe_seen: false });
}

#[test]
fn end_gives_one_of_mail_back_marked_or_acks_it() {
    let held = || {
        let mut post = Post::new(2, 1, true, false);
        let call = post.opens(0, "1", 1);
        post.answers(0, &call);
        post.written(&call);
        post
    };
    let mut in_the_middle = held();
    in_the_middle.ends(0, false);
    assert_eq!(in_the_middle.fate(0), BACK);

    // Also of somebody whose own mailbox was never used.
    let mut finished = held();
    finished.ends(0, true);
    assert_eq!(finished.fate(0), Fate::Acked("end"));
}

#[test]
fn end_leaves_nothing_for_a_call_that_is_still_open() {
    let mut post = Post::new(2, 1, true, false);
    let call = post.opens(0, "1", 1);
    post.ends(0, true);
    assert!(call.cut.is_cancelled());
    assert_eq!(post.answers(0, &call), Given::default());
    assert_eq!(post.fate(0), AS_IT_WAS);
}

#[tokio::test]
async fn clean_every_start_marks_what_was_leased_and_a_clean_stop_spares_the_rest() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let world = World::at(folder.path());
    let bob = world.agent("bob").await;
    world.operator().sends(&bob, "handed out").await;
    assert_eq!(bob.reads().await.marked(), [("handed out", false)]);
    world.operator().sends(&bob, "untouched").await;
    world.hub.close().await.expect("a clean stop");
    let who = bob.who;
    drop((world, bob));

    let world = World::at(folder.path());
    let bob = world.knows(who);
    assert_eq!(bob.reads().await.marked(), [("handed out", true), ("untouched", false)]);
}

#[test]
fn clean_after_a_kill_everything_is_marked() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let first = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let bob = first.block_on(async {
        let world = World::at(folder.path());
        let bob = world.agent("bob").await;
        world.operator().sends(&bob, "untouched").await;
        bob.who
    });
    first.shutdown_background();

    let second = Builder::new_current_thread().enable_all().build().expect("a runtime");
    second.block_on(async {
        let world = World::at(folder.path());
        assert_eq!(world.knows(bob).reads().await.marked(), [("untouched", true)]);
    });
}

#[test]
fn commit_an_ack_that_a_kill_overtakes_was_told_to_nobody() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let place = Place::File(folder.path().to_owned());
    // One thread for the disk: whoever occupies it keeps the flush waiting.
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).max_blocking_threads(1);
    let first = builder.build().expect("a runtime");
    let (bob, release) = first.block_on(async {
        let world = World::open(&place, Limits::default());
        let bob = world.agent("bob").await;
        world.operator().sends(&bob, "hello").await;
        assert_eq!(bob.asks(bob.mcp("1")).await.texts(), ["hello"]);
        let (release, occupied) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || occupied.recv());

        bob.asks(bob.mcp("2")).await;
        tokio::time::advance(world.hub.limits().proof_grace * 2).await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert!(bob.asks(bob.mcp("3")).await.settled.is_empty(), "told before it was true");
        (bob.who, release)
    });
    first.shutdown_background();

    let second = Builder::new_current_thread().enable_all().build().expect("a runtime");
    second.block_on(async {
        let world = World::open(&place, Limits::default());
        let answer = world.knows(bob).reads().await;
        assert_eq!(answer.marked(), [("hello", true)]);
        assert!(answer.settled.is_empty());
    });
    // Only now, or what was killed would write after its death.
    drop(release);
}

#[tokio::test(start_paused = true)]
async fn commit_once_it_is_flushed_the_sender_and_the_reader_are_told() {
    let world = World::new();
    let bob = world.agent("bob").await;
    let sent = world.operator().sends(&bob, "hello").await;
    bob.asks(bob.mcp("1")).await;
    assert_eq!(world.state(sent.seq).await, RecordState::Leased);
    bob.asks(bob.mcp("2")).await;
    tokio::time::sleep(world.hub.limits().proof_grace * 2).await;
    assert_eq!(world.state(sent.seq).await, RecordState::Acked(Proof::NextCall));
    assert_eq!(bob.asks(bob.mcp("3")).await.settled, [sent.seq]);
    world.engine.close().await.expect("closed");
}

#[test]
fn again_is_known_by_any_of_the_names_of_a_call() {
    let process = Process { session: Some("a"), ..Process::default() };
    let call = |request, call_id| Call {
        process,
        request: Some(request),
        call_id,
        ..Call::through(Door::Mcp)
    };
    for again in [call("2", Some("toolu_1")), call("1", None), call("1", Some("toolu_2"))] {
        let mut post = one_message();
        let first = post.opens_call(0, &call("1", Some("toolu_1")), 1);
        post.answers(0, &first);
        post.written(&first);
        let repeated = post.opens_call(0, &again, 2);
        assert_eq!(post.answers(0, &repeated).mail, [(0, true)], "{again:?}");
    }
}

#[test]
fn doubt_is_per_delivery_and_new_mail_beside_old_does_not_bring_the_old_again() {
    let mut post = Post::new(1, 2, false, false);
    let call = post.opens(0, "1", 1);
    assert_eq!(post.answers(0, &call).mail.len(), 2);
    post.written(&call);
    post.cancelled(0, "1");
    assert_eq!((post.fate(0), post.fate(1)), (BACK, BACK));
    post.arrives();
    let call = post.opens(0, "2", 2);
    assert_eq!(post.answers(0, &call).mail, [(0, true), (1, true), (2, false)]);
    post.written(&call);
    post.cancelled(0, "2");
    assert_eq!((post.fate(0), post.fate(1)), (HELD_AGAIN, HELD_AGAIN), "doubted once already");
    assert_eq!(post.fate(2), BACK, "that one was not");
    post.opens(0, "3", 3);
    waits_out_the_grace(&mut post);
    assert_eq!((post.fate(0), post.fate(1)), (TAKEN, TAKEN));
}

#[test]
fn doubt_is_left_by_a_cancel_alone() {
    let mut post = one_message();
    let call = post.opens(0, "1", 1);
    post.answers(0, &call);
    post.written(&call);
    // A repeat: the first answer was dropped, and no cancel said so.
    let again = post.opens(0, "1", 2);
    assert_eq!(post.answers(0, &again).mail, [(0, true)]);
    post.written(&again);
    post.cancelled(0, "1");
    assert_eq!(post.fate(0), BACK, "the first cancel counts");
}
