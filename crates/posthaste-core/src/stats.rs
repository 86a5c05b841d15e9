//! Statistics: the mail of each mailbox, senders and readers, and stuck mail.
//!
//! Open mail is counted in memory; kept mail is counted in the indexes. The operator sees
//! all, an agent only its own.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::Hub;
use crate::address::{InstanceId, Mailbox, Name};
use crate::messaging::message::{Principal, Seq};
use crate::ports::{HeldMail, Kept, OpenBox, StoreError};
use crate::registry::{InstanceFilter, InstanceView};
use crate::time::Timestamp;

/// The counts of one mailbox.
#[derive(Debug, Clone)]
pub struct MailboxStats {
    pub mailbox: Mailbox,
    pub team: Option<Name>,
    /// The only instance that could take the waiting mail of a one-of mailbox: it counts
    /// that mail as its own, too.
    pub reader: Option<InstanceId>,
    /// Number of kept messages, read ones too; for an agent, of a shared mailbox only the
    /// mail that it could take or holds.
    pub total: u64,
    pub unread: usize,
    /// Zero when nothing is unread.
    pub oldest_unread: Duration,
}

/// The counts of one agent.
#[derive(Debug, Clone)]
pub struct AgentStats {
    pub view: InstanceView,
    pub sent: u64,
    /// Number of messages in its own mailbox.
    pub received: u64,
    /// Number of its calls that wait for mail.
    pub waiting: u32,
}

#[derive(Debug, Clone)]
pub struct TeamStats {
    pub team: Name,
    /// Number of instances that are starting or running.
    pub active: usize,
    pub sent: u64,
    /// Number of messages in the mailboxes of the team and of its instances.
    pub received: u64,
    pub unread: usize,
    pub waiting: u32,
    pub last_seen: Option<Timestamp>,
}

/// Counts, and the time since which mail is kept.
#[derive(Debug, Clone)]
pub struct Counted<T> {
    pub since: Option<Timestamp>,
    pub list: Vec<T>,
}

/// Mail that does not move, with the reason and a hint.
#[derive(Debug, Clone)]
pub struct Stuck {
    pub kind: StuckKind,
    pub mailbox: Mailbox,
    pub team: Option<Name>,
    pub count: usize,
    /// The oldest message of it.
    pub seq: Seq,
    pub age: Duration,
    pub why: String,
    pub hint: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StuckKind {
    /// No instance reads it.
    Unread,
    /// No instance is there that could read it.
    NoTaker,
    /// A reader holds it and does not prove it.
    Held,
}

impl StuckKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unread => "unread",
            Self::NoTaker => "no_taker",
            Self::Held => "held",
        }
    }
}

impl Hub {
    /// Returns the counts of each mailbox: an agent's own first, the operator's all.
    pub async fn mailbox_stats(&self, by: Principal) -> Result<Vec<MailboxStats>, StoreError> {
        let of = self.own_boxes(by);
        let (open, kept) = (self.engine.open_mail(of.clone()).await?, self.engine.kept(of).await?);
        let now = self.clock.now();
        let open = open.into_iter().map(|open| part_of(by, open));
        let total = |b: &OpenBox| match by {
            // The mail that others took of a shared mailbox is not told.
            Principal::Instance(_) if b.mailbox.is_one_of() => b.unread as u64,
            _ => kept.received.get(&b.mailbox).copied().unwrap_or(0),
        };
        let stats = |b: OpenBox| MailboxStats {
            total: total(&b),
            unread: b.unread,
            oldest_unread: b.oldest.and_then(|o| o.at).map_or(Duration::ZERO, |at| now.since(at)),
            team: b.team,
            reader: b.only,
            mailbox: b.mailbox,
        };
        // Empty mailboxes of forgotten instances are left out.
        let said = |s: &MailboxStats| match s.mailbox {
            Mailbox::Instance(id) => s.total > 0 || s.unread > 0 || self.is_here(id),
            _ => true,
        };
        let mut list: Vec<MailboxStats> = open.map(stats).filter(said).collect();
        // Instances that never got mail have a mailbox, too.
        let known: HashSet<Mailbox> = list.iter().map(|s| s.mailbox.clone()).collect();
        let silent = self.visible(by).into_iter().map(|view| MailboxStats {
            mailbox: Mailbox::Instance(view.instance.id),
            team: Some(view.instance.team),
            reader: None,
            total: 0,
            unread: 0,
            oldest_unread: Duration::ZERO,
        });
        list.extend(silent.filter(|s| !known.contains(&s.mailbox)));
        Ok(list)
    }

    /// Returns the counts of each agent.
    pub async fn agent_stats(&self, by: Principal) -> Result<Counted<AgentStats>, StoreError> {
        let kept = self.engine.kept(self.own_boxes(by)).await?;
        let list = self.visible(by).into_iter().map(|view| self.agent(view, &kept)).collect();
        Ok(Counted { since: kept.since, list })
    }

    /// Returns the counts of each team. An agent sees its own.
    pub async fn team_stats(&self, by: Principal) -> Result<Counted<TeamStats>, StoreError> {
        let own = by.instance().and_then(|id| self.instance(id)).map(|v| v.instance.team);
        let (open, kept) = (self.engine.open_mail(None).await?, self.engine.kept(None).await?);
        let mut teams: BTreeMap<Name, TeamStats> = BTreeMap::new();
        for team in self.teams() {
            if own.as_ref().is_none_or(|own| *own == team) {
                teams.insert(team.clone(), TeamStats::new(team));
            }
        }
        for view in self.visible(Principal::Operator) {
            let Some(team) = teams.get_mut(&view.instance.team) else { continue };
            let agent = self.agent(view, &kept);
            let (status, seen) = (agent.view.instance.status, agent.view.instance.last_seen);
            team.active += usize::from(status.is_active());
            team.sent += agent.sent;
            team.waiting += agent.waiting;
            team.last_seen = team.last_seen.max(Some(seen));
        }
        for mailbox in open {
            let Some(team) = mailbox.team.and_then(|team| teams.get_mut(&team)) else { continue };
            team.unread += mailbox.unread;
            team.received += kept.received.get(&mailbox.mailbox).copied().unwrap_or(0);
        }
        Ok(Counted { since: kept.since, list: teams.into_values().collect() })
    }

