//! Needs of the operator, and remembered verdicts.

use posthaste_core::address::{InstanceId, Name};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::Seq;
use posthaste_core::needs::{
    Asked, Asker, Closed, KnownNeed, Need, NeedId, NeedKind, Outcome, Remembered,
};
use posthaste_core::ports::change::Old;
use posthaste_core::ports::store::NeedsLook;
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::changes::one;
use super::errors::ReadResult;
use super::rows::{Cells, Table};

static NEEDS: Table = Table {
    name: "needs",
    key: "id",
    columns: &[
        "id",
        "kind",
        "blocking",
        "instance",
        "address",
        "text",
        "options",
        "message",
        "delivery",
        "request",
        "subject",
        "created_at",
        "closed_at",
        "outcome",
        "answer",
        "answer_message",
    ],
};

pub(crate) fn opened(db: &Connection, need: &Need) -> rusqlite::Result<()> {
    let options = serde_json::to_string(&need.options).unwrap_or_default();
    let (request, subject) = match &need.asked {
        Some(asked) => (Some(&asked.request), asked.subject.as_ref()),
        None => (None, None),
    };
    db.prepare_cached(
        "INSERT INTO needs (id, kind, blocking, instance, address, text, options, message, \
         delivery, request, subject, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        need.id.0,
        need.kind.as_str(),
        need.blocking,
        need.from.instance.map(|id| id.0),
        &*need.from.address,
        need.text,
        options,
        need.message.map(|seq| seq.0),
        need.delivery.map(|delivery| delivery.0),
        request,
        subject,
        need.created_at.0,
    ])?;
    Ok(())
}

pub(crate) fn closed(db: &Connection, id: NeedId, closed: &Closed) -> rusqlite::Result<()> {
    let Closed { at, outcome, text, message } = closed;
    let changed = db
        .prepare_cached(
            "UPDATE needs SET closed_at = ?2, outcome = ?3, answer = ?4, answer_message = ?5 \
             WHERE id = ?1 AND closed_at IS NULL",
        )?
        .execute(params![id.0, at.0, outcome.as_str(), text, message.map(|seq| seq.0)])?;
    one(changed)
}

pub(crate) fn remembered(db: &Connection, verdict: &Remembered) -> rusqlite::Result<()> {
    let Remembered { profile, subject, allow, at } = verdict;
    db.prepare_cached(
        "INSERT INTO verdicts (profile, subject, allow, at) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (profile, subject) DO UPDATE SET allow = excluded.allow, at = excluded.at",
    )?
    .execute(params![profile.as_str(), subject, allow, at.0])?;
    Ok(())
}

pub(crate) fn forgotten(db: &Connection, profile: &Name, subject: &str) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM verdicts WHERE profile = ?1 AND subject = ?2")?
        .execute(params![profile.as_str(), subject])?;
    Ok(())
}

/// Removes closed needs that are old.
pub(crate) fn forget(db: &Connection, old: Old) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM needs WHERE closed_at < ?1 OR closed_at > ?2")?
        .execute(params![old.before.0, old.beyond.0])?;
    Ok(())
}

pub(crate) fn has_old(db: &Connection, old: Old) -> ReadResult<bool> {
    let mut select =
        db.prepare_cached("SELECT 1 FROM needs WHERE closed_at < ?1 OR closed_at > ?2")?;
    Ok(select.exists(params![old.before.0, old.beyond.0])?)
}

pub(crate) fn look(db: &Connection, look: NeedsLook) -> ReadResult<Vec<Need>> {
    match look {
        NeedsLook::These(mut ids) => {
            ids.sort_unstable();
            ids.dedup();
            let found = ids.into_iter().map(|id| list(db, "WHERE id = ?1", params![id.0], need));
            Ok(found.collect::<ReadResult<Vec<_>>>()?.into_iter().flatten().collect())
        }
        NeedsLook::After { after, kind, open_only, most } => {
            let open = if open_only { "AND closed_at IS NULL " } else { "" };
            let rest =
                format!("WHERE id > ?1 AND (?2 IS NULL OR kind = ?2) {open}ORDER BY id LIMIT ?3");
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            list(db, &rest, params![after.0, kind.map(NeedKind::as_str), most], need)
        }
    }
}

/// Returns the needs that the ledger knows.
pub(crate) fn known(db: &Connection) -> ReadResult<Vec<KnownNeed>> {
    let rest = "WHERE closed_at IS NULL OR (kind = 'permission' AND instance IN \
        (SELECT id FROM instances WHERE ended_at IS NULL)) ORDER BY id";
    list(db, rest, [], |cells| need(cells).map(|need| need.known()))
}

/// Returns the highest number ever given to a need.
pub(crate) fn last(db: &Connection) -> ReadResult<u64> {
    let mut select = db.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'needs'")?;
    let last: Option<u64> = select.query_row([], |row| row.get(0)).optional()?;
    Ok(last.unwrap_or(0))
}

static VERDICTS: Table =
    Table { name: "verdicts", key: "profile", columns: &["profile", "subject", "allow", "at"] };

pub(crate) fn verdicts(db: &Connection) -> ReadResult<Vec<Remembered>> {
    let mut select = db.prepare(&VERDICTS.select("ORDER BY profile, subject"))?;
    let mut rows = select.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let cells = Cells::new(&VERDICTS, row);
        found.push(Remembered {
            profile: cells.read("profile", |name| Name::kept(name).ok())?,
            subject: cells.get("subject")?,
            allow: cells.get("allow")?,
            at: Timestamp(cells.get("at")?),
        });
    }
    Ok(found)
}

fn list<T>(
    db: &Connection,
    rest: &str,
    params: impl Params,
    read: impl Fn(&Cells<'_, '_>) -> ReadResult<T>,
) -> ReadResult<Vec<T>> {
    let mut select = db.prepare_cached(&NEEDS.select(rest))?;
    let mut rows = select.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(&Cells::new(&NEEDS, row))?);
    }
    Ok(found)
}

fn need(cells: &Cells<'_, '_>) -> ReadResult<Need> {
    let request: Option<String> = cells.get("request")?;
    let asked = match request {
        Some(request) => Some(Asked { request, subject: cells.get("subject")? }),
        None => None,
    };
    let closed = match cells.get::<Option<i64>>("closed_at")? {
        Some(at) => Some(Closed {
            at: Timestamp(at),
            outcome: cells.read("outcome", Outcome::read)?,
            text: cells.get("answer")?,
            message: cells.get::<Option<u64>>("answer_message")?.map(Seq),
        }),
        None => None,
    };
    Ok(Need {
        id: NeedId(cells.get("id")?),
        kind: cells.read("kind", NeedKind::read)?,
        blocking: cells.get("blocking")?,
        from: Asker {
            instance: cells.get::<Option<u32>>("instance")?.map(InstanceId),
            address: cells.text("address")?.into(),
        },
        text: cells.get("text")?,
        options: cells.read("options", |list| serde_json::from_str(list).ok())?,
        message: cells.get::<Option<u64>>("message")?.map(Seq),
        delivery: cells.get::<Option<u64>>("delivery")?.map(DeliveryNo),
        asked,
        created_at: Timestamp(cells.get("created_at")?),
        closed,
    })
}
