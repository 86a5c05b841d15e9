//! What each change of mailboxes and messages leaves behind.

use posthaste_core::ledger::KeyDigest;
use posthaste_core::messaging::delivery::{DeliveryNo, Proof, Reason};
use posthaste_core::messaging::message::{
    Kind, MessageRef, Principal, Priority, Sender, SenderKind, Seq, ThreadId, Via,
};
use posthaste_core::ports::change::Change;
use posthaste_core::ports::store::CountsOf;
use posthaste_core::ports::{Note, Noted};
use posthaste_core::time::Timestamp;

use crate::rig::{Rig, START, agent, mailbox, minutes_after};

pub(crate) async fn a_mailbox_has_its_number_until_it_is_freed(mut rig: Rig) {
    rig.open_boxes(&["human", "n.mason", "any"]).await;
    rig.commit(vec![Change::MailboxFreed { no: 1 }]).await;
    let boxes = |start: &crate::rig::Start| -> Vec<(u32, String)> {
        let all = start.loaded.mailboxes.iter();
        all.map(|(no, mailbox)| (*no, mailbox.to_string())).collect()
    };
    let start = rig.reopen().await;
    assert_eq!(boxes(&start), [(0, "human".to_owned()), (2, "any".to_owned())]);
    rig.commit(vec![
        Change::MailboxOpened { no: 1, mailbox: mailbox("n.carver@main") },
        Change::MailboxOpened { no: 3, mailbox: mailbox("n.mason") },
    ])
    .await;
    let start = rig.reopen().await;
    let expected = ["human", "n.carver@main", "any", "n.mason"].map(str::to_owned);
    assert_eq!(boxes(&start), (0..).zip(expected).collect::<Vec<_>>());
    // Freed and given again in one group.
    rig.commit(vec![
        Change::MailboxFreed { no: 3 },
        Change::MailboxOpened { no: 3, mailbox: mailbox("i.00000001") },
    ])
    .await;
    rig.send(1, 3).await;
    let record = rig.record(1).await.expect("kept");
    assert_eq!(record.deliveries[0].mailbox, mailbox("i.00000001"));
}

pub(crate) async fn a_message_comes_back_with_every_field(mut rig: Rig) {
    rig.open_boxes(&["human", "n.mason"]).await;
    let plain = rig.post(&[0], |_| {});
    let full = rig.post(&[1], |m| {
        m.thread = ThreadId(u32::MAX);
        m.from = agent(u32::MAX);
        m.to = "mason@main".into();
        m.kind = "question".parse().expect("a kind");
        m.priority = Priority::Urgent;
        m.body = "Grüße, \"quoted\" 'text' \u{1f980}\n\u{0}end".into();
        m.label = Some("a label".into());
        m.in_reply_to = Some(Seq(1));
        m.hop = 255;
        m.metadata = Some("{\"a\":[1,2]}".into());
        m.expires_at = Some(minutes_after(START, 60));
        m.idempotency_key = Some("key 'x'".into());
        m.via = Via::Mcp;
        m.late = true;
    });
    let of_system = rig.post(&[0], |m| {
        m.kind = Kind::AGENT_FAILED;
        m.from = Sender { address: "system".into(), instance: None, kind: SenderKind::System };
        m.via = Via::Runner;
    });
    let sent = [plain, full, of_system];
    rig.commit(sent.to_vec()).await;
    for _ in 0..2 {
        for (seq, change) in (1..).zip(&sent) {
            let Change::MessageAdded { message, .. } = change else { continue };
            let record = rig.record(seq).await.expect("it is kept");
            assert_eq!((&record.message, record.unreadable.len()), (message, 0));
            let by_id = vec![MessageRef::Id(message.id)];
            let found = rig.store.records(by_id, usize::MAX).await.expect("records");
            assert_eq!(found, [record]);
        }
        let nobody = vec![MessageRef::Id(rig.id_key.id(Seq(99))), MessageRef::Seq(Seq(99))];
        assert!(rig.store.records(nobody, usize::MAX).await.expect("records").is_empty());
        rig.reopen().await;
    }
}

pub(crate) async fn an_accepted_message_is_open_in_each_mailbox(mut rig: Rig) {
    rig.open_boxes(&["human", "n.mason", "any"]).await;
    let change = rig.post(&[2, 0], |m| {
        m.from = agent(9);
        m.priority = Priority::Urgent;
        m.expires_at = Some(minutes_after(START, 5));
    });
    rig.commit(vec![change]).await;
    let record = rig.record(1).await.expect("it is kept");
    let found: Vec<_> =
        record.deliveries.iter().map(|d| (d.delivery.0, d.at, d.mailbox.to_string())).collect();
    assert_eq!(found, [(1, 2, "any".to_owned()), (2, 0, "human".to_owned())]);
    for d in &record.deliveries {
        assert_eq!((d.end, d.marked, d.attempts, d.size), (None, false, 0, 6));
        assert_eq!((d.leased_at, d.settled_at, d.by), (None, None, None));
    }
    let start = rig.reopen().await;
    let queued = start.deliveries.iter().map(|(at, q)| (*at, q.delivery.0, q.seq.0, q.size));
    assert_eq!(queued.collect::<Vec<_>>(), [(2, 1, 1, 6), (0, 2, 1, 6)]);
    for (_, q) in start.deliveries {
        assert_eq!((q.sender, q.urgent), (agent(9).instance, true));
        assert_eq!((q.attempts, q.expires_at), (0, Some(minutes_after(START, 5))));
        assert!(!q.marked && !q.leased_before && !q.doubted && q.message.is_none());
    }
}

