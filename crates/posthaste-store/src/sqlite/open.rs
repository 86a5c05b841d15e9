//! Opening: the lock, the schema, and everything back into the ledger.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::address::{AddressError, InstanceId, Mailbox, Name};
use posthaste_core::ledger::{BoxNo, KnownProfile, Ledger};
use posthaste_core::messaging::delivery::{DeliveryNo, Reason};
use posthaste_core::messaging::message::{Principal, Seq, ThreadId};
use posthaste_core::orchestration::{Assignment, Report};
use posthaste_core::ports::StoreError;
use posthaste_core::profiles::Source;
use posthaste_core::registry::{AgentKind, Instance, Origin, Status, Team, Work};
use posthaste_core::time::Timestamp;
use posthaste_core::{Limits, Vitals};
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, Row};

use super::faults::{self, Fault};
use super::files::Files;
use super::journal;
use super::load::Rest;
use super::lock::FolderLock;
use super::rows::{self, Marks};
use crate::{OpenError, Place, StoreConfig};

pub(crate) const FILE: &str = "hub.db";
pub(crate) const PAGE: u64 = 8192;
/// What a log that is grown beforehand leaves free at least.
const SPARE: usize = 1 << 20;

/// "PHST": so that another program's file is not taken for ours.
pub(crate) const APPLICATION_ID: i64 = 0x5048_5354;

/// Numbered steps, each applied once.
pub(crate) const MIGRATIONS: [&str; 14] = [
    include_str!("../../migrations/sqlite/0001_backbone.sql"),
    include_str!("../../migrations/sqlite/0002_senders.sql"),
    include_str!("../../migrations/sqlite/0003_key_lists.sql"),
    include_str!("../../migrations/sqlite/0004_profiles.sql"),
    include_str!("../../migrations/sqlite/0005_history.sql"),
    include_str!("../../migrations/sqlite/0006_events.sql"),
    include_str!("../../migrations/sqlite/0007_hops.sql"),
    include_str!("../../migrations/sqlite/0008_work.sql"),
    include_str!("../../migrations/sqlite/0009_room.sql"),
    include_str!("../../migrations/sqlite/0010_secrets.sql"),
    include_str!("../../migrations/sqlite/0011_origins.sql"),
    include_str!("../../migrations/sqlite/0012_free_mailboxes.sql"),
    include_str!("../../migrations/sqlite/0013_tools.sql"),
    include_str!("../../migrations/sqlite/0014_timeouts.sql"),
];

pub(crate) struct Opened {
    pub(crate) db: Connection,
    /// `None` for a store in memory.
    pub(crate) files: Option<Files>,
    pub(crate) ledger: Ledger,
    /// Open deliveries that cannot be read.
    pub(crate) faults: Vec<Fault>,
    /// What is open, where it is too much to be read before the doors open.
    pub(crate) rest: Option<Rest>,
    pub(crate) last_event: u64,
    pub(crate) marks: Marks,
    pub(crate) taken: HashMap<Principal, Vec<Seq>>,
}

