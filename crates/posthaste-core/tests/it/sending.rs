//! What is accepted, for whom, and what the sender is told.

use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::address::Mailbox;
use posthaste_core::messaging::message::{Details, MessageRef, ThreadChoice, ThreadId};
use posthaste_core::messaging::send::SendError;
use posthaste_core::registry::{Leader, NewInstance, Origin, Relation, Status, Team};
use posthaste_testkit::world::{Agent, World, new_instance};
use tokio::time::sleep;

const HOUR: Duration = Duration::from_secs(3600);

async fn alice_and_bob(world: &World) -> (Agent, Agent) {
    (world.agent("alice").await, world.agent("bob").await)
}

fn key(key: &str) -> Details {
    Details { idempotency_key: Some(key.into()), ..Details::default() }
}

fn of_kind(kind: &str) -> Details {
    Details { kind: kind.parse().expect("a good type"), ..Details::default() }
}

// Idempotency.

#[tokio::test(start_paused = true)]
async fn the_same_key_gets_the_same_answer_and_one_message() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let first = alice.sends_with(&bob, "pay 5", key("k")).await;
    let again = alice.sends_with(&bob, "pay 5", key("k")).await;
    assert_eq!((again.seq, again.id, again.thread), (first.seq, first.id, first.thread));
    assert_eq!((first.duplicate, again.duplicate), (false, true));
    assert_eq!(again.recipients.len(), 1);
    assert_eq!(bob.takes().await.texts(), ["pay 5"]);
    let late = alice.sends_with(&bob, "pay 5", key("k")).await;
    assert_eq!((late.seq, late.duplicate), (first.seq, true), "also when it was read");
    assert!(bob.reads().await.mail.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_same_key_with_another_text_is_a_conflict() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let first = alice.sends_with(&bob, "pay 5", key("k")).await;
    let other = alice.tries(&bob, "pay 6", key("k")).await;
    assert!(matches!(other, Err(SendError::KeyReused { seq }) if seq == first.seq), "{other:?}");
    assert_eq!(bob.reads().await.texts(), ["pay 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_belongs_to_one_sender_and_one_recipient() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let carol = world.agent("carol").await;
    let receipts = [
        alice.sends_with(&bob, "one", key("k")).await,
        alice.sends_with(&carol, "two", key("k")).await,
        carol.sends_with(&bob, "three", key("k")).await,
        alice.sends_with("bob", "four", key("k")).await,
    ];
    assert!(receipts.iter().all(|r| !r.duplicate));
}

#[tokio::test(start_paused = true)]
async fn duplicates_at_the_same_moment_are_one_message() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let send = || alice.tries(&bob, "pay 5", key("k"));
    let (one, two, three) = tokio::join!(send(), send(), send());
    let receipts = [one.expect("accepted"), two.expect("accepted"), three.expect("accepted")];
    assert_eq!(receipts.iter().filter(|r| !r.duplicate).count(), 1);
    assert!(receipts.iter().all(|r| r.seq == receipts[0].seq && r.id == receipts[0].id));
    assert_eq!(bob.reads().await.texts(), ["pay 5"]);
}

#[tokio::test(start_paused = true)]
async fn of_two_texts_with_one_key_at_the_same_moment_one_is_refused() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let (one, two) =
        tokio::join!(alice.tries(&bob, "pay 5", key("k")), alice.tries(&bob, "pay 6", key("k")));
    assert!(one.is_ok());
    assert!(matches!(two, Err(SendError::KeyReused { .. })), "{two:?}");
    assert_eq!(bob.reads().await.texts(), ["pay 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_known_key_is_answered_before_any_other_check() {
    let world = World::with(Limits { mailbox_messages: 1, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    let first = alice.sends_with(&bob, "pay 5", key("k")).await;
    assert!(alice.tries(&bob, "more", Details::default()).await.is_err(), "it is full");
    assert_eq!(alice.sends_with(&bob, "pay 5", key("k")).await.seq, first.seq);
    world.hub.end(bob.id(), Status::Finished, true).await.expect("ended");
    assert_eq!(alice.sends_with(&bob, "pay 5", key("k")).await.seq, first.seq);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_forgotten_after_a_day() {
    let world = World::with(Limits { sweep: HOUR / 4, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    let _connected = world.hub.stays(alice.who);
    let first = alice.sends_with(&bob, "pay 5", key("k")).await;
    sleep(23 * HOUR).await;
    assert_eq!(alice.sends_with(&bob, "pay 5", key("k")).await.seq, first.seq);
    sleep(2 * HOUR).await;
    let new = alice.sends_with(&bob, "pay 6", key("k")).await;
    assert!(!new.duplicate && new.seq > first.seq);
}

// Room.

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_refuses_mail_but_never_a_result_or_an_answer() {
    let world = World::with(Limits { mailbox_messages: 2, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    alice.sends(&bob, "one").await;
    alice.sends(&bob, "two").await;
    let full = alice.tries(&bob, "three", Details::default()).await;
    let Err(SendError::MailboxFull { mailbox, unread, .. }) = full else { panic!("{full:?}") };
    assert_eq!((mailbox, unread), (Mailbox::Instance(bob.id()), 2));
    alice.sends_with(&bob, "a result", of_kind("result")).await;
    alice.sends_with(&bob, "an answer", of_kind("answer")).await;

    let answer = bob.reads().await;
    assert_eq!(answer.texts(), ["one", "two", "a result", "an answer"]);
    assert!(alice.tries(&bob, "three", Details::default()).await.is_err(), "read is not proved");
    bob.acks(&answer).await;
    alice.sends(&bob, "three").await;
}

#[tokio::test(start_paused = true)]
async fn a_mailbox_is_full_by_bytes_too() {
    let world = World::with(Limits { mailbox_bytes: 10, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    alice.sends(&bob, "12345678").await;
    let full = alice.tries(&bob, "abc", Details::default()).await;
    assert!(matches!(full, Err(SendError::MailboxFull { .. })), "{full:?}");
    alice.sends(&bob, "ab").await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_delivery_leaves_its_room() {
    let world = World::with(Limits { mailbox_messages: 1, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "one").await;
    world.hub.cancel(alice.who, MessageRef::Seq(sent.seq)).await.expect("cancelled");
    alice.sends(&bob, "two").await;
}

// Everyone.

#[tokio::test(start_paused = true)]
async fn everyone_is_whoever_is_here_at_that_moment_but_the_sender() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let (gone, silent) = (world.agent("gone").await, world.agent("silent").await);
    sleep(Duration::from_secs(700)).await;
    assert_eq!(world.status(&silent), Status::Lost);
    bob.reads().await;
    world.hub.end(gone.id(), Status::Finished, true).await.expect("ended");

    let sent = alice.sends("@everyone", "meeting").await;
    let late = world.agent("late").await;

    let mailboxes: Vec<_> = sent.recipients.iter().map(|r| r.mailbox.clone()).collect();
    assert_eq!(mailboxes, [Mailbox::Instance(bob.id())]);
    assert_eq!(bob.reads().await.texts(), ["meeting"]);
    for other in [&alice, &late, &silent] {
        assert!(other.reads().await.mail.is_empty(), "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn everyone_skips_full_mailboxes_and_names_them() {
    let world = World::with(Limits {
        mailbox_messages: 1,
        everyone_every: Duration::ZERO,
        ..Limits::default()
    });
    let (alice, bob) = alice_and_bob(&world).await;
    let carol = world.agent("carol").await;
    alice.sends(&bob, "fills it").await;
    let sent = alice.sends("@everyone", "meeting").await;
    assert_eq!(sent.skipped, [Mailbox::Instance(bob.id())]);
    assert_eq!(sent.recipients.len(), 1);
    assert_eq!(carol.reads().await.texts(), ["meeting"]);
    assert_eq!(bob.reads().await.texts(), ["fills it"]);
    let nobody = alice.tries("@everyone", "meeting", Details::default()).await;
    assert!(matches!(nobody, Err(SendError::MailboxFull { .. })), "all are full: {nobody:?}");
    let result = alice.sends_with("@everyone", "a result", of_kind("result")).await;
    assert!(result.skipped.is_empty());
}

#[tokio::test(start_paused = true)]
async fn everyone_of_a_team_is_that_team() {
    let world = World::new();
    let boss = world.agent_in("boss", "avalon").await;
    let mason = world.agent_in("mason", "avalon").await;
    let other = world.agent_in("mason", "camelot").await;
    boss.sends("@everyone@avalon", "up!").await;
    assert_eq!(mason.reads().await.texts(), ["up!"]);
    assert!(other.reads().await.mail.is_empty());
    let nobody = boss.tries("@everyone@nowhere", "up!", Details::default()).await;
    assert!(matches!(nobody, Err(SendError::NoRecipient { .. })), "{nobody:?}");
}

// Who is meant.

#[tokio::test(start_paused = true)]
async fn a_name_that_nobody_has_is_an_error_with_the_nearest_names() {
    let world = World::new();
    let alice = world.agent("alice").await;
    world.agent("mason").await;
    let unknown = alice.tries("masn", "hello", Details::default()).await;
    let Err(SendError::NoRecipient { nearest, .. }) = unknown else { panic!("{unknown:?}") };
    assert_eq!(nearest, ["mason"]);
}

#[tokio::test(start_paused = true)]
async fn every_part_of_an_exact_address_must_match() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    for right in [format!("{}", bob.id()), format!("bob.{}", bob.id()), bob.address.clone()] {
        alice.sends(&right, "hello").await;
    }
    for wrong in [format!("alice.{}", bob.id()), format!("{}@nowhere", bob.id())] {
        let refused = alice.tries(&wrong, "hello", Details::default()).await;
        assert!(matches!(refused, Err(SendError::NoRecipient { .. })), "{wrong}: {refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_writes_to_itself() {
    let world = World::new();
    let alice = world.agent("alice").await;
    for (who, to) in [(&alice, alice.address.as_str()), (&world.operator(), "human")] {
        let refused = who.tries(to, "hello me", Details::default()).await;
        assert!(matches!(refused, Err(SendError::SelfSend)), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_operator_has_a_mailbox_like_everybody() {
    let world = World::new();
    let alice = world.agent("alice").await;
    for alias in ["human", "dashboard", "user", "operator"] {
        alice.sends(alias, alias).await;
    }
    let answer = world.operator().takes().await;
    assert_eq!(answer.texts(), ["human", "dashboard", "user", "operator"]);
    assert!(alice.reads().await.mail.is_empty());
}

// Threads and relations.

#[tokio::test(start_paused = true)]
async fn a_message_belongs_to_its_senders_thread_unless_it_says_otherwise() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let own = |a: &Agent| world.hub.instance(a.id()).expect("known").instance.thread;
    assert_ne!(own(&alice), own(&bob));
    assert_eq!(alice.sends(&bob, "hello").await.thread, own(&alice));
    assert_eq!(world.operator().sends(&bob, "hello").await.thread, own(&bob));
    assert_eq!(world.operator().sends("bob", "hello").await.thread, ThreadId::OPERATOR);
    let given = Details { thread: ThreadChoice::named(own(&bob)), ..Details::default() };
    assert_eq!(alice.sends_with(&bob, "hello", given).await.thread, own(&bob));
}

#[tokio::test(start_paused = true)]
async fn a_reader_learns_what_the_sender_is_to_it() {
    let world = World::new();
    let boss = world.agent("boss").await;
    let child = |name| NewInstance { parent: Some(boss.id()), ..new_instance(name) };
    let (one, two) = (world.joins(child("one")).await, world.joins(child("two")).await);
    let stranger = world.agent("stranger").await;
    boss.sends(&one, "parent").await;
    two.sends(&one, "sibling").await;
    stranger.sends(&one, "peer").await;
    world.operator().sends(&one, "human").await;
    let answer = one.reads().await;
    let relations: Vec<_> =
        answer.mail.iter().map(|e| (e.text(), e.leased.relation.as_str())).collect();
    let expected = ["parent", "sibling", "peer", "human"];
    assert_eq!(relations, expected.map(|word| (word, word)));
    one.sends(&boss, "child").await;
    assert_eq!(boss.reads().await.mail[0].leased.relation, Relation::Child);
}

#[tokio::test(start_paused = true)]
async fn who_leads_a_team_is_its_leader_by_name_or_as_one_instance() {
    let world = World::new();
    let mason = world.agent_in("mason", "avalon").await;
    let (boss, other) = (world.agent("boss").await, world.agent("boss").await);
    let relation = async |sender: &Agent| {
        sender.sends(&mason, "hello").await;
        mason.takes().await.mail[0].leased.relation
    };
    let avalon = || "avalon".parse().expect("a good name");
    assert_eq!(relation(&boss).await, Relation::Peer);

    let one = Team { name: avalon(), leaders: vec![Leader::Instance(boss.id())] };
    world.hub.put_team(one).await.expect("kept");
    assert_eq!(relation(&boss).await, Relation::Leader);
    assert_eq!(relation(&other).await, Relation::Peer);

    let all = Team { name: avalon(), leaders: vec!["boss".parse().expect("a leader")] };
    world.hub.put_team(all.clone()).await.expect("kept");
    assert_eq!(relation(&other).await, Relation::Peer, "a boss of another team");
    let future = world.agent_in("boss", "avalon").await;
    assert_eq!(relation(&future).await, Relation::Leader, "also one who came later");
    let team = Some(avalon());
    let joined = NewInstance { team, origin: Origin::Join, ..new_instance("boss") };
    let joined = world.joins(joined).await;
    assert_eq!(relation(&joined).await, Relation::Peer, "whoever joins chooses its name");

    let (team, members) = world.hub.team(&avalon()).expect("a team");
    assert_eq!(team, all);
    let mut here = [mason.id(), future.id(), joined.id()];
    here.sort_unstable();
    assert_eq!(members.iter().map(|m| m.id).collect::<Vec<_>>(), here);
    assert!(world.hub.teams().contains(&avalon()));
}
