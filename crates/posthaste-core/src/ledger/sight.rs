//! Visibility: which messages and mailboxes a caller may see, and what is open there.

use super::{AckPlan, BoxNo, End, Ledger, MailboxState, Out, Queued};
use crate::Map;
use crate::address::{InstanceId, Mailbox, Name};
use crate::messaging::delivery::{DeliveryNo, DeliveryState, MoveError, Proof};
use crate::messaging::message::{Principal, Seq, ThreadId};
use crate::ports::{HeldMail, Oldest, OpenBox, Record};
use crate::registry::Instance;
use crate::time::Timestamp;

impl Ledger {
    pub fn may_see(&self, who: Principal, record: &Record) -> bool {
        let Principal::Instance(id) = who else { return true };
        if record.message.from.instance == Some(id) {
            return true;
        }
        let alive = |i: &&Instance| !i.status.has_ended();
        let Some(me) = self.instances.get(&id).filter(alive) else { return false };
        let leads = |mailbox| self.scope(mailbox).is_some_and(|team| self.is_led_by(team, me));
        record.deliveries.iter().any(|d| d.is_before(who, &me.keys) || leads(&d.mailbox))
            || self.is_family(me, record.message.thread)
    }

    /// Returns whether `who` leads the team now; leaders that are named later see
    /// everything.
    pub fn leads(&self, who: Principal, team: &Name) -> bool {
        let Principal::Instance(id) = who else { return true };
        let me = self.instances.get(&id).filter(|i| !i.status.has_ended());
        me.is_some_and(|me| self.is_led_by(team, me))
    }

    pub(super) fn is_led_by(&self, team: &Name, who: &Instance) -> bool {
        self.teams.get(team).is_some_and(|team| team.is_led_by(who))
    }

    /// Returns whether `me` is the owner of a thread, its parent, child or sibling, or a
    /// leader of its team.
    fn is_family(&self, me: &Instance, thread: ThreadId) -> bool {
        let owner = self.owner_of(thread);
        owner.is_some_and(|owner| me.is_kin_of(owner) || self.is_led_by(&owner.team, me))
    }

    /// Returns the team that mail in this mailbox is addressed to.
    pub fn scope<'a>(&'a self, mailbox: &'a Mailbox) -> Option<&'a Name> {
        match mailbox {
            Mailbox::NameIn(_, team) | Mailbox::AnyoneIn(team) => Some(team),
            Mailbox::Instance(id) => self.instances.get(id).map(|i| &i.team),
            Mailbox::Human | Mailbox::Name(_) | Mailbox::Anyone => None,
        }
    }

    /// Returns the mailboxes of a team.
    pub fn boxes_in(&self, team: &Name) -> Vec<BoxNo> {
        let in_team = |queue: &MailboxState| self.scope(&queue.mailbox) == Some(team);
        let all = self.boxes().filter(|(_, queue)| in_team(queue));
        all.map(|(no, _)| no).collect()
    }

    /// Returns the messages that the reader has not acked: queued mail that only it could
    /// take, and its leases. In order.
    pub fn unread_by(&self, reader: Principal) -> Vec<Seq> {
        let keys = self.keys_of(reader);
        let boxes = keys.iter().filter_map(|m| Some((m, self.mailbox_no(m)?)));
        let queued = boxes.flat_map(|(mailbox, no)| {
            let entries = self.queues[no as usize].all();
            entries.filter(|e| self.is_for(mailbox, e.sender, reader)).map(|e| e.seq)
        });
        let held = self.held.get(&reader).into_iter().flatten();
        let held = held.filter_map(|d| self.out.get(d)).map(|out| out.entry.seq);
        let mut seqs: Vec<Seq> = queued.chain(held).collect();
        seqs.sort_unstable();
        seqs
    }

