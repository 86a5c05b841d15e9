//! Loading the ledger from the store, once, at start.

use super::{BoxNo, KeyDigest, Ledger, MailboxState, Queued};
use crate::Map;
use crate::address::Mailbox;
use crate::limits::Limits;
use crate::messaging::message::Seq;
use crate::ports::store::{BacklogPart, Loaded};
use crate::registry::Work;
use crate::time::Timestamp;

/// A delivery is in a mailbox that the store does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("deliveries, row {delivery}, column mailbox: mailbox {mailbox} is missing")]
pub struct NoSuchMailbox {
    pub delivery: u64,
    pub mailbox: BoxNo,
}

impl Ledger {
    /// Makes the ledger without its backlog. A time in the future counts as the time of
    /// the start, so that ages are counted from the start.
    pub fn load(limits: &Limits, loaded: &mut Loaded, now: Timestamp) -> Self {
        let mut ledger = Self::new(limits.clone());
        ledger.id_key = loaded.id_key;
        ledger.next_seq = loaded.last_seq + 1;
        ledger.next_delivery = loaded.last_delivery + 1;
        ledger.profiles = std::mem::take(&mut loaded.profiles).into_iter().collect();
        for team in std::mem::take(&mut loaded.teams) {
            ledger.teams.insert(team.name.clone(), team);
        }
        for mut instance in std::mem::take(&mut loaded.instances) {
            instance.created_at = instance.created_at.min(now);
            instance.last_seen = instance.last_seen.min(now);
            instance.ended_at = instance.ended_at.map(|at| at.min(now));
            if let Some(work) = &mut instance.work
                && let Some(started) = work.started_at.filter(|at| *at > now)
            {
                *work = Work { started_at: Some(started.min(now)), ..(**work).clone() }.into();
            }
            ledger.add_instance(instance);
        }
        for mut assignment in std::mem::take(&mut loaded.assignments) {
            assignment.opened_at = assignment.opened_at.min(now);
            if let Some(report) = &mut assignment.report {
                report.at = report.at.min(now);
            }
            ledger.assignments.add(assignment, false);
        }
        ledger.needs.last = loaded.last_need;
        for mut need in std::mem::take(&mut loaded.needs) {
            need.created_at = need.created_at.min(now);
            ledger.needs.load(need);
        }
        for verdict in std::mem::take(&mut loaded.remembered) {
            ledger.needs.remember(verdict);
        }
        let unreadable = std::mem::take(&mut loaded.unreadable_reports);
        ledger.mark_reports(&unreadable.into_iter().collect(), true);
        for (token, of) in std::mem::take(&mut loaded.tokens) {
            ledger.add_token(token, of);
        }
        ledger.load_mailboxes(std::mem::take(&mut loaded.mailboxes));
        ledger
    }

    fn load_mailboxes(&mut self, boxes: Vec<(BoxNo, Mailbox)>) {
        self.numbers = boxes.iter().map(|(no, m)| (m.clone(), *no)).collect::<Map<_, _>>();
        self.queues = boxes
            .into_iter()
            .map(|(no, mailbox)| (no as usize, MailboxState::new(mailbox)))
            .collect();
    }

    /// Loads a part of the backlog, in the order of its numbers; new mail may have come
    /// meanwhile. `clean`: the last run stopped cleanly. After a kill the leases of that
    /// run are unknown, and every delivery is marked.
    pub fn load_backlog(
        &mut self,
        part: BacklogPart,
        clean: bool,
        now: Timestamp,
    ) -> Result<(), NoSuchMailbox> {
        match part {
            BacklogPart::Deliveries(list) => {
                for (at, mut entry) in list {
                    entry.marked |= !clean;
                    self.load_delivery(at, entry)?;
                }
            }
            BacklogPart::Keys(list) => {
                list.into_iter().for_each(|(key, seq, at)| self.load_key(key, seq, at.min(now)));
            }
        }
        Ok(())
    }

    fn load_delivery(&mut self, at: BoxNo, entry: Queued) -> Result<(), NoSuchMailbox> {
        let delivery = entry.delivery.0;
        let Some(queue) = self.queues.get_mut(at as usize) else {
            return Err(NoSuchMailbox { delivery, mailbox: at });
        };
        if let Some(expiry) = entry.expires_at {
            self.expiries.insert((expiry, entry.delivery, at));
        }
        queue.unread += 1;
        queue.bytes += entry.size as usize;
        queue.put(entry);
        Ok(())
    }

    fn load_key(&mut self, digest: KeyDigest, seq: Seq, at: Timestamp) {
        self.keys.plan(digest, seq);
        self.keys.commit(digest, at);
    }
}
