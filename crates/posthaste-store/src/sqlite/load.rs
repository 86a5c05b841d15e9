//! Loads the state that the ledger needs at the start: everything but the mail itself.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::address::{InstanceId, Mailbox, Name};
use posthaste_core::ledger::{BoxNo, KnownProfile};
use posthaste_core::messaging::delivery::{DeliveryNo, Reason};
use posthaste_core::messaging::id_key::IdKey;
use posthaste_core::messaging::message::{Principal, Seq, ThreadId};
use posthaste_core::orchestration::{Assignment, Report};
use posthaste_core::ports::store::{Epoch, Loaded};
use posthaste_core::profiles::Source;
use posthaste_core::registry::{Instance, Leader, Origin, Team, Terms, TokenHash, Work};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::errors::{ReadError, ReadResult};
use super::rows::meta::{self, Marks};
use super::rows::record::Ids;
use super::rows::{Cells, Table, principal};
use super::{events, needs};

/// Most ids acked by a weak proof that are told to each reader.
const MOST_WEAKLY_ACKED: usize = 20;

/// Loads everything but the backlog, and how to find messages by id.
pub(crate) fn all(db: &Connection) -> ReadResult<(Loaded, Ids)> {
    let Marks { seq: last_seq, delivery: last_delivery } = meta::last_numbers(db)?;
    let ids = ids(db)?;
    let mut work = work(db)?;
    let loaded = Loaded {
        epoch: Epoch(meta::number(db, "epoch")? + 1),
        id_key: ids.key,
        clean: meta::number(db, "clean")? == 1,
        last_seq,
        last_delivery,
        last_event: events::last(db)?,
        profiles: list(db, &PROFILES, "", profile)?,
        teams: list(db, &TEAMS, "", team)?,
        instances: list(db, &INSTANCES, "ORDER BY created_at", |cells| instance(cells, &mut work))?,
        tokens: list(db, &TOKENS, "ORDER BY no", token)?,
        mailboxes: mailboxes(db)?,
        assignments: list(db, &ASSIGNMENTS, "ORDER BY task", assignment)?,
        last_need: needs::last(db)?,
        needs: needs::known(db)?,
        remembered: needs::verdicts(db)?,
        unreadable_reports: unreadable_reports(db)?,
        weakly_acked: weakly_acked(db)?,
        ..Loaded::default()
    };
    Ok((loaded, ids))
}

/// Notes that a run has begun: unless it stops cleanly, the next start finds `clean` at 0.
pub(crate) fn begin(db: &Connection, epoch: Epoch) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    meta::set(db, "clean", 0)?;
    meta::set(db, "epoch", epoch.0)?;
    db.execute_batch("COMMIT")
}

fn ids(db: &Connection) -> ReadResult<Ids> {
    let key: Option<[u8; 16]> = meta::get(db, "id_key")?;
    let Some(key) = key else {
        return Err(ReadError::Row("meta, row id_key: it is missing".into()));
    };
    let first_made = meta::number(db, "first_made_id")?;
    Ok(Ids { key: IdKey::from_bytes(key), first_made })
}

fn each(
    db: &Connection,
    table: &'static Table,
    order: &str,
    mut read: impl FnMut(&Cells<'_, '_>) -> ReadResult<()>,
) -> ReadResult<()> {
    let mut select = db.prepare(&table.select(order))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        read(&Cells::new(table, row))?;
    }
    Ok(())
}

fn list<T>(
    db: &Connection,
    table: &'static Table,
    order: &str,
    mut read: impl FnMut(&Cells<'_, '_>) -> ReadResult<T>,
) -> ReadResult<Vec<T>> {
    let mut found = Vec::new();
    each(db, table, order, |cells| {
        found.push(read(cells)?);
        Ok(())
    })?;
    Ok(found)
}

fn name(text: &str) -> Option<Name> {
    Name::kept(text).ok()
}

static PROFILES: Table = Table {
    name: "profiles",
    key: "name",
    columns: &["name", "kind", "version", "source", "created_at"],
};

fn profile(cells: &Cells<'_, '_>) -> ReadResult<(Name, KnownProfile)> {
    let known = KnownProfile {
        kind: cells.read("kind", |kind| kind.parse().ok())?,
        version: cells.get("version")?,
        source: Source::read(cells.text("source")?),
        created_at: Timestamp(cells.get("created_at")?),
    };
    Ok((cells.read("name", name)?, known))
}

static TEAMS: Table = Table { name: "teams", key: "name", columns: &["name", "leaders"] };

fn team(cells: &Cells<'_, '_>) -> ReadResult<Team> {
    let leaders = |list: &str| -> Option<Vec<Leader>> {
        list.split_whitespace().map(|leader| leader.parse().ok()).collect()
    };
    Ok(Team { name: cells.read("name", name)?, leaders: cells.read("leaders", leaders)? })
}

static INSTANCES: Table = Table {
    name: "instances",
    key: "id",
    columns: &[
        "id",
        "agent",
        "team",
        "kind",
        "label",
        "parent",
        "thread",
        "join_key",
        "status",
        "created_at",
        "last_seen",
        "ended_at",
        "secret",
        "origin",
    ],
};