    /// Returns the messages with an open delivery for whose mailbox and sender
    /// `is_asked_for` holds. In order.
    pub fn open_of(&self, is_asked_for: impl Fn(BoxNo, Option<InstanceId>) -> bool) -> Vec<Seq> {
        let queued = self.boxes().flat_map(|(no, q)| q.all().map(move |e| (no, e)));
        let out = self.out.values().map(|out| (out.at, &out.entry));
        let asked_for = queued.chain(out).filter(|(no, entry)| is_asked_for(*no, entry.sender));
        let mut seqs: Vec<Seq> = asked_for.map(|(_, entry)| entry.seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        seqs
    }

    /// Lists the open mail of these mailboxes, or of all.
    pub fn open_mail(&self, of: Option<&[Mailbox]>) -> Vec<OpenBox> {
        let mut out: Map<BoxNo, Vec<&Out>> = Map::default();
        for held in self.out.values() {
            out.entry(held.at).or_default().push(held);
        }
        let wanted: Vec<BoxNo> = match of {
            Some(boxes) => boxes.iter().filter_map(|m| self.mailbox_no(m)).collect(),
            None => self.boxes().map(|(no, _)| no).collect(),
        };
        let of_box = |no: BoxNo| {
            let out = out.get(&no).map_or(&[][..], Vec::as_slice);
            self.open_box(&self.queues[no as usize], out)
        };
        wanted.into_iter().map(of_box).collect()
    }

    fn open_box(&self, queue: &MailboxState, out: &[&Out]) -> OpenBox {
        let heads = [queue.urgent.front(), queue.normal.front()].into_iter().flatten();
        let oldest_queued = heads.min_by_key(|e| e.seq).map(oldest);
        let held_oldest = out.iter().map(|o| &o.entry).min_by_key(|e| e.seq).map(oldest);
        let mut held: Vec<HeldMail> = Vec::new();
        for out in out {
            let DeliveryState::Leased { by, .. } = out.state.unsettle() else { continue };
            let (seq, since) = (out.entry.seq, out.since);
            match held.iter_mut().find(|h| h.by == by) {
                Some(known) => {
                    known.count += 1;
                    if since < known.since {
                        (known.seq, known.since) = (seq, since);
                    }
                }
                None => held.push(HeldMail { by, count: 1, seq, since }),
            }
        }
        held.sort_unstable_by_key(|h| h.since);
        OpenBox {
            mailbox: queue.mailbox.clone(),
            team: self.scope(&queue.mailbox).cloned(),
            only: self.only_taker(&queue.mailbox, None),
            unread: queue.unread,
            oldest: [oldest_queued, held_oldest].into_iter().flatten().min_by_key(|o| o.seq),
            queued: queue.len(),
            oldest_queued,
            held,
        }
    }

    /// Returns whether only the reader could take queued mail of this mailbox and sender.
    fn is_for(&self, mailbox: &Mailbox, sender: Option<InstanceId>, reader: Principal) -> bool {
        match mailbox.is_one_of() {
            true => reader.instance() == self.only_taker(mailbox, sender),
            false => *mailbox == Mailbox::of(reader),
        }
    }

    /// Plans the ack of mail that `by` says it has read: mail that only `by` could take,
    /// and mail that it holds. Expired mail is left out.
    pub fn plan_read(
        &mut self,
        by: Principal,
        deliveries: &[DeliveryNo],
        now: Timestamp,
    ) -> AckPlan {
        let mut plan = AckPlan { at: now, ..AckPlan::default() };
        self.fade(now);
        let keys = self.keys_of(by);
        for delivery in deliveries {
            let of = |m: &&Mailbox| {
                let queue = self.mailbox_no(m).map(|no| &self.queues[no as usize]);
                let entry = queue.and_then(|q| q.find(*delivery));
                entry.is_some_and(|e| self.is_for(m, e.sender, by))
            };
            let own = keys.iter().find(of).cloned().unwrap_or_else(|| Mailbox::of(by));
            let read = |state: DeliveryState, entry: &Queued| {
                let expired = entry.expires_at.is_some_and(|at| at <= now);
                match state {
                    DeliveryState::Queued if expired => Err(MoveError::NotLeased),
                    state => state.read(by),
                }
            };
            if let Ok(out) = self.settle_in(&own, *delivery, read) {
                plan.settled.push(super::settle::settled(out, Some(by), End::Acked(Proof::Auto)));
            }
        }
        plan
    }
}

fn oldest(entry: &Queued) -> Oldest {
    let at = entry.message.as_ref().map(|m| m.created_at);
    Oldest { seq: entry.seq, at, sender: entry.sender }
}
