//! Converts types of the core to wire types.

mod chat;
mod needs;
mod reading;
mod work;

use posthaste_core::NotReady;
use posthaste_core::address::{AddressError, Asked};
use posthaste_core::messaging::message as core;
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::{ActError, DeliveryRecord, RecordState, StoreError};
use posthaste_core::registry::RegistryError;
use serde_json::json;

use crate::error::{ApiError, ErrorCode};
use crate::messages::{DeliveryView, MessageRef, MessageView, Part, Receipt, Recipient};

/// The hint for a file that is no valid profile.
const MEND: &str = "mend that file: the hub notices by itself";

impl From<AddressError> for ApiError {
    fn from(e: AddressError) -> Self {
        let error = Self::new(ErrorCode::InvalidAddress, e.to_string())
            .details(json!({"address": e.text, "position": e.at, "suggestion": e.suggestion}));
        match (&e.suggestion, e.asked) {
            (Some(meant), _) => error.hint(format!("did you mean `{meant}`?")),
            (None, Asked::Address) => error.hint(ErrorCode::InvalidAddress.advice()),
            (None, Asked::Name) => error.hint("a name looks like `alice` or `code-reviewer2`"),
            (None, Asked::Instance) => error.hint("`posthaste agents` lists who is here"),
            (None, Asked::Mailbox) => error.hint("GET /v1/stats/mailboxes lists them"),
        }
    }
}

impl From<NotReady> for ApiError {
    fn from(e: NotReady) -> Self {
        let hint = match &e {
            NotReady::Damaged(error) | NotReady::Misplaced(error) => return error.clone().into(),
            NotReady::Reading => "mail is accepted already and is read in a moment",
            NotReady::Disk(_) => "make room on its disk; `posthaste doctor` says more",
            NotReady::Stopping => "start it again with `posthaste up`",
        };
        Self::new(ErrorCode::Unavailable, e.to_string()).hint(hint)
    }
}

