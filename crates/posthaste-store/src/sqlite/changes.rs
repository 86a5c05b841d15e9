//! Writes changes: one function for each kind.

mod people;
mod settle;
mod upkeep;

use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::{Message, Priority};
use posthaste_core::ports::change::{Change, Copies};
use posthaste_core::ports::store::Group;
use posthaste_core::ports::{Note, Noted};
use rusqlite::{CachedStatement, Connection, params};

use self::settle::Settling;
use super::keys::KeyList;
use super::rows::message;
use super::{events, needs, profiles};

const DELIVERY: &str = "INSERT INTO deliveries (no, mailbox, seq, state, size, sender, \
    urgent, marked, attempts, expires_at, room) VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, 0, 0, ?7, \
    x'000000000000000000000000000000000000000000000000000000000000')";
/// Bytes that the row of an open delivery keeps free for its end, as [`DELIVERY`] says: a
/// row that grew would split its page.
const ROOM: usize = 30;
/// A group of more rows than this is written on a thread.
const LIGHT: usize = 4_096;

/// Returns whether the changes only append or update a few rows in place. Where the disk
/// is quick, such a group is not worth a change of threads.
pub(crate) fn are_light(changes: &[Change]) -> bool {
    let mut rows = 0;
    let all = changes.iter().all(|change| {
        rows += 1;
        match change {
            Change::MessageAdded { copies, .. } => {
                rows += copies.len();
                true
            }
            Change::MailboxOpened { .. } | Change::DeliverySettled { .. } => true,
            _ => false,
        }
    });
    all && rows <= LIGHT
}

/// Writes a group, within a transaction.
pub(crate) fn write(db: &Connection, group: &Group, first_made_id: u64) -> rusqlite::Result<()> {
    let mut writing = Writing {
        db,
        message: db.prepare_cached(&message::INSERT)?,
        delivery: db.prepare_cached(DELIVERY)?,
        settling: Settling::new(db)?,
        keys: KeyList::default(),
        first_made_id,
    };
    for change in &group.changes {
        writing.change(change)?;
    }
    writing.keys.write(db)?;
    events::write(db, group)
}

/// A group that is being written, with the statements of the hot path prepared.
struct Writing<'c> {
    db: &'c Connection,
    message: CachedStatement<'c>,
    delivery: CachedStatement<'c>,
    settling: Settling<'c>,
    keys: KeyList,
    first_made_id: u64,
}

impl Writing<'_> {
    fn change(&mut self, change: &Change) -> rusqlite::Result<()> {
        let db = self.db;
        match change {
            Change::MailboxOpened { no, mailbox } => people::mailbox_opened(db, *no, mailbox),
            Change::MailboxFreed { no } => people::mailbox_freed(db, *no),
            Change::MessageAdded { message, copies, key } => {
                self.message_added(message, copies)?;
                if let Some(digest) = key {
                    self.keys.add(*digest, message.seq, message.created_at);
                }
                Ok(())
            }
            Change::DeliverySettled { settled, at } => self.settling.write(settled, *at),
            Change::DeliveryReturned { delivery, attempts, .. } => {
                delivery_returned(db, *delivery, *attempts)
            }
            Change::DeliveryRequeued { delivery, marked, .. } => {
                settle::requeued(db, *delivery, *marked)
            }
            Change::DeliveriesMarked(deliveries) => deliveries_marked(db, deliveries),
            Change::NoteAdded(note) => note_added(db, note),
            Change::MessagesPruned(seqs) => upkeep::pruned(db, seqs, self.first_made_id),
            Change::InstanceAdded(instance) => people::instance_added(db, instance),
            Change::InstanceStarted(instance) => people::instance_started(db, instance),
            Change::InstanceEnded(instance) => people::instance_ended(db, instance),
            Change::InstanceSeen { id, at, status } => people::instance_seen(db, *id, *at, *status),
            Change::RecordWritten { worker, record } => people::record_written(db, *worker, record),
            Change::TokenAdded { token, of } => people::token_added(db, token, *of),
            Change::TokenRemoved(token) => people::token_removed(db, token),
            Change::TeamAdded(name) => people::team_added(db, name),
            Change::TeamWritten(team) => people::team_written(db, team),
            Change::ProfileWritten(profile) => profiles::write(db, profile),
            Change::ProfileRemoved(name) => profiles::remove(db, name),
            Change::AssignmentOpened(assignment) => people::assignment_opened(db, assignment),
            Change::AssignmentSettled { task, report } => {
                people::assignment_settled(db, *task, report)
            }
            Change::NeedOpened(need) => needs::opened(db, need),
            Change::NeedClosed { id, closed } => needs::closed(db, *id, closed),
            Change::VerdictRemembered(verdict) => needs::remembered(db, verdict),
            Change::VerdictForgotten { profile, subject } => needs::forgotten(db, profile, subject),
            Change::OldForgotten { keys, ended, settled, events, needs } => {
                needs::forget(db, *needs)?;
                upkeep::old_forgotten(db, *keys, *ended, *settled, *events)
            }
            Change::LowWater(delivery) => upkeep::low_water(db, *delivery),
            Change::Stopped => upkeep::stopped(db),
        }
    }

    fn message_added(&mut self, message: &Message, copies: &Copies) -> rusqlite::Result<()> {
        let first = copies.first().map_or(0, |(_, delivery)| delivery.0);
        message::bind(&mut self.message, message, [first, copies.len() as u64])?;
        self.message.raw_execute()?;
        for (mailbox, delivery) in copies {
            self.delivery.execute(params![
                delivery.0,
                mailbox,
                message.seq.0,
                message.body.len(),
                message.from.instance.map(|id| id.0),
                message.priority == Priority::Urgent,
                message.expires_at.map(|at| at.0),
            ])?;
        }
        Ok(())
    }
}

/// Fails unless exactly one row was changed: the change contradicts the content.
pub(super) fn one(changed: usize) -> rusqlite::Result<()> {
    match changed {
        1 => Ok(()),
        _ => Err(rusqlite::Error::StatementChangedRows(changed)),
    }
}

fn delivery_returned(db: &Connection, delivery: DeliveryNo, attempts: u8) -> rusqlite::Result<()> {
    let sql = "UPDATE deliveries SET attempts = ?2, marked = 1 WHERE no = ?1 AND state = 0";
    one(db.prepare_cached(sql)?.execute(params![delivery.0, attempts])?)
}

fn deliveries_marked(db: &Connection, deliveries: &[DeliveryNo]) -> rusqlite::Result<()> {
    let mut mark = db.prepare_cached("UPDATE deliveries SET marked = 1 WHERE no = ?1")?;
    deliveries.iter().try_for_each(|delivery| mark.execute(params![delivery.0]).map(drop))
}

fn note_added(db: &Connection, note: &Note) -> rusqlite::Result<()> {
    let (what, by, why) = match &note.noted {
        Noted::Refused(by) => ("refused", by.map(|by| by.to_string()), None),
        Noted::Requeued(reason) => ("requeued", None, reason.map(|reason| reason.as_str())),
        Noted::Unreadable(why) => ("unreadable", None, Some(&**why)),
    };
    db.prepare_cached(
        "INSERT INTO delivery_notes (delivery, at, what, by, why) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![note.delivery.0, note.at.0, what, by, why])?;
    Ok(())
}
