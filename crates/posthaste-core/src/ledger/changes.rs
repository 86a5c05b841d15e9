//! Turns plans into the changes that a store writes.

use std::sync::Arc;

use super::{
    AckPlan, AppendPlan, BeginPlan, DeadDelivery, DiePlan, EndPlan, HirePlan, JoinPlan, NackPlan,
    NeedsPlan, RequeuePlan, Settled,
};
use crate::address::InstanceId;
use crate::ports::change::Change;
use crate::ports::{Note, Noted};
use crate::profiles::{Profile, Source, Template};
use crate::registry::TokenHash;
use crate::time::Timestamp;

/// Adds the ends of deliveries.
pub(crate) fn settle(list: &[Settled], at: Timestamp, changes: &mut Vec<Change>) {
    changes.extend(list.iter().map(|settled| Change::DeliverySettled { settled: *settled, at }));
}

/// Adds a new token, and removes the oldest ones, which made room.
fn add_token(token: TokenHash, of: InstanceId, gone: &[TokenHash], changes: &mut Vec<Change>) {
    changes.extend(gone.iter().map(|token| Change::TokenRemoved(*token)));
    changes.push(Change::TokenAdded { token, of });
}

impl AppendPlan {
    /// Adds a message with its deliveries, and the changes of what the message settles.
    pub(crate) fn tell(&self, changes: &mut Vec<Change>) {
        for (no, mailbox) in &self.opened {
            changes.push(Change::MailboxOpened { no: *no, mailbox: mailbox.clone() });
        }
        let (message, copies) = (Arc::clone(&self.message), self.copies.clone());
        changes.push(Change::MessageAdded { message, copies, key: self.key });
        if let Some(reply) = &self.reply {
            reply.tell(changes);
        }
        if let Some((task, report)) = &self.settles {
            changes.push(Change::AssignmentSettled { task: *task, report: report.clone() });
        }
        if let Some(needs) = &self.needs {
            needs.tell(changes);
        }
    }
}

impl AckPlan {
    pub(crate) fn tell(&self, changes: &mut Vec<Change>) {
        settle(&self.settled, self.at, changes);
    }
}

impl DiePlan {
    pub(crate) fn tell(&self, changes: &mut Vec<Change>) {
        settle(&self.dead, self.at, changes);
    }
}

impl NackPlan {
    pub(crate) fn tell(&self, changes: &mut Vec<Change>) {
        for (delivery, attempts, seq) in &self.returned {
            let (delivery, seq, attempts) = (*delivery, *seq, *attempts);
            changes.push(Change::DeliveryReturned { delivery, seq, attempts });
            let noted = Noted::Refused(self.by);
            changes.push(Change::NoteAdded(Note { delivery, at: self.at, noted }));
        }
        settle(&self.dead, self.at, changes);
        self.needs.tell(changes);
    }
}

impl NeedsPlan {
    pub(crate) fn tell(&self, changes: &mut Vec<Change>) {
        changes.extend(self.opened.iter().cloned().map(Change::NeedOpened));
        for (id, closed) in &self.closed {
            changes.push(Change::NeedClosed { id: *id, closed: closed.clone() });
        }
        changes.extend(self.remembered.clone().map(Change::VerdictRemembered));
    }
}

impl RequeuePlan {
    pub(crate) fn tell(&self, changes: &mut Vec<Change>) {
        for DeadDelivery { entry, reason, .. } in &self.dead {
            let (delivery, seq, marked) = (entry.delivery, entry.seq, entry.marked);
            let noted = Noted::Requeued(Some(*reason));
            changes.push(Change::NoteAdded(Note { delivery, at: self.at, noted }));
            changes.push(Change::DeliveryRequeued { delivery, seq, marked });
        }
        changes.push(Change::LowWater(self.low_water));
        self.needs.tell(changes);
    }
}

impl JoinPlan {
    /// Adds a new instance, and its profile and team if it is the first of them.
    pub(crate) fn tell(&self, changes: &mut Vec<Change>) {
        let now = self.instance.last_seen;
        if let Some((name, kind)) = &self.new_profile {
            let profile = Profile {
                template: Template::new(name.clone(), *kind),
                source: Source::Join,
                version: 1,
                created_at: now,
                updated_at: now,
            };
            changes.push(Change::ProfileWritten(Arc::new(profile)));
        }
        changes.extend(self.new_team.clone().map(Change::TeamAdded));
        changes.push(Change::InstanceAdded(Arc::new(self.instance.clone())));
        if let Some(token) = self.token {
            add_token(token, self.instance.id, &self.dropped, changes);
        }
    }
}

impl HirePlan {
    pub(crate) fn tell(&self, changes: &mut Vec<Change>) {
        if let Some(join) = &self.join {
            join.tell(changes);
        }
        self.task.tell(changes);
        changes.push(Change::AssignmentOpened(self.assignment.clone()));
    }
}

impl BeginPlan {
    pub(crate) fn tell(&self, changes: &mut Vec<Change>) {
        changes.push(Change::InstanceStarted(Arc::new(self.instance.clone())));
        add_token(self.token, self.instance.id, &self.dropped, changes);
    }
}

impl EndPlan {
    /// Adds the reports first: they are there before anybody can see the end.
    pub(crate) fn tell(&self, changes: &mut Vec<Change>) {
        self.reports.iter().for_each(|report| report.tell(changes));
        changes.push(Change::InstanceEnded(Arc::new(self.instance.clone())));
        settle(&self.settled, self.at, changes);
        self.needs.tell(changes);
    }
}
