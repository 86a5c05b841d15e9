//! The store in a SQLite file.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use posthaste_core::ports::store::Store;
use posthaste_store::{SqliteStore, StoreConfig};
use tempfile::TempDir;

use crate::rig::{Backend, Rig};

struct Sqlite {
    folder: TempDir,
    config: StoreConfig,
}

impl Sqlite {
    fn open(&self) -> Arc<dyn Store> {
        SqliteStore::open(self.folder.path(), self.config.clone()).expect("a store")
    }
}

impl Backend for Sqlite {
    fn reopen(&mut self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>> {
        async move {
            store.close().await.expect("it lets go of its files");
            self.open()
        }
        .boxed()
    }
}

async fn opened(read_at_start: u64) -> Rig {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let config = StoreConfig { wal_bytes: 1 << 20, read_at_start, ..StoreConfig::default() };
    let backend = Sqlite { folder, config };
    Rig::new(backend.open(), backend).await
}

async fn open() -> Rig {
    opened(1_000_000).await
}

promises_kept_by!(open);

#[tokio::test]
async fn a_backlog_can_be_read_behind() {
    crate::groups::what_was_committed_is_loaded_again_in_order(opened(0).await).await;
    crate::messages::a_key_leads_to_the_last_message_that_is_not_too_old(opened(0).await).await;
    crate::deliveries::the_low_water_mark_goes_down_with_a_requeue(opened(0).await).await;
}
