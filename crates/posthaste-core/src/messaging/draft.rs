//! The sender's draft, before it is a [`Message`].

use std::time::Duration;

use super::body::Body;
use super::message::{
    Kind, Message, MessageId, MessageRef, Principal, Priority, Sender, Seq, ThreadId, Via,
};
use crate::address::{Address, Mailbox};
use crate::ledger::KeyMark;
use crate::limits::Limits;
use crate::needs::NeedId;
use crate::time::Timestamp;

/// A message before it is accepted. A draft that exists is within the limits.
#[derive(Debug, Clone)]
pub struct Draft {
    pub from: Principal,
    pub to: Address,
    pub via: Via,
    body: Body,
    details: Details,
    late: bool,
    /// Number of accepted keys when the store did not know its key.
    key_is_new_since: Option<KeyMark>,
    /// The need that it answers: refused if that is not open any more.
    answers_need: Option<NeedId>,
}

/// The optional parts of a message.
#[derive(Debug, Clone, Default)]
pub struct Details {
    pub priority: Priority,
    pub kind: Kind,
    pub label: Option<String>,
    pub in_reply_to: Option<Seq>,
    /// Number of quick answers in a row, this one included.
    pub hop: u8,
    pub thread: ThreadChoice,
    /// A JSON object, as text.
    pub metadata: Option<String>,
    pub ttl: Option<Duration>,
    pub idempotency_key: Option<String>,
}

/// The facts that decide the thread of a draft. The append decides, with the state then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadChoice {
    /// The thread that the sender names.
    pub named: Option<ThreadId>,
    /// The message that the draft answers.
    pub replied_to: Option<RepliedTo>,
}

/// The facts of the message that a draft answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepliedTo {
    /// A message that the sender may see.
    Seen {
        thread: ThreadId,
        /// The mailbox of that message's sender, if the author of the draft had received
        /// the message: no policy forbids to write there.
        back_to: Option<Mailbox>,
    },
    /// There is no such message that the sender may see. Only a repeat of an accepted
    /// idempotency key passes with it.
    Unseen(MessageRef),
}

impl ThreadChoice {
    /// Makes the choice of a thread that the sender names.
    pub fn named(thread: ThreadId) -> Self {
        Self { named: Some(thread), replied_to: None }
    }

    /// Returns the mailbox of the sender whom the draft answers, if that sender wrote to
    /// the author.
    pub(crate) fn back_to(&self) -> Option<&Mailbox> {
        match &self.replied_to {
            Some(RepliedTo::Seen { back_to, .. }) => back_to.as_ref(),
            Some(RepliedTo::Unseen(_)) | None => None,
        }
    }
}

impl Draft {
    pub fn new(
        from: Principal,
        to: Address,
        body: Body,
        details: Details,
        via: Via,
        limits: &Limits,
    ) -> Result<Self, DraftError> {
        let too_large = |what, limit: usize, key| Err(DraftError::TooLarge { what, limit, key });
        let invalid = |field, why: String| Err(DraftError::Invalid { field, why });
        if body.is_empty() {
            return invalid("message", "it is empty".into());
        }
        if body.len() > limits.body_bytes {
            return too_large("the message", limits.body_bytes, "body_bytes");
        }
        if details.metadata.as_ref().is_some_and(|m| m.len() > limits.metadata_bytes) {
            return too_large("the metadata", limits.metadata_bytes, "metadata_bytes");
        }
        let long = |text: &Option<String>, limit| {
            text.as_ref().is_some_and(|t| t.is_empty() || t.chars().count() > limit)
        };
        if long(&details.label, limits.label_chars) {
            return invalid("label", format!("it has 1 to {} characters", limits.label_chars));
        }
        if long(&details.idempotency_key, limits.key_chars) {
            let why = format!("it has 1 to {} characters", limits.key_chars);
            return invalid("idempotency_key", why);
        }
        if details.ttl.is_some_and(|ttl| ttl.is_zero() || ttl > limits.ttl) {
            return invalid(
                "ttl_s",
                format!("it lies between 1 and {} seconds", limits.ttl.as_secs()),
            );
        }
        Ok(Self {
            from,
            to,
            via,
            body,
            details,
            late: false,
            key_is_new_since: None,
            answers_need: None,
        })
    }

