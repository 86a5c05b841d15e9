//! Counts, and what does not move.

use std::time::Duration;

use posthaste_api::stats::MailboxStats;
use posthaste_core::Limits;
use serde_json::json;

use crate::house::{House, OPERATOR, read, receipt_of, send, wait};

fn of<'a>(list: &'a [MailboxStats], mailbox: &str) -> &'a MailboxStats {
    let found = list.iter().find(|s| s.mailbox == mailbox);
    found.unwrap_or_else(|| panic!("no {mailbox} in {list:?}"))
}

#[tokio::test]
async fn each_mailbox_has_its_total_its_unread_and_the_age_of_the_oldest() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let (silent, _) = house.agent("silent").await;
    let operator = house.operator();
    for n in 0..3 {
        send(&operator, &bob.instance, &n.to_string()).await;
    }
    as_bob.ack(&receipt_of(&read(&as_bob).await)).await.expect("acked");
    send(&operator, &bob.instance, "new").await;
    send(&operator, "bob", "for any bob").await;

    let list = operator.mailbox_stats().await.expect("counts");
    let own = of(&list, &format!("i.{}", bob.instance));
    assert_eq!((&*own.agent_id, own.total, own.unread), (&*bob.instance, 4, 1));
    assert_eq!(own.team.as_deref(), Some("main"));
    let name = of(&list, "n.bob");
    assert_eq!((&*name.agent_id, name.total, name.unread), ("n.bob", 1, 1));
    let none = of(&list, &format!("i.{}", silent.instance));
    assert_eq!((none.total, none.unread, none.oldest_unread_age_sec), (0, 0, 0));

    let mine = as_bob.mailbox_stats().await.expect("counts");
    assert!(mine.iter().all(|s| s.agent_id != silent.instance), "an agent sees its own");
    assert_eq!(of(&mine, &format!("i.{}", bob.instance)), own);
}

#[tokio::test]
async fn the_names_of_mailbox_counts_are_fixed() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    send(&house.operator(), &bob.instance, "one").await;
    let (status, answer) = house.call("GET /v1/stats/mailboxes", Some(OPERATOR), "").await;
    assert_eq!(status, 200);
    let age = answer[0]["oldest_unread_age_sec"].as_u64().expect("whole seconds");
    let expected = json!([{
        "agent_id": bob.instance, "total": 1, "unread": 1, "oldest_unread_age_sec": age,
        "mailbox": format!("i.{}", bob.instance), "team": "main",
    }]);
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn agents_and_teams_are_counted() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.join("bob", Some("avalon"), "k").await;
    let empty = house.operator().agent_stats().await.expect("counts");
    assert_eq!((empty.since, empty.agents.len()), (None, 2));
    send(&as_alice, &bob.instance, "one").await;
    send(&as_alice, "bob@avalon", "two").await;

    let counted = house.operator().agent_stats().await.expect("counts");
    assert!(counted.since.is_some());
    let find = |id: &str| counted.agents.iter().find(|a| a.agent_id == id).expect("here").clone();
    let (a, b) = (find(&alice.instance), find(&bob.instance));
    assert_eq!((a.sent, a.received, a.unread), (2, 0, 0));
    assert_eq!((b.sent, b.received, b.unread, b.waiting), (0, 1, 2, 0));
    assert_eq!((&*b.team, &*b.status), ("avalon", "running"));
    let own = as_bob.agent_stats().await.expect("counts").agents;
    assert_eq!(own.iter().map(|a| &a.agent_id).collect::<Vec<_>>(), [&bob.instance]);
    assert_eq!(as_alice.agent_stats().await.expect("counts").agents[0].sent, 2);

    let teams = house.operator().team_stats().await.expect("counts").teams;
    let told: Vec<_> =
        teams.iter().map(|t| (&*t.team, t.active, t.sent, t.received, t.unread)).collect();
    assert_eq!(told, [("avalon", 1, 0, 2, 2), ("main", 1, 2, 0, 0)]);
    let own = as_bob.team_stats().await.expect("counts").teams;
    assert_eq!(own.iter().map(|t| &*t.team).collect::<Vec<_>>(), ["avalon"]);
}

#[tokio::test]
async fn what_is_stuck_says_why_and_what_to_do() {
    let house = House::with(Limits { stuck_after: Duration::ZERO, ..Limits::default() }).await;
    let (bob, as_bob) = house.agent("bob").await;
    let (carol, as_carol) = house.agent("carol").await;
    let operator = house.operator();
    assert!(operator.stuck().await.expect("a list").is_empty());
    let held = send(&operator, &bob.instance, "held").await;
    read(&as_bob).await;
    let unread = send(&operator, &carol.instance, "unread").await;

    let list = operator.stuck().await.expect("a list");
    let told: Vec<_> = list.iter().map(|s| (&*s.kind, s.seq, s.count)).collect();
    assert_eq!(told, [("held", held.seq, 1), ("unread", unread.seq, 1)]);
    assert!(list[0].why.starts_with(&format!("{} has had it since", bob.address)));
    assert!(list[1].why.starts_with(&format!("{} has not read it", carol.address)));
    assert!(list.iter().all(|s| !s.hint.is_empty()));
    let own = as_carol.stuck().await.expect("a list");
    assert_eq!(own.iter().map(|s| s.seq).collect::<Vec<_>>(), [unread.seq], "an agent its own");

    // One who waits is not stuck, whatever it waits for.
    let waiting = tokio::spawn(async move {
        let other = posthaste_api::inbox::InboxQuery { label: Some("x".into()), ..wait(60.0) };
        as_carol.inbox(&other).await
    });
    house.waits(&carol.instance).await;
    let list = operator.stuck().await.expect("a list");
    assert_eq!(list.iter().map(|s| s.seq).collect::<Vec<_>>(), [held.seq]);
    waiting.abort();
}

#[tokio::test]
async fn one_of_mail_without_a_taker_is_stuck_at_once_and_other_mail_after_a_while() {
    let house = House::new().await;
    let (mason, _) = house.agent("mason").await;
    let operator = house.operator();
    send(&operator, &mason.instance, "new").await;
    let waits = send(&operator, "mason", "for a mason").await;
    assert!(operator.stuck().await.expect("a list").is_empty(), "too new");
    operator.leave(&mason.instance).await.expect("left");
    let list = operator.stuck().await.expect("a list");
    let told: Vec<_> = list.iter().map(|s| (&*s.kind, s.seq, &*s.mailbox)).collect();
    assert_eq!(told, [("no_taker", waits.seq, "n.mason")]);
    assert_eq!(list[0].why, "nobody of that name is here");
}

#[tokio::test]
async fn mail_that_only_its_sender_could_take_has_no_taker() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let sent = send(&as_alice, "@anyone", "somebody?").await;
    let waiting = {
        let as_alice = as_alice.clone();
        tokio::spawn(async move { as_alice.inbox(&wait(60.0)).await })
    };
    house.waits(&alice.instance).await;
    let list = house.operator().stuck().await.expect("a list");
    assert_eq!(
        list.iter().map(|s| (&*s.kind, s.seq)).collect::<Vec<_>>(),
        [("no_taker", sent.seq)]
    );
    let why = "only its sender is here, who never takes its own mail";
    assert_eq!(list[0].why, why);
    let trail = as_alice.trail(&sent.id).await.expect("her own");
    assert_eq!(trail.verdict, format!("waits in any: {why}"));
    waiting.abort();
}
