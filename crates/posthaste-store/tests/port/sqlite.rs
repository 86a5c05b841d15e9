//! The store in a SQLite file.

mod today;
mod unreadable;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use posthaste_core::ports::store::Store;
use posthaste_store::{SqliteStore, StoreConfig};
use tempfile::TempDir;

use crate::rig::{Backend, Rig};

struct Sqlite {
    folder: TempDir,
    config: StoreConfig,
    /// Waits until the background has nothing to do before each stop.
    rests: bool,
}

impl Sqlite {
    fn at(folder: TempDir, rests: bool) -> Self {
        let config = StoreConfig { wal_bytes: 1 << 20, ..StoreConfig::default() };
        Self { folder, config, rests }
    }

    fn open(&self) -> Arc<dyn Store> {
        SqliteStore::open(self.folder.path(), self.config.clone()).expect("a store")
    }
}

impl Backend for Sqlite {
    fn reopen(&mut self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>> {
        async move {
            if self.rests {
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
            store.close().await.expect("it lets go of its files");
            self.open()
        }
        .boxed()
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(self.folder.path().to_owned())
    }
}

async fn opened(read_at_start: u64, rests: bool) -> Rig {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut backend = Sqlite::at(folder, rests);
    backend.config.read_at_start = read_at_start;
    Rig::new(backend.open(), backend).await
}

async fn open() -> Rig {
    opened(1_000_000, false).await
}

promises_kept_by!(open);

#[tokio::test]
async fn a_backlog_can_be_read_behind() {
    crate::groups::what_was_committed_is_loaded_again_in_order(opened(0, false).await).await;
    let rig = opened(0, false).await;
    crate::messages::a_key_leads_to_the_last_message_that_is_not_too_old(rig).await;
    crate::deliveries::the_low_water_mark_goes_down_with_a_requeue(opened(0, false).await).await;
}

/// The clock is paused: a rest takes no time.
#[tokio::test(start_paused = true)]
async fn indexes_change_nothing_that_is_found() {
    let rig = opened(1_000_000, true).await;
    crate::agree::random_changes_leave_what_they_leave_in_memory(rig).await;
}
