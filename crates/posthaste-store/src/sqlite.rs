//! The store of one hub in one SQLite file: the port [`Store`] and nothing more.
//!
//! ```text
//! commit ──▶ writer ──▶ changes      one connection, one transaction for each group
//! queries ─▶ reader ──▶ rows/, history, counts, events, keys, profiles, prune
//! behind:    background ──▶ checkpoints, index, keys
//! open ────▶ lock, migrate, load, backlog, log
//! ```

mod background;
mod backlog;
mod changes;
mod counts;
mod errors;
mod events;
mod files;
mod history;
mod index;
mod inspect;
mod keys;
mod load;
mod lock;
mod log;
mod migrate;
mod needs;
mod open;
mod profiles;
mod prune;
mod reader;
mod rows;
mod thread;
mod writer;

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use posthaste_core::Vitals;
use posthaste_core::address::Name;
use posthaste_core::ledger::{BoxNo, KeyDigest};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::{MessageRef, Seq, ThreadId};
use posthaste_core::needs::Need;
use posthaste_core::ports::store::{
    Aged, Ages, Backlog, BacklogMark, Bodies, CommitError, Committed, Condition, CountsOf,
    FoundMessages, Group, HistoryLook, HistoryPart, Loaded, NeedsLook, Reply, Store, StoredCounts,
    StoredEvents, StoredRecord,
};
use posthaste_core::ports::{Note, StoreError, ThreadSummary};
use posthaste_core::profiles::{Profile, ProfilePage};
use posthaste_core::time::Timestamp;
use rusqlite::Connection;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::backlog::BacklogReader;
use self::errors::{Damage, ReadResult};
use self::files::Files;
pub use self::inspect::{Inspection, inspect};
pub use self::lock::FolderLock;
use self::open::{Opened, open};
use self::reader::{Readers, at_one_moment};
use self::rows::meta::Marks;
use self::rows::record::Ids;
use self::rows::{message, record};
use self::writer::{Flush, Writer, Written};
use crate::{OpenError, StoreConfig};

/// The embedded store.
pub struct SqliteStore {
    shared: Arc<Shared>,
    /// Taken by the first call of [`Store::load`].
    loaded: Mutex<Option<Loaded>>,
    backlog: BacklogReader,
    ids: Ids,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

/// State that callers and the background share.
pub(crate) struct Shared {
    writer: Arc<Writer>,
    readers: Readers,
    files: Arc<Files>,
    damage: Arc<Damage>,
    vitals: Vitals,
    config: StoreConfig,
    /// `u64::MAX` until the log was measured.
    log_pages: AtomicU64,
}

impl SqliteStore {
    /// Opens the store of a hub, creating it if there is none, and reads what
    /// [`Store::load`] returns. Must be called within a runtime.
    pub fn open(folder: &Path, config: StoreConfig) -> Result<Arc<Self>, OpenError> {
        let vitals = Vitals::default();
        let opened = open(folder, &config, &vitals)?;
        let Opened { db, files, loaded, extent, ids, indexed, unsorted_keys } = opened;
        let damage = Arc::new(Damage::new(files.database()));
        let last = Marks { seq: loaded.last_seq, delivery: loaded.last_delivery };
        let readers = Readers::new(Arc::clone(&files), Arc::clone(&damage), &config)?;
        let backlog = BacklogReader::new(extent, Arc::clone(&files), Arc::clone(&damage));
        loaded.rest.iter().for_each(|rest| backlog.read_ahead(*rest));
        let writer = Writer::new(
            db,
            Arc::clone(&files),
            Arc::clone(&damage),
            vitals.clone(),
            loaded.epoch,
            ids.first_made,
            Written::new(last, unsorted_keys),
        );
        let shared = Arc::new(Shared {
            writer: Arc::new(writer),
            readers,
            files,
            damage,
            vitals,
            config,
            log_pages: AtomicU64::new(u64::MAX),
        });
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(background::run(Arc::clone(&shared), indexed, stopping.clone()));
        let loaded = Mutex::new(Some(loaded));
        Ok(Arc::new(Self { shared, loaded, backlog, ids, tasks, stopping }))
    }

    fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> ReadResult<T> + Send + 'static,
    ) -> Reply<'_, T> {
        self.shared.readers.query(query).boxed()
    }

    async fn close_all(&self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.shared.writer.close().await;
        self.backlog.close();
        self.shared.readers.close();
        self.shared.files.release_lock();
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The background task may run a little longer; the folder is free for the next
        // store.
        self.stopping.cancel();
        self.shared.files.release_lock();
    }
}