pub(crate) fn open(
    place: &Place,
    config: &StoreConfig,
    limits: &Limits,
    now: Timestamp,
    vitals: &Vitals,
) -> Result<Opened, OpenError> {
    let (file, lock) = match place {
        Place::Memory => (PathBuf::from(":memory:"), None),
        Place::File(folder) => {
            let unusable = |e: std::io::Error| OpenError::Unusable {
                path: folder.clone(),
                why: e.to_string(),
            };
            std::fs::create_dir_all(folder).map_err(unusable)?;
            let (file, lock) = (folder.join(FILE), FolderLock::take(folder)?);
            if !is_there(&file)? {
                create(&file)?;
            }
            (file, Some(lock))
        }
    };
    let explain = |error: rusqlite::Error| explain(&file, &error);
    let db = Connection::open(&file).map_err(explain)?;
    prepare(&db, config, lock.is_some()).map_err(explain)?;
    // A hub whose lock file was removed may be in the middle of a write, which must be
    // known here. It begins no other one.
    db.execute_batch("BEGIN IMMEDIATE; COMMIT").map_err(explain)?;
    migrate(&db, &file)?;
    let mut ledger = load(&db, limits, now).map_err(explain)?;
    let rest = Rest::of(&db, now, limits.key_retention).map_err(explain)?;
    let (rest, faults) = match rest.is_within(config.read_at_start) {
        true => (None, rest.read(&db, |part| part.into_ledger(&mut ledger)).map_err(explain)?),
        false => (Some(rest), Vec::new()),
    };
    ledger.mark_reports(&faults::deliveries(&faults), true);
    let taken = taken(&db).map_err(explain)?;
    let marks = rows::marks(&db).map_err(explain)?;
    let last_event = journal::last(&db).map_err(explain)?;
    let files = match (place, lock) {
        (Place::File(folder), Some(lock)) => {
            let log = grow_log(&db, &file, config.wal_bytes)?;
            let files = Files::new(folder, &file, log, lock, vitals.clone());
            Some(files.map_err(|error| unusable(&file, &error))?)
        }
        _ => None,
    };
    // From here on a kill must be noticed.
    rows::set_meta(&db, "clean", 0).map_err(explain)?;
    Ok(Opened { db, files, ledger, faults, rest, last_event, marks, taken })
}

/// Whether there is a database. It has its name only since it was whole ([`create`]),
/// so an empty file is one that was lost, and so is one that is gone while its log is
/// there: SQLite would take both for a new database and throw the log away.
pub(crate) fn is_there(file: &Path) -> Result<bool, OpenError> {
    let lost = |why: &str| OpenError::Corrupt { file: file.to_owned(), why: why.to_owned() };
    match std::fs::metadata(file) {
        Ok(found) if found.len() == 0 => Err(lost("it is empty")),
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match std::fs::metadata(log_of(file)) {
                Ok(log) if log.len() > 0 => Err(lost("it is gone, and its log is still there")),
                _ => Ok(false),
            }
        }
        Err(error) => Err(unusable(file, &error)),
    }
}

/// Makes a database under another name, and gives it its own when it is on disk.
fn create(file: &Path) -> Result<(), OpenError> {
    let draft = beside(file, ".new");
    // A first start that was interrupted leaves one behind.
    let _ = std::fs::remove_file(&draft);
    let explain = |error: rusqlite::Error| explain(file, &error);
    let db = Connection::open(&draft).map_err(explain)?;
    db.pragma_update(None, "page_size", PAGE.cast_signed()).map_err(explain)?;
    // It is flushed below, at once.
    db.pragma_update(None, "synchronous", "OFF").map_err(explain)?;
    db.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(())).map_err(explain)?;
    migrate(&db, &draft)?;
    db.close().map_err(|(_, error)| explain(error))?;
    let named = File::open(&draft)
        .and_then(|whole| whole.sync_all())
        .and_then(|()| std::fs::rename(&draft, file))
        .and_then(|()| match file.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        });
    named.map_err(|error| unusable(file, &error))
}

pub(crate) fn log_of(file: &Path) -> PathBuf {
    beside(file, "-wal")
}

/// The file through which the connections of a database agree about its log.
pub(crate) fn shared_memory_of(file: &Path) -> PathBuf {
    beside(file, "-shm")
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(end);
    path.into()
}

fn unusable(path: &Path, error: &std::io::Error) -> OpenError {
    OpenError::Unusable { path: path.to_owned(), why: error.to_string() }
}

