//! Remembers: the `Store` port.
//!
//! [`SqliteStore`] is the embedded memory of one hub: one writer, one file, every
//! accepted message flushed before its sender hears of it. The rules are not
//! here: the [`Ledger`](posthaste_core::ledger::Ledger) of the core decides, this
//! crate writes its decisions down and reads them back.

mod sqlite;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use sqlite::SqliteStore;

/// Where the store keeps what it remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A folder, for one hub at a time.
    File(PathBuf),
    /// Nowhere: a stop forgets everything.
    Memory,
}

/// What an operator can turn; the `[store]` section of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// The write-ahead log is grown to this size before use: overwriting is
    /// quicker and steadier than growing.
    pub wal_bytes: u64,
    /// Most writes in one transaction.
    pub batch: usize,
    /// Memory for pages of the database, of the writer and of each reader.
    pub cache_bytes: usize,
    /// Connections for queries.
    pub readers: usize,
    /// Open deliveries and keys that are read back before the doors open. Of a
    /// longer backlog everything is read behind them.
    pub read_at_start: u64,
    /// Largest size of the database file, 0 for no limit. Beyond it, sends are
    /// refused as on a full disk.
    pub max_bytes: u64,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            wal_bytes: 32 << 20,
            batch: 512,
            cache_bytes: 16 << 20,
            readers: 2,
            read_at_start: 20_000,
            max_bytes: 0,
        }
    }
}

/// Why a store cannot be opened, and what to do about it.
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
    /// What to do next.
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
