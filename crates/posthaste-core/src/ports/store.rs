//! The port to the store, which remembers.
//!
//! A [`Store`] writes groups of [`Change`]s and reads them back. It decides nothing: the
//! ledger knows the instances, the open mail and its holders, and the writer loop calls
//! [`Store::commit`] for one group at a time. What is not in the store after a commit did
//! not happen.
//!
//! Each store runs the suite in `posthaste-store/tests/port`, which compares it with the
//! store in memory. A store refuses a change that contradicts its rows with
//! [`CommitError::OneChange`], and a group of an earlier epoch with
//! [`CommitError::Nothing`].

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::StoreError;
use super::change::{Change, Old};
use super::reading::{Note, RecordState, ThreadSummary};
use crate::address::{InstanceId, Mailbox, Name};
use crate::events::{EventKind, EventList, Trace};
use crate::ledger::{BoxNo, KeyDigest, KnownProfile, Queued};
use crate::messaging::delivery::DeliveryNo;
use crate::messaging::id_key::IdKey;
use crate::messaging::message::{Message, MessageRef, Principal, Seq, ThreadId};
use crate::needs::{KnownNeed, Need, NeedId, NeedKind, Remembered};
use crate::orchestration::Assignment;
use crate::profiles::{Profile, ProfilePage};
use crate::registry::{Instance, Team, TokenHash};
use crate::time::Timestamp;

/// The number of times that the store was opened. An earlier number is from before the
/// last start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Epoch(pub u64);

/// The answer to a question. Every question can fail.
pub type Reply<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Remembers what the ledger decided.
pub trait Store: Send + Sync {
    /// Returns everything that the ledger must know, as it was when the store was opened.
    /// Counts the epoch up; until [`Change::Stopped`] is committed the next start finds
    /// `clean: false`.
    fn load(&self) -> Reply<'_, Loaded>;

    /// Returns the next part of what [`Loaded::rest`] or [`Backlog::rest`] left out, in
    /// order: only rows that were there when the store was opened.
    fn backlog(&self, from: BacklogMark) -> Reply<'_, Backlog>;

    /// Writes all changes of a group and its events, or nothing, and flushes. Called for
    /// one group at a time; a dropped future does not stop the write.
    fn commit(&self, group: Group) -> BoxFuture<'_, Result<Committed, CommitError>>;

    /// Returns these messages, with their bodies or with empty ones. A message that
    /// cannot be read does not keep the others back.
    fn messages(&self, seqs: Vec<Seq>, bodies: Bodies) -> Reply<'_, FoundMessages>;

    /// Returns messages with their deliveries, in the order asked for, as far as they are
    /// kept and their bodies fit into `bytes`; the first always fits.
    fn records(&self, which: Vec<MessageRef>, bytes: usize) -> Reply<'_, Vec<StoredRecord>>;

    /// Returns the next messages of a range.
    fn history(&self, look: HistoryLook) -> Reply<'_, HistoryPart>;

    /// Returns the messages that name this one in `in_reply_to`, oldest first.
    fn replies(&self, to: Seq, most: usize) -> Reply<'_, Vec<StoredRecord>>;

    /// Returns the notes about these deliveries, oldest first.
    fn notes(&self, of: RangeInclusive<DeliveryNo>) -> Reply<'_, Vec<Note>>;

    /// Returns at most so many events after this number, in order.
    fn events(&self, after: u64, most: usize) -> Reply<'_, StoredEvents>;

    /// Counts the kept messages: of all mailboxes and senders, or of these.
    fn counts(&self, of: Option<CountsOf>) -> Reply<'_, StoredCounts>;

    /// Counts the messages of a thread, and how many of `unread` are in it.
    fn thread(&self, thread: ThreadId, unread: Vec<Seq>) -> Reply<'_, ThreadSummary>;

    /// Returns the last message that was accepted under this key and is not older than
    /// `since`.
    fn key(&self, digest: KeyDigest, since: Timestamp) -> Reply<'_, Option<Seq>>;

    /// Returns at most so many messages whose last delivery was settled long enough ago,
    /// lowest first; and whether there are old events and old closed needs.
    fn aged(&self, ages: Ages, most: usize) -> Reply<'_, Aged>;

    /// Returns those of these mailboxes that no kept delivery names.
    fn unnamed(&self, mailboxes: Vec<BoxNo>) -> Reply<'_, Vec<BoxNo>>;