fn instance(cells: &Cells<'_, '_>, work: &mut HashMap<InstanceId, Work>) -> ReadResult<Instance> {
    let id = InstanceId(cells.get("id")?);
    let (agent, team) = (cells.read("agent", name)?, cells.read("team", name)?);
    let kind = cells.read("kind", |kind| kind.parse().ok())?;
    Ok(Instance {
        id,
        address: format!("{agent}.{id}@{team}").into(),
        keys: Instance::keys(id, &agent, &team, kind),
        agent,
        team,
        kind,
        origin: cells.read("origin", Origin::read)?,
        label: cells.get("label")?,
        parent: cells.get::<Option<u32>>("parent")?.map(InstanceId),
        thread: ThreadId(cells.get("thread")?),
        key: cells.get("join_key")?,
        secret: cells.get("secret")?,
        status: cells.read("status", |status| status.parse().ok())?,
        created_at: Timestamp(cells.get("created_at")?),
        last_seen: Timestamp(cells.get("last_seen")?),
        ended_at: cells.get::<Option<i64>>("ended_at")?.map(Timestamp),
        work: work.remove(&id).map(Arc::new),
    })
}

static WORK: Table = Table {
    name: "work",
    key: "instance",
    columns: &[
        "instance",
        "directory",
        "worktree",
        "branch",
        "started_at",
        "exit_code",
        "why",
        "timeout",
        "has_terms",
        "driver",
        "config",
        "allowed_tools",
        "record",
    ],
};

fn work(db: &Connection) -> ReadResult<HashMap<InstanceId, Work>> {
    let all = list(db, &WORK, "", |cells| {
        let work = Work {
            directory: cells.get("directory")?,
            worktree: cells.get("worktree")?,
            branch: cells.get("branch")?,
            started_at: cells.get::<Option<i64>>("started_at")?.map(Timestamp),
            exit_code: cells.get("exit_code")?,
            why: cells.get("why")?,
            timeout: cells.get::<Option<u64>>("timeout")?.map(Duration::from_millis),
            terms: cells.get::<bool>("has_terms")?.then(|| terms(cells)).transpose()?,
        };
        Ok((InstanceId(cells.get("instance")?), work))
    })?;
    Ok(all.into_iter().collect())
}

fn terms(cells: &Cells<'_, '_>) -> ReadResult<Terms> {
    let tools: Option<String> = cells.get("allowed_tools")?;
    Ok(Terms {
        driver: cells.get("driver")?,
        config: cells.get("config")?,
        allowed_tools: tools.map(|list| list.lines().map(str::to_owned).collect()),
        record: cells.get("record")?,
    })
}

static TOKENS: Table = Table { name: "tokens", key: "no", columns: &["no", "hash", "instance"] };

fn token(cells: &Cells<'_, '_>) -> ReadResult<(TokenHash, InstanceId)> {
    Ok((cells.get("hash")?, InstanceId(cells.get("instance")?)))
}

static MAILBOXES: Table = Table { name: "mailboxes", key: "no", columns: &["no", "key"] };

fn mailboxes(db: &Connection) -> ReadResult<Vec<(BoxNo, Mailbox)>> {
    let mut next = 0;
    let all = list(db, &MAILBOXES, "ORDER BY no", |cells| {
        let number: BoxNo = cells.get("no")?;
        // Deliveries name their mailboxes by number, and a wrong number is another
        // mailbox.
        if number != next {
            return Err(cells.misread("no", &format!("mailbox {next} is missing before it")));
        }
        next += 1;
        let mailbox = cells.read_optional("key", |key| key.parse().ok())?;
        Ok(mailbox.map(|mailbox| (number, mailbox)))
    })?;
    Ok(all.into_iter().flatten().collect())
}

static ASSIGNMENTS: Table = Table {
    name: "assignments",
    key: "task",
    columns: &[
        "task",
        "worker",
        "giver",
        "label",
        "opened_at",
        "report",
        "report_delivery",
        "report_mailbox",
        "settled_at",
    ],
};

fn assignment(cells: &Cells<'_, '_>) -> ReadResult<Assignment> {
    let report = match cells.get::<Option<u64>>("report")? {
        Some(seq) => Some(Report {
            seq: Seq(seq),
            delivery: DeliveryNo(cells.get("report_delivery")?),
            mailbox: cells.read("report_mailbox", |key| key.parse().ok())?,
            at: Timestamp(cells.get("settled_at")?),
        }),
        None => None,
    };
    let giver = cells.get::<Option<u32>>("giver")?.map(InstanceId);
    Ok(Assignment {
        task: Seq(cells.get("task")?),
        worker: InstanceId(cells.get("worker")?),
        by: giver.map_or(Principal::Operator, Principal::Instance),
        label: cells.optional_text("label")?.map(Into::into),
        opened_at: Timestamp(cells.get("opened_at")?),
        report,
    })
}

fn unreadable_reports(db: &Connection) -> ReadResult<Vec<DeliveryNo>> {
    let mut select = db.prepare(
        "SELECT d.no FROM assignments a JOIN deliveries d ON d.no = a.report_delivery \
         WHERE d.state = 2 AND d.how = ?1",
    )?;
    let found = select.query_map(params![Reason::Unreadable.as_str()], |row| row.get(0))?;
    Ok(found.map(|no| no.map(DeliveryNo)).collect::<Result<_, _>>()?)
}

static TAKEN: Table = Table { name: "taken", key: "no", columns: &["no", "reader", "seq"] };

fn weakly_acked(db: &Connection) -> ReadResult<HashMap<Principal, Vec<Seq>>> {
    let mut by_reader: HashMap<Principal, VecDeque<Seq>> = HashMap::new();
    each(db, &TAKEN, "ORDER BY no", |cells| {
        let list = by_reader.entry(cells.read("reader", principal)?).or_default();
        if list.len() == MOST_WEAKLY_ACKED {
            list.pop_front();
        }
        list.push_back(Seq(cells.get("seq")?));
        Ok(())
    })?;
    Ok(by_reader.into_iter().map(|(reader, list)| (reader, list.into())).collect())
}
