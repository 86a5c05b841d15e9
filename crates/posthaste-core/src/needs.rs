//! Needs: what waits for the operator.
//!
//! A [`Need`] is a durable row. It is opened in the transaction of its cause: a question
//! in the operator's mailbox, the report of a failed worker there, the last refusal of a
//! message, or a permission request of a driver. It is closed once: by the operator's
//! answer, or because nobody waits for the answer any more.
//!
//! ```text
//! question    ◀── append of type `question`       answered by an operator's reply to it
//! failed      ◀── append of `system.agent_failed` seen
//! dead        ◀── the last refusal                requeued | dismissed
//! permission  ◀── Hub::permission                 allowed | denied | timed out
//!                 question, permission            withdrawn with their asker's end
//! ```
//!
//! No message closes a permission: only [`Hub::answer_need`](crate::Hub::answer_need) does.

mod answer;
mod permission;

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

pub use self::answer::{Answer, AnswerError, Answered};
pub use self::permission::{PermissionAsk, Verdict};
use crate::address::{InstanceId, Name};
use crate::messaging::delivery::DeliveryNo;
use crate::messaging::message::Seq;
use crate::time::Timestamp;

/// The number of a need. No number is given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NeedId(pub u64);

impl fmt::Display for NeedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedKind {
    Question,
    Permission,
    Failed,
    Dead,
}

impl NeedKind {
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Question, "question"),
        (Self::Permission, "permission"),
        (Self::Failed, "failed"),
        (Self::Dead, "dead"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }

    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, w)| *w == word).map(|(kind, _)| *kind)
    }

    /// Returns whether the need ends with its asker, who alone waits for the answer.
    pub fn ends_with_asker(self) -> bool {
        matches!(self, Self::Question | Self::Permission)
    }
}

/// The way in which a need was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Answered,
    Seen,
    Requeued,
    Dismissed,
    Allowed,
    Denied,
    /// Nobody answered within `agents.permission_timeout`.
    TimedOut,
    /// The asker took it back or has ended.
    Withdrawn,
}

impl Outcome {
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Answered, "answered"),
        (Self::Seen, "seen"),
        (Self::Requeued, "requeued"),
        (Self::Dismissed, "dismissed"),
        (Self::Allowed, "allowed"),
        (Self::Denied, "denied"),
        (Self::TimedOut, "timed_out"),
        (Self::Withdrawn, "withdrawn"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(outcome, _)| *outcome == self).map_or("", |(_, word)| word)
    }

    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, w)| *w == word).map(|(outcome, _)| *outcome)
    }
}

/// Something that waits for the operator, or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    pub id: NeedId,
    pub kind: NeedKind,
    /// The asker does nothing until it is answered.
    pub blocking: bool,
    pub from: Asker,
    /// At most `limits.need_text_chars` characters.
    pub text: String,
    /// The answers that the asker offers.
    pub options: Vec<String>,
    /// The question, the report or the dead message.
    pub message: Option<Seq>,
    /// The dead delivery.
    pub delivery: Option<DeliveryNo>,
    /// The driver's request, of a permission.
    pub asked: Option<Asked>,
    pub created_at: Timestamp,
    pub closed: Option<Closed>,
}

/// The instance that needs the operator, and its address, which outlives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    pub instance: Option<InstanceId>,
    pub address: Arc<str>,
}

/// The part of a permission request that tells it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The driver's own name of the request, unique within the instance.
    pub request: String,
    /// What would be remembered; `None` if it is too long for that.
    pub subject: Option<String>,
}

/// The end of a need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub at: Timestamp,
    pub outcome: Outcome,
    /// The operator's words, at most `limits.need_text_chars` characters; of a verdict, which
    /// has no words, its idempotency key.
    pub text: Option<String>,
    /// The operator's message that answers the question.
    pub message: Option<Seq>,
}

impl Closed {
    pub fn new(outcome: Outcome, at: Timestamp) -> Self {
        Self { at, outcome, text: None, message: None }
    }
}

/// The part of a need that the ledger decides with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownNeed {
    pub id: NeedId,
    pub kind: NeedKind,
    pub instance: Option<InstanceId>,
    pub message: Option<Seq>,
    pub delivery: Option<DeliveryNo>,
    pub asked: Option<Asked>,
    pub created_at: Timestamp,
    /// `None` while it is open.
    pub outcome: Option<Outcome>,
}

impl Need {
    /// Makes an open need, without anything that a need may lack.
    pub fn new(
        id: NeedId,
        kind: NeedKind,
        from: Asker,
        text: impl Into<String>,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            kind,
            blocking: false,
            from,
            text: text.into(),
            options: Vec::new(),
            message: None,
            delivery: None,
            asked: None,
            created_at,
            closed: None,
        }
    }

    pub fn known(&self) -> KnownNeed {
        KnownNeed {
            id: self.id,
            kind: self.kind,
            instance: self.from.instance,
            message: self.message,
            delivery: self.delivery,
            asked: self.asked.clone(),
            created_at: self.created_at,
            outcome: self.closed.as_ref().map(|closed| closed.outcome),
        }
    }
}

/// A verdict that holds for all instances of a profile, until the operator forgets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    pub profile: Name,
    pub subject: String,
    pub allow: bool,
    pub at: Timestamp,
}

/// The facts of a question that its metadata states; anything else in it is ignored.
#[derive(Debug, Default)]
pub(crate) struct QuestionFacts {
    pub(crate) blocking: bool,
    pub(crate) options: Vec<String>,
}

impl QuestionFacts {
    /// Reads the metadata of a question. A field of another form counts as absent: the
    /// question is asked all the same.
    pub(crate) fn read(metadata: Option<&str>) -> Self {
        #[derive(Deserialize)]
        struct Loose {
            blocking: Option<serde_json::Value>,
            options: Option<serde_json::Value>,
        }
        let Some(loose) = metadata.and_then(|text| serde_json::from_str::<Loose>(text).ok()) else {
            return Self::default();
        };
        let options = loose.options.and_then(|list| serde_json::from_value(list).ok());
        Self {
            blocking: loose.blocking.and_then(|value| value.as_bool()).unwrap_or(false),
            options: options.unwrap_or_default(),
        }
    }
}

/// Keeps the first characters of a text, and says if there were more.
pub(crate) fn clipped(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_of_a_question_is_read_as_far_as_it_has_the_form() {
        let read = |text| {
            let QuestionFacts { blocking, options } = QuestionFacts::read(Some(text));
            (blocking, options)
        };
        assert_eq!(read(r#"{"blocking":true,"options":["a","b"],"x":1}"#), {
            (true, vec!["a".into(), "b".into()])
        });
        assert_eq!(read(r#"{"blocking":"yes","options":["a"]}"#), (false, vec!["a".into()]));
        assert_eq!(read(r#"{"blocking":true,"options":[1]}"#), (true, vec![]));
        assert_eq!(read("no JSON"), (false, vec![]));
        assert!(QuestionFacts::read(None).options.is_empty());
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(clipped("äöü", 3), "äöü");
        assert_eq!(clipped("äöü", 2), "äö…");
    }
}
