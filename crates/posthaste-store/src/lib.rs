//! Implementations of the port [`Store`].
//!
//! [`SqliteStore`] is the embedded store of one hub: one writer, one file, every accepted
//! message flushed before its sender gets a receipt. The rules are not here: the
//! [`Ledger`](posthaste_core::ledger::Ledger) of the core decides, and this crate writes
//! its decisions down and reads them back.

mod memory;
mod sqlite;

use std::path::PathBuf;
use std::sync::Arc;

use posthaste_core::ports::{Clock, Queue, Store};
use posthaste_core::{Engine, EngineConfig, Limits, settings};

pub use memory::MemoryStore;
pub use sqlite::{FolderLock, Inspection, SqliteStore, inspect};

/// The place where a store keeps its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A folder, for one hub at a time.
    File(PathBuf),
    /// In memory: a shutdown loses everything.
    Memory,
}

settings! {
    /// What an operator can turn; the `[store]` section of the configuration.
    pub struct StoreConfig {
        /// The write-ahead log is grown to this size before use: overwriting is
        /// quicker and steadier than growing.
        wal_bytes: u64 = 32 << 20;
        /// Most writes in one transaction.
        batch: usize = 512;
        /// Most writes that wait for the disk. While there are more, sends are refused
        /// and not kept waiting ever longer.
        waiting: usize = 10_000;
        /// Memory for pages of the database, of the writer and of each reader.
        cache_bytes: usize = 8 << 20;
        /// Connections for queries.
        readers: usize = 2;
        /// Open deliveries and keys that are read back before the doors open. Of a
        /// longer backlog everything is read behind them.
        read_at_start: u64 = 20_000;
        /// Largest size of the database file, 0 for no limit. Beyond it, sends are
        /// refused as on a full disk.
        max_bytes: u64 = 0;
    }
}

/// Opens the store at a place and starts an engine on it. The engine returns all leases
/// of the last run. Must be called within a runtime.
pub async fn open(
    place: &Place,
    config: StoreConfig,
    limits: Limits,
    queue: Arc<dyn Queue>,
    clock: Arc<dyn Clock>,
) -> Result<Arc<Engine>, OpenError> {
    let engine = EngineConfig { batch: config.batch, waiting: config.waiting };
    let (store, path): (Arc<dyn Store>, _) = match place {
        Place::File(folder) => (SqliteStore::open(folder, config)?, folder.clone()),
        Place::Memory => (MemoryStore::new(), PathBuf::from("memory")),
    };
    let engine = Engine::open(store, engine, limits, queue, clock).await;
    engine.map_err(|error| OpenError::Corrupt { file: path, why: error.to_string() })
}

/// The reason why a store cannot be opened. [`OpenError::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another hub uses {folder}: {holder}")]
    Locked { folder: PathBuf, holder: String },
    #[error("{file} is damaged: {why}")]
    Corrupt { file: PathBuf, why: String },
    #[error("{file} is not a Posthaste database")]
    Foreign { file: PathBuf },
    #[error("{file} was written by a newer version (schema {found}, this one knows {known})")]
    Newer { file: PathBuf, found: i64, known: i64 },
    #[error("{path} cannot be used: {why}")]
    Unusable { path: PathBuf, why: String },
}

impl OpenError {
    /// Tells the operator what to do next.
    pub fn hint(&self) -> String {
        match self {
            Self::Locked { .. } => {
                "stop that hub first, or start this one with another folder: --data DIR".into()
            }
            Self::Corrupt { file, .. } => format!(
                "nothing was changed. Restore {0} from a backup, or move it away together with {0}-wal and start with an empty one",
                file.display()
            ),
            Self::Foreign { .. } => "choose another folder: --data DIR".into(),
            Self::Newer { .. } => {
                "start the newer version, or choose another folder: --data DIR".into()
            }
            Self::Unusable { .. } => {
                "check that the folder exists, is yours, is writable and that its disk is not full"
                    .into()
            }
        }
    }
}
