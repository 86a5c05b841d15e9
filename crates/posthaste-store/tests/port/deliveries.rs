//! What each change of a delivery leaves behind.

use posthaste_core::ledger::{End, Settled};
use posthaste_core::messaging::delivery::{DeliveryNo, Proof, Reason};
use posthaste_core::messaging::message::{Principal, Seq};
use posthaste_core::ports::change::Change;
use posthaste_core::ports::store::StoredDelivery;
use posthaste_core::ports::{Note, Noted, RecordState};

use crate::rig::{Rig, START, minutes_after, reader};

async fn delivery(rig: &Rig, seq: u64, index: usize) -> StoredDelivery {
    rig.record(seq).await.expect("it is kept").deliveries.swap_remove(index)
}

fn note(rig: &Rig, delivery: u64, noted: Noted) -> Change {
    Change::NoteAdded(Note { delivery: DeliveryNo(delivery), at: rig.now, noted })
}

pub(crate) async fn an_acked_delivery_says_how_when_and_by_whom(mut rig: Rig) {
    rig.open_boxes(&["human", "n.mason"]).await;
    let change = rig.post(&[0, 1], |_| {});
    rig.commit(vec![change]).await;
    rig.wait(2);
    let acked = rig.acked(2, 1, reader(4), Proof::Turn);
    rig.commit(vec![acked]).await;
    for _ in 0..2 {
        let d = delivery(&rig, 1, 1).await;
        assert_eq!(d.end, Some(RecordState::Acked(Proof::Turn)));
        assert_eq!((d.leased_at, d.settled_at), (Some(START), Some(minutes_after(START, 2))));
        assert_eq!((d.by, d.marked, d.attempts), (Some(reader(4)), false, 0));
        assert_eq!(delivery(&rig, 1, 0).await.end, None, "the other copy is open");
        assert_eq!(rig.reopen().await.open(), [DeliveryNo(1)]);
    }
}

pub(crate) async fn a_dead_delivery_says_why_and_whether_it_may_have_been_seen(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    let reasons = [
        Reason::RecipientGone,
        Reason::Expired,
        Reason::Cancelled,
        Reason::Refused,
        Reason::Unreadable,
    ];
    rig.send(10, 0).await;
    let ends = reasons.into_iter().flat_map(|reason| [(reason, false), (reason, true)]);
    let ends: Vec<_> = ends.collect();
    let mut changes = Vec::new();
    for (no, (reason, maybe_seen)) in (1..).zip(&ends) {
        let end = End::Dead { reason: *reason, maybe_seen: *maybe_seen };
        let (delivery, seq) = (DeliveryNo(no), Seq(no));
        let by = (no % 2 == 0).then_some(Principal::Operator);
        let settled = Settled { delivery, seq, by, leased_at: None, end };
        changes.push(Change::DeliverySettled { settled, at: rig.now });
    }
    rig.commit(changes).await;
    assert!(rig.reopen().await.deliveries.is_empty());
    for (no, (reason, maybe_seen)) in (1..).zip(ends) {
        let d = delivery(&rig, no, 0).await;
        assert_eq!(d.end, Some(RecordState::Dead { reason, maybe_seen }));
        assert_eq!(d.by, (no % 2 == 0).then_some(Principal::Operator));
        assert_eq!((d.leased_at, d.settled_at), (None, Some(rig.now)));
    }
}

pub(crate) async fn ids_acked_by_a_weak_proof_are_told_to_the_next_run(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    rig.send(40, 0).await;
    let mut changes = Vec::new();
    for no in 1..=30 {
        let proof = if no % 2 == 0 { Proof::Hook } else { Proof::NextCall };
        changes.push(rig.acked(no, no, reader(1), proof));
    }
    changes.push(rig.acked(31, 31, Principal::Operator, Proof::Hook));
    changes.push(rig.acked(32, 32, reader(2), Proof::Receipt));
    changes.push(rig.dead(33, 33, Reason::Expired));
    rig.commit(changes).await;
    for _ in 0..2 {
        let start = rig.reopen().await;
        let last: Vec<Seq> = (11..=30).map(Seq).collect();
        assert_eq!(start.weakly_acked(reader(1)), last, "the last twenty, oldest first");
        assert_eq!(start.weakly_acked(Principal::Operator), [Seq(31)]);
        assert_eq!(start.loaded.weakly_acked.len(), 2);
    }
}

pub(crate) async fn a_returned_delivery_is_open_and_marked(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    rig.send(2, 0).await;
    let (delivery_no, seq) = (DeliveryNo(2), Seq(2));
    rig.commit(vec![
        Change::DeliveryReturned { delivery: delivery_no, seq, attempts: 3 },
        note(&rig, 2, Noted::Refused(Some(reader(1)))),
    ])
    .await;
    for _ in 0..2 {
        let d = delivery(&rig, 2, 0).await;
        assert_eq!((d.end, d.marked, d.attempts), (None, true, 3));
        let start = rig.reopen().await;
        let queued = start.deliveries.iter().map(|(_, q)| (q.delivery.0, q.marked, q.attempts));
        assert_eq!(queued.collect::<Vec<_>>(), [(1, false, 0), (2, true, 3)]);
    }
}

