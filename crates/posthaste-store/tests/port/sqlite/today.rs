//! A database that the last version before this port has made (schema 14) opens with
//! everything in it. `today.db` is what it left after a clean stop, vacuumed into small
//! pages: two agents that joined, a worker that was assigned and has ended, ten messages.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::address::InstanceId;
use posthaste_core::ledger::KeyDigest;
use posthaste_core::messaging::delivery::{DeliveryNo, Proof, Reason};
use posthaste_core::messaging::message::{MessageId, MessageRef, Principal, Seq, ThreadId};
use posthaste_core::ports::change::Change;
use posthaste_core::ports::store::{Epoch, HistoryLook, Source, Store};
use posthaste_core::ports::{Noted, RecordState};
use posthaste_core::profiles::Source as Origin;
use posthaste_core::registry::{self, Status};
use posthaste_core::time::Timestamp;
use posthaste_store::{SqliteStore, StoreConfig};
use tempfile::TempDir;

use crate::rig::{Rig, Start};

const ALICE: InstanceId = InstanceId(0x517d_b49c);
const BOB: InstanceId = InstanceId(0x6d39_77b4);
const COUNTER: InstanceId = InstanceId(0x6f25_41aa);
const IDS: [u64; 10] = [
    0xee26_cb1e_8637_50e2,
    0xa9bc_4570_eeb9_b884,
    0x2636_e2bb_c502_8e6a,
    0x4388_53ca_1d31_47e8,
    0x1095_822e_707d_eb4f,
    0x7a82_0b2d_5a42_6e03,
    0xdac5_567c_1f61_e0e4,
    0x687d_d9d4_c4e7_c6dd,
    0x3b21_dd96_ff6b_ff8b,
    // In no index when the hub stopped.
    0xa0b5_280f_234f_4931,
];

/// A folder with the database in it.
pub(super) fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/port/today.db");
    std::fs::copy(file, folder.path().join("hub.db")).expect("copied");
    folder
}

fn open(folder: &TempDir) -> Arc<SqliteStore> {
    let config = StoreConfig { wal_bytes: 1 << 20, ..StoreConfig::default() };
    SqliteStore::open(folder.path(), config).expect("it is brought up to date")
}

#[tokio::test]
async fn everything_in_it_is_loaded() {
    let folder = folder();
    let start = Start::of(&*open(&folder)).await;
    let loaded = &start.loaded;
    assert_eq!((loaded.epoch, loaded.clean), (Epoch(1), true));
    assert_eq!((loaded.last_seq, loaded.last_delivery), (10, 10));
    assert!(loaded.last_event > 10);

    let names: Vec<_> = loaded.profiles.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["alice", "bob", "counter"]);
    assert_eq!(loaded.profiles[2].1.source, Origin::Api);
    let teams: Vec<_> = loaded.teams.iter().map(|t| (t.name.as_str(), t.leaders.len())).collect();
    assert_eq!(teams, [("builders", 2), ("main", 0), ("reviewers", 0)]);

    let ids: Vec<_> = loaded.instances.iter().map(|i| i.id).collect();
    assert_eq!(ids, [ALICE, BOB, COUNTER], "oldest first");
    let counter = start.instance(COUNTER);
    assert_eq!((counter.status, counter.parent), (Status::Finished, Some(ALICE)));
    assert_eq!(counter.origin, registry::Origin::Assigned);
    let work = counter.work.as_ref().expect("the hub started it");
    assert_eq!((work.exit_code, work.directory.as_deref()), (Some(0), Some("/tmp")));
    let bob = start.instance(BOB);
    assert_eq!((bob.team.as_str(), bob.key.as_deref()), ("builders", Some("cli:bob@builders")));
    assert!(bob.secret.is_some() && bob.status == Status::Running);
    let owners: Vec<_> = loaded.tokens.iter().map(|(_, of)| *of).collect();
    assert_eq!(owners, [ALICE, BOB]);

    let boxes: Vec<_> = loaded.mailboxes.iter().map(|(no, m)| (*no, m.to_string())).collect();
    let expected = ["n.bob", "i.517db49c", "i.6d3977b4", "n.alice", "any", "i.6f2541aa"];
    assert_eq!(boxes, (0..).zip(expected.map(str::to_owned)).collect::<Vec<_>>());
    let open: Vec<_> = start.deliveries.iter().map(|(at, d)| (*at, d.delivery.0)).collect();
    assert_eq!(open, [(1, 2), (0, 3), (3, 6), (4, 7), (1, 9), (0, 10)]);
    let refused = &start.deliveries[1].1;
    assert_eq!((refused.marked, refused.attempts, refused.sender), (true, 1, Some(ALICE)));
    let keyed: Vec<_> = start.keys.iter().map(|(_, seq, _)| seq.0).collect();
    assert_eq!(keyed, [1, 2, 6, 8, 10]);

    let [assignment] = &loaded.assignments[..] else { panic!("{:?}", loaded.assignments) };
    assert_eq!((assignment.task, assignment.worker), (Seq(8), COUNTER));
    assert_eq!(assignment.by, Principal::Instance(ALICE));
    let report = assignment.report.as_ref().expect("settled");
    assert_eq!((report.seq, report.delivery.0), (Seq(9), 9));
    assert_eq!(report.mailbox.to_string(), "i.517db49c");
}

