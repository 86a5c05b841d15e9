//! Looks at messages and events: what they find, in which order, and where they end.

use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::{MessageRef, Principal, Seq, ThreadId};
use posthaste_core::ports::change::Change;
use posthaste_core::ports::store::{Bodies, CountsOf, HistoryLook, RowOf, Source};

use crate::rig::{Rig, START, agent, minutes_after, sorted};

fn numbers(seqs: impl IntoIterator<Item = u64>) -> Vec<Seq> {
    seqs.into_iter().map(Seq).collect()
}

fn look(sources: &[Source], most: usize) -> HistoryLook {
    HistoryLook {
        sources: sources.into(),
        above: 0,
        below: u64::MAX >> 1,
        forward: true,
        most,
        bytes: usize::MAX,
    }
}

/// The numbers that a look finds, and how far it reached.
async fn seen(rig: &Rig, look: HistoryLook) -> (Vec<u64>, Option<u64>) {
    let part = rig.store.history(look).await.expect("a part of history");
    (part.records.iter().map(|r| r.message.seq.0).collect(), part.reached)
}

/// 12 messages: in the mailboxes 0, 1, 2 in turn, in two threads, from two senders and the
/// operator, with 10 bytes each.
async fn twelve(rig: &mut Rig) {
    rig.open_boxes(&["human", "any", "n.mason"]).await;
    for n in 0..12_u32 {
        let change = rig.post(&[n % 3], |m| {
            m.thread = ThreadId(n % 2);
            m.body = "0123456789".into();
            if n % 4 > 1 {
                m.from = agent(n % 4);
            }
        });
        rig.commit(vec![change]).await;
        rig.wait(1);
    }
}

pub(crate) async fn messages_are_found_with_and_without_bodies(mut rig: Rig) {
    twelve(&mut rig).await;
    let asked = numbers([12, 3, 40, 1]);
    let with = rig.store.messages(asked.clone(), Bodies::With).await.expect("messages");
    let without = rig.store.messages(asked, Bodies::Without).await.expect("messages");
    for found in [&with, &without] {
        let mut seqs: Vec<u64> = found.messages.keys().map(|seq| seq.0).collect();
        seqs.sort_unstable();
        assert_eq!(seqs, [1, 3, 12]);
        let [missing] = &found.unreadable[..] else { panic!("{:?}", found.unreadable) };
        assert_eq!(missing.of, RowOf::Message(Seq(40)));
        assert!(found.damaged.is_empty());
    }
    for (seq, message) in &with.messages {
        assert_eq!(*message, rig.record(seq.0).await.expect("kept").message);
        let mut head = (**message).clone();
        head.body = "".into();
        assert_eq!(*without.messages[seq], head);
    }
}

pub(crate) async fn records_come_in_the_order_asked_for(mut rig: Rig) {
    twelve(&mut rig).await;
    let which = [
        MessageRef::Seq(Seq(5)),
        MessageRef::Seq(Seq(99)),
        MessageRef::Id(rig.id_key.id(Seq(2))),
        MessageRef::Seq(Seq(11)),
        MessageRef::Seq(Seq(1)),
    ];
    let found = rig.store.records(which.to_vec(), usize::MAX).await.expect("records");
    let seqs: Vec<u64> = found.iter().map(|r| r.message.seq.0).collect();
    assert_eq!(seqs, [5, 2, 11, 1]);
    for record in &found {
        assert_eq!(rig.record(record.message.seq.0).await.as_ref(), Some(record));
    }
    assert!(rig.store.records(Vec::new(), 9).await.expect("records").is_empty());
}

pub(crate) async fn records_are_as_many_as_fit(mut rig: Rig) {
    twelve(&mut rig).await;
    let which: Vec<_> = [99, 5, 98, 2, 11].into_iter().map(|n| MessageRef::Seq(Seq(n))).collect();
    for (bytes, count) in [(0, 1), (10, 1), (19, 1), (20, 2), (29, 2), (30, 3), (999, 3)] {
        let found = rig.store.records(which.clone(), bytes).await.expect("records");
        assert_eq!(found.len(), count, "{bytes} bytes");
    }
}

