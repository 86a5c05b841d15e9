//! Waiting for mail: time-outs, windows, gathering, and what fits.

use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::messaging::message::{Details, Principal, Priority};
use posthaste_core::messaging::receive::{Ask, BatchStatus, Budget, Missing, WaitFor};
use posthaste_core::ports::{Filter, RecordState};
use posthaste_core::registry::Status;
use posthaste_testkit::world::{Agent, World};
use tokio::time::{Instant, sleep};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

async fn alice_and_bob(world: &World) -> (Agent, Agent) {
    (world.agent("alice").await, world.agent("bob").await)
}

fn of_kind(kind: &str) -> Details {
    Details { kind: kind.parse().expect("a good type"), ..Details::default() }
}

fn labelled(label: &str) -> Details {
    Details { label: Some(label.into()), ..Details::default() }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_zero_answers_at_once() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let ask = || Ask { window: secs(2), ..bob.ask() };
    let empty = bob.asks(ask()).await;
    assert_eq!((empty.status, empty.waited), (BatchStatus::Empty, Duration::ZERO));
    alice.sends(&bob, "hello").await;
    let answer = bob.asks(ask()).await;
    assert_eq!(answer.texts(), ["hello"]);
    assert_eq!((answer.status, answer.waited), (BatchStatus::Complete, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn when_time_is_up_the_answer_is_empty_and_not_an_error() {
    let world = World::new();
    let bob = world.agent("bob").await;
    for window in [Duration::ZERO, secs(2)] {
        let answer = bob.asks(Ask { window, ..bob.ask_within(secs(60)) }).await;
        assert_eq!(answer.status, BatchStatus::Empty);
        assert_eq!(answer.waited.as_secs(), 60);
        assert!(answer.mail.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_ends_the_wait() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let waiting = bob.waits(bob.ask_within(secs(600))).await;
    sleep(secs(100)).await;
    let receipt = alice.sends(&bob, "hello").await;
    assert_eq!((receipt.recipients[0].active, receipt.recipients[0].waiting), (1, 1));
    let answer = waiting.await.expect("no panic");
    assert_eq!(answer.texts(), ["hello"]);
    assert_eq!(answer.waited.as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn the_window_collects_what_comes_soon_after_the_first_message() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let waiting = bob.waits(Ask { window: secs(2), ..bob.ask_within(secs(60)) }).await;
    sleep(secs(10)).await;
    alice.sends(&bob, "first").await;
    sleep(secs(1)).await;
    alice.sends(&bob, "soon after").await;
    sleep(Duration::from_millis(1500)).await;
    alice.sends(&bob, "too late").await;

    let answer = waiting.await.expect("no panic");
    assert_eq!(answer.texts(), ["first", "soon after"]);
    assert_eq!(answer.waited.as_secs(), 12);
    assert_eq!(bob.reads().await.texts(), ["too late"]);
}

#[tokio::test(start_paused = true)]
async fn urgent_and_human_mail_and_questions_do_not_wait_for_the_window() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let urgent = Details { priority: Priority::Urgent, ..Details::default() };
    let cases = [
        (world.operator(), Details::default()),
        (alice.clone(), urgent),
        (alice, of_kind("question")),
    ];
    for (sender, details) in cases {
        let waiting = bob.waits(Ask { window: secs(2), ..bob.ask_within(secs(60)) }).await;
        let sent = Instant::now();
        sender.sends_with(&bob, "now", details).await;
        let answer = waiting.await.expect("no panic");
        assert_eq!((answer.texts(), sent.elapsed()), (vec!["now"], Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn the_window_starts_when_the_first_message_arrives_so_a_backlog_does_not_wait() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let ask = || Ask { window: secs(2), ..bob.ask_within(secs(60)) };
    alice.sends(&bob, "old").await;
    sleep(secs(5)).await;
    assert_eq!(bob.asks(ask()).await.waited, Duration::ZERO);

    alice.sends(&bob, "a second old").await;
    sleep(secs(1)).await;
    assert_eq!(bob.asks(ask()).await.waited.as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_window_of_a_message_that_came_in_time_may_outlast_the_timeout() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let waiting = bob.waits(Ask { window: secs(2), ..bob.ask_within(secs(60)) }).await;
    sleep(secs(59)).await;
    alice.sends(&bob, "just in time").await;
    sleep(Duration::from_millis(1500)).await;
    alice.sends(&bob, "with it").await;
    assert_eq!(waiting.await.expect("no panic").texts(), ["just in time", "with it"]);
}

#[tokio::test(start_paused = true)]
async fn urgent_mail_is_read_first_then_by_number() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    alice.sends(&bob, "one").await;
    alice.sends(&bob, "two").await;
    let urgent = Details { priority: Priority::Urgent, ..Details::default() };
    alice.sends_with(&bob, "fire", urgent).await;
    assert_eq!(bob.reads().await.texts(), ["fire", "one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_label_or_a_thread_picks_its_own_mail_and_leaves_the_rest() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    alice.sends_with(&bob, "tests", labelled("tests")).await;
    let docs = alice.sends_with(&bob, "docs", labelled("docs")).await;
    let only = |filter: Filter| Ask { filter, ..bob.ask() };
    let label = Filter { label: Some("docs".into()), ..Filter::default() };
    let answer = bob.asks(only(label)).await;
    assert_eq!((answer.texts(), answer.remaining), (vec!["docs"], 0));
    let thread = Filter { thread: Some(docs.thread), ..Filter::default() };
    assert_eq!(bob.asks(only(thread)).await.texts(), ["tests"]);
}

// Gathering.

#[tokio::test(start_paused = true)]
async fn a_number_waits_for_so_many_distinct_senders() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let boss = world.agent("boss").await;
    let waiting = boss.waits(boss.gather(secs(60), WaitFor::Senders(2), &[])).await;
    alice.sends(&boss, "a1").await;
    alice.sends(&boss, "a2").await;
    sleep(secs(20)).await;
    assert!(!waiting.is_finished(), "two messages of one sender are one sender");
    bob.sends(&boss, "b1").await;
    let answer = waiting.await.expect("no panic");
    assert_eq!(answer.texts(), ["a1", "a2", "b1"]);
    assert_eq!(answer.status, BatchStatus::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_gather_whose_time_is_up_brings_what_is_there_and_says_partial() {
    let world = World::new();
    let (alice, _bob) = alice_and_bob(&world).await;
    let boss = world.agent("boss").await;
    alice.sends(&boss, "a1").await;
    let answer = boss.asks(boss.gather(secs(60), WaitFor::Senders(2), &[])).await;
    assert_eq!((answer.texts(), answer.status), (vec!["a1"], BatchStatus::Partial));
    assert_eq!(answer.waited.as_secs(), 60);
    let nothing = boss.asks(boss.gather(secs(60), WaitFor::Senders(1), &[])).await;
    assert_eq!(nothing.status, BatchStatus::Empty);
}

#[tokio::test(start_paused = true)]
async fn all_waits_for_the_named_instances_and_labels_and_for_nobody_else() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let (boss, eve) = (world.agent("boss").await, world.agent("eve").await);
    let (first, second) = (alice.id().to_string(), "tests");
    let waiting = boss.waits(boss.gather(secs(600), WaitFor::All, &[&first, second])).await;
    eve.sends(&boss, "not asked for").await;
    alice.sends(&boss, "from alice").await;
    sleep(secs(20)).await;
    assert!(!waiting.is_finished());
    bob.sends_with(&boss, "the tests", labelled("tests")).await;

    let answer = waiting.await.expect("no panic");
    assert_eq!(answer.texts(), ["from alice", "the tests"]);
    assert_eq!(answer.status, BatchStatus::Complete);
    assert!(answer.missing.is_empty());
    assert_eq!(boss.reads().await.texts(), ["not asked for"], "what was not asked for stays");
}

#[tokio::test(start_paused = true)]
async fn who_is_missing_is_named_with_its_status() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let boss = world.agent("boss").await;
    alice.sends(&boss, "from alice").await;
    let (here, silent) = (alice.id().to_string(), bob.id().to_string());
    let from = [here.as_str(), &silent, "docs", "ffffffff"];
    let answer = boss.asks(boss.gather(secs(30), WaitFor::All, &from)).await;
    assert_eq!((answer.texts(), answer.status), (vec!["from alice"], BatchStatus::Partial));
    let instance = |id, status| Missing { instance: Some(id), label: None, status };
    assert_eq!(
        answer.missing,
        [
            instance(bob.id(), "running"),
            Missing { instance: None, label: Some("docs".into()), status: "waiting" },
            instance("ffffffff".parse().expect("an id"), "unknown"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn all_with_nothing_to_wait_for_is_complete_at_once() {
    let world = World::new();
    let boss = world.agent("boss").await;
    let answer = boss.asks(boss.gather(secs(600), WaitFor::All, &[])).await;
    assert_eq!((answer.status, answer.waited), (BatchStatus::Complete, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_gather_does_not_wait_for_those_who_have_ended() {
    let world = World::new();
    let boss = world.agent("boss").await;
    for before in [true, false] {
        let (gone, here) = (world.agent("gone").await, world.agent("here").await);
        let end = async || {
            world.hub.end(gone.id(), Status::Stopped, false).await.expect("ended");
        };
        let (id, whole) = (gone.id().to_string(), gone.address.clone());
        if before {
            end().await;
        }
        let one = boss.waits(boss.gather(secs(600), WaitFor::All, &[&id])).await;
        let other = boss.waits(boss.gather(secs(600), WaitFor::All, &[&whole])).await;
        let both = [&*id, &*here.address];
        let both = boss.waits(boss.gather(secs(600), WaitFor::All, &both)).await;
        if !before {
            end().await;
        }
        for gather in [one, other] {
            let answer = gather.await.expect("no panic");
            assert_eq!((answer.status, answer.waited), (BatchStatus::Partial, secs(0)));
            let missing: Vec<_> = answer.missing.iter().map(|m| (m.instance, m.status)).collect();
            assert_eq!(missing, [(Some(gone.id()), "stopped")]);
        }
        sleep(secs(60)).await;
        assert!(!both.is_finished(), "the other one lives");
        here.sends(&boss, "here I am").await;
        let answer = both.await.expect("no panic");
        assert_eq!((answer.texts(), answer.status), (vec!["here I am"], BatchStatus::Partial));
        assert_eq!(answer.missing.len(), 1);
        boss.acks(&answer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_mail_of_one_who_has_ended_completes_a_gather() {
    let world = World::new();
    let (boss, bob) = (world.agent("boss").await, world.agent("bob").await);
    bob.sends(&boss, "farewell").await;
    world.hub.end(bob.id(), Status::Stopped, false).await.expect("ended");
    let answer = boss.asks(boss.gather(secs(600), WaitFor::All, &[&bob.address])).await;
    assert_eq!((answer.texts(), answer.status), (vec!["farewell"], BatchStatus::Complete));
}

#[tokio::test(start_paused = true)]
async fn a_question_urgent_or_human_mail_ends_every_gather() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let boss = world.agent("boss").await;
    let absent = bob.id().to_string();
    let urgent = Details { priority: Priority::Urgent, ..Details::default() };
    let cases = [
        (&alice, "a question", of_kind("question")),
        (&alice, "urgent", urgent),
        (&world.operator(), "from a human", Details::default()),
    ];
    for (sender, body, details) in cases {
        for wait in [WaitFor::All, WaitFor::Senders(9)] {
            let waiting = boss.waits(boss.gather(secs(600), wait, &[&absent])).await;
            alice.sends(&boss, "nothing special").await;
            sleep(secs(5)).await;
            assert!(!waiting.is_finished(), "plain mail of others ends nothing");
            sender.sends_with(&boss, body, details.clone()).await;
            let answer = waiting.await.expect("no panic");
            assert_eq!((answer.texts(), answer.status), (vec![body], BatchStatus::Partial));
            assert_eq!(answer.waited.as_secs(), 5);
            boss.acks(&answer).await;
            boss.takes().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_ended_a_gather_is_in_the_answer_whoever_was_asked_for() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let boss = world.agent("boss").await;
    let waiting = boss.waits(boss.gather(secs(600), WaitFor::All, &["bob"])).await;
    alice.sends(&boss, "plain").await;
    alice.sends_with(&boss, "which one?", of_kind("question")).await;
    let answer = waiting.await.expect("no panic");
    assert_eq!(answer.texts(), ["which one?"]);
    assert_eq!(answer.missing.len(), 1);
    bob.sends(&boss, "here").await;
    assert_eq!(boss.reads().await.texts(), ["plain", "here"]);
}

#[tokio::test(start_paused = true)]
async fn reports_and_what_ended_the_gather_come_first_when_not_all_fits() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let boss = world.agent("boss").await;
    for n in 0..9 {
        alice.sends(&boss, &format!("chatter {n}")).await;
    }
    bob.sends_with(&boss, "the result", of_kind("result")).await;
    alice.sends_with(&boss, "which one?", of_kind("question")).await;
    // Room for three.
    let gather = boss.gather(secs(60), WaitFor::Senders(9), &[]);
    let answer = boss.asks(Ask { budget: Budget::Chars(30), ..gather }).await;
    assert_eq!(answer.texts(), ["the result", "which one?", "chatter 0"]);
    assert_eq!(answer.remaining, 8);
    let plain = boss.asks(Ask { budget: Budget::Chars(18), ..boss.ask() }).await;
    assert_eq!(plain.texts(), ["chatter 1", "chatter 2"], "else by number");
}

#[tokio::test(start_paused = true)]
async fn a_report_that_another_call_took_makes_a_gather_partial() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let boss = world.agent("boss").await;
    alice.sends(&boss, "from alice").await;
    assert_eq!(boss.reads().await.texts(), ["from alice"]);
    bob.sends(&boss, "from bob").await;
    let answer = boss.asks(boss.gather(secs(5), WaitFor::All, &["alice", "bob"])).await;
    assert_eq!((answer.texts(), answer.status), (vec!["from bob"], BatchStatus::Partial));
    assert_eq!(answer.missing[0].label.as_deref(), Some("alice"));
}

#[tokio::test(start_paused = true)]
async fn a_gather_leases_nothing_while_it_waits() {
    let world = World::new();
    let (alice, _bob) = alice_and_bob(&world).await;
    let boss = world.agent("boss").await;
    let waiting = boss.waits(boss.gather(secs(600), WaitFor::Senders(2), &[])).await;
    let sent = alice.sends(&boss, "a1").await;
    sleep(secs(1)).await;
    assert_eq!(world.state(sent.seq).await, RecordState::Queued);
    waiting.abort();
    assert!(waiting.await.is_err());
    assert_eq!(
        boss.reads().await.marked(),
        [("a1", false)],
        "a client that went away held nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn fifty_workers_report_into_one_answer() {
    let world = World::new();
    let boss = world.agent("boss").await;
    let waiting = boss.waits(boss.gather(secs(600), WaitFor::Senders(50), &[])).await;
    let mut workers = tokio::task::JoinSet::new();
    for n in 0..50 {
        let worker = world.agent("worker").await;
        let to = boss.address.clone();
        workers.spawn(async move {
            sleep(Duration::from_millis(n * 37 % 1000)).await;
            worker.sends_with(&to, &format!("result {n}"), of_kind("result")).await;
        });
    }
    while let Some(done) = workers.join_next().await {
        done.expect("no panic");
    }
    let answer = waiting.await.expect("no panic");
    assert_eq!((answer.mail.len(), answer.status), (50, BatchStatus::Complete));
    let mut texts = answer.texts();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 50, "every report once");
    assert_eq!(answer.remaining, 0);
}

// What fits.

#[tokio::test(start_paused = true)]
async fn long_bodies_are_clipped_at_character_boundaries_and_short_ones_are_whole() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    alice.sends(&bob, &"ä€𝄞".repeat(400)).await;
    alice.sends(&bob, "short").await;
    let answer = bob.asks(Ask { budget: Budget::Chars(400), ..bob.ask() }).await;
    let clip = answer.mail[0].clip.expect("clipped");
    assert_eq!((clip.chars, clip.total_chars), (395, 1_200), "the short one left its room");
    assert_eq!(answer.texts()[0].chars().count(), clip.chars);
    assert_eq!(answer.texts()[0], "ä€𝄞".repeat(400).chars().take(395).collect::<String>());
    assert_eq!((answer.texts()[1], answer.mail[1].clip), ("short", None));
}

#[tokio::test(start_paused = true)]
async fn a_body_of_a_thousand_characters_is_not_clipped_to_make_room_for_others() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let whole = "€".repeat(1_000);
    alice.sends(&bob, "first").await;
    alice.sends(&bob, &whole).await;
    alice.sends(&bob, "last").await;
    let answer = bob.asks(Ask { budget: Budget::Chars(1_000), ..bob.ask() }).await;
    assert_eq!((answer.texts(), answer.remaining), (vec!["first"], 2), "nothing overtakes it");
    let answer = bob.asks(Ask { budget: Budget::Chars(1_003), ..bob.ask() }).await;
    assert_eq!((answer.texts(), answer.remaining), (vec![whole.as_str()], 1));
    assert!(!answer.marked()[0].1, "nobody was shown it before");
    let answer = bob.asks(Ask { budget: Budget::Chars(1_000), ..bob.ask() }).await;
    assert_eq!((answer.texts(), answer.remaining), (vec!["last"], 0));
}

#[tokio::test(start_paused = true)]
async fn the_longest_body_that_stays_whole_is_a_limit_that_can_be_set() {
    let world = World::with(Limits { answer_whole_chars: 10, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    alice.sends(&bob, &"x".repeat(500)).await;
    alice.sends(&bob, "0123456789").await;
    let answer = bob.asks(Ask { budget: Budget::Chars(200), ..bob.ask() }).await;
    assert_eq!(answer.texts(), ["x".repeat(190).as_str(), "0123456789"]);
}

#[tokio::test(start_paused = true)]
async fn long_bodies_share_what_the_short_ones_leave() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    for letter in ["a", "b", "c"] {
        alice.sends(&bob, &letter.repeat(5_000)).await;
        alice.sends(&bob, letter).await;
    }
    let answer = bob.asks(Ask { budget: Budget::Chars(3_003), ..bob.ask() }).await;
    let lengths: Vec<usize> = answer.texts().iter().map(|text| text.len()).collect();
    assert_eq!(lengths, [1_000, 1, 1_000, 1, 1_000, 1]);
    assert_eq!(answer.remaining, 0);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_stays_queued_and_is_counted() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let mut sent = Vec::new();
    for n in 0..7 {
        sent.push(alice.sends(&bob, &format!("{n}")).await.seq);
    }
    let answer = bob.asks(Ask { budget: Budget::Chars(3), ..bob.ask() }).await;
    assert_eq!((answer.texts(), answer.remaining), (vec!["0", "1", "2"], 4));
    bob.acks(&answer).await;
    assert_eq!(world.state(sent[3]).await, RecordState::Queued, "never ack what was not included");
    assert_eq!(bob.reads().await.marked().first(), Some(&("3", false)));
}

#[tokio::test(start_paused = true)]
async fn a_tiny_budget_still_brings_one_message() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    alice.sends(&bob, "hello").await;
    alice.sends(&bob, "again").await;
    let answer = bob.asks(Ask { budget: Budget::Chars(1), ..bob.ask() }).await;
    assert_eq!((answer.texts(), answer.remaining), (vec!["h"], 1));
}

#[tokio::test(start_paused = true)]
async fn fifty_short_results_fit_the_smallest_client() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    for n in 0..50 {
        alice.sends(&bob, &format!("result {n}: {}", "x".repeat(150))).await;
    }
    let answer = bob.asks(Ask { budget: Budget::Chars(10_000), ..bob.ask() }).await;
    assert_eq!((answer.mail.len(), answer.remaining), (50, 0));
    assert!(answer.mail.iter().all(|e| e.clip.is_none()));
}

#[tokio::test(start_paused = true)]
async fn whole_messages_stop_at_the_limit_of_bytes_but_one_always_comes() {
    let world = World::with(Limits { answer_bytes: 10, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    alice.sends(&bob, &"x".repeat(20)).await;
    alice.sends(&bob, "12345").await;
    alice.sends(&bob, "67890").await;
    let answer = bob.reads().await;
    assert_eq!((answer.mail.len(), answer.remaining), (1, 2));
    assert_eq!(bob.reads().await.texts(), ["12345", "67890"]);
}

#[tokio::test]
async fn a_call_that_waits_keeps_little() {
    let world = World::new();
    let waiting = world.hub.receive(Ask::now(Principal::Operator));
    // Ten thousand of them must fit into little memory.
    assert!(size_of_val(&waiting) <= 1_024, "{}", size_of_val(&waiting));
}

#[tokio::test(start_paused = true)]
async fn the_humans_mail_ends_a_wait_that_leaves_it_to_another_read() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let left = || Filter { leaves_human: true, ..Filter::default() };
    for wait_for in [WaitFor::Any, WaitFor::All, WaitFor::Senders(2)] {
        let filter = Filter { or_ends_wait: wait_for != WaitFor::Any, ..left() };
        let ask = Ask { wait_for, filter, window: secs(2), ..bob.ask_within(secs(600)) };
        let ask = match wait_for {
            // Without an assignment such a gather has nothing to wait for.
            WaitFor::All => {
                let from = ["alice".to_owned()].into();
                Ask { filter: Filter { from, ..ask.filter.clone() }, ..ask }
            }
            _ => ask,
        };
        let waiting = bob.waits(ask.clone()).await;
        sleep(secs(100)).await;
        world.operator().sends(&bob, "what is the weather?").await;
        let answer = waiting.await.expect("no panic");
        assert!(answer.mail.is_empty(), "{wait_for:?}: {:?}", answer.texts());
        assert_eq!(answer.waited.as_secs(), 100, "{wait_for:?}");
        assert_ne!(answer.status, BatchStatus::Complete, "{wait_for:?}");

        // What others wrote is in the answer, and the human's words are not.
        alice.sends(&bob, "a brick").await;
        assert_eq!(bob.asks(ask).await.texts(), ["a brick"], "{wait_for:?}");
        let all = bob.reads().await;
        assert_eq!(all.texts(), ["what is the weather?"], "{wait_for:?}");
        bob.acks(&all).await;
        bob.takes().await;
    }
}
