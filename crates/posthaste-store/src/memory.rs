//! A store in memory: what `--ephemeral` runs on, what the other stores are compared
//! with, and the simplest example of how to write one.
//!
//! # How to write another store
//!
//! A store writes [`Change`](posthaste_core::ports::change::Change)s and reads them back.
//! The suite in `tests/port` says what is promised; add a module with a factory there, and
//! it compares the new store with this one. The promises are:
//!
//! - A group is written whole or not at all. A change that contradicts what is kept is
//!   refused with [`CommitError::OneChange`]: a number that is taken, a delivery that does
//!   not exist or is not in the state that the change begins with.
//! - A group that was committed is seen by the next call and, if the store is durable, by
//!   the next start.
//! - Each opening has a higher epoch than the one before, and knows whether the last change
//!   was `Stopped`.
//! - Lists come in the order that the port names, and a page ends where the port says.
//!
//! Not the business of a store: who may read, what is leased, what a number or a time
//! should be, when something is due, and which event a change makes. The ledger has decided
//! that before the store hears of it.
//!
//! Read `kept` for the content of a store, `check` for the groups that are refused,
//! `apply` for the effect of each change, `load` for the state that a start reads back,
//! `look` for the other answers, and `profiles` with `words` for the search.

mod apply;
mod check;
mod kept;
mod load;
mod look;
mod profiles;
mod words;

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture};
use parking_lot::Mutex;
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

use self::kept::Kept;

/// Keeps everything in maps behind one lock. Each call does its work at once, and its
/// future is ready.
pub struct MemoryStore {
    kept: Mutex<Kept>,
    /// Largest part of the backlog that one answer holds.
    part: usize,
    faults: Mutex<VecDeque<Fault>>,
}

/// A fault that a test plans for a commit.
enum Fault {
    Refused(CommitError),
    /// The group is written, and the commit fails with [`CommitError::Unknown`].
    Unknown(StoreError),
    /// The group is written, and the commit succeeds with a doubt.
    Doubted(StoreError),
}

impl MemoryStore {
    /// Returns an empty store, opened for the first time.
    pub fn new() -> Arc<Self> {
        Self::with(Kept::new(), usize::MAX)
    }

    /// Returns a store with the same content, as a restart would find it: with the next
    /// epoch, and unclean unless `Change::Stopped` was in the last group. This store keeps
    /// its own copy.
    pub fn reopen(&self) -> Arc<Self> {
        self.reopen_in_parts(usize::MAX)
    }

    /// Like [`reopen`](Self::reopen), but each answer holds at most `part` deliveries or
    /// keys of the backlog.
    pub fn reopen_in_parts(&self, part: usize) -> Arc<Self> {
        Self::with(self.kept.lock().reopened(), part.max(1))
    }

    /// Makes the next commit write nothing and fail with `error`. A second call does so to
    /// the commit after that.
    pub fn fail_next(&self, error: CommitError) {
        self.faults.lock().push_back(Fault::Refused(error));
    }

    /// Makes the next commit write its group and fail as unknown: a reopened store has the
    /// group.
    pub fn write_and_fail_next(&self, error: StoreError) {
        self.faults.lock().push_back(Fault::Unknown(error));
    }

    /// Makes the next commit write its group and succeed with this doubt.
    pub fn doubt_next(&self, doubt: StoreError) {
        self.faults.lock().push_back(Fault::Doubted(doubt));
    }

    fn with(kept: Kept, part: usize) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::new(kept), part, faults: Mutex::default() })
    }

    fn write(&self, group: Group) -> Result<Committed, CommitError> {
        let fault = self.faults.lock().pop_front();
        if let Some(Fault::Refused(error)) = fault {
            return Err(error);
        }
        let mut kept = self.kept.lock();
        check::group(&kept, &group)?;
        kept.apply(group);
        match fault {
            Some(Fault::Unknown(error)) => Err(CommitError::Unknown(error)),
            Some(Fault::Doubted(doubt)) => {
                Ok(Committed { took: Duration::ZERO, doubt: Some(doubt) })
            }
            Some(Fault::Refused(_)) | None => Ok(Committed { took: Duration::ZERO, doubt: None }),
        }
    }

    fn answer<T: Send + 'static>(&self, look: impl FnOnce(&Kept) -> T) -> Reply<'_, T> {
        let found = look(&self.kept.lock());
        future::ready(Ok(found)).boxed()
    }
}

