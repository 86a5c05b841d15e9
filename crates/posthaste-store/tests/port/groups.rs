//! Groups are written whole or not at all, and are there after a restart.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use posthaste_core::address::InstanceId;
use posthaste_core::events::{EventKind, Trace};
use posthaste_core::ledger::KeyDigest;
use posthaste_core::messaging::delivery::{DeliveryNo, Proof, Reason};
use posthaste_core::messaging::id_key::IdKey;
use posthaste_core::messaging::message::{Principal, Seq};
use posthaste_core::ports::change::{Change, Old};
use posthaste_core::ports::store::{CommitError, Epoch};
use posthaste_core::ports::{Note, Noted};
use posthaste_core::profiles::{Profile, Source, Template};
use posthaste_core::registry::{AgentKind, Status, Team};

use crate::agree;
use crate::rig::{Rig, instance, mailbox, minutes_after, name};

const ONE: InstanceId = InstanceId(1);

pub(crate) async fn a_new_store_holds_nothing(mut rig: Rig) {
    for start in [rig.reopen().await, rig.reopen().await] {
        let loaded = start.loaded;
        assert_eq!((loaded.last_seq, loaded.last_delivery, loaded.last_event), (0, 0, 0));
        assert!(loaded.profiles.is_empty() && loaded.teams.is_empty());
        assert!(loaded.instances.is_empty() && loaded.tokens.is_empty());
        assert!(loaded.mailboxes.is_empty() && loaded.assignments.is_empty());
        assert!(loaded.weakly_acked.is_empty() && loaded.unreadable_reports.is_empty());
        assert!(start.deliveries.is_empty() && start.keys.is_empty());
    }
    assert!(rig.everything().await.is_empty());
    let events = rig.store.events(0, 10).await.expect("events");
    assert_eq!((events.events.len(), events.oldest, events.last), (0, 1, 0));
    assert_eq!(rig.store.counts(None).await.expect("counts"), Default::default());
    assert_eq!(rig.store.profiles(0, 10).await.expect("profiles").total, 0);
}

pub(crate) async fn each_opening_has_a_higher_epoch_and_the_same_key_for_ids(mut rig: Rig) {
    let (mut epoch, key) = (rig.epoch, rig.id_key);
    assert!(epoch >= Epoch(1));
    assert!(key != IdKey::default(), "the key is random");
    for _ in 0..3 {
        rig.reopen().await;
        assert!(rig.epoch > epoch);
        assert!(rig.id_key == key);
        epoch = rig.epoch;
    }
}

pub(crate) async fn a_stop_is_clean_only_if_it_was_noted(mut rig: Rig) {
    assert!(!rig.reopen().await.loaded.clean);
    rig.open_boxes(&["human"]).await;
    rig.commit(vec![Change::Stopped]).await;
    assert!(rig.reopen().await.loaded.clean);
    rig.send(1, 0).await;
    assert!(!rig.reopen().await.loaded.clean, "the note is for one start");
    let last = rig.post(&[0], |_| {});
    rig.commit(vec![last, Change::Stopped]).await;
    let start = rig.reopen().await;
    assert!(start.loaded.clean);
    assert_eq!(start.open().len(), 2);
}

pub(crate) async fn what_was_committed_is_loaded_again_in_order(mut rig: Rig) {
    rig.open_boxes(&["human", "n.mason", "any@main", "i.0000000a"]).await;
    for round in 0..25_u64 {
        let key = KeyDigest(u128::from(round) << 64 | 1);
        let changes = vec![
            rig.post_with_key(&[1], Some(key), |_| {}),
            rig.post(&[0, 2, 3], |_| {}),
            rig.post(&[2], |_| {}),
        ];
        rig.commit(changes).await;
        // The middle one of three.
        let acked = rig.acked(rig.delivery - 2, rig.seq - 1, Principal::Operator, Proof::Receipt);
        rig.commit(vec![acked]).await;
        rig.wait(1);
    }
    let start = rig.reopen().await;
    assert_eq!((start.loaded.last_seq, start.loaded.last_delivery), (75, 125));
    let boxes: Vec<_> =
        start.loaded.mailboxes.iter().map(|(no, mailbox)| (*no, mailbox.to_string())).collect();
    let named = ["human", "n.mason", "any@main", "i.0000000a"];
    assert_eq!(boxes, (0..).zip(named.map(str::to_owned)).collect::<Vec<_>>());
    let open: Vec<u64> = start.open().iter().map(|no| no.0).collect();
    assert_eq!(open, (1..=125).filter(|no| no % 5 != 3).collect::<Vec<_>>());
    let (at, queued) = &start.deliveries[1];
    assert_eq!((*at, queued.seq, queued.message.is_none()), (0, Seq(2), true));
    assert_eq!((queued.marked, queued.attempts, queued.size), (false, 0, 6));
    let keys: Vec<_> = start.keys.iter().map(|(key, seq, _)| (key.0, seq.0)).collect();
    let expected = (0..25_u64).map(|round| (u128::from(round) << 64 | 1, round * 3 + 1));
    assert_eq!(keys, expected.collect::<Vec<_>>());
    assert!(start.keys.is_sorted_by_key(|(.., at)| *at));
}