fn prepare(db: &Connection, config: &StoreConfig, on_disk: bool) -> rusqlite::Result<()> {
    db.pragma_update(None, "page_size", PAGE.cast_signed())?;
    if on_disk {
        db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        db.pragma_update(None, "synchronous", "FULL")?;
        // Checkpoints are run in the background, off the path of a send.
        db.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    }
    db.pragma_update(None, "temp_store", "MEMORY")?;
    let kib = i64::try_from(config.cache_bytes / 1024).unwrap_or(16_384);
    db.pragma_update(None, "cache_size", -kib)?;
    if config.max_bytes > 0 {
        let pages = i64::try_from(config.max_bytes / PAGE).unwrap_or(i64::MAX).max(1);
        db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    db.set_prepared_statement_cache_capacity(64);
    db.busy_timeout(std::time::Duration::from_secs(5))
}

fn migrate(db: &Connection, file: &Path) -> Result<(), OpenError> {
    let explain = |error: rusqlite::Error| explain(file, &error);
    let number = |pragma| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let version = number("user_version").map_err(explain)?;
    let application = number("application_id").map_err(explain)?;
    let tables: i64 = db
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(explain)?;
    if tables > 0 && application != APPLICATION_ID {
        return Err(OpenError::Foreign { file: file.to_owned() });
    }
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if version > known {
        return Err(OpenError::Newer { file: file.to_owned(), found: version, known });
    }
    let done = usize::try_from(version).unwrap_or(0);
    for (step, sql) in MIGRATIONS.iter().enumerate().skip(done) {
        let whole = format!(
            "BEGIN IMMEDIATE; {sql}; PRAGMA application_id = {APPLICATION_ID}; \
             PRAGMA user_version = {}; COMMIT;",
            step + 1
        );
        db.execute_batch(&whole).map_err(explain)?;
    }
    Ok(())
}

/// In memory a time of the future is that of the start, so that ages are counted from it.
fn load(db: &Connection, limits: &Limits, now: Timestamp) -> rusqlite::Result<Ledger> {
    let mut ledger = Ledger::new(limits.clone());
    let (seq, delivery) = rows::counters(db)?;
    ledger.load_counters(seq, delivery);
    load_profiles(db, &mut ledger)?;
    load_teams(db, &mut ledger)?;
    load_instances(db, &mut ledger, now)?;
    load_assignments(db, &mut ledger, now)?;
    load_tokens(db, &mut ledger)?;
    load_mailboxes(db, &mut ledger)?;
    Ok(ledger)
}

fn load_mailboxes(db: &Connection, ledger: &mut Ledger) -> rusqlite::Result<()> {
    let mut select = db.prepare("SELECT no, key FROM mailboxes ORDER BY no")?;
    let mut rows = select.query([])?;
    let mut boxes = Vec::new();
    for next in 0.. {
        let Some(row) = rows.next()? else { break };
        let number: BoxNo = row.get(0)?;
        // Deliveries name their mailboxes by number: a wrong one is somebody else's.
        if number != next {
            let why = format!("mailbox {number} is out of order");
            return Err(misread(0, Type::Integer, why));
        }
        if row.get_ref(1)? != ValueRef::Null {
            boxes.push((number, mailbox(row, 1)?));
        }
    }
    ledger.load_mailboxes(boxes);
    Ok(())
}

fn mailbox(row: &Row<'_>, column: usize) -> rusqlite::Result<Mailbox> {
    let key = row.get_ref(column)?.as_str()?;
    key.parse().map_err(|error: AddressError| misread(column, Type::Text, error.to_string()))
}

fn load_profiles(db: &Connection, ledger: &mut Ledger) -> rusqlite::Result<()> {
    let mut select = db.prepare("SELECT name, kind, version, source, created_at FROM profiles")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        if let Ok(name) = Name::kept(row.get_ref(0)?.as_str()?) {
            let kind = row.get_ref(1)?.as_str()?.parse::<AgentKind>().unwrap_or_default();
            let source = Source::read(row.get_ref(3)?.as_str()?);
            let created_at = Timestamp(row.get(4)?);
            ledger.load_profile(
                name,
                KnownProfile { kind, version: row.get(2)?, source, created_at },
            );
        }
    }
    Ok(())
}

