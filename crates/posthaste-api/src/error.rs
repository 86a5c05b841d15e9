//! One table from failures to answers: code, HTTP status, exit status.
//!
//! Clients may depend on the code. Message and hint are for people. A code once shipped is
//! never reused for another meaning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What went wrong, in one word that programs may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// Broken JSON, broken UTF-8, a request that cannot be read at all.
    BadRequest,
    /// No token, or one that the hub does not know.
    Unauthorized,
    /// The caller is known and may not do this.
    Forbidden,
    /// The address names nobody.
    NoRecipient,
    /// No such message, instance, team or route.
    NotFound,
    MethodNotAllowed,
    /// The client was too slow to send its request.
    RequestTimeout,
    /// The lease is held by another reader now.
    LeaseLost,
    /// The same idempotency key came with another message.
    KeyReused,
    /// Somebody else is here with this join key.
    IdentityTaken,
    /// What waited for the operator was answered or withdrawn already.
    AlreadyAnswered,
    /// The thing is in a state that does not allow this.
    Conflict,
    /// The recipient has ended.
    RecipientGone,
    TooLarge,
    /// The address does not follow the grammar.
    InvalidAddress,
    /// A field is missing, unknown or out of range.
    InvalidArgument,
    MailboxFull,
    RateLimited,
    /// Two agents answer each other without end.
    HopLimit,
    /// No worker can be started from this profile, here, now.
    CannotStart,
    /// So many workers wait to be started already.
    LineFull,
    /// The worker that a call waited for failed.
    WorkerFailed,
    /// The worker that a call waited for did not answer in time; it goes on.
    WorkerTimeout,
    Internal,
    /// The hub cannot keep mail just now (disk full, shutting down). Try again.
    Unavailable,
}

impl ErrorCode {
    pub const ALL: [Self; 25] = [
        Self::BadRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NoRecipient,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::LeaseLost,
        Self::KeyReused,
        Self::IdentityTaken,
        Self::AlreadyAnswered,
        Self::Conflict,
        Self::RecipientGone,
        Self::TooLarge,
        Self::InvalidAddress,
        Self::InvalidArgument,
        Self::MailboxFull,
        Self::RateLimited,
        Self::HopLimit,
        Self::CannotStart,
        Self::LineFull,
        Self::WorkerFailed,
        Self::WorkerTimeout,
        Self::Internal,
        Self::Unavailable,
    ];

    /// Returns the HTTP status, and the exit status of the command line.
    const fn row(self) -> (u16, u8) {
        match self {
            Self::BadRequest => (400, 2),
            Self::Unauthorized => (401, 6),
            Self::Forbidden => (403, 6),
            Self::NoRecipient => (404, 3),
            Self::NotFound => (404, 3),
            Self::MethodNotAllowed => (405, 2),
            Self::RequestTimeout => (408, 5),
            Self::LeaseLost => (409, 4),
            Self::KeyReused => (409, 4),
            Self::IdentityTaken => (409, 4),
            Self::AlreadyAnswered => (409, 4),
            Self::Conflict => (409, 4),
            Self::RecipientGone => (410, 3),
            Self::TooLarge => (413, 2),
            Self::InvalidAddress => (422, 2),
            Self::InvalidArgument => (422, 2),
            Self::MailboxFull => (429, 4),
            Self::RateLimited => (429, 4),
            Self::HopLimit => (409, 4),
            Self::CannotStart => (422, 4),
            Self::LineFull => (429, 4),
            Self::WorkerFailed => (502, 1),
            Self::WorkerTimeout => (504, 5),
            Self::Internal => (500, 1),
            Self::Unavailable => (503, 5),
        }
    }

