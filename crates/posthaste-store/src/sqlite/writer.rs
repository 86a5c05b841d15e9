//! The one writer: take what waits, one transaction, answer after the commit.
//!
//! A command plans on the event loop, under the ledger's lock, in microseconds.
//! The statements of a whole group run in one transaction, without the lock: on a
//! thread of its own, so that readers lease while the disk works, or on the loop
//! itself where the disk is quick. Nobody hears of anything before the flush.
//!
//! If a group fails for a reason of one command, every command is tried again
//! alone: a bad neighbour fails only itself, and nobody is answered from what was
//! undone with it.
//!
//! A commit that fails may be in the log all the same, as when the log has room and
//! its index has none: the next start would find it. So the log is cut there before
//! anybody is told that nothing was written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use posthaste_core::Vital;
use posthaste_core::ledger::Ledger;
use posthaste_core::messaging::message::Draft;
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::{Queue, StoreError, Ticket};
use posthaste_core::time::Timestamp;
use rusqlite::{CachedStatement, Connection, ErrorCode};
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::background::checkpoint;
use super::files::Files;
use super::journal::EventList;
use super::keys::KeyList;
use super::ops::append::{self, Accepted, Append};
use super::ops::settle;

/// One durable change, from its plan to its answer.
pub(crate) trait Op: Send {
    /// Looks at everything that is open. What was planned before it must be
    /// committed first, or it would be overlooked.
    fn looks_at_all(&self) -> bool {
        false
    }
    /// Needs nothing that is still being read after a start ([`load`](super::load)).
    fn is_early(&self) -> bool {
        false
    }
    /// A few rows: worth no change of threads where the disk is quick.
    fn is_light(&self) -> bool {
        false
    }
    /// Decides and takes. `false`: there is nothing to write, and nothing taken. It
    /// is planned again if it was not answered.
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool;
    /// Writes the decision down.
    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()>;
    /// It is on disk: readers may see it.
    fn commit(&mut self, ledger: &mut Ledger, tickets: &mut Vec<Ticket>);
    /// Readers can see it and have not been told yet.
    fn look(&mut self, _queue: &dyn Queue) {}
    /// It is not on disk: as if it had never been planned.
    fn undo(&mut self, ledger: &mut Ledger);
    /// Tells the caller; `failure` when the store could not write.
    fn answer(self: Box<Self>, failure: Option<StoreError>);
}

/// The writer's connection, with the statements of the hot path at hand for a
/// whole group.
pub(crate) struct Db<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) message: CachedStatement<'c>,
    pub(crate) delivery: CachedStatement<'c>,
    pub(crate) keys: KeyList,
    pub(crate) events: EventList,
    pub(crate) settle: CachedStatement<'c>,
}

impl<'c> Db<'c> {
    fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            connection,
            message: connection.prepare_cached(append::MESSAGE)?,
            delivery: connection.prepare_cached(append::DELIVERY)?,
            keys: KeyList::default(),
            events: EventList::default(),
            settle: connection.prepare_cached(settle::SETTLE)?,
        })
    }
}

/// Where commands wait for the writer.
#[derive(Clone)]
pub(crate) struct Commands {
    inner: Arc<CommandsInner>,
}

struct CommandsInner {
    /// How many may wait before a send is refused.
    most: usize,
    line: Mutex<Line>,
    due: Notify,
    closed: AtomicBool,
}

#[derive(Default)]
struct Line {
    waiting: Vec<Box<dyn Op>>,
    /// While the store is still reading what it knows: what must wait for that.
    late: Option<Vec<Box<dyn Op>>>,
    /// It could not be read.
    broken: Option<StoreError>,
}

impl Line {
    fn len(&self) -> usize {
        self.waiting.len() + self.late.as_ref().map_or(0, Vec::len)
    }
}

impl Commands {
    pub(crate) fn new(most: usize) -> Self {
        let (line, due, closed) = (Mutex::default(), Notify::new(), AtomicBool::new(false));
        Self { inner: Arc::new(CommandsInner { most, line, due, closed }) }
    }