fn load_teams(db: &Connection, ledger: &mut Ledger) -> rusqlite::Result<()> {
    let mut select = db.prepare("SELECT name, leaders FROM teams")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        if let Ok(name) = Name::kept(row.get_ref(0)?.as_str()?) {
            let leaders = row.get_ref(1)?.as_str()?.split_whitespace();
            let leaders = leaders.filter_map(|l| l.parse().ok()).collect();
            ledger.load_team(Team { name, leaders });
        }
    }
    Ok(())
}

fn load_instances(db: &Connection, ledger: &mut Ledger, now: Timestamp) -> rusqlite::Result<()> {
    let mut work = load_work(db, now)?;
    let mut select = db.prepare(
        "SELECT id, agent, team, kind, label, parent, thread, join_key, status, created_at, \
         last_seen, ended_at, secret, origin FROM instances ORDER BY created_at",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let text = |i: usize| -> rusqlite::Result<String> { row.get(i) };
        let (Ok(agent), Ok(team)) = (Name::kept(&text(1)?), Name::kept(&text(2)?)) else {
            continue;
        };
        let id = InstanceId(row.get(0)?);
        let kind = text(3)?.parse().unwrap_or_default();
        ledger.load_instance(Instance {
            id,
            address: format!("{agent}.{id}@{team}").into(),
            keys: Instance::keys(id, &agent, &team, kind),
            agent,
            team,
            kind,
            origin: Origin::read(&text(13)?),
            label: row.get(4)?,
            parent: row.get::<_, Option<u32>>(5)?.map(InstanceId),
            thread: ThreadId(row.get(6)?),
            key: row.get(7)?,
            secret: row.get(12)?,
            status: text(8)?.parse().unwrap_or(Status::Lost),
            created_at: Timestamp(row.get(9)?).min(now),
            last_seen: Timestamp(row.get(10)?).min(now),
            ended_at: row.get::<_, Option<i64>>(11)?.map(|at| Timestamp(at).min(now)),
            work: work.remove(&id).map(Arc::new),
        });
    }
    Ok(())
}

fn load_work(db: &Connection, now: Timestamp) -> rusqlite::Result<HashMap<InstanceId, Work>> {
    let mut select = db.prepare(
        "SELECT instance, directory, worktree, branch, started_at, exit_code, why, timeout FROM work",
    )?;
    let rows = select.query_map([], |row| {
        let work = Work {
            directory: row.get(1)?,
            worktree: row.get(2)?,
            branch: row.get(3)?,
            started_at: row.get::<_, Option<i64>>(4)?.map(|at| Timestamp(at).min(now)),
            exit_code: row.get(5)?,
            why: row.get(6)?,
            timeout: row.get::<_, Option<u64>>(7)?.map(Duration::from_millis),
        };
        Ok((InstanceId(row.get(0)?), work))
    })?;
    rows.collect()
}

fn load_assignments(db: &Connection, ledger: &mut Ledger, now: Timestamp) -> rusqlite::Result<()> {
    let mut select = db.prepare(
        "SELECT task, worker, giver, label, opened_at, report, report_delivery, report_mailbox, \
         settled_at FROM assignments ORDER BY task",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let report = match (row.get::<_, Option<u64>>(5)?, row.get::<_, Option<u64>>(6)?) {
            (Some(seq), Some(delivery)) => Some(Report {
                seq: Seq(seq),
                delivery: DeliveryNo(delivery),
                mailbox: mailbox(row, 7)?,
                at: Timestamp(row.get(8)?).min(now),
            }),
            _ => None,
        };
        let giver = row.get::<_, Option<u32>>(2)?.map(InstanceId);
        ledger.load_assignment(Assignment {
            task: Seq(row.get(0)?),
            worker: InstanceId(row.get(1)?),
            by: giver.map_or(Principal::Operator, Principal::Instance),
            label: row.get::<_, Option<String>>(3)?.map(Into::into),
            opened_at: Timestamp(row.get(4)?).min(now),
            report,
        });
    }
    let mut select = db.prepare(
        "SELECT d.no FROM assignments a JOIN deliveries d ON d.no = a.report_delivery \
         WHERE d.state = 2 AND d.how = ?1",
    )?;
    let unreadable = select.query_map([Reason::Unreadable.as_str()], |row| row.get(0))?;
    let unreadable = unreadable.map(|no| no.map(DeliveryNo)).collect::<Result<_, _>>()?;
    ledger.mark_reports(&unreadable, true);
    Ok(())
}