impl From<core::DraftError> for ApiError {
    fn from(e: core::DraftError) -> Self {
        let message = e.to_string();
        match e {
            core::DraftError::TooLarge { limit, key, .. } => {
                Self::new(ErrorCode::TooLarge, message)
                    .hint(format!("send less, or raise limits.{key} (now {limit} bytes)"))
                    .details(json!({"limit": limit, "key": format!("limits.{key}")}))
            }
            core::DraftError::Invalid { field, .. } => {
                Self::new(ErrorCode::InvalidArgument, message).details(json!({"field": field}))
            }
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(e: StoreError) -> Self {
        let hint = match &e {
            StoreError::Busy { .. } => {
                "nothing was changed: wait for retry_after_s seconds, then send it again; the \
                 limit is store.waiting"
            }
            StoreError::Unavailable(_) => {
                "nothing was changed; check the disk of the data folder, then try again"
            }
            StoreError::Unknown(_) => {
                "check the disk of the data folder, then try again: with the same \
                 idempotency_key a message is sent once, anything else look at first"
            }
            StoreError::Damaged { hint, .. } | StoreError::Misplaced { hint, .. } => hint,
            StoreError::Closed => "try again when it is back",
        };
        let told = Self::new(ErrorCode::Unavailable, e.to_string()).hint(hint);
        match e {
            StoreError::Busy { .. } => {
                told.details(json!({ "retry_after_s": 1, "key": "store.waiting" }))
            }
            _ => told,
        }
    }
}

impl From<SendError> for ApiError {
    fn from(e: SendError) -> Self {
        let message = e.to_string();
        match e {
            SendError::Address(e) => e.into(),
            SendError::Draft(e) => e.into(),
            SendError::Store(e) => e.into(),
            SendError::NoRecipient { nearest, .. } => Self::new(ErrorCode::NoRecipient, message)
                .hint(nearest_hint(&nearest, "`posthaste agents` lists who is here"))
                .details(json!({ "nearest": nearest })),
            SendError::BrokenProfile { fault, .. } => Self::new(ErrorCode::NoRecipient, message)
                .hint(MEND)
                .details(json!({ "nearest": [], "file": fault.file })),
            SendError::RecipientGone { .. } => Self::new(ErrorCode::RecipientGone, message)
                .hint("write to its name instead: the next instance of it will read that"),
            SendError::SelfSend => {
                Self::new(ErrorCode::InvalidArgument, message).hint("choose another recipient")
            }
            SendError::SenderGone => {
                Self::new(ErrorCode::Unauthorized, message).hint("join again for a new token")
            }
            SendError::MailboxFull { messages, bytes, .. } => {
                Self::new(ErrorCode::MailboxFull, message)
                    .hint("wait until its reader has caught up; results and answers always fit")
                    .details(json!({
                        "limits.mailbox_messages": messages,
                        "limits.mailbox_bytes": bytes,
                    }))
            }
            SendError::KeyReused { seq } => Self::new(ErrorCode::KeyReused, message)
                .hint("use a new key for a new message")
                .details(json!({ "seq": seq.0 })),
            SendError::TooOften { retry_after, key } => {
                let seconds = retry_after.as_secs_f64();
                Self::new(ErrorCode::RateLimited, message)
                    .hint(format!("send less often, or raise {key}"))
                    .details(
                        json!({ "retry_after_s": (seconds * 1000.0).ceil() / 1000.0, "key": key }),
                    )
            }
            SendError::HopLimit { limit } => Self::new(ErrorCode::HopLimit, message)
                .hint("let the human decide, or wait a minute before you answer")
                .details(json!({ "limit": limit, "key": "limits.hops" })),
            SendError::NotAllowed { .. } => Self::new(ErrorCode::Forbidden, message)
                .hint("answering is always allowed, and so is writing to `human`"),
            SendError::NoSuchMessage(_) => Self::new(ErrorCode::NotFound, message)
                .hint("give the id of a message that you sent or received"),
            SendError::AlreadyAnswered(_) => Self::new(ErrorCode::AlreadyAnswered, message),
            SendError::NoSuchThread(_) => Self::new(ErrorCode::NotFound, message)
                .hint("leave it out, or take the thread_id of an agent from GET /v1/instances"),
            SendError::ForeignThread(_) => Self::new(ErrorCode::Forbidden, message).hint(
                "leave it out to write in your own thread, or name the recipient's; an answer \
                 (in_reply_to) stays in the thread of what it answers",
            ),
        }
    }
}

impl From<RegistryError> for ApiError {
    fn from(e: RegistryError) -> Self {
        let message = e.to_string();
        match e {
            RegistryError::Invalid { field, .. } => {
                Self::new(ErrorCode::InvalidArgument, message).details(json!({ "field": field }))
            }
            RegistryError::NotFound { what, nearest, .. } => {
                let otherwise = match what {
                    "profile" => "`posthaste profiles` lists them",
                    _ => "`posthaste agents` lists who is here",
                };
                Self::new(ErrorCode::NotFound, message).hint(nearest_hint(&nearest, otherwise))
            }
            RegistryError::Ended(_) => Self::new(ErrorCode::Conflict, message),
            RegistryError::Taken(_) => Self::new(ErrorCode::IdentityTaken, message),
            RegistryError::Exists(_) => Self::new(ErrorCode::Conflict, message)
                .hint("PUT /v1/profiles/{name} replaces a profile that is not in a file"),
            RegistryError::Stale { current, .. } => Self::new(ErrorCode::Conflict, message)
                .hint("read it again, and write with the version that you read")
                .details(json!({ "version": current })),
            RegistryError::InFile { file, .. } => Self::new(ErrorCode::Conflict, message)
                .hint(format!("change or remove {file}; the hub notices by itself"))
                .details(json!({ "file": file })),
            RegistryError::InUse { active, .. } => Self::new(ErrorCode::Conflict, message)
                .hint("end them first: `posthaste agents` lists them")
                .details(json!({ "active": active })),
            RegistryError::Unavailable(_) => Self::new(ErrorCode::Unavailable, message)
                .hint("check the disk of the data folder, then try again"),
        }
    }
}

impl From<ActError> for ApiError {
    fn from(e: ActError) -> Self {
        let message = e.to_string();
        match e {
            ActError::NotFound => Self::new(ErrorCode::NotFound, message).hint(
                "check the number; only its sender and the operator can cancel or requeue it, and \
                 what was settled long ago is forgotten",
            ),
            ActError::Refused(_) | ActError::Conflict(_) => Self::new(ErrorCode::Conflict, message),
            ActError::Store(e) => e.into(),
        }
    }
}

fn nearest_hint(nearest: &[String], otherwise: &str) -> String {
    if nearest.is_empty() {
        otherwise.to_owned()
    } else {
        format!("did you mean {}?", nearest.join(" or "))
    }
}

impl TryFrom<&MessageRef> for core::MessageRef {
    type Error = ApiError;

    fn try_from(wire: &MessageRef) -> Result<Self, ApiError> {
        let parsed = match wire {
            MessageRef::Seq(n) => n.to_string().parse(),
            MessageRef::Text(text) => text.parse(),
        };
        parsed.map_err(ApiError::from)
    }
}

impl From<core::Receipt> for Receipt {
    fn from(r: core::Receipt) -> Self {
        let recipients = r.recipients.into_iter().map(|to| Recipient {
            mailbox: to.mailbox.text(),
            active: to.active,
            waiting: to.waiting,
        });
        Self {
            seq: r.seq.0,
            id: r.id.text(),
            thread_id: r.thread.text(),
            recipients: recipients.collect(),
            duplicate: r.duplicate,
            durable: r.durable,
            skipped: r.skipped.iter().map(ToString::to_string).collect(),
        }
    }
}

impl MessageView {
    /// Keeps only the characters from `offset` on, at most `most` of them.
    pub fn part(mut self, offset: usize, most: usize) -> Self {
        let total_chars = self.message.chars().count();
        let end = offset.saturating_add(most);
        self.message = self.message.chars().skip(offset).take(most).collect();
        let next_offset = (end < total_chars).then_some(end);
        self.part = Some(Part { offset, total_chars, next_offset });
        self
    }
}

impl From<&DeliveryRecord> for DeliveryView {
    fn from(d: &DeliveryRecord) -> Self {
        let (proof, reason, maybe_seen) = match d.state {
            RecordState::Queued | RecordState::Leased => (None, None, false),
            RecordState::Acked(proof) => (Some(proof.as_str().to_owned()), None, false),
            RecordState::Dead { reason, maybe_seen } => {
                (None, Some(reason.as_str().to_owned()), maybe_seen)
            }
        };
        Self {
            mailbox: d.mailbox.to_string(),
            state: d.state.as_str().to_owned(),
            by: d.by.map(|p| p.to_string()),
            proof,
            reason,
            maybe_seen,
            redelivered: d.marked,
            leased_at: d.leased_at.map(|t| t.to_string()),
            settled_at: d.settled_at.map(|t| t.to_string()),
        }
    }
}