pub(crate) async fn a_requeued_delivery_is_as_new_but_for_its_mark(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    for _ in 0..2 {
        let change = rig.post(&[0], |m| m.expires_at = Some(minutes_after(START, 1)));
        rig.commit(vec![change]).await;
    }
    for no in [1, 2] {
        let (delivery, seq) = (DeliveryNo(no), Seq(no));
        let end = End::Dead { reason: Reason::Refused, maybe_seen: true };
        let settled = Settled { delivery, seq, by: Some(reader(3)), leased_at: Some(START), end };
        rig.commit(vec![
            Change::DeliveryReturned { delivery, seq, attempts: 4 },
            Change::DeliverySettled { settled, at: rig.now },
        ])
        .await;
        let requeued = Change::DeliveryRequeued { delivery, seq, marked: no == 1 };
        rig.commit(vec![requeued]).await;
    }
    for _ in 0..2 {
        for no in [1, 2] {
            let d = delivery(&rig, no, 0).await;
            assert_eq!((d.end, d.marked, d.attempts), (None, no == 1, 0));
            assert_eq!((d.leased_at, d.settled_at, d.by), (None, None, None));
        }
        let start = rig.reopen().await;
        for (_, q) in &start.deliveries {
            assert_eq!((q.marked, q.attempts, q.expires_at), (q.delivery.0 == 1, 0, None));
        }
        assert_eq!(start.deliveries.len(), 2);
    }
    let expires_at = rig.record(1).await.expect("kept").message.expires_at;
    assert_eq!(expires_at, Some(minutes_after(START, 1)), "the message is as it was");
}

pub(crate) async fn a_marked_delivery_is_marked_after_a_start(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    rig.send(3, 0).await;
    rig.commit(vec![
        Change::DeliveriesMarked(vec![DeliveryNo(3), DeliveryNo(1)]),
        Change::DeliveriesMarked(Vec::new()),
        Change::Stopped,
    ])
    .await;
    let start = rig.reopen().await;
    let marks: Vec<bool> = start.deliveries.iter().map(|(_, queued)| queued.marked).collect();
    assert_eq!(marks, [true, false, true]);
    assert!(delivery(&rig, 3, 0).await.marked);
    assert!(!delivery(&rig, 2, 0).await.marked);
}

pub(crate) async fn notes_come_in_the_order_they_were_made(mut rig: Rig) {
    rig.open_boxes(&["human", "any"]).await;
    let change = rig.post(&[0, 1], |_| {});
    rig.commit(vec![change]).await;
    rig.send(1, 0).await;
    let noted = [
        (2, Noted::Refused(Some(reader(1)))),
        (1, Noted::Requeued(Some(Reason::Expired))),
        (2, Noted::Requeued(None)),
        (3, Noted::Refused(None)),
        (1, Noted::Refused(Some(Principal::Operator))),
        (2, Noted::Unreadable("messages, row 1, column body: no text".into())),
    ];
    for (no, noted) in &noted {
        rig.wait(1);
        let change = note(&rig, *no, noted.clone());
        rig.commit(vec![change]).await;
    }
    for _ in 0..2 {
        let found = rig.store.notes(DeliveryNo(1)..=DeliveryNo(2)).await.expect("notes");
        let of_both = noted.iter().zip(1..).filter(|((no, _), _)| *no < 3);
        let expected: Vec<Note> = of_both
            .map(|((no, noted), minutes)| Note {
                delivery: DeliveryNo(*no),
                at: minutes_after(START, minutes),
                noted: noted.clone(),
            })
            .collect();
        assert_eq!(found, expected);
        assert_eq!(rig.store.notes(DeliveryNo(3)..=DeliveryNo(9)).await.expect("notes").len(), 1);
        assert!(rig.store.notes(DeliveryNo(4)..=DeliveryNo(9)).await.expect("notes").is_empty());
        rig.reopen().await;
    }
}

pub(crate) async fn the_low_water_mark_goes_down_with_a_requeue(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    rig.send(4, 0).await;
    let changes = vec![
        rig.dead(1, 1, Reason::Expired),
        rig.dead(2, 2, Reason::Expired),
        rig.acked(3, 3, Principal::Operator, Proof::Receipt),
        Change::LowWater(DeliveryNo(4)),
    ];
    rig.commit(changes).await;
    assert_eq!(rig.reopen().await.open(), [DeliveryNo(4)]);
    let requeued = Change::DeliveryRequeued { delivery: DeliveryNo(2), seq: Seq(2), marked: true };
    rig.commit(vec![requeued]).await;
    assert_eq!(rig.reopen().await.open(), [DeliveryNo(2), DeliveryNo(4)]);
}