    /// Hands a command over. Its answer comes after the commit; none comes when the
    /// writer failed in the middle of it ([`unanswered`]).
    pub(crate) fn push<T, O: Op + 'static>(
        &self,
        make: impl FnOnce(oneshot::Sender<T>) -> O,
    ) -> oneshot::Receiver<T> {
        let (tx, rx) = oneshot::channel();
        let op = Box::new(make(tx));
        match self.inner.closed.load(Ordering::Acquire) {
            true => op.answer(Some(StoreError::Closed)),
            false => self.stand_in_line(op),
        }
        rx
    }

    fn stand_in_line(&self, op: Box<dyn Op>) {
        let mut line = self.inner.line.lock();
        if let Some(error) = line.broken.clone() {
            drop(line);
            return op.answer(Some(error));
        }
        match &mut line.late {
            Some(late) if !op.is_early() => late.push(op),
            _ => {
                line.waiting.push(op);
                self.inner.due.notify_one();
            }
        }
    }

    /// From now on only what is early goes ahead.
    pub(crate) fn hold_back(&self) {
        self.inner.line.lock().late = Some(Vec::new());
    }

    /// Everything is known now, or never will be.
    pub(crate) fn release(&self, known: Result<(), StoreError>) {
        let mut line = self.inner.line.lock();
        let late = line.late.take().unwrap_or_default();
        match known {
            Ok(()) => line.waiting.extend(late),
            Err(error) => {
                line.broken = Some(error.clone());
                drop(line);
                late.into_iter().for_each(|op| op.answer(Some(error.clone())));
            }
        }
        self.inner.due.notify_one();
    }

    /// A send is refused while too many wait. Nothing else is: reading, proving and
    /// ending make room.
    pub(crate) fn append(&self, draft: Draft) -> oneshot::Receiver<Result<Accepted, SendError>> {
        if self.inner.line.lock().len() >= self.inner.most {
            let (tx, rx) = oneshot::channel();
            let busy = StoreError::Busy { limit: self.inner.most };
            // Nobody listens any more if the caller has gone.
            let _ = tx.send(Err(busy.into()));
            return rx;
        }
        self.push(|tx| Append::new(draft, tx))
    }

    /// The writer has left: who still stands in line, or comes later, is told so.
    fn shut(&self) {
        let mut line = self.inner.line.lock();
        line.broken.get_or_insert(StoreError::Closed);
        let mut left = std::mem::take(&mut line.waiting);
        left.extend(line.late.take().unwrap_or_default());
        drop(line);
        left.into_iter().for_each(|op| op.answer(Some(StoreError::Closed)));
    }

    pub(crate) fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        self.inner.due.notify_one();
    }

    async fn take(&self, most: usize) -> Vec<Box<dyn Op>> {
        loop {
            let ready = !self.inner.line.lock().waiting.is_empty();
            if !ready {
                self.inner.due.notified().await;
            }
            // Let every ready socket be read first: the group grows without a timer.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            let waiting = &mut self.inner.line.lock().waiting;
            if waiting.len() > most {
                return waiting.drain(..most).collect();
            }
            if !waiting.is_empty() {
                return std::mem::take(waiting);
            }
        }
    }
}

/// A command whose answer never came: the writer failed in the middle of its group.
pub(crate) fn unanswered(_: oneshot::error::RecvError) -> StoreError {
    StoreError::Unknown("the writer failed in the middle of it".into())
}

/// Commits that take less than this, on average, are done on the event loop itself:
/// two changes of threads cost more than the others wait. A slow disk gets a thread
/// of its own.
const QUICK: Duration = Duration::from_millis(1);
/// What is assumed of a disk that nobody has tried yet.
const SLOW: Duration = Duration::from_millis(4);

/// What the writer works with.
struct Desk {
    /// `None` after a panic took it away.
    db: Option<Connection>,
    /// `None` for a store in memory.
    files: Option<Arc<Files>>,
    /// How long a commit takes, as a moving average.
    pace: Duration,
}

/// However the writer leaves: the store is not well without it, and who stands in
/// line is told.
struct Leaving<'a> {
    shared: &'a Shared,
    _vital: Vital,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.shared.healthy.store(false, Ordering::Relaxed);
        self.shared.commands.shut();
    }
}

