//! What a restart keeps, and what it marks.

use std::time::Duration;

use posthaste_core::address::InstanceId;
use posthaste_core::messaging::delivery::{AnswerId, Proof};
use posthaste_core::messaging::message::{Details, MessageRef, Principal};
use posthaste_core::ports::{Filter, Hire, Leased, RecordState, Take, What};
use posthaste_core::registry::{JoinKey, NewInstance, Origin, RegistryError, Work};
use posthaste_core::{Hub, NotReady};
use posthaste_store::{OpenError, Place, StoreConfig};
use posthaste_testkit::profiles_suite::put;
use posthaste_testkit::store_suite::Rig;
use posthaste_testkit::working_suite::hire;
use rusqlite::{Connection, params};

use crate::rig;

const HUMAN: Principal = Principal::Operator;

async fn read(rig: &Rig, reader: Principal, answer: u64, messages: usize) -> Vec<Leased> {
    let take = Take {
        reader,
        answer: AnswerId(answer),
        filter: Filter::default(),
        messages,
        bytes: usize::MAX,
        clips: None,
    };
    rig.engine.lease(take).await.expect("a lease").mail
}

fn seen(mail: &[Leased]) -> Vec<(&str, bool)> {
    mail.iter().map(|l| (l.message.body.as_str(), l.redelivered)).collect()
}

/// The process is gone without a word; only the lock goes with it.
fn kill(rig: Rig) {
    drop(rig);
}

#[tokio::test]
async fn after_a_clean_stop_only_never_leased_mail_is_unmarked() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    for body in ["acked", "held", "returned", "untouched"] {
        rig.send(HUMAN, &bob.to_string(), body).await.expect("accepted");
    }
    let mail = read(&rig, bob, 1, 3).await;
    let one = |i: usize| What::Deliveries(vec![mail[i].delivery]);
    rig.engine.ack(bob, one(0), Proof::Receipt).await.expect("acked");
    rig.engine.give_back(bob, &[mail[2].delivery], AnswerId(1), false);
    rig.engine.close().await.expect("closed");
    drop(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    let mail = read(&rig, bob, 2, 9).await;
    assert_eq!(seen(&mail), [("held", true), ("returned", true), ("untouched", false)]);
}

#[tokio::test]
async fn after_a_kill_everything_is_there_and_marked() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    rig.send(HUMAN, &bob.to_string(), "acked").await.expect("accepted");
    let mail = read(&rig, bob, 1, 9).await;
    let what = What::Deliveries(vec![mail[0].delivery]);
    rig.engine.ack(bob, what, Proof::Receipt).await.expect("acked");
    rig.send(HUMAN, &bob.to_string(), "waits").await.expect("accepted");
    kill(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    assert_eq!(seen(&read(&rig, bob, 2, 9).await), [("waits", true)]);
}

#[tokio::test]
async fn instances_tokens_teams_keys_and_numbers_survive() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let key = || Details { idempotency_key: Some("once".into()), ..Details::default() };
    let first = rig.send_with(alice, "bob", "hello", key()).await.expect("accepted");
    let before =
        rig.engine.ledger(|l| l.instance(bob.instance().expect("an instance"))).expect("known");
    rig.engine.close().await.expect("closed");
    drop(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    let after =
        rig.engine.ledger(|l| l.instance(bob.instance().expect("an instance"))).expect("known");
    assert_eq!(before.instance.address, after.instance.address);
    assert_eq!(before.instance.thread, after.instance.thread);
    let again = rig.send_with(alice, "bob", "hello", key()).await.expect("accepted");
    assert_eq!((again.seq, again.duplicate), (first.seq, true));
    let next = rig.send(alice, "bob", "more").await.expect("accepted");
    assert_eq!(next.seq.0, first.seq.0 + 1);
    let by_id = rig.engine.message(MessageRef::Id(first.id)).await.expect("a look");
    assert_eq!(by_id.expect("found").message.body, "hello");
}

#[tokio::test]
async fn an_idempotency_key_is_forgotten_after_its_time() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let (alice, _bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let key = || Details { idempotency_key: Some("once".into()), ..Details::default() };
    rig.send_with(alice, "bob", "hello", key()).await.expect("accepted");
    rig.clock.advance(rig.limits.key_retention + Duration::from_secs(1));
    rig.engine.sweep().await.expect("swept");
    let again = rig.send_with(alice, "bob", "hello", key()).await.expect("accepted");
    assert!(!again.duplicate);
}