    /// Returns the word of this code in an answer.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NoRecipient => "no_recipient",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::LeaseLost => "lease_lost",
            Self::KeyReused => "key_reused",
            Self::IdentityTaken => "identity_taken",
            Self::AlreadyAnswered => "already_answered",
            Self::Conflict => "conflict",
            Self::RecipientGone => "recipient_gone",
            Self::TooLarge => "too_large",
            Self::InvalidAddress => "invalid_address",
            Self::InvalidArgument => "invalid_argument",
            Self::MailboxFull => "mailbox_full",
            Self::RateLimited => "rate_limited",
            Self::HopLimit => "hop_limit",
            Self::CannotStart => "cannot_start",
            Self::LineFull => "line_full",
            Self::WorkerFailed => "worker_failed",
            Self::WorkerTimeout => "worker_timeout",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
        }
    }

    /// Describes the code in one sentence, for the reference.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::BadRequest => "Broken JSON, broken UTF-8, a request that cannot be read at all.",
            Self::Unauthorized => "No token, or one that the hub does not know.",
            Self::Forbidden => "The caller is known and may not do this.",
            Self::NoRecipient => {
                "The address names nobody; the nearest names stand in the details."
            }
            Self::NotFound => "There is no such message, instance, team, profile or route.",
            Self::MethodNotAllowed => "The path takes other methods.",
            Self::RequestTimeout => "The client was too slow to send its request.",
            Self::LeaseLost => "Another reader holds it now.",
            Self::KeyReused => "The same idempotency key came with another message.",
            Self::IdentityTaken => "Somebody else is here with this join key.",
            Self::AlreadyAnswered => "It was answered or withdrawn already.",
            Self::Conflict => "The thing is in a state that does not allow this.",
            Self::RecipientGone => "The recipient has ended.",
            Self::TooLarge => "Larger than a limit, which the details name.",
            Self::InvalidAddress => {
                "The address does not follow the grammar; the details say where."
            }
            Self::InvalidArgument => "A field is missing, unknown or out of range.",
            Self::MailboxFull => "The mailbox takes no more until its reader has caught up.",
            Self::RateLimited => "Too often; the details say how long to wait.",
            Self::HopLimit => "Two agents answer each other without end.",
            Self::CannotStart => {
                "No worker can be started from this profile, here, now; the hint says what to do."
            }
            Self::LineFull => "So many workers wait to be started already; nothing was started.",
            Self::WorkerFailed => "The worker that the call waited for failed (CAO's steps).",
            Self::WorkerTimeout => {
                "The worker that the call waited for did not answer in time, and goes on (CAO's steps)."
            }
            Self::Internal => "A fault of the hub.",
            Self::Unavailable => {
                "The hub cannot keep mail just now; nothing was changed, unless it says that this is not known. Try again."
            }
        }
    }

    /// Returns the hint that is given where no better one is known.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::BadRequest => "send one JSON object in UTF-8; /docs shows what each call takes",
            Self::Unauthorized => "send `Authorization: Bearer TOKEN`",
            Self::Forbidden => "ask one who may: the operator's token opens everything",
            Self::NoRecipient => "`posthaste agents` lists who is here",
            Self::NotFound => "check the name or number; what was settled long ago is forgotten",
            Self::MethodNotAllowed => "the header `Allow` names the methods that it takes",
            Self::RequestTimeout => "send it again, quicker, or raise server.body_timeout",
            Self::LeaseLost => "read again: another reader has it now",
            Self::KeyReused => "give each message a key of its own",
            Self::IdentityTaken => {
                "send the secret that the first join with this key answered with, or join with another key"
            }
            Self::AlreadyAnswered => "`posthaste needs` lists what is open",
            Self::Conflict => {
                "look at it again: it is no longer, or not yet, as this call needs it"
            }
            Self::RecipientGone => "write to its name, or start another",
            Self::TooLarge => "send less, or raise the limit",
            Self::InvalidAddress => {
                "addresses look like mason, mason@team, mason.a3f7b2c1, @anyone, @everyone or human"
            }
            Self::InvalidArgument => "/docs and /openapi.json say what each call takes",
            Self::MailboxFull => "wait until its reader has caught up",
            Self::RateLimited => "wait a little, then try again",
            Self::HopLimit => "let a human write, or wait a minute",
            Self::CannotStart => "`posthaste doctor` says what is missing",
            Self::LineFull => "wait until some of the workers have ended",
            Self::WorkerFailed => "look at its output, and give the work out again",
            Self::WorkerTimeout => "ask for it later, or wait longer",
            Self::Internal => "look into the hub's log under the request id of this answer",
            Self::Unavailable => "try again in a moment",
        }
    }

    pub const fn status(self) -> u16 {
        self.row().0
    }

    pub const fn exit(self) -> u8 {
        self.row().1
    }
}

/// Every error answer: `{"error": {code, message, hint, details?}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ApiError,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error, JsonSchema)]
#[error("{message}")]
pub struct ApiError {
    /// What went wrong, in one word that programs may build on.
    pub code: ErrorCode,
    /// What happened, for people.
    pub message: String,
    /// What to do next, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Facts for programs; which, depends on the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // Boxed: it is rare, and large.
    pub details: Option<Box<serde_json::Value>>,
}

/// A message may quote megabytes of a request, so only so many characters of its beginning
/// and of its end are kept. The end says what was expected, and where.
const MESSAGE_START: usize = 600;
const MESSAGE_END: usize = 300;

fn shortened(mut message: String) -> String {
    let mut places = message.char_indices().map(|(at, _)| at);
    let (cut, kept) = (places.nth(MESSAGE_START), places.nth_back(MESSAGE_END - 1));
    if let (Some(cut), Some(kept)) = (cut, kept) {
        message.replace_range(cut..kept, "…");
    }
    message
}

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: shortened(message.into()), hint: None, details: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_quotes_megabytes_keeps_its_beginning_and_its_end() {
        let told = |message: String| ApiError::new(ErrorCode::InvalidArgument, message).message;
        let long = told(format!("unknown field `{}`, expected `to`", "ü".repeat(1 << 20)));
        assert!(long.starts_with("unknown field `ü") && long.ends_with("ü`, expected `to`"));
        assert_eq!(long.chars().count(), MESSAGE_START + 1 + MESSAGE_END);
        let whole = "x".repeat(MESSAGE_START + MESSAGE_END);
        assert_eq!(told(whole.clone()), whole);
        assert_eq!(told("short".into()), "short");
    }

    #[test]
    fn every_code_has_its_own_word_and_a_sensible_status() {
        let mut words: Vec<String> = ErrorCode::ALL
            .iter()
            .map(|c| serde_json::to_string(c).expect("a code is a word"))
            .collect();
        words.sort();
        words.dedup();
        assert_eq!(words.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            let word = serde_json::to_value(code).expect("a code is a word");
            assert_eq!(word, code.as_str());
            assert!((400..=599).contains(&code.status()), "{code:?}");
            assert!((1..=6).contains(&code.exit()), "{code:?}");
        }
    }
}
