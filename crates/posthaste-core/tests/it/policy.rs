//! Who may write to whom, and how often.

use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::limits::{Everyone, Write};
use posthaste_core::messaging::message::{Details, MessageRef, Receipt, ThreadChoice};
use posthaste_core::messaging::send::SendError;
use posthaste_core::registry::{AgentKind, Leader, NewInstance, Team};
use posthaste_testkit::world::{Agent, World, new_instance};
use tokio::time::sleep;

fn is_too_often(sent: &Result<Receipt, SendError>) -> Option<Duration> {
    match sent {
        Err(SendError::TooOften { retry_after, .. }) => Some(*retry_after),
        _ => None,
    }
}

async fn tries(from: &Agent, to: &Agent) -> Result<Receipt, SendError> {
    from.tries(to, "hello", Details::default()).await
}

fn directive() -> Details {
    Details { kind: "directive".parse().expect("a word"), ..Details::default() }
}

fn policy(write: Write) -> Limits {
    Limits { write_policy: write, ..Limits::default() }
}

/// Leads the team from now on.
async fn leads(world: &World, leader: &Agent, team: &str) {
    let name = team.parse().expect("a good name");
    let team = Team { name, leaders: vec![Leader::Instance(leader.id())] };
    world.hub.put_team(team).await.expect("a team");
}

#[tokio::test(start_paused = true)]
async fn who_writes_too_often_to_one_is_told_when_to_go_on() {
    let world = World::with(Limits { pair_per_minute: 3, ..Limits::default() });
    let (alice, bob, carol) =
        (world.agent("alice").await, world.agent("bob").await, world.agent("carol").await);
    // The first opens the mailbox and is not counted.
    for _ in 0..4 {
        tries(&alice, &bob).await.expect("accepted");
    }
    let refused = tries(&alice, &bob).await;
    assert_eq!(is_too_often(&refused), Some(Duration::from_secs(20)), "{refused:?}");
    tries(&alice, &carol).await.expect("another pair");
    tries(&carol, &bob).await.expect("another sender");
    sleep(Duration::from_secs(20)).await;
    tries(&alice, &bob).await.expect("one in twenty seconds");
    assert!(is_too_often(&tries(&alice, &bob).await).is_some());
    assert_eq!(bob.reads().await.mail.len(), 6, "what was refused was not kept");
}

#[tokio::test(start_paused = true)]
async fn who_writes_too_often_to_all_together_waits_too_and_others_do_not() {
    let world = World::with(Limits { sender_per_minute: 2, ..Limits::default() });
    let robot = NewInstance { kind: Some(AgentKind::Mechanical), ..new_instance("robot") };
    let (alice, bob, robot) =
        (world.agent("alice").await, world.agent("bob").await, world.joins(robot).await);
    alice.sends(&bob, "one").await;
    alice.sends(&robot, "two").await;
    assert_eq!(is_too_often(&tries(&alice, &bob).await), Some(Duration::from_secs(30)));
    for _ in 0..5 {
        robot.sends(&bob, "tick").await;
        world.operator().sends(&bob, "look").await;
    }
}

#[tokio::test(start_paused = true)]
async fn everyone_is_written_to_once_in_ten_seconds() {
    let world = World::new();
    let (alice, _bob) = (world.agent("alice").await, world.agent("bob").await);
    alice.sends("@everyone", "one").await;
    let refused = alice.tries("@everyone", "two", Details::default()).await;
    assert_eq!(is_too_often(&refused), Some(Duration::from_secs(10)));
    sleep(Duration::from_secs(10)).await;
    alice.sends("@everyone", "three").await;
}

#[tokio::test(start_paused = true)]
async fn a_known_key_is_answered_before_any_rate() {
    let world = World::with(Limits { sender_per_minute: 1, ..Limits::default() });
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let key = || Details { idempotency_key: Some("once".into()), ..Details::default() };
    let first = alice.sends_with(&bob, "hello", key()).await;
    let again = alice.sends_with(&bob, "hello", key()).await;
    assert_eq!((again.seq, again.duplicate), (first.seq, true));
    assert!(is_too_often(&tries(&alice, &bob).await).is_some());
}