    /// Makes the draft of a message again, as it was before it was accepted.
    pub fn again(message: Message, from: Principal, to: Address, thread: ThreadChoice) -> Self {
        let life = |at: Timestamp| at.since(message.created_at);
        Self {
            from,
            to,
            via: message.via,
            details: Details {
                priority: message.priority,
                kind: message.kind,
                label: message.label,
                in_reply_to: message.in_reply_to,
                hop: message.hop,
                thread,
                metadata: message.metadata,
                ttl: message.expires_at.map(life),
                idempotency_key: message.idempotency_key,
            },
            body: message.body,
            late: false,
            key_is_new_since: None,
            answers_need: None,
        }
    }

    pub fn body(&self) -> &str {
        &self.body
    }

    pub fn details(&self) -> &Details {
        &self.details
    }

    /// Returns whether the draft goes to the sender of the message that it answers, and
    /// to nobody else.
    pub(crate) fn goes_back(&self, mailboxes: &[Mailbox]) -> bool {
        match (mailboxes, self.details.thread.back_to()) {
            ([only], Some(asker)) => only == asker,
            _ => false,
        }
    }

    pub(crate) fn take_thread_choice(&mut self) -> ThreadChoice {
        std::mem::take(&mut self.details.thread)
    }

    /// Makes the draft a report on a task: it answers that task, under its label, unless
    /// its sender said otherwise.
    pub(crate) fn reports_on(&mut self, task: Seq, label: Option<&str>) {
        self.details.in_reply_to.get_or_insert(task);
        if self.details.label.is_none() {
            self.details.label = label.map(str::to_owned);
        }
    }

    /// Makes the draft an assignment: its key differs from that of a message to the same
    /// name.
    pub(crate) fn assigns(&mut self) {
        if let Some(key) = &mut self.details.idempotency_key {
            key.insert_str(0, "assign ");
        }
    }

    /// Makes the draft a plain text: its sender does not direct the recipient.
    pub(crate) fn asks(&mut self) {
        self.details.kind = Kind::default();
    }

    /// Notes that the store does not know the draft's idempotency key.
    pub(crate) fn with_new_key(mut self, since: KeyMark) -> Self {
        self.key_is_new_since = Some(since);
        self
    }

    /// Makes the draft an answer that is refused unless this need is still open.
    pub(crate) fn answering(mut self, need: Option<NeedId>) -> Self {
        self.answers_need = need;
        self
    }

    pub(crate) fn answers_need(&self) -> Option<NeedId> {
        self.answers_need
    }

    pub(crate) fn key_is_new_since(&self) -> Option<KeyMark> {
        self.key_is_new_since
    }

    /// Marks the draft as a report on a settled assignment.
    pub(crate) fn comes_late(&mut self) {
        self.late = true;
    }

    /// Turns the draft into a message, with a number, an id and a time.
    pub(crate) fn accept(
        self,
        seq: Seq,
        id: MessageId,
        from: Sender,
        thread: ThreadId,
        now: Timestamp,
    ) -> Message {
        // Every field by its name: the compiler finds one that the message does not get.
        let Details {
            priority,
            kind,
            label,
            in_reply_to,
            hop,
            thread: _,
            metadata,
            ttl,
            idempotency_key,
        } = self.details;
        Message {
            thread,
            late: self.late,
            kind,
            priority,
            label,
            in_reply_to,
            hop,
            metadata,
            expires_at: ttl.map(|ttl| now + ttl),
            idempotency_key,
            ..Message::new(seq, id, from, self.to.to_string(), self.body, now, self.via)
        }
    }
}

/// The reason why a draft is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    #[error("{what} is larger than {limit} bytes")]
    TooLarge { what: &'static str, limit: usize, key: &'static str },
    #[error("{field}: {why}")]
    Invalid { field: &'static str, why: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_beyond_a_limit_cannot_be_made() {
        let limits = Limits { body_bytes: 4, ttl: Duration::from_secs(9), ..Limits::default() };
        let draft = |body: &str, details| {
            Draft::new(
                Principal::Operator,
                Address::Human,
                body.into(),
                details,
                Via::Rest,
                &limits,
            )
        };
        assert!(draft("four", Details::default()).is_ok());
        assert!(matches!(draft("", Details::default()), Err(DraftError::Invalid { .. })));
        assert!(matches!(draft("five!", Details::default()), Err(DraftError::TooLarge { .. })));
        let ttl = |s| Details { ttl: Some(Duration::from_secs(s)), ..Details::default() };
        assert!(draft("x", ttl(9)).is_ok());
        assert!(draft("x", ttl(10)).is_err());
        assert!(draft("x", ttl(0)).is_err());
        let label = |n: usize| Details { label: Some("é".repeat(n)), ..Details::default() };
        assert!(draft("x", label(200)).is_ok());
        assert!(draft("x", label(201)).is_err());
    }
}
