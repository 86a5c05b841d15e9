//! The store in memory.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture};
use posthaste_core::ports::StoreError;
use posthaste_core::ports::store::{CommitError, Store};
use posthaste_store::MemoryStore;

use crate::rig::{Backend, Rig};

struct Memory {
    store: Arc<MemoryStore>,
    part: usize,
}

impl Backend for Memory {
    fn reopen(&mut self, _: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>> {
        self.store = self.store.reopen_in_parts(self.part);
        future::ready(Arc::clone(&self.store) as Arc<dyn Store>).boxed()
    }
}

/// Everything is loaded at once.
pub(crate) async fn open() -> Rig {
    opened(usize::MAX).await
}

async fn opened(part: usize) -> Rig {
    let store = MemoryStore::new();
    let backend = Memory { store: Arc::clone(&store), part };
    Rig::new(store, backend).await
}

promises_kept_by!(open);

#[tokio::test]
async fn a_backlog_can_be_read_in_small_parts() {
    crate::groups::what_was_committed_is_loaded_again_in_order(opened(3).await).await;
    crate::messages::a_key_leads_to_the_last_message_that_is_not_too_old(opened(1).await).await;
    crate::deliveries::the_low_water_mark_goes_down_with_a_requeue(opened(1).await).await;
}

/// A store with one mailbox, and what a test can do to it.
async fn with_faults() -> (Rig, Arc<MemoryStore>) {
    let store = MemoryStore::new();
    let backend = Memory { store: Arc::clone(&store), part: usize::MAX };
    let mut rig = Rig::new(Arc::clone(&store) as Arc<dyn Store>, backend).await;
    rig.open_boxes(&["human"]).await;
    (rig, store)
}

fn full() -> StoreError {
    StoreError::Unavailable("the disk is full".into())
}

#[tokio::test]
async fn a_commit_that_a_test_lets_fail_writes_nothing() {
    let (mut rig, store) = with_faults().await;
    store.fail_next(CommitError::Nothing(full()));
    store.fail_next(CommitError::OneChange(full()));
    let change = rig.post(&[0], |_| {});
    let first = rig.try_commit(vec![change.clone()]).await;
    assert!(matches!(first, Err(CommitError::Nothing(_))), "{first:?}");
    let second = rig.try_commit(vec![change.clone()]).await;
    assert!(matches!(second, Err(CommitError::OneChange(_))), "{second:?}");
    assert!(rig.everything().await.is_empty());
    rig.commit(vec![change]).await;
    assert_eq!(rig.everything().await.len(), 1);
}

#[tokio::test]
async fn a_commit_of_which_nobody_knows_is_found_by_the_next_start() {
    let (mut rig, store) = with_faults().await;
    store.write_and_fail_next(full());
    let change = rig.post(&[0], |_| {});
    let unknown = rig.try_commit(vec![change]).await;
    assert!(matches!(unknown, Err(CommitError::Unknown(_))), "{unknown:?}");
    assert_eq!(rig.reopen().await.open().len(), 1);
}

#[tokio::test]
async fn a_doubt_is_told_with_what_was_written() {
    let (mut rig, store) = with_faults().await;
    store.doubt_next(full());
    let change = rig.post(&[0], |_| {});
    let committed = rig.try_commit(vec![change]).await.expect("written");
    assert!(committed.doubt.is_some());
    assert_eq!(rig.everything().await.len(), 1);
}

#[tokio::test]
async fn a_store_that_was_opened_again_goes_its_own_way() {
    let (mut rig, store) = with_faults().await;
    let copy = store.reopen();
    rig.send(1, 0).await;
    assert!(copy.load().await.expect("loaded").last_seq == 0);
    assert!(!rig.store.condition().durable);
}