fn load_tokens(db: &Connection, ledger: &mut Ledger) -> rusqlite::Result<()> {
    let mut select = db.prepare("SELECT hash, instance FROM tokens ORDER BY no")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        ledger.load_token(row.get(0)?, InstanceId(row.get(1)?));
    }
    Ok(())
}

/// The last ids that each reader was taken to have received.
fn taken(db: &Connection) -> rusqlite::Result<HashMap<Principal, Vec<Seq>>> {
    let mut by_reader: HashMap<Principal, Vec<Seq>> = HashMap::new();
    let mut select = db.prepare("SELECT reader, seq FROM taken ORDER BY no")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(reader) = rows::principal(row.get_ref(0)?.as_str()?) {
            let list = by_reader.entry(reader).or_default();
            list.push(Seq(row.get(1)?));
            if list.len() > 20 {
                list.remove(0);
            }
        }
    }
    Ok(by_reader)
}

/// Appends zeros to the log while nobody else has it open. SQLite then overwrites
/// from the start, which is quicker than growing, and steadier. After a kill the
/// log is there already, and is left as it is.
fn grow_log(db: &Connection, file: &Path, bytes: u64) -> Result<File, OpenError> {
    let path = log_of(file);
    let unusable = |error: std::io::Error| unusable(&path, &error);
    let mut options = OpenOptions::new();
    let mut log = options.write(true).create(true).truncate(false).open(&path).map_err(unusable)?;
    if log.metadata().map_err(unusable)?.len() >= bytes {
        return Ok(log);
    }
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .map_err(|error| explain(file, &error))?;
    let before = log.metadata().map_err(unusable)?.len();
    let mut grow = || -> std::io::Result<()> {
        log.seek(SeekFrom::Start(before))?;
        let zeros = vec![0_u8; SPARE];
        let mut left = bytes.saturating_sub(before);
        while left > 0 {
            let part = left.min(SPARE as u64);
            log.write_all(&zeros[..usize::try_from(part).unwrap_or(SPARE)])?;
            left -= part;
        }
        // A little more, which is given back: others need room as well.
        log.write_all(&zeros)?;
        log.set_len(bytes)?;
        log.sync_all()
    };
    if let Err(error) = grow() {
        // A small disk is no reason not to start: the log then grows as it must.
        tracing::warn!(%error, "the log could not be grown beforehand");
        log.set_len(before).map_err(unusable)?;
    }
    Ok(log)
}

/// What a start would have said, had it read these rows itself.
pub(crate) fn damaged(file: &Path, why: String) -> StoreError {
    let error = OpenError::Corrupt { file: file.to_owned(), why };
    let hint = format!(
        "no new mail is accepted. Save what can still be read with `posthaste export`, see \
         `posthaste doctor`, and stop the hub; then {}",
        error.hint()
    );
    StoreError::Damaged { what: error.to_string().into(), hint: hint.into() }
}

/// A row that does not read as what it must be.
pub(crate) fn misread(column: usize, kind: Type, why: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, why.into())
}

pub(crate) fn explain(file: &Path, error: &rusqlite::Error) -> OpenError {
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(_) if faults::is_damage(error) => OpenError::Corrupt { file: file.to_owned(), why },
        Some(_) => OpenError::Unusable { path: file.to_owned(), why },
        // A row that does not read as what it must be.
        None => OpenError::Corrupt { file: file.to_owned(), why },
    }
}
