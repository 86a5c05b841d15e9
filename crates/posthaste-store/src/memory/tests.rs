use std::sync::Arc;

use futures_util::FutureExt;
use posthaste_core::address::{InstanceId, Mailbox};
use posthaste_core::events::EventList;
use posthaste_core::ledger::{End, KeyDigest, Settled};
use posthaste_core::messaging::delivery::{DeliveryNo, Proof};
use posthaste_core::messaging::message::{
    Message, MessageId, Principal, Sender, SenderKind, Seq, ThreadId, Via,
};
use posthaste_core::ports::change::{Change, Old};
use posthaste_core::ports::store::Group;
use posthaste_core::ports::{Note, Noted};
use posthaste_core::time::Timestamp;

use super::*;

const READER: Principal = Principal::Instance(InstanceId(2));

fn commit(store: &MemoryStore, changes: Vec<Change>) -> Result<Committed, CommitError> {
    let events = EventList::of(&changes, store.kept.lock().last_event);
    commit_with(store, changes, events)
}

fn commit_with(
    store: &MemoryStore,
    changes: Vec<Change>,
    events: EventList,
) -> Result<Committed, CommitError> {
    let epoch = store.kept.lock().epoch;
    let group = Group { epoch, at: Timestamp(0), changes, events };
    store.commit(group).now_or_never().expect("it answers at its first poll")
}

fn message(seq: u64, to: BoxNo) -> Change {
    let from = Sender {
        address: "a.00000001@main".into(),
        instance: Some(InstanceId(1)),
        kind: SenderKind::Agent,
    };
    let message = Message {
        thread: ThreadId(1),
        in_reply_to: Some(Seq(1)),
        ..Message::new(Seq(seq), MessageId(seq), from, "b", "text", Timestamp(0), Via::Rest)
    };
    let copies = [(to, DeliveryNo(seq))].into_iter().collect();
    Change::MessageAdded { message: Arc::new(message), copies, key: Some(KeyDigest(seq.into())) }
}

fn mailbox_opened() -> Change {
    Change::MailboxOpened { no: 0, mailbox: Mailbox::Anyone }
}

#[test]
fn memory_does_not_grow_for_what_is_pruned_and_forgotten() {
    let store = MemoryStore::new();
    commit(&store, vec![mailbox_opened()]).expect("written");
    for seq in 1..=50 {
        let delivery = DeliveryNo(seq);
        let end = End::Acked(Proof::Hook);
        let settled = Settled { delivery, seq: Seq(seq), by: Some(READER), leased_at: None, end };
        let noted = Noted::Refused(None);
        let changes = vec![
            message(seq, 0),
            Change::NoteAdded(Note { delivery, at: Timestamp(0), noted }),
            Change::DeliverySettled { settled, at: Timestamp(0) },
        ];
        commit(&store, changes).expect("written");
    }
    let old = Old { before: Timestamp(1), beyond: Timestamp(i64::MAX), now: Timestamp(9) };
    let (keys, ended, settled, events) = (old, old, old, old);
    let changes = vec![
        Change::MessagesPruned((1..=50).map(Seq).collect()),
        Change::OldForgotten { keys, ended, settled, events, needs: old },
        Change::MailboxFreed { no: 0 },
    ];
    commit(&store, changes).expect("written");
    let kept = store.kept.lock();
    assert!(kept.messages.is_empty() && kept.deliveries.is_empty() && kept.notes.is_empty());
    assert!(kept.of_thread.is_empty() && kept.of_sender.is_empty());
    assert!(kept.of_mailbox.is_empty() && kept.replies.is_empty());
    assert!(kept.keys.is_empty() && kept.weak_acks.is_empty() && kept.events.is_empty());
    assert!(kept.mailboxes.is_empty() && kept.numbers.is_empty());
}

#[test]
fn a_message_is_kept_once_however_often_the_store_is_opened() {
    let store = MemoryStore::new();
    let change = message(1, 0);
    let Change::MessageAdded { message, .. } = &change else { panic!("a message") };
    let message = Arc::clone(message);
    commit(&store, vec![mailbox_opened(), change]).expect("written");
    let again = store.reopen();
    let find = |store: &MemoryStore| {
        let found = store.messages(vec![Seq(1)], Bodies::With).now_or_never();
        found.expect("it answers at its first poll").expect("found").messages[&Seq(1)].clone()
    };
    assert!(Arc::ptr_eq(&find(&store), &message) && Arc::ptr_eq(&find(&again), &message));
}

#[test]
fn a_message_for_a_mailbox_that_nobody_has_is_refused() {
    let store = MemoryStore::new();
    let refused = commit(&store, vec![message(1, 0)]);
    assert!(matches!(refused, Err(CommitError::OneChange(_))), "{refused:?}");
    let refused = commit(&store, vec![mailbox_opened(), message(1, 0), message(2, 1)]);
    assert!(matches!(refused, Err(CommitError::OneChange(_))), "{refused:?}");
    commit(&store, vec![mailbox_opened(), message(1, 0)]).expect("the mailbox comes with it");
    let freed = Change::MailboxFreed { no: 0 };
    let refused = commit(&store, vec![freed, message(2, 0)]);
    assert!(matches!(refused, Err(CommitError::OneChange(_))), "{refused:?}");
}

#[test]
fn no_event_has_the_number_of_another() {
    let store = MemoryStore::new();
    commit(&store, vec![mailbox_opened(), message(1, 0)]).expect("written");
    let changes = vec![message(2, 0)];
    let events = EventList::of(&changes, 0);
    let refused = commit_with(&store, changes, events);
    assert!(matches!(refused, Err(CommitError::Nothing(_))), "{refused:?}");
}