    /// Returns needs, lowest number first.
    fn needs(&self, look: NeedsLook) -> Reply<'_, Vec<Need>>;

    fn profile(&self, name: Name) -> Reply<'_, Option<Profile>>;

    /// Lists profiles by name, without prompts; `total` is right also beyond the end.
    fn profiles(&self, skip: u64, most: u32) -> Reply<'_, ProfilePage>;

    /// Finds profiles that have these words, best first, without prompts. Any text is a
    /// valid query; one that fits nothing finds nothing.
    fn search(&self, words: String, most: u32) -> Reply<'_, Vec<Profile>>;

    /// Writes as much as a message and removes it again, to test the disk.
    fn probe(&self) -> Reply<'_, ()>;

    /// Returns the present condition of the store, from memory.
    fn condition(&self) -> Condition;

    /// Completes when the store cannot go on without a new start, with the reason. Never
    /// after `close`.
    fn failed(&self) -> BoxFuture<'_, Arc<str>>;

    /// Ends the store's own tasks and closes its files. No call comes after it.
    fn close(&self) -> Reply<'_, ()>;
}

/// One transaction.
#[derive(Debug)]
pub struct Group {
    pub epoch: Epoch,
    /// Time when the group was planned.
    pub at: Timestamp,
    pub changes: Vec<Change>,
    /// The events of the group, made from the changes.
    pub events: EventList,
}

/// The result of a commit: the group is written and flushed.
#[derive(Debug)]
pub struct Committed {
    /// Duration of the flush.
    pub took: Duration,
    /// The reason why the next start may not find the group after all: the hub goes on
    /// with it, and callers are told that the result is unknown.
    pub doubt: Option<StoreError>,
}

/// The reason why a group is not written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Nothing was written, because of one of the changes: the others may be tried alone.
    #[error("{0}")]
    OneChange(StoreError),
    /// Nothing was written, and no other group would be.
    #[error("{0}")]
    Nothing(StoreError),
    /// Nobody knows: the next start may find it.
    #[error("{0}")]
    Unknown(StoreError),
}

impl CommitError {
    pub fn into_inner(self) -> StoreError {
        match self {
            Self::OneChange(error) | Self::Nothing(error) | Self::Unknown(error) => error,
        }
    }
}

/// The rows of a store when it was opened.
#[derive(Debug, Default)]
pub struct Loaded {
    pub epoch: Epoch,
    /// Makes the ids of new messages from their numbers.
    pub id_key: IdKey,
    /// Set if the last run stopped cleanly.
    pub clean: bool,
    pub last_seq: u64,
    pub last_delivery: u64,
    pub last_event: u64,
    pub profiles: Vec<(Name, KnownProfile)>,
    pub teams: Vec<Team>,
    /// Oldest first.
    pub instances: Vec<Instance>,
    /// Oldest first.
    pub tokens: Vec<(TokenHash, InstanceId)>,
    pub mailboxes: Vec<(BoxNo, Mailbox)>,
    pub assignments: Vec<Assignment>,
    /// The highest number given to a need.
    pub last_need: u64,
    /// The open needs, and the closed permissions of instances that have not ended,
    /// lowest number first.
    pub needs: Vec<KnownNeed>,
    pub remembered: Vec<Remembered>,
    /// Reports of these assignments that are dead because they cannot be read.
    pub unreadable_reports: Vec<DeliveryNo>,
    /// For each reader the last 20 ids acked by a weak proof, oldest first.
    pub weakly_acked: HashMap<Principal, Vec<Seq>>,
    /// The open deliveries and keys, or the first part of them.
    pub backlog: Vec<BacklogPart>,
    /// Open deliveries that cannot be read.
    pub unreadable: Vec<UnreadableRow>,
    /// The beginning of the rest of the backlog, which is read behind the open doors.
    pub rest: Option<BacklogMark>,
}

/// A position in the backlog, with a meaning only for the store that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BacklogMark {
    pub deliveries_after: u64,
    pub keys_after: u64,
}

/// A part of the backlog.
#[derive(Debug)]
pub enum BacklogPart {
    /// In the order of their numbers, with the mark that their rows have.
    Deliveries(Vec<(BoxNo, Queued)>),
    /// In the order of their times, as far as clocks went right.
    Keys(Vec<(KeyDigest, Seq, Timestamp)>),
}