#[tokio::test]
async fn the_dead_and_the_refused_stay_so() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    let dead = rig.send(HUMAN, &bob.to_string(), "dead").await.expect("accepted");
    rig.engine.cancel(dead.seq).await.expect("cancelled");
    rig.send(HUMAN, &bob.to_string(), "nacked").await.expect("accepted");
    for attempt in 1..=4 {
        let mail = read(&rig, bob, attempt, 9).await;
        rig.engine.nack(bob, What::Deliveries(vec![mail[0].delivery])).await.expect("refused");
    }
    kill(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    let mail = read(&rig, bob, 9, 9).await;
    assert_eq!(seen(&mail), [("nacked", true)]);
    let nacked = rig.engine.nack(bob, What::Deliveries(vec![mail[0].delivery])).await;
    assert_eq!(nacked.expect("refused").refused, 1, "the fifth, counted over the restart");
    rig.engine.requeue(dead.seq).await.expect("queued again");
    kill(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    assert_eq!(seen(&read(&rig, bob, 1, 9).await), [("dead", true)]);
    let record = rig.engine.message(MessageRef::Seq(dead.seq)).await.expect("a look");
    let state = record.expect("found").deliveries[0].state;
    assert_eq!(state, RecordState::Leased);
}

#[tokio::test]
async fn ids_taken_by_a_weak_proof_are_named_again_after_a_start() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    let sent = rig.send(HUMAN, &bob.to_string(), "x").await.expect("accepted");
    let mail = read(&rig, bob, 1, 9).await;
    let what = What::Deliveries(vec![mail[0].delivery]);
    rig.engine.ack(bob, what, Proof::NextCall).await.expect("acked");
    kill(rig);
    let rig = rig::at(folder.path()).expect("opened again");
    assert_eq!(rig.engine.weakly_acked(bob), [sent.seq]);
}

/// A start for which any backlog is a long one.
fn behind_the_doors(folder: &std::path::Path) -> Result<Rig, OpenError> {
    let config = StoreConfig { read_at_start: 0, ..rig::config() };
    rig::open(&Place::File(folder.to_owned()), config, rig::limits())
}

#[tokio::test]
async fn a_long_backlog_is_read_behind_the_doors_and_nothing_is_missed() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let key = || Details { idempotency_key: Some("once".into()), ..Details::default() };
    let first = rig.send_with(alice, &bob.to_string(), "0", key()).await.expect("accepted");
    for n in 1..30 {
        rig.send(alice, &bob.to_string(), &n.to_string()).await.expect("accepted");
    }
    kill(rig);

    let rig = behind_the_doors(folder.path()).expect("opened again");
    // Nothing has had time to be read: this goes ahead of it all the same.
    rig.send(alice, &bob.to_string(), "new").await.expect("accepted at once");
    let again = rig.send_with(alice, &bob.to_string(), "0", key()).await.expect("known");
    assert_eq!((again.seq, again.duplicate), (first.seq, true));
    let mail = read(&rig, bob, 1, 99).await;
    let old = (0..30).map(|n| (n.to_string(), true));
    let all: Vec<(String, bool)> = old.chain([("new".into(), false)]).collect();
    let seen: Vec<(String, bool)> =
        seen(&mail).into_iter().map(|(text, marked)| (text.to_owned(), marked)).collect();
    assert_eq!(seen, all, "in order, the old marked");
    let what = What::Deliveries(mail.iter().map(|l| l.delivery).collect());
    assert_eq!(rig.engine.ack(bob, what, Proof::Receipt).await.expect("acked").acked, 31);
}

/// Overwrites the page that a query finds, while nobody uses the database.
pub(crate) fn spoil(file: &std::path::Path, page: &str) {
    let db = Connection::open(file).expect("a database");
    let page: usize = db.query_row(page, [], |row| row.get(0)).expect("a page");
    db.close().expect("closed");
    let mut bytes = std::fs::read(file).expect("a file");
    bytes[(page - 1) * 8192..page * 8192].fill(0x5a);
    std::fs::write(file, &bytes).expect("damaged");
}