pub(crate) async fn a_group_is_seen_by_the_next_call(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    for n in 1..=20 {
        rig.send(1, 0).await;
        assert_eq!(rig.everything().await.len(), n);
        let seqs = rig.journal().await.into_iter().map(|event| event.no);
        assert_eq!(seqs.collect::<Vec<_>>(), (1..=n as u64).collect::<Vec<_>>());
    }
}

/// Changes of every kind that fit into a store with one message to mailbox 0.
fn good_changes(rig: &mut Rig) -> Vec<Change> {
    let mason = Template::new(name("mason"), AgentKind::External);
    let (created_at, updated_at) = (rig.now, rig.now);
    let profile =
        Profile { template: mason, source: Source::Api, version: 1, created_at, updated_at };
    let seen_at = minutes_after(rig.now, 5);
    vec![
        Change::MailboxOpened { no: 1, mailbox: mailbox("n.mason") },
        rig.post_with_key(&[0, 1], Some(KeyDigest(5)), |_| {}),
        rig.acked(1, 1, Principal::Operator, Proof::NextCall),
        rig.dead(2, 2, Reason::Cancelled),
        Change::DeliveryRequeued { delivery: DeliveryNo(2), seq: Seq(2), marked: true },
        Change::DeliveryReturned { delivery: DeliveryNo(2), seq: Seq(2), attempts: 1 },
        Change::NoteAdded(Note {
            delivery: DeliveryNo(2),
            at: rig.now,
            noted: Noted::Refused(None),
        }),
        Change::DeliveriesMarked(vec![DeliveryNo(3)]),
        Change::InstanceAdded(instance(1, rig.now).into()),
        Change::InstanceSeen { id: ONE, at: seen_at, status: Status::Lost },
        Change::TokenAdded { token: [1; 32], of: ONE },
        Change::TeamAdded(name("main")),
        Change::TeamWritten(Team { name: name("other"), leaders: Vec::new() }),
        Change::ProfileWritten(profile.into()),
        Change::LowWater(DeliveryNo(2)),
    ]
}

pub(crate) async fn a_group_with_one_refused_change_leaves_nothing(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    rig.send(1, 0).await;
    let before = agree::content(&mut rig).await;
    let (seq, delivery) = (rig.seq, rig.delivery);
    let again = |rig: &mut Rig, seq: u64, delivery: u64| {
        (rig.seq, rig.delivery) = (seq - 1, delivery - 1);
        rig.post(&[0], |_| {})
    };
    for refused in 0..3 {
        let mut changes = good_changes(&mut rig);
        changes.push(match refused {
            0 => Change::MailboxOpened { no: 0, mailbox: mailbox("any") },
            1 => again(&mut rig, 1, 9),
            _ => again(&mut rig, 9, 1),
        });
        (rig.seq, rig.delivery) = (seq, delivery);
        let outcome = rig.try_commit(changes).await;
        assert!(matches!(outcome, Err(CommitError::OneChange(_))), "{refused}: {outcome:?}");
        agree::same(&before, &agree::content(&mut rig).await);
    }
    // The others may be tried alone.
    let changes = good_changes(&mut rig);
    rig.commit(changes).await;
}