pub(crate) async fn history_goes_page_by_page_in_both_directions(mut rig: Rig) {
    twelve(&mut rig).await;
    let all = look(&[Source::All], 5);
    assert_eq!(seen(&rig, all.clone()).await, (vec![1, 2, 3, 4, 5], Some(5)));
    let second = HistoryLook { above: 5, ..all.clone() };
    assert_eq!(seen(&rig, second).await, (vec![6, 7, 8, 9, 10], Some(10)));
    let third = HistoryLook { above: 10, ..all.clone() };
    assert_eq!(seen(&rig, third).await, (vec![11, 12], Some(12)));
    assert_eq!(seen(&rig, HistoryLook { above: 12, ..all.clone() }).await, (vec![], None));
    let back = HistoryLook { forward: false, ..all };
    assert_eq!(seen(&rig, back.clone()).await, (vec![12, 11, 10, 9, 8], Some(8)));
    let second = HistoryLook { below: 8, ..back.clone() };
    assert_eq!(seen(&rig, second).await, (vec![7, 6, 5, 4, 3], Some(3)));
    let between = HistoryLook { above: 1, below: 4, ..back.clone() };
    assert_eq!(seen(&rig, between).await, (vec![3, 2], Some(2)));
    for (above, below) in [(0, 1), (4, 5), (5, 5), (9, 3), (0, 0)] {
        let empty = HistoryLook { above, below, ..back.clone() };
        assert_eq!(seen(&rig, empty).await, (vec![], None), "{above}..{below}");
    }
}

pub(crate) async fn history_joins_its_sources(mut rig: Rig) {
    twelve(&mut rig).await;
    let sender = |id| Source::Sender(agent(id).instance.expect("an agent"));
    let of = async |sources: &[Source]| seen(&rig, look(sources, 99)).await.0;
    assert_eq!(of(&[Source::Mailboxes(vec![1])]).await, [2, 5, 8, 11]);
    assert_eq!(of(&[Source::Mailboxes(vec![2, 0])]).await, [1, 3, 4, 6, 7, 9, 10, 12]);
    assert_eq!(of(&[Source::Thread(ThreadId(1))]).await, [2, 4, 6, 8, 10, 12]);
    assert_eq!(of(&[sender(2)]).await, [3, 7, 11]);
    assert_eq!(of(&[sender(2), Source::Mailboxes(vec![1])]).await, [2, 3, 5, 7, 8, 11]);
    assert_eq!(of(&[sender(3), sender(3), Source::Listed(numbers([1, 4]))]).await, [1, 4, 8, 12]);
    assert_eq!(of(&[Source::Mailboxes(Vec::new())]).await, [] as [u64; 0]);
    assert_eq!(of(&[Source::Mailboxes(vec![77])]).await, [] as [u64; 0]);
    assert_eq!(of(&[]).await, [] as [u64; 0]);
    // The first of all of them, from the end where the look begins.
    let both = [Source::Thread(ThreadId(0)), Source::Mailboxes(vec![1])];
    assert_eq!(seen(&rig, look(&both, 4)).await, (vec![1, 2, 3, 5], Some(5)));
    let back = HistoryLook { forward: false, below: 11, ..look(&both, 4) };
    assert_eq!(seen(&rig, back).await, (vec![9, 8, 7, 5], Some(5)));
}

pub(crate) async fn history_looks_at_listed_messages_that_are_gone(mut rig: Rig) {
    twelve(&mut rig).await;
    let changes = vec![
        rig.acked(4, 4, Principal::Operator, Proof::Receipt),
        Change::MessagesPruned(numbers([4])),
    ];
    rig.commit(changes).await;
    let listed = [Source::Listed(numbers([2, 4, 6, 50]))];
    assert_eq!(seen(&rig, look(&listed, 2)).await, (vec![2], Some(4)));
    let next = HistoryLook { above: 4, ..look(&listed, 2) };
    assert_eq!(seen(&rig, next).await, (vec![6], Some(50)));
    let last = HistoryLook { above: 50, ..look(&listed, 2) };
    assert_eq!(seen(&rig, last).await, (vec![], None));
    let back = HistoryLook { forward: false, below: 50, ..look(&listed, 2) };
    assert_eq!(seen(&rig, back).await, (vec![6], Some(4)));
}

