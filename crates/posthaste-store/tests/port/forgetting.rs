//! What is old is found, and forgotten when the ledger says so.

use posthaste_core::ledger::KeyDigest;
use posthaste_core::messaging::delivery::{DeliveryNo, Proof, Reason};
use posthaste_core::messaging::message::{Principal, Seq};
use posthaste_core::orchestration::{Assignment, Report};
use posthaste_core::ports::change::{Change, Old};
use posthaste_core::ports::store::{Aged, Ages};
use posthaste_core::registry::{Instance, Status};
use posthaste_core::time::Timestamp;

use crate::rig::{Rig, START, instance, mailbox, minutes_after, reader};

/// Rows from before this minute are old.
fn before(rig: &Rig, minute: i64) -> Old {
    let (before, beyond) = (minutes_after(START, minute), Timestamp(i64::MAX));
    Old { before, beyond, now: rig.now }
}

fn nothing(rig: &Rig) -> Old {
    Old { before: Timestamp(i64::MIN), beyond: Timestamp(i64::MAX), now: rig.now }
}

enum What {
    Keys,
    Ended,
    Settled,
    Events,
}

fn forget(rig: &Rig, what: &What, old: Old) -> Change {
    let none = nothing(rig);
    let (mut keys, mut ended, mut settled, mut events) = (none, none, none, none);
    match what {
        What::Keys => keys = old,
        What::Ended => ended = old,
        What::Settled => settled = old,
        What::Events => events = old,
    }
    Change::OldForgotten { keys, ended, settled, events, needs: none }
}

pub(crate) async fn old_keys_and_weak_acks_are_forgotten(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    for n in 1..=4_u64 {
        let change = rig.post_with_key(&[0], Some(KeyDigest(n.into())), |_| {});
        rig.commit(vec![change]).await;
        let acked = rig.acked(n, n, reader(1), Proof::Hook);
        rig.commit(vec![acked]).await;
        rig.wait(10);
    }
    let change = forget(&rig, &What::Keys, before(&rig, 10));
    rig.commit(vec![change]).await;
    for _ in 0..2 {
        let key = async |n: u128| rig.store.key(KeyDigest(n), START).await.expect("an answer");
        assert_eq!((key(1).await, key(2).await), (None, Some(Seq(2))));
        let start = rig.reopen().await;
        let seqs: Vec<u64> = start.keys.iter().map(|(_, seq, _)| seq.0).collect();
        assert_eq!(seqs, [2, 3, 4]);
        assert_eq!(start.weakly_acked(reader(1)), [Seq(2), Seq(3), Seq(4)]);
    }
    let change = forget(&rig, &What::Keys, before(&rig, 99));
    rig.commit(vec![change]).await;
    let start = rig.reopen().await;
    assert!(start.keys.is_empty() && start.loaded.weakly_acked.is_empty());
    assert_eq!(rig.everything().await.len(), 4, "the messages stay");
}

pub(crate) async fn instances_that_ended_long_ago_are_forgotten(mut rig: Rig) {
    for id in 1..=4 {
        let new = instance(id, START);
        rig.commit(vec![Change::InstanceAdded(new.clone().into())]).await;
        if id < 4 {
            let ended_at = Some(minutes_after(START, i64::from(id) * 10));
            let ended = Instance { status: Status::Stopped, ended_at, ..new };
            rig.commit(vec![Change::InstanceEnded(ended.into())]).await;
        }
    }
    let change = forget(&rig, &What::Ended, before(&rig, 20));
    rig.commit(vec![change]).await;
    let found: Vec<u32> = rig.reopen().await.loaded.instances.iter().map(|i| i.id.0).collect();
    assert_eq!(found, [2, 3, 4]);
    let change = forget(&rig, &What::Ended, before(&rig, 999));
    rig.commit(vec![change]).await;
    let found = rig.reopen().await.loaded.instances;
    assert!(found.len() == 1 && found[0].ended_at.is_none(), "whoever lives stays");
}

pub(crate) async fn assignments_that_were_settled_long_ago_are_forgotten(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    rig.send(3, 0).await;
    for task in 1..=3 {
        let opened = Assignment {
            task: Seq(task),
            worker: instance(1, START).id,
            by: Principal::Operator,
            label: None,
            opened_at: START,
            report: None,
        };
        rig.commit(vec![Change::AssignmentOpened(opened)]).await;
    }
    for task in [1, 2] {
        let at = minutes_after(START, i64::from(u8::try_from(task).expect("small")) * 10);
        let (seq, delivery, mailbox) = (Seq(3), DeliveryNo(3), mailbox("human"));
        let report = Report { seq, delivery, mailbox, at };
        rig.commit(vec![Change::AssignmentSettled { task: Seq(task), report }]).await;
    }
    let change = forget(&rig, &What::Settled, before(&rig, 20));
    rig.commit(vec![change]).await;
    let tasks: Vec<u64> = rig.reopen().await.loaded.assignments.iter().map(|a| a.task.0).collect();
    assert_eq!(tasks, [2, 3]);
    let change = forget(&rig, &What::Settled, before(&rig, 999));
    rig.commit(vec![change]).await;
    assert_eq!(rig.reopen().await.loaded.assignments.len(), 1, "what is open stays");
}