pub(crate) async fn a_change_that_contradicts_what_is_kept_is_refused(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    rig.send(2, 0).await;
    let acked = rig.acked(1, 1, Principal::Operator, Proof::Receipt);
    rig.commit(vec![acked]).await;
    let before = agree::content(&mut rig).await;
    let requeued =
        |no| Change::DeliveryRequeued { delivery: DeliveryNo(no), seq: Seq(no), marked: true };
    let returned =
        |no| Change::DeliveryReturned { delivery: DeliveryNo(no), seq: Seq(no), attempts: 1 };
    for (what, refused) in [
        ("acks what is not there", rig.acked(99, 99, Principal::Operator, Proof::Receipt)),
        ("kills what is not there", rig.dead(99, 99, Reason::Expired)),
        ("acks what is acked", rig.acked(1, 1, Principal::Operator, Proof::Receipt)),
        ("kills what is acked", rig.dead(1, 1, Reason::Expired)),
        ("returns what is acked", returned(1)),
        ("requeues what is acked", requeued(1)),
        ("requeues what is open", requeued(2)),
        ("requeues what is not there", requeued(99)),
    ] {
        let fits = Change::TeamAdded(name("main"));
        let outcome = rig.try_commit(vec![fits, refused]).await;
        assert!(matches!(outcome, Err(CommitError::OneChange(_))), "it {what}: {outcome:?}");
    }
    agree::same(&before, &agree::content(&mut rig).await);
}

pub(crate) async fn a_group_from_before_the_last_start_is_refused(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    rig.reopen().await;
    let before = agree::content(&mut rig).await;
    let mut group = rig.group(vec![Change::TeamAdded(name("main"))]);
    group.epoch = Epoch(rig.epoch.0 - 1);
    let refused = rig.store.commit(group).await;
    assert!(matches!(refused, Err(CommitError::Nothing(_))), "{refused:?}");
    agree::same(&before, &agree::content(&mut rig).await);
}

pub(crate) async fn a_dropped_future_does_not_stop_the_write(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    let change = rig.post(&[0], |_| {});
    let group = rig.group(vec![change]);
    let _ = rig.store.commit(group).now_or_never();
    let until = Instant::now() + Duration::from_secs(10);
    while rig.everything().await.is_empty() {
        assert!(Instant::now() < until, "it was not written");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) async fn numbers_are_not_given_again(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    rig.send(3, 0).await;
    let settle = (1..=3).map(|n| rig.acked(n, n, Principal::Operator, Proof::Receipt)).collect();
    rig.commit(settle).await;
    let all_old = Old { before: minutes_after(rig.now, 1), beyond: rig.now, now: rig.now };
    let (keys, ended, settled, events) = (all_old, all_old, all_old, all_old);
    rig.commit(vec![
        Change::MessagesPruned(vec![Seq(1), Seq(2), Seq(3)]),
        Change::OldForgotten { keys, ended, settled, events, needs: all_old },
    ])
    .await;
    assert!(rig.everything().await.is_empty());
    for _ in 0..2 {
        let loaded = rig.reopen().await.loaded;
        assert_eq!((loaded.last_seq, loaded.last_delivery, loaded.last_event), (3, 3, 6));
    }
    let events = rig.store.events(0, 10).await.expect("events");
    assert_eq!((events.events.len(), events.oldest, events.last), (0, 7, 6));
    rig.send(1, 0).await;
    assert_eq!(rig.everything().await[0].message.seq, Seq(4));
}

pub(crate) async fn events_agree_with_the_changes(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    rig.send(1, 0).await;
    rig.wait(3);
    let changes = good_changes(&mut rig);
    rig.commit(changes).await;
    for start in 0..2 {
        let events = rig.journal().await;
        let told: Vec<_> = events.iter().filter_map(|event| event.told.clone()).collect();
        let message =
            |seq, delivery| Trace::Message { seq: Seq(seq), delivery: DeliveryNo(delivery) };
        let expected = [
            (EventKind::Accepted, message(1, 0)),
            (EventKind::Accepted, message(2, 0)),
            (EventKind::Acked, message(1, 1)),
            (EventKind::Dead, message(2, 2)),
            (EventKind::Requeued, message(2, 2)),
            (EventKind::Returned, message(2, 2)),
            (EventKind::Joined, Trace::Instance(ONE)),
            (EventKind::Lost, Trace::Instance(ONE)),
            (EventKind::Team, Trace::Team(name("other"))),
            (EventKind::Profile, Trace::Profile(name("mason"))),
        ];
        assert_eq!(told, expected, "start {start}");
        assert_eq!(events.iter().map(|e| e.no).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
        assert_eq!(events[1].at, rig.now);
        assert_eq!(events[0].at, minutes_after(rig.now, -3));
        rig.reopen().await;
    }
}

pub(crate) async fn a_probe_leaves_nothing(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    rig.send(1, 0).await;
    let before = agree::content(&mut rig).await;
    rig.store.probe().await.expect("it takes it");
    agree::same(&before, &agree::content(&mut rig).await);
    assert!(rig.store.condition().trouble.is_none());
}