pub(crate) async fn a_part_of_history_ends_when_its_bodies_hold_enough(mut rig: Rig) {
    twelve(&mut rig).await;
    let all = look(&[Source::All], 9);
    for (bytes, count) in [(0, 1), (1, 1), (10, 1), (11, 2), (20, 2), (21, 3), (999, 9)] {
        let (found, reached) = seen(&rig, HistoryLook { bytes, ..all.clone() }).await;
        assert_eq!(found, (1..=count).collect::<Vec<_>>(), "{bytes} bytes");
        assert_eq!(reached, Some(count), "{bytes} bytes");
    }
}

pub(crate) async fn replies_come_oldest_first(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    for to in [None, Some(1), Some(2), Some(1), None, Some(1)] {
        let change = rig.post(&[0], |m| m.in_reply_to = to.map(Seq));
        rig.commit(vec![change]).await;
    }
    for _ in 0..2 {
        let replies = async |to, most| -> Vec<u64> {
            let found = rig.store.replies(Seq(to), most).await.expect("replies");
            found.iter().map(|r| r.message.seq.0).collect()
        };
        assert_eq!(replies(1, 99).await, [2, 4, 6]);
        assert_eq!(replies(1, 2).await, [2, 4]);
        assert_eq!(replies(2, 99).await, [3]);
        assert_eq!(replies(77, 99).await, [] as [u64; 0]);
        rig.reopen().await;
    }
}

pub(crate) async fn counts_are_of_what_is_kept(mut rig: Rig) {
    twelve(&mut rig).await;
    let changes = vec![
        rig.acked(1, 1, Principal::Operator, Proof::Receipt),
        rig.acked(3, 3, Principal::Operator, Proof::Receipt),
        Change::MessagesPruned(numbers([1, 3])),
    ];
    rig.commit(changes).await;
    let [two, three] = [2, 3].map(|id| agent(id).instance.expect("an agent"));
    for _ in 0..2 {
        let all = rig.store.counts(None).await.expect("counts");
        assert_eq!(all.since, Some(minutes_after(START, 1)));
        assert_eq!(sorted(&all.received), [(0, 3), (1, 4), (2, 3)]);
        assert_eq!(sorted(&all.sent), [(two, 2), (three, 3)]);
        let of = CountsOf { mailboxes: vec![2, 77], sender: Some(two) };
        let some = rig.store.counts(Some(of)).await.expect("counts");
        assert_eq!(some.since, all.since);
        assert_eq!(sorted(&some.received), [(2, 3), (77, 0)]);
        assert_eq!(sorted(&some.sent), [(two, 2)]);
        let none = rig.store.counts(Some(CountsOf::default())).await.expect("counts");
        assert!(none.received.is_empty() && none.sent.is_empty());
        rig.reopen().await;
    }
}

pub(crate) async fn a_thread_is_counted_without_its_neighbours(mut rig: Rig) {
    twelve(&mut rig).await;
    for _ in 0..2 {
        let thread = async |id, unread: Vec<u64>| {
            let summary = rig.store.thread(ThreadId(id), numbers(unread)).await.expect("counts");
            (summary.total, summary.unread, summary.last_at)
        };
        let [last, before] = [11, 10].map(|minutes| Some(minutes_after(START, minutes)));
        assert_eq!(thread(1, vec![]).await, (6, 0, last));
        assert_eq!(thread(1, vec![1, 2, 3, 4]).await, (6, 2, last));
        assert_eq!(thread(0, (1..=12).chain([99]).collect()).await, (6, 6, before));
        assert_eq!(thread(5, vec![1, 2]).await, (0, 0, None));
        rig.reopen().await;
    }
}

pub(crate) async fn events_come_page_by_page(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    for count in [1, 3, 2] {
        let posts = (0..count).map(|_| rig.post(&[0], |_| {})).collect();
        rig.commit(posts).await;
    }
    for (after, most, expected) in [
        (0, 99, vec![1, 2, 3, 4, 5, 6]),
        (0, 2, vec![1, 2]),
        (2, 2, vec![3, 4]),
        (3, 99, vec![4, 5, 6]),
        (4, 1, vec![5]),
        (6, 99, vec![]),
        (77, 99, vec![]),
        (0, 0, vec![]),
    ] {
        let found = rig.store.events(after, most).await.expect("events");
        let numbers: Vec<u64> = found.events.iter().map(|event| event.no).collect();
        assert_eq!(numbers, expected, "{most} after {after}");
        assert_eq!((found.oldest, found.last), (1, 6));
    }
}
