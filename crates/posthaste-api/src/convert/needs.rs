//! Converts needs of the operator to wire types.

use posthaste_core::needs::{AnswerError, Answered, Need, NeedKind, Remembered};
use serde_json::json;

use crate::error::{ApiError, ErrorCode};
use crate::needs::{AnsweredNeed, NeedView, RememberedView};

impl From<Need> for NeedView {
    fn from(need: Need) -> Self {
        let (answered_at, outcome, answer, answer_message) = match need.closed {
            Some(closed) => (
                Some(closed.at.to_string()),
                Some(closed.outcome.as_str().to_owned()),
                // A verdict has no words: it is the key of the call.
                closed.text.filter(|_| need.kind != NeedKind::Permission),
                closed.message.map(|seq| seq.0),
            ),
            None => (None, None, None, None),
        };
        Self {
            id: need.id.0,
            kind: need.kind.as_str().to_owned(),
            blocking: need.blocking,
            from: need.from.address.to_string(),
            instance: need.from.instance.map(|id| id.to_string()),
            text: need.text,
            options: need.options,
            message: need.message.map(|seq| seq.0),
            subject: need.asked.and_then(|asked| asked.subject),
            created_at: need.created_at.to_string(),
            expires_at: None,
            answered_at,
            outcome,
            answer,
            answer_message,
        }
    }
}

impl From<Answered> for AnsweredNeed {
    fn from(answered: Answered) -> Self {
        Self { need: answered.need.into(), sent: answered.sent.map(Into::into) }
    }
}

impl From<Remembered> for RememberedView {
    fn from(verdict: Remembered) -> Self {
        Self {
            profile: verdict.profile.to_string(),
            subject: verdict.subject,
            allow: verdict.allow,
            at: verdict.at.to_string(),
        }
    }
}

impl NeedView {
    /// Returns the error that there is no need of this number.
    pub fn missing(id: &str) -> ApiError {
        not_found(format!("there is no need {id}"))
    }
}

fn not_found(message: String) -> ApiError {
    ApiError::new(ErrorCode::NotFound, message)
        .hint("`posthaste needs` lists them; what was answered long ago is forgotten")
}

impl From<AnswerError> for ApiError {
    fn from(e: AnswerError) -> Self {
        let message = e.to_string();
        match e {
            AnswerError::NotFound(_) => not_found(message),
            AnswerError::Closed(need) => {
                let outcome = need.closed.map(|closed| closed.outcome.as_str());
                Self::new(ErrorCode::AlreadyAnswered, message)
                    .details(json!({ "outcome": outcome }))
            }
            AnswerError::Invalid { field, .. } => {
                Self::new(ErrorCode::InvalidArgument, message).details(json!({ "field": field }))
            }
            AnswerError::Send(e) => e.into(),
            AnswerError::Requeue(e) => e.into(),
            AnswerError::Store(e) => e.into(),
        }
    }
}