#[tokio::test]
async fn a_backlog_that_cannot_be_read_is_told_to_whoever_asks() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    let sent = rig.send(HUMAN, &bob.to_string(), "x").await.expect("accepted");
    for name in ["a1", "a2", "a3", "a4", "a5", "a6"] {
        let other = rig.agent(name).await.to_string();
        for _ in 0..50 {
            rig.send(HUMAN, &other, "x").await.expect("accepted");
        }
    }
    rig.engine.close().await.expect("closed");
    drop(rig);
    let first = "SELECT pageno FROM dbstat WHERE name = 'deliveries' AND pagetype = 'leaf' \
                 ORDER BY path LIMIT 1";
    spoil(&folder.path().join("hub.db"), first);

    let error = rig::at(folder.path()).err().expect("a little is read before the doors open");
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    let rig = behind_the_doors(folder.path()).expect("the rest is read later");
    let error = rig.engine.message(MessageRef::Seq(sent.seq)).await.expect_err("unknown");
    assert!(error.to_string().contains("hub.db is damaged"), "{error}");
    let what = What::Messages(vec![sent.seq]);
    let error = rig.engine.ack(bob, what, Proof::Receipt).await.expect_err("unknown");
    assert!(error.to_string().contains("hub.db is damaged"), "{error}");
    assert!(!rig.engine.is_healthy());
}

#[tokio::test]
async fn a_database_of_the_first_version_keeps_its_keys() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let (alice, _bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let key = |n: u32| Details { idempotency_key: Some(n.to_string()), ..Details::default() };
    let mut seqs = Vec::new();
    for n in 0..3 {
        seqs.push(rig.send_with(alice, "bob", "hello", key(n)).await.expect("accepted").seq);
    }
    rig.engine.close().await.expect("closed");
    drop(rig);
    make_it_the_first_version(folder.path());

    let rig = rig::at(folder.path()).expect("brought up to date");
    for (n, seq) in (0..).zip(seqs) {
        let again = rig.send_with(alice, "bob", "hello", key(n)).await.expect("known");
        assert_eq!((again.seq, again.duplicate), (seq, true));
    }
}

#[tokio::test]
async fn an_agent_that_joined_before_keys_had_secrets_gets_one_with_its_next_join() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let join = |secret: u8| NewInstance {
        agent: "claude".parse().expect("a good name"),
        team: None,
        label: None,
        parent: None,
        kind: None,
        key: Some(JoinKey { key: "window-1".into(), secret: [secret; 32] }),
        origin: Origin::Join,
        token: rand::random(),
    };
    let first = rig.engine.join(join(1)).await.expect("joined").instance.id;
    rig.engine.close().await.expect("closed");
    drop(rig);
    make_it_the_first_version(folder.path());

    let rig = rig::at(folder.path()).expect("brought up to date");
    let early = rig.engine.join(join(2)).await.expect_err("it may still be here");
    assert_eq!(early, RegistryError::Taken("claude".into()));
    rig.clock.advance(rig.limits.away_after);
    let again = rig.engine.join(join(3)).await.expect("joined");
    assert_eq!((again.instance.id, again.resumed, again.secret_kept), (first, true, true));
    drop(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    rig.clock.advance(rig.limits.away_after * 2);
    let thief = rig.engine.join(join(4)).await.expect("the key is free");
    assert_ne!(thief.instance.id, first, "from then on nobody else is it");
    assert_eq!(rig.engine.join(join(3)).await.expect("joined").instance.id, first);
}