impl Store for SqliteStore {
    fn load(&self) -> Reply<'_, Loaded> {
        let loaded = self.loaded.lock().take();
        let loaded = loaded.ok_or(StoreError::Unavailable("it was loaded before".into()));
        async move { loaded }.boxed()
    }

    fn backlog(&self, from: BacklogMark) -> Reply<'_, Backlog> {
        self.backlog.next(from).boxed()
    }

    fn commit(&self, group: Group) -> BoxFuture<'_, Result<Committed, CommitError>> {
        Arc::clone(&self.shared.writer).commit(group).boxed()
    }

    fn messages(&self, seqs: Vec<Seq>, bodies: Bodies) -> Reply<'_, FoundMessages> {
        let damage = Arc::clone(&self.shared.damage);
        self.query(move |db| message::messages(db, &seqs, bodies, &damage))
    }

    fn records(&self, which: Vec<MessageRef>, bytes: usize) -> Reply<'_, Vec<StoredRecord>> {
        let ids = self.ids;
        self.query(move |db| {
            let found = which.into_iter().map(|which| ids.find(db, which));
            let seqs: Vec<Option<u64>> = found.collect::<Result<_, _>>()?;
            record::fitting(db, seqs.into_iter().flatten(), bytes)
        })
    }

    fn history(&self, look: HistoryLook) -> Reply<'_, HistoryPart> {
        self.query(move |db| at_one_moment(db, || history::part(db, &look)))
    }

    fn replies(&self, to: Seq, most: usize) -> Reply<'_, Vec<StoredRecord>> {
        self.query(move |db| at_one_moment(db, || history::replies(db, to, most)))
    }

    fn notes(&self, of: RangeInclusive<DeliveryNo>) -> Reply<'_, Vec<Note>> {
        self.query(move |db| history::notes(db, *of.start(), *of.end()))
    }

    fn events(&self, after: u64, most: usize) -> Reply<'_, StoredEvents> {
        self.query(move |db| events::after(db, after, most))
    }

    fn counts(&self, of: Option<CountsOf>) -> Reply<'_, StoredCounts> {
        self.query(move |db| at_one_moment(db, || counts::kept(db, of)))
    }

    fn thread(&self, thread: ThreadId, unread: Vec<Seq>) -> Reply<'_, ThreadSummary> {
        self.query(move |db| at_one_moment(db, || counts::thread(db, thread, &unread)))
    }

    fn key(&self, digest: KeyDigest, since: Timestamp) -> Reply<'_, Option<Seq>> {
        self.query(move |db| keys::find(db, digest, since))
    }

    fn aged(&self, ages: Ages, most: usize) -> Reply<'_, Aged> {
        self.query(move |db| prune::aged(db, ages, most))
    }

    fn unnamed(&self, mailboxes: Vec<BoxNo>) -> Reply<'_, Vec<BoxNo>> {
        self.query(move |db| at_one_moment(db, || prune::unnamed(db, &mailboxes)))
    }

    fn needs(&self, look: NeedsLook) -> Reply<'_, Vec<Need>> {
        self.query(move |db| at_one_moment(db, || needs::look(db, look)))
    }

    fn profile(&self, name: Name) -> Reply<'_, Option<Profile>> {
        self.query(move |db| profiles::one(db, &name))
    }

    fn profiles(&self, skip: u64, most: u32) -> Reply<'_, ProfilePage> {
        self.query(move |db| profiles::page(db, skip, most))
    }

    fn search(&self, words: String, most: u32) -> Reply<'_, Vec<Profile>> {
        self.query(move |db| profiles::search(db, &words, most))
    }

    fn probe(&self) -> Reply<'_, ()> {
        let probe = |db: &Connection| {
            db.execute("INSERT OR REPLACE INTO meta VALUES ('probe', zeroblob(16384))", [])?;
            db.execute("DELETE FROM meta WHERE key = 'probe'", []).map(drop)
        };
        async move {
            if let Some(damage) = self.shared.damage.found() {
                return Err(damage);
            }
            let written = Arc::clone(&self.shared.writer).write(Flush::Now, probe).await;
            written.map(drop).map_err(CommitError::into_inner)
        }
        .boxed()
    }

    fn condition(&self) -> Condition {
        let pages = self.shared.log_pages.load(Ordering::Relaxed);
        let trouble = self.shared.damage.found().or_else(|| self.shared.files.missed());
        Condition { durable: true, trouble, log_pages: (pages != u64::MAX).then_some(pages) }
    }

    fn failed(&self) -> BoxFuture<'_, Arc<str>> {
        self.shared.vitals.failed().boxed()
    }

    fn close(&self) -> Reply<'_, ()> {
        async move {
            self.close_all().await;
            Ok(())
        }
        .boxed()
    }
}