/// Serves commands until the store stops, or until a panic takes its connection away.
pub(crate) async fn run(shared: Arc<Shared>, db: Connection, stopping: CancellationToken) {
    let mut desk = Desk { db: Some(db), files: shared.files.clone(), pace: SLOW };
    let vital = shared.vitals.guard("the writer of the store", stopping.clone());
    let leaving = Leaving { shared: &shared, _vital: vital };
    while desk.db.is_some() {
        let group = tokio::select! {
            biased;
            group = shared.commands.take(shared.config.batch.max(1)) => group,
            () = stopping.cancelled() => break,
        };
        for part in apart(group) {
            commit(&shared, &mut desk, part).await;
        }
    }
    drop(leaving);
    if let Some(db) = desk.db {
        let files = desk.files;
        let closed = spawn_blocking(move || {
            files.iter().for_each(|files| files.leave_log(&db));
            db.close().map_err(|(_, e)| e)
        });
        let closed = closed.await;
        if let Ok(Err(error)) = closed {
            tracing::warn!(%error, "the database did not close cleanly");
        }
    }
}

/// Cuts a group before each command that looks at everything that is open.
fn apart(group: Vec<Box<dyn Op>>) -> Vec<Vec<Box<dyn Op>>> {
    let mut parts: Vec<Vec<Box<dyn Op>>> = Vec::new();
    for op in group {
        match parts.last_mut() {
            Some(part) if !op.looks_at_all() => part.push(op),
            _ => parts.push(vec![op]),
        }
    }
    parts
}

/// Plans, writes and answers one group; what fails together is tried alone.
async fn commit(shared: &Shared, desk: &mut Desk, group: Vec<Box<dyn Op>>) {
    let many = group.len() > 1;
    let Err((broken, group)) = attempt(shared, desk, group).await else { return };
    if !many || !broken.cause.is_of_one_command() {
        return fail(shared, group, &broken);
    }
    tracing::warn!(error = %broken.cause, "a group of writes failed; each is tried alone");
    for op in group {
        if let Err((broken, group)) = attempt(shared, desk, vec![op]).await {
            fail(shared, group, &broken);
        }
    }
}

type Failed = (Broken, Vec<Box<dyn Op>>);

/// Why a transaction was not committed.
struct Broken {
    cause: Cause,
    /// It may be in the log, and the next start may find it there.
    lingers: bool,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// Nothing was tried.
    #[error(transparent)]
    Misplaced(#[from] StoreError),
}

impl<C: Into<Cause>> From<C> for Broken {
    fn from(cause: C) -> Self {
        Self { cause: cause.into(), lingers: false }
    }
}

/// Commands that have nothing to write, with their places in the group.
type Refused = Vec<(usize, Box<dyn Op>)>;

async fn attempt(shared: &Shared, desk: &mut Desk, group: Vec<Box<dyn Op>>) -> Result<(), Failed> {
    let now = shared.clock.now();
    let (ops, refused) = plan(shared, group, now);
    if ops.is_empty() {
        refused.into_iter().for_each(|(_, op)| op.answer(None));
        return Ok(());
    }
    match write(shared, desk, ops, now).await {
        Some((ops, result)) => conclude(shared, ops, refused, result),
        None => Ok(()),
    }
}

/// What is to be written, and what is not.
fn plan(shared: &Shared, group: Vec<Box<dyn Op>>, now: Timestamp) -> (Vec<Box<dyn Op>>, Refused) {
    let mut ops = Vec::with_capacity(group.len());
    let mut refused = Vec::new();
    let mut ledger = shared.ledger.lock();
    for (place, mut op) in group.into_iter().enumerate() {
        let writes = op.plan(&mut ledger, now);
        if writes { ops.push(op) } else { refused.push((place, op)) }
    }
    (ops, refused)
}

/// Runs the transaction where it is quickest; `None` if the group was lost.
async fn write(
    shared: &Shared,
    desk: &mut Desk,
    mut ops: Vec<Box<dyn Op>>,
    now: Timestamp,
) -> Option<(Vec<Box<dyn Op>>, Result<Option<StoreError>, Broken>)> {
    let Some(connection) = desk.db.take() else {
        return Some((ops, Err(Broken::from(rusqlite::Error::InvalidQuery))));
    };
    let log_is_long = shared.log_is_long.swap(false, Ordering::Relaxed);
    let on_the_loop = desk.pace < QUICK && !log_is_long && ops.iter().all(|op| op.is_light());
    let last_event = shared.last_event.load(Ordering::Relaxed);
    let files = desk.files.clone();
    let work = move || {
        if log_is_long && let Err(error) = checkpoint(&connection) {
            tracing::warn!(%error, "a checkpoint failed; it is tried again");
        }
        let result = transaction(&connection, files.as_deref(), &mut ops, last_event, now);
        (connection, ops, result)
    };
    let done = if on_the_loop { Ok(work()) } else { on_a_thread(work).await };
    match done {
        Ok((connection, ops, result)) => {
            desk.db = Some(connection);
            let result = result.map(|done| {
                desk.pace = (desk.pace * 7 + done.took) / 8;
                shared.last_event.store(done.last_event, Ordering::Release);
                shared.meters.committed(ops.len(), done.took);
                done.astray
            });
            Some((ops, result))
        }
        Err(panic) => {
            // The connection and the group are gone with the thread. What was
            // promised to nobody is lost to nobody; the hub must restart.
            tracing::error!(%panic, "the writer failed");
            shared.healthy.store(false, Ordering::Relaxed);
            None
        }
    }
}

/// Runs `work` on a thread of its own. Where the system grants no thread, the runtime
/// panics here and keeps what it was given for later: then nobody may find `work` there,
/// and whoever waits for it must hear that it is lost.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let work = Arc::new(Mutex::new(Some(work)));
    let forfeit = Forfeit(Arc::clone(&work));
    let running = spawn_blocking(move || {
        let work = work.lock().take();
        work.map(|work| work())
    });
    let done = running.await;
    drop(forfeit);
    done.map_err(|panic| panic.to_string())?.ok_or_else(|| "it was given up".to_owned())
}