#[tokio::test]
async fn what_became_of_its_messages_is_found() {
    let folder = folder();
    let store = open(&folder);
    let which = (1..=10).map(|seq| MessageRef::Seq(Seq(seq))).collect();
    let records = store.records(which, usize::MAX).await.expect("records");
    assert!(records.iter().all(|record| record.unreadable.is_empty()), "{records:?}");
    let ends: Vec<_> = records.iter().map(|record| record.deliveries[0].end).collect();
    let cancelled = RecordState::Dead { reason: Reason::Cancelled, maybe_seen: false };
    let acked = |proof| Some(RecordState::Acked(proof));
    let (receipt, end) = (acked(Proof::Receipt), acked(Proof::End));
    let dead = Some(cancelled);
    assert_eq!(ends, [receipt, None, None, dead, dead, None, None, end, None, None]);
    let first = &records[0];
    assert_eq!(first.message.body, "first, acked");
    assert_eq!(first.message.label.as_deref(), Some("wall"));
    assert_eq!(first.message.metadata.as_deref(), Some("{\"a\":1}"));
    assert_eq!(first.deliveries[0].by, Some(Principal::Instance(BOB)));

    let replies = store.replies(Seq(1), 9).await.expect("replies");
    assert_eq!(replies[0].message.body, "a reply");
    let notes = store.notes(DeliveryNo(1)..=DeliveryNo(10)).await.expect("notes");
    assert_eq!(notes[0].noted, Noted::Refused(Some(Principal::Instance(BOB))));
    let events = store.events(0, 100).await.expect("events");
    assert!(events.events.iter().all(|event| event.told.is_some()));
    assert_eq!((events.oldest, events.events.len() as u64), (1, events.last));
    let found = store.search("counts words".into(), 9).await.expect("a search");
    assert_eq!(found[0].template.name.as_str(), "counter");
}

#[tokio::test(start_paused = true)]
async fn its_ids_are_found_and_so_are_new_ones() {
    let folder = folder();
    let mut rig = Rig::new(open(&folder), super::Sqlite::at(folder, false)).await;
    let all_found = async |rig: &Rig, upto: u64| {
        for seq in 1..=upto {
            let id = usize::try_from(seq).ok().and_then(|seq| IDS.get(seq - 1));
            let id = id.map_or_else(|| rig.id_key.id(Seq(seq)), |id| MessageId(*id));
            let found = rig.store.records(vec![MessageRef::Id(id)], 9).await.expect("records");
            let found: Vec<_> = found.iter().map(|r| (r.message.seq.0, r.message.id)).collect();
            assert_eq!(found, [(seq, id)]);
        }
        for unknown in [MessageId(7), rig.id_key.id(Seq(5)), rig.id_key.id(Seq(99))] {
            let found = rig.store.records(vec![MessageRef::Id(unknown)], 9).await;
            assert!(found.expect("records").is_empty(), "{unknown}");
        }
    };
    all_found(&rig, 10).await;
    rig.send(3, 0).await;
    all_found(&rig, 13).await;
    rig.reopen().await;
    all_found(&rig, 13).await;

    // New ids are in no table, and those that are pruned leave it.
    let kept = |folder: &Path| -> u64 {
        let db = rusqlite::Connection::open(folder.join("hub.db")).expect("the file");
        let count = "SELECT count(*) FROM message_ids";
        db.query_row(count, [], |row| row.get(0)).expect("a count")
    };
    let path = rig.folder().expect("it has a folder");
    assert_eq!(kept(&path), 10);
    rig.commit(vec![Change::MessagesPruned(vec![Seq(1), Seq(2), Seq(4), Seq(11)])]).await;
    assert_eq!(kept(&path), 8, "2 and 11 are open");
}

#[tokio::test(start_paused = true)]
async fn its_history_is_the_same_before_and_after_it_is_indexed() {
    let folder = folder();
    let store = open(&folder);
    let sources = [
        Source::Thread(ThreadId(0xd04d_0bea)),
        Source::Sender(ALICE),
        Source::Mailboxes(vec![0, 1]),
        Source::All,
    ];
    let expected: [&[u64]; 4] = [
        &[1, 2, 3, 4, 5, 7, 10],
        &[1, 3, 4, 5, 7, 8, 10],
        &[1, 2, 3, 4, 9, 10],
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    ];
    for _ in 0..2 {
        for (source, expected) in sources.iter().zip(expected) {
            let (above, below, forward, most) = (0, u64::MAX >> 1, true, 50);
            let sources = [source.clone()].into();
            let look = HistoryLook { sources, above, below, forward, most, bytes: usize::MAX };
            let part = store.history(look).await.expect("history");
            let seqs: Vec<_> = part.records.iter().map(|r| r.message.seq.0).collect();
            assert_eq!(seqs, expected, "{source:?}");
        }
        let counts = store.counts(None).await.expect("counts");
        assert_eq!(counts.received.values().sum::<u64>(), 10);
        assert_eq!((counts.sent[&ALICE], counts.sent[&BOB]), (7, 1));
        // The background works while nobody does anything.
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let db = rusqlite::Connection::open(folder.path().join("hub.db")).expect("the file");
    let listed = "SELECT sum(count) FROM seq_lists WHERE kind = 1";
    let listed: u64 = db.query_row(listed, [], |row| row.get(0)).expect("a sum");
    assert_eq!(listed, 10);
}

#[tokio::test]
async fn its_keys_are_known() {
    let folder = folder();
    let store = open(&folder);
    let start = Start::of(&*store).await;
    for (digest, seq, at) in start.keys {
        assert_eq!(store.key(digest, at).await.expect("a look"), Some(seq));
        assert_eq!(store.key(digest, Timestamp(at.0 + 1)).await.expect("a look"), None);
    }
    assert_eq!(store.key(KeyDigest(1), Timestamp(0)).await.expect("a look"), None);
}