impl Store for MemoryStore {
    fn load(&self) -> Reply<'_, Loaded> {
        self.answer(|kept| kept.load(self.part))
    }

    fn backlog(&self, from: BacklogMark) -> Reply<'_, Backlog> {
        self.answer(|kept| kept.backlog(from, self.part))
    }

    fn commit(&self, group: Group) -> BoxFuture<'_, Result<Committed, CommitError>> {
        future::ready(self.write(group)).boxed()
    }

    fn messages(&self, seqs: Vec<Seq>, bodies: Bodies) -> Reply<'_, FoundMessages> {
        self.answer(|kept| kept.find(&seqs, bodies))
    }

    fn records(&self, which: Vec<MessageRef>, bytes: usize) -> Reply<'_, Vec<StoredRecord>> {
        self.answer(|kept| kept.records(&which, bytes))
    }

    fn history(&self, look: HistoryLook) -> Reply<'_, HistoryPart> {
        self.answer(|kept| kept.history(&look))
    }

    fn replies(&self, to: Seq, most: usize) -> Reply<'_, Vec<StoredRecord>> {
        self.answer(|kept| kept.replies_to(to, most))
    }

    fn notes(&self, of: RangeInclusive<DeliveryNo>) -> Reply<'_, Vec<Note>> {
        self.answer(|kept| kept.notes_of(of))
    }

    fn events(&self, after: u64, most: usize) -> Reply<'_, StoredEvents> {
        self.answer(|kept| kept.events_after(after, most))
    }

    fn counts(&self, of: Option<CountsOf>) -> Reply<'_, StoredCounts> {
        self.answer(|kept| kept.counts(of))
    }

    fn thread(&self, thread: ThreadId, unread: Vec<Seq>) -> Reply<'_, ThreadSummary> {
        self.answer(|kept| kept.thread(thread, &unread))
    }

    fn key(&self, digest: KeyDigest, since: Timestamp) -> Reply<'_, Option<Seq>> {
        self.answer(|kept| kept.keys.last(digest, since))
    }

    fn aged(&self, ages: Ages, most: usize) -> Reply<'_, Aged> {
        self.answer(|kept| kept.aged(&ages, most))
    }

    fn unnamed(&self, mailboxes: Vec<BoxNo>) -> Reply<'_, Vec<BoxNo>> {
        self.answer(|kept| kept.unnamed(mailboxes))
    }

    fn needs(&self, look: NeedsLook) -> Reply<'_, Vec<Need>> {
        self.answer(|kept| kept.needs(&look))
    }

    fn profile(&self, name: Name) -> Reply<'_, Option<Profile>> {
        self.answer(|kept| kept.profiles.one(&name))
    }

    fn profiles(&self, skip: u64, most: u32) -> Reply<'_, ProfilePage> {
        self.answer(|kept| kept.profiles.page(skip, most))
    }

    fn search(&self, words: String, most: u32) -> Reply<'_, Vec<Profile>> {
        self.answer(|kept| kept.profiles.search(&words, most))
    }

    fn probe(&self) -> Reply<'_, ()> {
        self.answer(|_| ())
    }

    fn condition(&self) -> Condition {
        Condition { durable: false, trouble: None, log_pages: None }
    }

    fn failed(&self) -> BoxFuture<'_, Arc<str>> {
        future::pending().boxed()
    }

    fn close(&self) -> Reply<'_, ()> {
        self.answer(|_| ())
    }
}

#[cfg(test)]
mod tests;