/// Drops what nobody has taken.
struct Forfeit<W>(Arc<Mutex<Option<W>>>);

impl<W> Drop for Forfeit<W> {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}

/// Tells everybody, or undoes it all and hands the whole group back in its order.
fn conclude(
    shared: &Shared,
    mut ops: Vec<Box<dyn Op>>,
    refused: Refused,
    result: Result<Option<StoreError>, Broken>,
) -> Result<(), Failed> {
    shared.healthy.store(result.is_ok(), Ordering::Relaxed);

    let mut tickets = Vec::new();
    {
        let mut ledger = shared.ledger.lock();
        match &result {
            Ok(_) => ops.iter_mut().for_each(|op| op.commit(&mut ledger, &mut tickets)),
            Err(_) => {
                ops.iter_mut().rev().for_each(|op| op.undo(&mut ledger));
                tickets = ledger.take_unsettled();
            }
        }
    }
    if result.is_ok() {
        ops.iter_mut().for_each(|op| op.look(&*shared.queue));
    }
    for ticket in tickets {
        shared.queue.put(ticket);
    }
    match result {
        Ok(astray) => {
            refused.into_iter().for_each(|(_, op)| op.answer(None));
            ops.into_iter().for_each(|op| op.answer(astray.clone()));
            tell_the_news(shared);
            Ok(())
        }
        Err(broken) => {
            // They were refused for what their neighbours had taken, perhaps.
            refused.into_iter().for_each(|(place, op)| ops.insert(place, op));
            Err((broken, ops))
        }
    }
}

/// What a transaction tells.
struct Done {
    /// How long the disk took. The statements before it are work that must be
    /// done somewhere.
    took: Duration,
    last_event: u64,
    /// The files were moved in the middle of it: nobody knows whether the next start
    /// finds it.
    astray: Option<StoreError>,
}