#[tokio::test(start_paused = true)]
async fn only_parents_leaders_and_the_human_give_directives() {
    let world = World::new();
    let boss = world.agent("boss").await;
    let child = world.joins(NewInstance { parent: Some(boss.id()), ..new_instance("child") }).await;
    let mason = world.agent_in("mason", "avalon").await;
    let leader = world.agent("leader").await;
    leads(&world, &leader, "avalon").await;
    boss.sends_with(&child, "do", directive()).await;
    leader.sends_with(&mason, "do", directive()).await;
    leader.sends_with("mason@avalon", "do", directive()).await;
    world.operator().sends_with(&boss, "do", directive()).await;
    for (from, to) in [(&child, "boss"), (&boss, &*mason.address), (&mason, "human")] {
        let refused = from.tries(to, "do", directive()).await;
        assert!(matches!(refused, Err(SendError::NotAllowed { .. })), "{to}: {refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn under_the_team_policy_agents_write_within_their_team_and_leaders_to_theirs() {
    let world = World::with(policy(Write::Team));
    let (alice, bob) =
        (world.agent_in("alice", "avalon").await, world.agent_in("bob", "avalon").await);
    let eve = world.agent_in("eve", "camelot").await;
    alice.sends(&bob, "hello").await;
    alice.sends("bob@avalon", "hello").await;
    alice.sends("human", "hello").await;
    for to in [&*eve.address, "bob", "@anyone", "@anyone@camelot", "@everyone"] {
        let refused = alice.tries(to, "hello", Details::default()).await;
        assert!(matches!(refused, Err(SendError::NotAllowed { .. })), "{to}: {refused:?}");
    }
    alice.sends("@everyone@avalon", "hello").await;
    let refused = tries(&eve, &alice).await;
    assert!(matches!(refused, Err(SendError::NotAllowed { .. })), "{refused:?}");
    leads(&world, &eve, "avalon").await;
    eve.sends(&alice, "a leader is near to its team").await;
}

#[tokio::test(start_paused = true)]
async fn under_the_family_policy_only_the_family_writes() {
    let world = World::with(policy(Write::Family));
    let boss = world.agent("boss").await;
    let child = |name| NewInstance { parent: Some(boss.id()), ..new_instance(name) };
    let (one, two) = (world.joins(child("one")).await, world.joins(child("two")).await);
    let stranger = world.agent("stranger").await;
    for (from, to) in [(&boss, &one), (&one, &boss), (&one, &two)] {
        from.sends(to, "hello").await;
    }
    for (from, to) in [(&stranger, &one), (&one, &stranger)] {
        let refused = tries(from, to).await;
        assert!(matches!(refused, Err(SendError::NotAllowed { .. })), "{refused:?}");
    }
    let asked = one.sends("human", "may I?").await;
    // Neither a message of one's own nor one to somebody else opens a door.
    for from in [&one, &stranger] {
        let answered = world.hub.answered_message(from.who, MessageRef::Seq(asked.seq)).await;
        let replied_to = Some(answered.expect("a look").replied_to);
        let reply = Details {
            in_reply_to: Some(asked.seq),
            thread: ThreadChoice { named: None, replied_to },
            ..Details::default()
        };
        let to = if from.id() == one.id() { &stranger } else { &one };
        let refused = from.tries(to, "as an answer", reply).await;
        let closed = match from.id() == one.id() {
            true => matches!(refused, Err(SendError::NotAllowed { .. })),
            false => matches!(refused, Err(SendError::NoSuchMessage(_))),
        };
        assert!(closed, "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_leaders_write_to_everyone_where_the_policy_says_so() {
    let world = World::with(Limits { everyone_policy: Everyone::Leaders, ..Limits::default() });
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let refused = alice.tries("@everyone", "hear me", Details::default()).await;
    assert!(matches!(refused, Err(SendError::NotAllowed { .. })), "{refused:?}");
    leads(&world, &alice, "main").await;
    alice.sends("@everyone", "hear me").await;
    assert_eq!(bob.reads().await.texts(), ["hear me"]);
}

/// Answers the message, as a door does.
async fn answers(
    world: &World,
    from: &Agent,
    to: &Agent,
    what: &Receipt,
) -> Result<Receipt, SendError> {
    let answered = world.hub.answered_message(from.who, MessageRef::Seq(what.seq)).await?;
    let details = Details {
        in_reply_to: answered.seq,
        thread: ThreadChoice { named: None, replied_to: Some(answered.replied_to) },
        hop: answered.hop,
        ..Details::default()
    };
    from.tries(to, "indeed", details).await
}

#[tokio::test(start_paused = true)]
async fn two_agents_that_answer_each_other_without_end_are_stopped() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut last = alice.sends(&bob, "indeed?").await;
    for n in 0..16 {
        let (from, to) = if n % 2 == 0 { (&bob, &alice) } else { (&alice, &bob) };
        last = answers(&world, from, to, &last).await.unwrap_or_else(|e| panic!("{n}: {e}"));
    }
    let stopped = answers(&world, &bob, &alice, &last).await;
    assert!(matches!(stopped, Err(SendError::HopLimit { limit: 16 })), "{stopped:?}");
    bob.sends(&alice, "something new").await;

    let word = world.operator().sends(&bob, "go on").await;
    answers(&world, &bob, &alice, &word).await.expect("the human begins anew");
    sleep(Duration::from_secs(61)).await;
    answers(&world, &bob, &alice, &last).await.expect("nobody hurries any more");
}

#[tokio::test(start_paused = true)]
async fn whoever_was_written_to_may_answer_whatever_the_policy_and_only_its_sender() {
    let world = World::with(policy(Write::Family));
    let robot = world.agent("stranger").await;
    let (alice, eve) = (world.agent("alice").await, world.agent("eve").await);
    let asked = world.operator().sends("stranger", "well?").await;
    let answered = world.hub.answered_message(robot.who, MessageRef::Seq(asked.seq)).await;
    let replied_to = Some(answered.expect("it may read it").replied_to);
    let thread = ThreadChoice { named: None, replied_to };
    let reply =
        || Details { in_reply_to: Some(asked.seq), thread: thread.clone(), ..Details::default() };
    robot.sends_with("human", "indeed", reply()).await;
    for to in [&alice, &eve] {
        let refused = robot.tries(to, "indeed", reply()).await;
        assert!(matches!(refused, Err(SendError::NotAllowed { .. })), "{refused:?}");
    }
}
