//! Accepting a message: idempotency, route, limits, numbers.

use std::sync::Arc;

use super::keys::{KeyDigest, KeyLook, KeyMark};
use super::needs::NeedsPlan;
use super::policy::Before;
use super::settle::AckPlan;
use super::{BoxNo, Ledger, Queued};
use crate::address::Mailbox;
use crate::messaging::delivery::{DeliveryNo, Proof};
use crate::messaging::message::{
    Draft, Message, Principal, Priority, Recipient, RepliedTo, Sender, Seq, ThreadChoice, ThreadId,
};
use crate::messaging::send::SendError;
use crate::orchestration::Report;
use crate::ports::change::Copies;
use crate::ports::{Appended, Ticket, What};
use crate::time::Timestamp;

/// The numbers of a message and of its deliveries before it is written.
pub(super) struct Places {
    pub(super) seq: Seq,
    pub(super) copies: Copies,
    pub(super) opened: Vec<(BoxNo, Mailbox)>,
}

/// A draft that no rule forbids.
struct Checked {
    from: Sender,
    mailboxes: Vec<Mailbox>,
    /// Full mailboxes that `@everyone` leaves out.
    skipped: Vec<Mailbox>,
    thread: ThreadId,
    /// The sender's rates before this message, for an undo.
    counted: Before,
}

/// The decision about a draft.
#[derive(Debug)]
pub enum Planned {
    /// The message is to be written.
    New(Box<AppendPlan>),
    /// The key was accepted before, as this message. The store must look up whether the
    /// text is the same.
    Duplicate(Seq, Box<Draft>),
    /// The key may have been accepted before: the store must be asked.
    Unsure(KeyMark, Box<Draft>),
    /// The sender gets an error; a second plan may accept the draft.
    Refused(SendError, Box<Draft>),
}

/// A message that waits for its commit.
#[derive(Debug)]
pub struct AppendPlan {
    pub message: Arc<Message>,
    pub copies: Copies,
    /// Mailboxes that get their first message.
    pub opened: Vec<(BoxNo, Mailbox)>,
    pub key: Option<KeyDigest>,
    /// The ack of the delivery that the sender holds and answers with this message.
    pub reply: Option<AckPlan>,
    /// The facts that decided the thread; a draft that is planned again needs them.
    pub thread: ThreadChoice,
    /// The task whose assignment the message settles, and the report.
    pub settles: Option<(Seq, Report)>,
    /// The needs of the operator that the message opens and answers. Boxed: few do.
    pub needs: Option<Box<NeedsPlan>>,
    recipients: Vec<Recipient>,
    skipped: Vec<Mailbox>,
    pub(super) counted: Before,
}

impl AppendPlan {
    /// Makes a plan without further checks: for the hub's own mail, and for reports that
    /// it makes of a worker's answer.
    pub(super) fn decided(
        message: Message,
        places: Places,
        settles: Option<(Seq, Report)>,
    ) -> Self {
        Self {
            message: Arc::new(message),
            copies: places.copies,
            opened: places.opened,
            key: None,
            reply: None,
            thread: ThreadChoice::default(),
            settles,
            needs: None,
            recipients: Vec::new(),
            skipped: Vec::new(),
            counted: Before::default(),
        }
    }

    pub fn appended(&mut self) -> Appended {
        Appended {
            seq: self.message.seq,
            id: self.message.id,
            thread: self.message.thread,
            recipients: std::mem::take(&mut self.recipients),
            skipped: std::mem::take(&mut self.skipped),
            duplicate: false,
        }
    }
}

impl Ledger {
    /// Decides everything about a draft: whether its key was accepted before, its
    /// mailboxes, whether there is room, its numbers.
    pub fn plan_append(&mut self, mut draft: Draft, now: Timestamp) -> Planned {
        self.fade(now);
        let key = KeyDigest::of(&draft);
        match key.map(|digest| self.keys.look(digest, draft.key_is_new_since())) {
            Some(KeyLook::Known(seq)) => return Planned::Duplicate(seq, Box::new(draft)),
            Some(KeyLook::Perhaps(mark)) => return Planned::Unsure(mark, Box::new(draft)),
            Some(KeyLook::New) | None => {}
        }
        let Checked { from, mailboxes, skipped, thread, counted } = match self.check(&draft, now) {
            Ok(checked) => checked,
            Err(error) => return Planned::Refused(error, Box::new(draft)),
        };
        let choice = draft.take_thread_choice();

        let recipients = mailboxes
            .iter()
            .map(|m| Recipient {
                mailbox: m.clone(),
                active: self.active(m, draft.from),
                waiting: 0,
            })
            .collect();
        let settles = self.plan_report(&mut draft, &mailboxes);
        let reply = draft.details().in_reply_to.and_then(|seq| {
            let plan =
                self.plan_ack(draft.from, &What::Messages(vec![seq]), Proof::Reply, now, true);
            (!plan.settled.is_empty()).then_some(plan)
        });
        let to_human = mailboxes.contains(&Mailbox::Human);
        let reported_to = settles.and_then(|_| mailboxes.first().cloned());
        let Places { seq, copies, opened } = self.place(mailboxes, draft.body().len());
        let settles = settles.zip(Report::of(seq, &copies, reported_to, now));
        if let Some(digest) = key {
            self.keys.plan(digest, seq);
        }
        let message = Arc::new(draft.accept(seq, self.id_key.id(seq), from, thread, now));
        let needs = self.needs_of_message(&message, to_human);
        Planned::New(Box::new(AppendPlan {
            message,
            copies,
            opened,
            key,
            reply,
            settles,
            needs,
            recipients,
            skipped,
            counted,
            thread: choice,
        }))
    }