pub(crate) async fn a_pruned_message_leaves_nothing_behind(mut rig: Rig) {
    rig.open_boxes(&["human", "any"]).await;
    rig.send(1, 0).await;
    let change = rig.post(&[0, 1], |m| {
        (m.from, m.thread, m.in_reply_to) = (agent(5), ThreadId(8), Some(Seq(1)));
    });
    rig.commit(vec![change]).await;
    let changes = vec![
        rig.acked(2, 2, Principal::Operator, Proof::Receipt),
        rig.dead(3, 2, Reason::Expired),
        Change::NoteAdded(Note {
            delivery: DeliveryNo(3),
            at: rig.now,
            noted: Noted::Refused(None),
        }),
    ];
    rig.commit(changes).await;
    rig.commit(vec![Change::MessagesPruned(vec![Seq(2), Seq(77)])]).await;
    for _ in 0..2 {
        assert!(rig.record(2).await.is_none());
        let seqs: Vec<Seq> = rig.everything().await.iter().map(|r| r.message.seq).collect();
        assert_eq!(seqs, [Seq(1)]);
        assert!(rig.store.notes(DeliveryNo(1)..=DeliveryNo(9)).await.expect("notes").is_empty());
        assert!(rig.store.replies(Seq(1), 9).await.expect("replies").is_empty());
        let of = CountsOf { mailboxes: vec![0, 1], sender: agent(5).instance };
        let counts = rig.store.counts(Some(of)).await.expect("counts");
        assert_eq!((counts.received[&0], counts.received[&1]), (1, 0));
        assert_eq!(counts.sent.values().sum::<u64>(), 0);
        let thread = rig.store.thread(ThreadId(8), vec![Seq(2)]).await.expect("a thread");
        assert_eq!((thread.total, thread.unread, thread.last_at), (0, 0, None));
        assert_eq!(rig.reopen().await.loaded.last_seq, 2);
    }
}

pub(crate) async fn a_message_with_an_open_delivery_is_not_pruned(mut rig: Rig) {
    rig.open_boxes(&["human", "any"]).await;
    let change = rig.post(&[0, 1], |_| {});
    rig.commit(vec![change]).await;
    let changes = vec![
        rig.acked(1, 1, Principal::Operator, Proof::Receipt),
        Change::MessagesPruned(vec![Seq(1)]),
    ];
    rig.commit(changes).await;
    assert_eq!(rig.record(1).await.expect("kept").deliveries.len(), 2);
    let dead = rig.dead(2, 1, Reason::Expired);
    let requeued = Change::DeliveryRequeued { delivery: DeliveryNo(2), seq: Seq(1), marked: true };
    rig.commit(vec![dead, requeued, Change::MessagesPruned(vec![Seq(1)])]).await;
    assert_eq!(rig.reopen().await.open(), [DeliveryNo(2)]);
    assert!(rig.record(1).await.is_some());
}

pub(crate) async fn a_key_leads_to_the_last_message_that_is_not_too_old(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    let (twice, once) = (KeyDigest(u128::MAX), KeyDigest(1));
    for key in [Some(twice), Some(once), None, Some(twice)] {
        let change = rig.post_with_key(&[0], key, |_| {});
        rig.commit(vec![change]).await;
        rig.wait(10);
    }
    let at = |minutes| minutes_after(START, minutes);
    for _ in 0..2 {
        let key =
            async |digest, since: Timestamp| rig.store.key(digest, since).await.expect("an answer");
        assert_eq!(key(twice, at(0)).await, Some(Seq(4)));
        assert_eq!(key(twice, at(30)).await, Some(Seq(4)));
        assert_eq!(key(twice, at(31)).await, None);
        assert_eq!(key(once, at(10)).await, Some(Seq(2)));
        assert_eq!(key(once, at(11)).await, None);
        assert_eq!(key(KeyDigest(2), at(0)).await, None);
        let start = rig.reopen().await;
        let keys = [(twice, Seq(1), at(0)), (once, Seq(2), at(10)), (twice, Seq(4), at(30))];
        assert_eq!(start.keys, keys);
    }
}