/// The next part of the backlog.
#[derive(Debug)]
pub struct Backlog {
    pub part: BacklogPart,
    pub unreadable: Vec<UnreadableRow>,
    pub rest: Option<BacklogMark>,
}

/// A row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRow {
    pub of: RowOf,
    /// Table, row, column, and the fault.
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOf {
    /// A message: none of its deliveries can be leased.
    Message(Seq),
    /// A delivery, with its message if that is known.
    Delivery(DeliveryNo, Seq),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bodies {
    With,
    Without,
}

/// The result of a look for messages.
#[derive(Debug, Default)]
pub struct FoundMessages {
    pub messages: HashMap<Seq, Arc<Message>>,
    /// Rows that are missing or cannot be read as messages.
    pub unreadable: Vec<UnreadableRow>,
    /// Messages in a damaged part of the file: nothing can be written about them.
    pub damaged: Vec<Seq>,
}

/// A message with its deliveries in the store's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    pub message: Arc<Message>,
    pub deliveries: Vec<StoredDelivery>,
    /// The parts that cannot be read: table, row, column, and the fault. An unreadable
    /// message has the fields that can be read, an unreadable delivery is left out.
    pub unreadable: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDelivery {
    pub delivery: DeliveryNo,
    pub at: BoxNo,
    pub mailbox: Mailbox,
    /// `None`: it is open, and the ledger knows more.
    pub end: Option<RecordState>,
    pub marked: bool,
    pub attempts: u8,
    /// Size of its message's body, in bytes.
    pub size: u32,
    pub leased_at: Option<Timestamp>,
    pub settled_at: Option<Timestamp>,
    /// The reader that settled it.
    pub by: Option<Principal>,
}

/// A request for messages of the history.
#[derive(Debug, Clone)]
pub struct HistoryLook {
    /// Joined by OR.
    pub sources: Arc<[Source]>,
    /// Strictly above this number, and strictly below that one.
    pub above: u64,
    pub below: u64,
    /// Set to go up from the low end; else down from the high one.
    pub forward: bool,
    pub most: usize,
    /// The part ends with the first message by which its bodies have so many bytes or
    /// more.
    pub bytes: usize,
}

/// A source of the messages of a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    All,
    Thread(ThreadId),
    Mailboxes(Vec<BoxNo>),
    Sender(InstanceId),
    /// These messages, in order: open mail is known without a search.
    Listed(Vec<Seq>),
}

#[derive(Debug, Default)]
pub struct HistoryPart {
    /// In the order of the look.
    pub records: Vec<StoredRecord>,
    /// The last number that was looked at; `None` at the end of the range.
    pub reached: Option<u64>,
}

/// Events as the journal keeps them.
#[derive(Debug, Default)]
pub struct StoredEvents {
    pub events: Vec<StoredEvent>,
    /// The first number that is still kept, or the next one if none is.
    pub oldest: u64,
    /// The last number given.
    pub last: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    pub no: u64,
    pub at: Timestamp,
    /// `None`: a later version wrote it.
    pub told: Option<(EventKind, Trace)>,
}

/// The mailboxes and the sender to count for.
#[derive(Debug, Clone, Default)]
pub struct CountsOf {
    pub mailboxes: Vec<BoxNo>,
    pub sender: Option<InstanceId>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct StoredCounts {
    /// Time when the oldest kept message was accepted.
    pub since: Option<Timestamp>,
    pub received: HashMap<BoxNo, u64>,
    pub sent: HashMap<InstanceId, u64>,
}

/// The ages from which messages and events count as old.
#[derive(Debug, Clone, Copy)]
pub struct Ages {
    pub acked: Old,
    pub dead: Old,
    pub events: Old,
    pub needs: Old,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Aged {
    pub messages: Vec<Seq>,
    pub has_events: bool,
    pub has_needs: bool,
}

/// The needs that are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeedsLook {
    These(Vec<NeedId>),
    /// The next needs after this number.
    After {
        after: NeedId,
        kind: Option<NeedKind>,
        open_only: bool,
        most: usize,
    },
}

/// The condition of a store.
#[derive(Debug, Clone, Default)]
pub struct Condition {
    /// Set if a restart finds what was committed.
    pub durable: bool,
    /// The reason why the store cannot be written or read; it stays until the store is
    /// repaired.
    pub trouble: Option<StoreError>,
    /// Pages in the write-ahead log when it was last looked at, if there is one.
    pub log_pages: Option<u64>,
}