    fn check(&mut self, draft: &Draft, now: Timestamp) -> Result<Checked, SendError> {
        let from = self.sender(draft.from)?;
        if let Some(need) = draft.answers_need().filter(|need| !self.is_need_open(*need)) {
            return Err(SendError::AlreadyAnswered(need));
        }
        if let Some(RepliedTo::Unseen(which)) = &draft.details().thread.replied_to {
            return Err(SendError::NoSuchMessage(*which));
        }
        let named = self.route(draft)?;
        let (mailboxes, skipped) = self.with_room(draft, named)?;
        let thread = self.thread_of(draft, &mailboxes)?;
        let counted = self.admit(draft, &mailboxes, now)?;
        Ok(Checked { from, mailboxes, skipped, thread, counted })
    }

    /// Makes the deliveries of a message that is on disk visible to readers.
    pub fn commit_append(&mut self, plan: &AppendPlan, tickets: &mut Vec<Ticket>) {
        let message = &plan.message;
        self.tally.accepted += 1;
        if let Some(reply) = &plan.reply {
            self.commit_ack(reply);
        }
        if let Some(digest) = plan.key {
            self.keys.commit(digest, message.created_at);
        }
        if let Some((task, report)) = &plan.settles {
            self.commit_report(*task, report.clone());
        }
        if let Some(needs) = &plan.needs {
            self.commit_needs(needs);
        }
        for (at, delivery) in &plan.copies {
            let mut entry = Queued {
                delivery: *delivery,
                seq: message.seq,
                message: Some(Arc::clone(message)),
                size: u32::try_from(message.body.len()).unwrap_or(u32::MAX),
                sender: message.from.instance,
                attempts: 0,
                urgent: message.priority == Priority::Urgent,
                marked: false,
                leased_before: false,
                doubted: false,
                expires_at: message.expires_at,
            };
            if let Some(expiry) = entry.expires_at {
                self.expiries.insert((expiry, *delivery, *at));
            }
            tickets.push(super::ticket(&self.queues[*at as usize].mailbox, &entry));
            self.window(*at, &mut entry);
            self.queues[*at as usize].put(entry);
        }
    }

    /// Takes the next message number, and a delivery in each of these mailboxes.
    pub(super) fn place(&mut self, mailboxes: Vec<Mailbox>, size: usize) -> Places {
        let seq = Seq(self.next_seq);
        self.next_seq += 1;
        let mut opened = Vec::new();
        let copies = mailboxes
            .into_iter()
            .map(|mailbox| {
                let number = self.mailbox_no(&mailbox).unwrap_or_else(|| {
                    let number = self.add_queue(mailbox.clone());
                    opened.push((number, mailbox));
                    number
                });
                let queue = &mut self.queues[number as usize];
                queue.unread += 1;
                queue.bytes += size;
                let delivery = DeliveryNo(self.next_delivery);
                self.next_delivery += 1;
                (number, delivery)
            })
            .collect();
        Places { seq, copies, opened }
    }

    pub fn undo_append(&mut self, plan: &AppendPlan) {
        if let Some(needs) = &plan.needs {
            self.undo_needs(needs);
        }
        if let Some((task, _)) = &plan.settles {
            self.undo_report(*task);
        }
        if let Some(digest) = plan.key {
            self.keys.undo(digest);
        }
        for (at, delivery) in plan.copies.iter().rev() {
            let queue = &mut self.queues[*at as usize];
            queue.unread = queue.unread.saturating_sub(1);
            queue.bytes = queue.bytes.saturating_sub(plan.message.body.len());
            self.next_delivery = delivery.0;
        }
        for (number, _) in plan.opened.iter().rev() {
            self.free_mailbox(*number);
        }
        self.next_seq = plan.message.seq.0;
        self.uncount(&plan.counted);
        if let Some(reply) = &plan.reply {
            self.undo_ack(reply);
        }
    }

    pub(super) fn sender(&self, from: Principal) -> Result<Sender, SendError> {
        match from {
            Principal::Operator => Ok(Sender::human()),
            Principal::Instance(id) => match self.instances.get(&id) {
                Some(i) if !i.status.has_ended() => Ok(i.sender()),
                _ => Err(SendError::SenderGone),
            },
        }
    }

    /// Refuses a send to a full mailbox; `@everyone` skips full ones and lists them.
    /// Results, answers and the hub's own mail always fit.
    pub(super) fn with_room(
        &self,
        draft: &Draft,
        named: Vec<Mailbox>,
    ) -> Result<(Vec<Mailbox>, Vec<Mailbox>), SendError> {
        if draft.details().kind.always_fits() {
            return Ok((named, Vec::new()));
        }
        let full = |mailbox: &Mailbox| {
            self.mailbox_no(mailbox).is_some_and(|no| self.is_full(no, draft.body().len()))
        };
        if !named.iter().any(full) {
            return Ok((named, Vec::new()));
        }
        let (skipped, fitting): (Vec<_>, Vec<_>) = named.into_iter().partition(|m| full(m));
        if let (true, Some(first)) = (fitting.is_empty(), skipped.first()) {
            return Err(SendError::MailboxFull {
                mailbox: first.clone(),
                unread: self.unread(first),
                messages: self.limits.mailbox_messages,
                bytes: self.limits.mailbox_bytes,
            });
        }
        Ok((fitting, skipped))
    }

    /// Returns whether a mailbox has no room for one more message of so many bytes.
    pub(super) fn is_full(&self, no: BoxNo, bytes: usize) -> bool {
        let queue = &self.queues[no as usize];
        queue.unread >= self.limits.mailbox_messages
            || queue.bytes + bytes > self.limits.mailbox_bytes
    }
}
