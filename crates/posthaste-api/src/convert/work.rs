//! Converts the errors of assign, handoff, stop and launch.

use posthaste_core::orchestration::{AssignError, HandoffError, StopError};
use posthaste_core::ports::LaunchError;
use serde_json::json;

use super::{MEND, nearest_hint};
use crate::error::{ApiError, ErrorCode};

impl From<AssignError> for ApiError {
    fn from(e: AssignError) -> Self {
        let message = e.to_string();
        match e {
            AssignError::NoProfile { nearest, .. } => Self::new(ErrorCode::NotFound, message)
                .hint(nearest_hint(&nearest, "`posthaste profiles` lists who can be assigned"))
                .details(json!({ "nearest": nearest })),
            AssignError::BrokenProfile { fault, .. } => Self::new(ErrorCode::NotFound, message)
                .hint(MEND)
                .details(json!({ "file": fault.file })),
            AssignError::NobodyHere { name } => Self::new(ErrorCode::Conflict, message).hint(format!(
                "connect or start it, then assign again; or choose a profile that the hub can start (`posthaste profiles`). Mail to {name} waits until somebody comes"
            )),
            AssignError::NoTimeout { .. } => Self::new(ErrorCode::InvalidArgument, message)
                .hint("leave the timeout out, or choose a profile that the hub can start"),
            AssignError::NeedsTask { .. } => Self::new(ErrorCode::InvalidArgument, message)
                .hint("give it a task with the call that makes it"),
            AssignError::HearsNothing { .. } => Self::new(ErrorCode::Conflict, message)
                .hint("start another one; a profile with `stdin: mail` makes agents that stay"),
            AssignError::Launch(e) => e.into(),
            AssignError::LineFull { limit } => Self::new(ErrorCode::LineFull, message)
                .hint("wait for reports (check the inbox) before you assign more, or raise agents.line")
                .details(json!({ "limit": limit, "key": "agents.line" })),
            AssignError::TooDeep { limit } => Self::new(ErrorCode::CannotStart, message)
                .hint("do this part yourself, or raise agents.depth")
                .details(json!({ "limit": limit, "key": "agents.depth" })),
            AssignError::Draft(e) => e.into(),
            AssignError::Send(e) => e.into(),
            AssignError::Registry(e) => e.into(),
            AssignError::Store(e) => e.into(),
        }
    }
}

impl From<HandoffError> for ApiError {
    fn from(e: HandoffError) -> Self {
        let message = e.to_string();
        match e {
            HandoffError::Refused { error, .. } => (*error).into(),
            HandoffError::ReportPruned(_) => Self::new(ErrorCode::NotFound, message),
            HandoffError::Store(e) => e.into(),
        }
    }
}

impl From<LaunchError> for ApiError {
    fn from(e: LaunchError) -> Self {
        let error = Self::new(ErrorCode::CannotStart, e.why);
        match e.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

impl From<StopError> for ApiError {
    fn from(e: StopError) -> Self {
        let message = e.to_string();
        match e {
            StopError::NotAllowed => Self::new(ErrorCode::Forbidden, message)
                .hint("ask whoever gave it the work, or the human"),
            StopError::Registry(e) => e.into(),
        }
    }
}
