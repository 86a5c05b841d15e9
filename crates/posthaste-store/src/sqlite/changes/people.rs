//! Mailboxes, instances with their tokens and work, teams, assignments.

use posthaste_core::address::{InstanceId, Mailbox, Name};
use posthaste_core::ledger::BoxNo;
use posthaste_core::messaging::message::Seq;
use posthaste_core::orchestration::{Assignment, Report};
use posthaste_core::registry::{Instance, Status, Team, TokenHash, Work};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, Params, params};

use super::one;

fn execute(db: &Connection, sql: &str, params: impl Params) -> rusqlite::Result<()> {
    db.prepare_cached(sql)?.execute(params).map(drop)
}

pub(super) fn mailbox_opened(
    db: &Connection,
    no: BoxNo,
    mailbox: &Mailbox,
) -> rusqlite::Result<()> {
    let opened = db
        .prepare_cached(
            "INSERT INTO mailboxes (no, key) VALUES (?1, ?2) \
             ON CONFLICT (no) DO UPDATE SET key = excluded.key WHERE key IS NULL",
        )?
        .execute(params![no, mailbox.to_string()])?;
    // With the number of another mailbox, its owner would get this mail.
    one(opened)
}

pub(super) fn mailbox_freed(db: &Connection, no: BoxNo) -> rusqlite::Result<()> {
    execute(db, "UPDATE mailboxes SET key = NULL WHERE no = ?1", params![no])
}

pub(super) fn instance_added(db: &Connection, i: &Instance) -> rusqlite::Result<()> {
    execute(
        db,
        "INSERT INTO instances (id, agent, team, kind, label, parent, thread, join_key, status, \
         created_at, last_seen, secret, origin) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
         ON CONFLICT (id) DO UPDATE SET status = excluded.status, \
         last_seen = max(last_seen, excluded.last_seen), secret = excluded.secret",
        params![
            i.id.0,
            i.agent.as_str(),
            i.team.as_str(),
            i.kind.as_str(),
            i.label,
            i.parent.map(|p| p.0),
            i.thread.0,
            i.key,
            i.status.as_str(),
            i.created_at.0,
            i.last_seen.0,
            i.secret,
            i.origin.as_str()
        ],
    )?;
    write_work(db, i)
}

pub(super) fn instance_started(db: &Connection, i: &Instance) -> rusqlite::Result<()> {
    instance_seen(db, i.id, i.last_seen, i.status)?;
    write_work(db, i)
}

pub(super) fn instance_ended(db: &Connection, i: &Instance) -> rusqlite::Result<()> {
    execute(
        db,
        "UPDATE instances SET status = ?2, ended_at = ?3 WHERE id = ?1",
        params![i.id.0, i.status.as_str(), i.ended_at.map(|at| at.0)],
    )?;
    execute(db, "DELETE FROM tokens WHERE instance = ?1", params![i.id.0])?;
    write_work(db, i)
}

/// Keeps a later sign of life: the clock of this run may be behind the last run's.
pub(super) fn instance_seen(
    db: &Connection,
    id: InstanceId,
    at: Timestamp,
    status: Status,
) -> rusqlite::Result<()> {
    execute(
        db,
        "UPDATE instances SET last_seen = max(last_seen, ?2), status = ?3 WHERE id = ?1",
        params![id.0, at.0, status.as_str()],
    )
}

fn write_work(db: &Connection, of: &Instance) -> rusqlite::Result<()> {
    let Some(work) = of.work.as_deref() else { return Ok(()) };
    let Work { directory, worktree, branch, timeout, started_at, exit_code, why, terms } = work;
    let terms = terms.as_ref();
    execute(
        db,
        "INSERT INTO work (instance, directory, worktree, branch, started_at, exit_code, why, \
         timeout, has_terms, driver, config, allowed_tools, record) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
         ON CONFLICT (instance) DO UPDATE SET \
         directory = excluded.directory, worktree = excluded.worktree, \
         branch = excluded.branch, started_at = excluded.started_at, \
         exit_code = excluded.exit_code, why = excluded.why, timeout = excluded.timeout, \
         has_terms = excluded.has_terms, driver = excluded.driver, config = excluded.config, \
         allowed_tools = excluded.allowed_tools, record = excluded.record",
        params![
            of.id.0,
            directory,
            worktree,
            branch,
            started_at.map(|at| at.0),
            exit_code,
            why,
            timeout.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX)),
            terms.is_some(),
            terms.and_then(|terms| terms.driver.as_deref()),
            terms.and_then(|terms| terms.config.as_deref()),
            // The names of tools have one line each.
            terms.and_then(|terms| Some(terms.allowed_tools.as_ref()?.join("\n"))),
            terms.and_then(|terms| terms.record.as_deref()),
        ],
    )
}

pub(super) fn record_written(
    db: &Connection,
    worker: InstanceId,
    record: &str,
) -> rusqlite::Result<()> {
    execute(
        db,
        "UPDATE work SET has_terms = 1, record = ?2 WHERE instance = ?1",
        params![worker.0, record],
    )
}

pub(super) fn token_added(
    db: &Connection,
    token: &TokenHash,
    of: InstanceId,
) -> rusqlite::Result<()> {
    execute(db, "INSERT INTO tokens (hash, instance) VALUES (?1, ?2)", params![token, of.0])
}

pub(super) fn token_removed(db: &Connection, token: &TokenHash) -> rusqlite::Result<()> {
    execute(db, "DELETE FROM tokens WHERE hash = ?1", params![token])
}

pub(super) fn team_added(db: &Connection, name: &Name) -> rusqlite::Result<()> {
    let sql = "INSERT INTO teams (name, leaders) VALUES (?1, '') ON CONFLICT (name) DO NOTHING";
    execute(db, sql, params![name.as_str()])
}

pub(super) fn team_written(db: &Connection, team: &Team) -> rusqlite::Result<()> {
    let leaders: Vec<String> = team.leaders.iter().map(ToString::to_string).collect();
    execute(
        db,
        "INSERT INTO teams (name, leaders) VALUES (?1, ?2) \
         ON CONFLICT (name) DO UPDATE SET leaders = excluded.leaders",
        params![team.name.as_str(), leaders.join(" ")],
    )
}

pub(super) fn assignment_opened(db: &Connection, a: &Assignment) -> rusqlite::Result<()> {
    execute(
        db,
        "INSERT INTO assignments (task, worker, giver, label, opened_at) \
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            a.task.0,
            a.worker.0,
            a.by.instance().map(|id| id.0),
            a.label.as_deref(),
            a.opened_at.0
        ],
    )?;
    a.report.as_ref().map_or(Ok(()), |report| assignment_settled(db, a.task, report))
}

pub(super) fn assignment_settled(
    db: &Connection,
    task: Seq,
    report: &Report,
) -> rusqlite::Result<()> {
    execute(
        db,
        "UPDATE assignments SET report = ?2, report_delivery = ?3, settled_at = ?4, \
         report_mailbox = ?5 WHERE task = ?1",
        params![task.0, report.seq.0, report.delivery.0, report.at.0, report.mailbox.to_string()],
    )
}
