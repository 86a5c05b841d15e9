//! Sending: check, store, put tickets, and make the receipt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Hub;
use crate::address::{Address, AddressError, Mailbox};
use crate::messaging::delivery::Proof;
use crate::messaging::message::{
    Draft, DraftError, MessageRef, Principal, Receipt, RepliedTo, Seq, ThreadId,
};
use crate::messaging::refused_answers::RefusedAnswer;
use crate::needs::NeedId;
use crate::ports::{Acked, Appended, StoreError};
use crate::profiles::{FileFault, fault_of};
use crate::road::{Accepted, TraceParent};

impl Hub {
    /// Sends a message: `Ok` means that it is durable. Dropping the future does not take
    /// the message back.
    pub async fn send(&self, draft: Draft) -> Result<Receipt, SendError> {
        self.start_send(draft, None).await
    }

    /// Starts a send and returns its future: several sends that are started together
    /// share one flush, and are answered in order. `parent` is the trace of the sender's
    /// work.
    pub fn start_send(
        &self,
        draft: Draft,
        parent: Option<TraceParent>,
    ) -> impl Future<Output = Result<Receipt, SendError>> + Send + use<> {
        let from = draft.from;
        let followed = self.road.get().map(|road| (Arc::clone(road), Instant::now()));
        let replied: Vec<Seq> = draft.details().in_reply_to.into_iter().collect();
        let reply = match replied.is_empty() {
            true => None,
            false => self.desk.lock().reply(draft.from, &replied),
        };
        // Needed to complete errors that the append cannot explain.
        let named = match &draft.to {
            Address::Named { name, .. } => {
                Some((name.clone(), Arc::clone(&self.profile_faults), Arc::clone(&self.engine)))
            }
            _ => None,
        };
        let refused = replied.first().map(|to| {
            let answer = RefusedAnswer { to: *to, by: from, at: self.clock.now() };
            (answer, self.limits.refused_answers, Arc::clone(&self.refused_answers))
        });
        let mortal = draft.details().ttl.is_some();
        let (desk, soon) = (Arc::clone(&self.desk), Arc::clone(&self.soon));
        let began = followed.as_ref().map(|_| Instant::now());
        let appended = self.engine.append(draft);
        let durable = self.engine.is_durable();
        async move {
            let appended = match (appended.await, named, refused) {
                (Ok(appended), ..) => appended,
                (
                    Err(SendError::NoRecipient { to, why, nearest }),
                    Some((name, faults, engine)),
                    _,
                ) => {
                    let fault = fault_of(&faults.lock(), &name);
                    return Err(match fault {
                        // The name is known if only its team is not.
                        Some(fault) if !matches!(engine.profile(name).await, Ok(Some(_))) => {
                            SendError::BrokenProfile { to, fault: Box::new(fault) }
                        }
                        _ => SendError::NoRecipient { to, why, nearest },
                    });
                }
                (Err(error), _, refused) => {
                    if let (SendError::HopLimit { .. }, Some((answer, most, all))) =
                        (&error, refused)
                    {
                        all.lock().add(answer, most);
                    }
                    return Err(error);
                }
            };
            let Appended { seq, id, thread, recipients, skipped, duplicate } = appended;
            if let Some((road, asked)) = followed
                && !duplicate
            {
                let stored = began.map_or(Duration::ZERO, |began| began.elapsed());
                road.accepted(Accepted { seq, id, from, parent, took: asked.elapsed(), stored });
                if reply.is_some() {
                    road.acked(&replied, from, Proof::Reply, stored);
                }
            }
            if let Some(reply) = reply.filter(|_| !duplicate) {
                // The append acked the delivery that the reply answers.
                desk.lock().acked(&reply, &Acked { settled: replied, ..Acked::default() });
            }
            if mortal {
                soon.notify_one();
            }
            Ok(Receipt { seq, id, thread, recipients, duplicate, durable, skipped })
        }
    }

    /// Looks up the message that a reply names. Only an instance that sent or may read a
    /// message can answer it: the append decides that, after it has looked whether the
    /// reply is a repeat.
    pub async fn answered_message(
        &self,
        caller: Principal,
        which: MessageRef,
    ) -> Result<Answered, StoreError> {
        let record = self.engine.message(which).await?;
        let Some(record) = record.filter(|r| self.may_read(caller, r)) else {
            return Ok(Answered { seq: None, hop: 0, replied_to: RepliedTo::Unseen(which) });
        };
        let message = &record.message;
        let quick = self.clock.now().since(message.created_at) <= self.limits.hop_window;
        let counts = quick && caller != Principal::Operator;
        let hop = if counts { message.hop.saturating_add(1) } else { 0 };
        let keys = self.engine.ledger(|l| l.keys_of(caller));
        let received = record.deliveries.iter().any(|d| d.is_before(caller, &keys));
        let to = message.from.instance.map_or(Mailbox::Human, Mailbox::Instance);
        let back_to = received.then_some(to);
        let replied_to = RepliedTo::Seen { thread: message.thread, back_to };
        Ok(Answered { seq: Some(message.seq), hop, replied_to })
    }
}

/// The properties of a reply that come from the message which it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// `None`: there is no such message that the sender may see.
    pub seq: Option<Seq>,
    /// Number of quick answers in a row, the reply included.
    pub hop: u8,
    pub replied_to: RepliedTo,
}

/// The reason why a message was not accepted. Nothing is kept of it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Draft(#[from] DraftError),
    #[error("`{to}` reaches nobody: {why}")]
    NoRecipient { to: String, why: String, nearest: Vec<String> },
    /// Boxed: the rare case would enlarge every send's future.
    #[error("`{to}` reaches nobody, because the file of its profile is wrong: {fault}")]
    BrokenProfile { to: String, fault: Box<FileFault> },
    #[error("{address} has ended")]
    RecipientGone { address: String },
    #[error("nobody can write to themselves")]
    SelfSend,
    #[error("the sender has ended")]
    SenderGone,
    #[error("mailbox {mailbox} is full: {unread} unread")]
    MailboxFull { mailbox: Mailbox, unread: usize, messages: usize, bytes: usize },
    #[error("this idempotency key was used for message {seq}, which had another text")]
    KeyReused { seq: Seq },
    #[error("too many messages: wait {} s", retry_after.as_secs_f64().ceil())]
    TooOften { retry_after: std::time::Duration, key: &'static str },
    #[error("more than {limit} quick answers to answers: the exchange is stopped")]
    HopLimit { limit: u8 },
    #[error("{why}")]
    NotAllowed { why: String },
    #[error("there is no message {0} that you could answer")]
    NoSuchMessage(MessageRef),
    #[error("need {0} is not open any more")]
    AlreadyAnswered(NeedId),
    #[error("there is no thread {0}")]
    NoSuchThread(ThreadId),
    #[error("thread {0} is neither yours, nor your family's, nor your recipient's")]
    ForeignThread(ThreadId),
    #[error(transparent)]
    Store(#[from] StoreError),
}