#[tokio::test]
async fn of_agents_from_before_it_is_known_who_made_them() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let db = Connection::open(folder.path().join("hub.db")).expect("a file");
    for step in [
        include_str!("../../migrations/sqlite/0001_backbone.sql"),
        include_str!("../../migrations/sqlite/0002_senders.sql"),
        include_str!("../../migrations/sqlite/0003_key_lists.sql"),
        include_str!("../../migrations/sqlite/0004_profiles.sql"),
        include_str!("../../migrations/sqlite/0005_history.sql"),
        include_str!("../../migrations/sqlite/0006_events.sql"),
        include_str!("../../migrations/sqlite/0007_hops.sql"),
        include_str!("../../migrations/sqlite/0008_work.sql"),
        include_str!("../../migrations/sqlite/0009_room.sql"),
        include_str!("../../migrations/sqlite/0010_secrets.sql"),
        "PRAGMA application_id = 1346917204; PRAGMA user_version = 10;",
    ] {
        db.execute_batch(step).expect("applied");
    }
    let cases = [
        (1, None::<u32>, Some("window-1"), false, Origin::Join),
        (2, None, None, false, Origin::Operator),
        (3, Some(2), None, false, Origin::Operator),
        (4, Some(1), None, true, Origin::Assigned),
        (5, None, None, true, Origin::Operator),
    ];
    for (id, parent, key, works, _) in cases {
        db.execute(
            "INSERT INTO instances (id, agent, team, kind, parent, thread, join_key, status, \
             created_at, last_seen) VALUES (?1, 'mason', 'main', 'external', ?2, ?1, ?3, \
             'running', ?1, ?1)",
            params![id, parent, key],
        )
        .expect("a row");
        if works {
            db.execute("INSERT INTO work (instance, worktree) VALUES (?1, 0)", params![id])
                .expect("a row");
        }
    }
    drop(db);

    let rig = rig::at(folder.path()).expect("brought up to date");
    for (id, .., origin) in cases {
        let known = rig.engine.ledger(|l| l.instance(InstanceId(id))).expect("known").instance;
        assert_eq!(known.origin, origin, "instance {id}");
    }
    let worker = NewInstance {
        agent: "mason".parse().expect("a good name"),
        team: None,
        label: None,
        parent: None,
        kind: None,
        key: None,
        origin: Origin::Assigned,
        token: rand::random(),
    };
    let worker = rig.engine.join(worker).await.expect("joined").instance.id;
    kill(rig);
    let rig = rig::at(folder.path()).expect("opened again");
    assert_eq!(
        rig.engine.ledger(|l| l.instance(worker)).expect("known").instance.origin,
        Origin::Assigned
    );
}

/// Writes the same rows down as the first version of the hub did.
fn make_it_the_first_version(folder: &std::path::Path) {
    let (now, old) = (folder.join("hub.db"), folder.join("first.db"));
    let db = Connection::open(&old).expect("a database");
    db.execute_batch(include_str!("../../migrations/sqlite/0001_backbone.sql")).expect("a schema");
    db.execute("ATTACH ?1 AS now", [now.to_str().expect("a plain path")]).expect("the rows");
    let list = |sql: &str| -> Vec<String> {
        let mut select = db.prepare(sql).expect("a query");
        let rows = select.query_map([], |row| row.get(0)).expect("rows");
        rows.collect::<Result<_, _>>().expect("names")
    };
    for table in ["profiles", "teams", "instances", "tokens", "mailboxes", "messages", "deliveries"]
    {
        let columns = list(&format!("SELECT name FROM pragma_table_info('{table}', 'main')"));
        let columns = columns.join(", ");
        let copy =
            format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM now.{table}");
        db.execute(&copy, []).expect("copied");
    }
    db.execute(
        "INSERT INTO main.keys (key, seq, at) SELECT substr(list, 1, 16), no, at FROM now.key_lists",
        [],
    )
    .expect("copied");
    let id: i64 =
        db.query_row("PRAGMA now.application_id", [], |row| row.get(0)).expect("a number");
    db.execute_batch(&format!(
        "DETACH now; PRAGMA application_id = {id}; PRAGMA user_version = 1;"
    ))
    .expect("as it was");
    drop(db);
    std::fs::rename(old, now).expect("in its place");
}

#[tokio::test]
async fn a_store_that_still_reads_what_is_open_is_not_ready() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    for _ in 0..420 {
        rig.agent("one").await;
    }
    // More than is read before the doors open.
    for _ in 0..50 {
        rig.send(HUMAN, "@everyone", "to all").await.expect("accepted");
    }
    assert!(rig.engine.is_ready());
    kill(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    assert!(!rig.engine.is_ready(), "nothing has run since it was opened");
    let hub = Hub::start(rig.engine.clone());
    assert!(matches!(hub.ready().await, Err(NotReady::Reading)));
    assert_eq!(read(&rig, bob, 1, 99).await.len(), 50, "a read waits until all is known");
    assert!(rig.engine.is_ready());
    hub.ready().await.expect("now it is");
}

#[tokio::test]
async fn a_worker_in_line_keeps_its_timeout_over_a_restart() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let boss = rig.agent("boss").await;
    rig.engine.put_profile(put("mason", "lays bricks")).await.expect("written");
    let timeout = Some(Duration::from_millis(1500));
    let work = Some(Work { timeout, ..Work::default() });
    let wish = hire(&rig, boss, "wall", Details::default());
    rig.engine.hire(Hire { work, ..wish }).await.expect("hired");
    kill(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    let line = rig.engine.ledger(|l| l.in_line());
    assert_eq!(line[0].work.as_ref().expect("a worker").timeout, timeout);
}