pub(crate) async fn old_events_are_forgotten_and_their_numbers_are_not(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    for _ in 0..4 {
        let pair = vec![rig.post(&[0], |_| {}), rig.post(&[0], |_| {})];
        rig.commit(pair).await;
        rig.wait(10);
    }
    let ages = |rig: &Rig, minute| {
        let (acked, dead) = (nothing(rig), nothing(rig));
        Ages { acked, dead, events: before(rig, minute), needs: nothing(rig) }
    };
    let has_old = async |rig: &Rig, minute| {
        rig.store.aged(ages(rig, minute), 9).await.expect("an answer").has_events
    };
    assert!(!has_old(&rig, 0).await);
    assert!(has_old(&rig, 1).await);
    let change = forget(&rig, &What::Events, before(&rig, 20));
    rig.commit(vec![change]).await;
    for _ in 0..2 {
        assert!(!has_old(&rig, 20).await);
        let found = rig.store.events(0, 99).await.expect("events");
        let numbers: Vec<u64> = found.events.iter().map(|event| event.no).collect();
        assert_eq!((numbers, found.oldest, found.last), (vec![5, 6, 7, 8], 5, 8));
        assert_eq!(rig.reopen().await.loaded.last_event, 8);
    }
}

pub(crate) async fn rows_of_the_future_stay_until_the_run_is_long_enough(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    // The clock was an hour ahead, and is right since the start.
    rig.wait(60);
    for round in 0..3 {
        if round == 1 {
            rig.reopen().await;
            rig.now = START;
        }
        let change = rig.post_with_key(&[0], Some(KeyDigest(round)), |_| {});
        rig.commit(vec![change]).await;
        rig.wait(5);
    }
    let kept = async |rig: &mut Rig| -> (Vec<u64>, Vec<u64>) {
        let events = rig.journal().await.iter().map(|event| event.no).collect();
        (rig.reopen().await.keys.iter().map(|(_, seq, _)| seq.0).collect(), events)
    };
    let forget_old = |rig: &Rig, beyond| {
        let old = Old { before: minutes_after(START, 3), beyond, now: rig.now };
        let (ended, settled, needs) = (nothing(rig), nothing(rig), nothing(rig));
        Change::OldForgotten { keys: old, ended, settled, events: old, needs }
    };
    let change = forget_old(&rig, Timestamp(i64::MAX));
    rig.commit(vec![change]).await;
    let without_the_old = kept(&mut rig).await;
    assert_eq!(without_the_old, (vec![1, 3], vec![1, 3]), "it holds no other back");
    // The run is longer than such a row is kept: it is old, whatever it says.
    let change = forget_old(&rig, rig.now);
    rig.commit(vec![change]).await;
    assert_eq!(kept(&mut rig).await, (vec![3], vec![3]));
}

pub(crate) async fn only_messages_that_are_settled_for_long_enough_are_aged(mut rig: Rig) {
    rig.open_boxes(&["human", "any"]).await;
    for _ in 0..8 {
        let change = rig.post(&[0, 1], |_| {});
        rig.commit(vec![change]).await;
    }
    rig.wait(10);
    let changes = vec![
        // 1: both old. 2: one is open. 3: both dead. 4: one acked, one dead.
        rig.acked(1, 1, Principal::Operator, Proof::Receipt),
        rig.acked(2, 1, reader(1), Proof::Receipt),
        rig.acked(3, 2, Principal::Operator, Proof::Receipt),
        rig.dead(5, 3, Reason::Expired),
        rig.dead(6, 3, Reason::Expired),
        rig.acked(7, 4, Principal::Operator, Proof::Receipt),
        rig.dead(8, 4, Reason::Expired),
        rig.acked(9, 5, Principal::Operator, Proof::Receipt),
        rig.acked(11, 6, Principal::Operator, Proof::Receipt),
        rig.acked(12, 6, reader(1), Proof::Receipt),
    ];
    rig.commit(changes).await;
    rig.wait(20);
    // 5: its last delivery was settled later.
    let late = rig.acked(10, 5, reader(1), Proof::Receipt);
    rig.commit(vec![late]).await;
    rig.wait(70);
    let aged = async |acked: i64, dead: i64, most| {
        let (acked, dead) = (before(&rig, acked), before(&rig, dead));
        let ages = Ages { acked, dead, events: nothing(&rig), needs: nothing(&rig) };
        let found: Aged = rig.store.aged(ages, most).await.expect("an answer");
        assert!(!found.has_events);
        found.messages.iter().map(|seq| seq.0).collect::<Vec<u64>>()
    };
    assert_eq!(aged(20, 0, 99).await, [1, 6]);
    assert_eq!(aged(20, 20, 99).await, [1, 3, 4, 6]);
    assert_eq!(aged(20, 20, 2).await, [1, 3], "the lowest first");
    assert_eq!(aged(31, 31, 99).await, [1, 3, 4, 5, 6]);
    assert_eq!(aged(10, 10, 99).await, [] as [u64; 0], "not before, but at that time");
}

pub(crate) async fn a_mailbox_is_unnamed_when_no_kept_delivery_names_it(mut rig: Rig) {
    rig.open_boxes(&["human", "any", "n.mason", "n.carver"]).await;
    rig.send(1, 0).await;
    let change = rig.post(&[1, 2], |_| {});
    rig.commit(vec![change]).await;
    let unnamed =
        async |rig: &Rig| rig.store.unnamed(vec![3, 2, 1, 0, 99]).await.expect("an answer");
    assert_eq!(unnamed(&rig).await, [3, 99]);
    let changes = vec![
        rig.acked(2, 2, reader(1), Proof::Receipt),
        rig.acked(3, 2, reader(1), Proof::Receipt),
    ];
    rig.commit(changes).await;
    assert_eq!(unnamed(&rig).await, [3, 99], "a settled delivery names its mailbox");
    rig.commit(vec![Change::MessagesPruned(vec![Seq(2)])]).await;
    for _ in 0..2 {
        assert_eq!(unnamed(&rig).await, [3, 2, 1, 99]);
        rig.reopen().await;
    }
}