    /// Returns mail that does not move: unread or held for longer than
    /// `limits.stuck_after`, or without any instance that could take it. Oldest first.
    pub async fn stuck(&self, by: Principal) -> Result<Vec<Stuck>, StoreError> {
        let now = self.clock.now();
        let mut stuck = Vec::new();
        for open in self.engine.open_mail(self.own_boxes(by)).await? {
            stuck.extend(self.stuck_in(&open, now));
            let held = open.held.iter().filter(|h| by == Principal::Operator || h.by == by);
            stuck.extend(held.filter_map(|held| self.stuck_with(&open, held, now)));
        }
        stuck.sort_by_key(|s| (std::cmp::Reverse(s.age), s.seq));
        Ok(stuck)
    }

    /// Returns the queued mail of a mailbox if no reader takes it.
    fn stuck_in(&self, open: &OpenBox, now: Timestamp) -> Option<Stuck> {
        let oldest = open.oldest_queued?;
        let age = oldest.at.map_or(Duration::ZERO, |at| now.since(at));
        let sender = oldest.sender.map_or(Principal::Operator, Principal::Instance);
        let waiting = self.queue.waiting(&open.mailbox, sender);
        let no_taker = open.mailbox.is_one_of()
            && self.engine.ledger(|l| l.active(&open.mailbox, sender)) == 0;
        if !no_taker && (waiting > 0 || age < self.limits.stuck_after) {
            return None;
        }
        let minutes = age.as_secs() / 60;
        let (kind, why, hint) = match &open.mailbox {
            mailbox if no_taker => (
                StuckKind::NoTaker,
                self.why_untaken(mailbox, sender, waiting),
                "start or join somebody who may read it, or cancel it".to_owned(),
            ),
            Mailbox::Human => (
                StuckKind::Unread,
                format!("the operator has not read it for {minutes} min"),
                "read it: posthaste inbox".to_owned(),
            ),
            Mailbox::Instance(id) => {
                let who = self.name_of(Principal::Instance(*id));
                let hint = "wake it, so that it calls its inbox; if it is gone, end it, and its \
                            mail is dead with a reason";
                let why = format!("{who} has not read it for {minutes} min and does not wait");
                (StuckKind::Unread, why, hint.to_owned())
            }
            mailbox => (
                StuckKind::Unread,
                self.why_untaken(mailbox, sender, waiting),
                "wake one of them, so that it calls its inbox".to_owned(),
            ),
        };
        let (mailbox, team, count) = (open.mailbox.clone(), open.team.clone(), open.queued);
        Some(Stuck { kind, mailbox, team, count, seq: oldest.seq, age, why, hint })
    }

    /// Returns the mail that a reader has held for too long.
    fn stuck_with(&self, open: &OpenBox, held: &HeldMail, now: Timestamp) -> Option<Stuck> {
        let age = now.since(held.since);
        if age < self.limits.stuck_after {
            return None;
        }
        let who = self.name_of(held.by);
        Some(Stuck {
            kind: StuckKind::Held,
            mailbox: open.mailbox.clone(),
            team: open.team.clone(),
            count: held.count,
            seq: held.seq,
            age,
            why: format!("{who} has had it since {} and has not proved it", held.since),
            hint: "its reader should give the receipt back, or read with begin=true if it was \
                   restarted: then the hub delivers it again, marked `redelivered`"
                .into(),
        })
    }

    fn agent(&self, view: InstanceView, kept: &Kept) -> AgentStats {
        let id = view.instance.id;
        let own = Mailbox::Instance(id);
        AgentStats {
            sent: kept.sent.get(&id).copied().unwrap_or(0),
            received: kept.received.get(&own).copied().unwrap_or(0),
            waiting: self.queue.waiting(&own, Principal::Operator),
            view,
        }
    }

    /// Returns the mailboxes that an agent may count; `None` is all.
    fn own_boxes(&self, by: Principal) -> Option<Arc<[Mailbox]>> {
        by.instance().map(|_| self.engine.ledger(|l| l.keys_of(by)))
    }

    fn visible(&self, by: Principal) -> Vec<InstanceView> {
        match by.instance() {
            Some(id) => self.instance(id).into_iter().collect(),
            None => {
                let all = InstanceFilter { limit: usize::MAX, ..InstanceFilter::default() };
                let mut all = self.instances(&all);
                all.retain(|view| !view.instance.status.has_ended());
                all
            }
        }
    }

    fn is_here(&self, id: InstanceId) -> bool {
        self.instance(id).is_some_and(|view| !view.instance.status.has_ended())
    }
}

/// Reduces a mailbox that others read as well to the mail that the agent could take, and
/// that it holds.
fn part_of(by: Principal, open: OpenBox) -> OpenBox {
    if by == Principal::Operator || !open.mailbox.is_one_of() {
        return open;
    }
    let held = open.held.iter().filter(|held| held.by == by).map(|held| held.count);
    let unread = open.queued + held.sum::<usize>();
    let oldest = if unread == open.unread { open.oldest } else { open.oldest_queued };
    OpenBox { unread, oldest, ..open }
}

impl TeamStats {
    fn new(team: Name) -> Self {
        Self { team, active: 0, sent: 0, received: 0, unread: 0, waiting: 0, last_seen: None }
    }
}