fn transaction(
    db: &Connection,
    files: Option<&Files>,
    ops: &mut [Box<dyn Op>],
    last_event: u64,
    now: Timestamp,
) -> Result<Done, Broken> {
    let write = || -> Result<u64, Cause> {
        db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        // Another hub that takes the folder waits for this transaction before it reads
        // ([`open`](super::open)); or it was quicker, and is seen here.
        files.map_or(Ok(()), Files::glance)?;
        let mut group = Db::new(db)?;
        for op in ops {
            op.write(&mut group)?;
        }
        group.keys.write(db)?;
        Ok(group.events.write(db, last_event, now)?)
    };
    let written = write();
    let began = Instant::now();
    let committing = written.is_ok();
    let result = written.and_then(|last_event| {
        db.prepare_cached("COMMIT")?.execute([])?;
        let took = began.elapsed();
        let looked = files.map_or(Ok(()), Files::glance);
        let astray = looked.err().map(|error| StoreError::Unknown(error.to_string().into()));
        Ok(Done { took, last_event, astray })
    });
    let error = match result {
        Ok(done) => return Ok(done),
        Err(error) => error,
    };
    if !db.is_autocommit() {
        // A failed rollback leaves nothing committed either.
        let _ = db.execute_batch("ROLLBACK");
    }
    let cut = match files {
        Some(files) if committing => cut(db, files.log()),
        _ => Ok(()),
    };
    if let Err(why) = &cut {
        tracing::error!(%why, "what was not committed cannot be taken out of the log");
    }
    Err(Broken { lingers: cut.is_err(), ..error.into() })
}

/// Makes the log end where the last good commit ended: a frame of zeros is the end
/// of what a start reads. Overwriting needs no room, and keeps what the log has; on a
/// disk that needs some even for that, the log is made shorter.
fn cut(db: &Connection, log: &File) -> io::Result<()> {
    const HEAD: u64 = 32;
    const FRAME_HEAD: usize = 24;
    let told = |sql, column: usize| db.query_row(sql, [], |row| row.get::<_, u64>(column));
    let frames = told("PRAGMA wal_checkpoint(NOOP)", 1).map_err(io::Error::other)?;
    let page = told("PRAGMA page_size", 0).map_err(io::Error::other)?;
    let end = HEAD + frames * (FRAME_HEAD as u64 + page);
    if log.metadata()?.len() > end {
        log.write_all_at(&[0; FRAME_HEAD], end).or_else(|_| log.set_len(end))?;
    }
    log.sync_data()
}

/// Whoever follows the journal may look.
fn tell_the_news(shared: &Shared) {
    let last = shared.last_event.load(Ordering::Relaxed);
    shared.news.send_if_modified(|news| std::mem::replace(news, last) != last);
}

fn fail(shared: &Shared, group: Vec<Box<dyn Op>>, Broken { cause, lingers }: &Broken) {
    let failure = match cause {
        // Logged when it was noticed.
        Cause::Misplaced(error) => error.clone(),
        Cause::Sqlite(error) => {
            tracing::error!(%error, writes = group.len(), "the store cannot write");
            let explained = shared.readers.explain(error);
            if *lingers { StoreError::Unknown(error.to_string().into()) } else { explained }
        }
    };
    group.into_iter().for_each(|op| op.answer(Some(failure.clone())));
}

impl Cause {
    /// Whether trying each command alone could help. A full disk fails them all.
    fn is_of_one_command(&self) -> bool {
        let Self::Sqlite(error) = self else { return false };
        !matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::ReadOnly
                    | ErrorCode::CannotOpen
                    | ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseCorrupt
                    | ErrorCode::NotADatabase
            )
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_cut_behind_the_last_commit_or_it_is_said_that_it_was_not() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let (file, log) = (folder.path().join("x.db"), folder.path().join("x.db-wal"));
        let db = Connection::open(&file).expect("a database");
        db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).expect("a log");
        db.execute_batch("CREATE TABLE t (n); INSERT INTO t VALUES (1)").expect("written");
        let good = std::fs::read(&log).expect("a log");
        let whole = [&good[..], &[1; 100]].concat();
        std::fs::write(&log, &whole).expect("a tail");

        cut(&db, &File::open(&log).expect("a log")).expect_err("it is only read");
        assert_eq!(std::fs::read(&log).expect("a log"), whole);
        cut(&db, &File::options().write(true).open(&log).expect("a log")).expect("cut");
        let left = std::fs::read(&log).expect("a log");
        assert_eq!((&left[..good.len()], &left[good.len()..][..24]), (&good[..], &[0; 24][..]));
    }
}
