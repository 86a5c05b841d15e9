//! Errors of calls, and advice for the caller.

use crate::error::{ApiError, ErrorCode};

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The hub said no, and why.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Nobody listens there: the request never left.
    #[error("no hub answers at {url}")]
    Unreachable { url: String, source: reqwest::Error },
    /// The request left and no answer came: what it asked for may have happened.
    #[error("the connection to the hub at {url} ended before its answer came")]
    Interrupted { url: String, changes: bool, source: reqwest::Error },
    /// The same, because the time for it was up.
    #[error("the hub at {url} does not answer")]
    Silent { url: String, changes: bool, source: reqwest::Error },
    /// Somebody answered who does not speak like a hub.
    #[error("{url} answered {status}, but not like a hub: {why}")]
    NotAHub { url: String, status: u16, why: String },
    #[error("`{text}` is not the address of a hub: {why}")]
    BadUrl { text: String, why: String },
}

impl ClientError {
    /// Returns the exit status of the command line, from the table of [`ErrorCode`].
    pub fn exit(&self) -> u8 {
        self.code().exit()
    }

    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Api(error) => error.code,
            Self::BadUrl { .. } => ErrorCode::InvalidArgument,
            Self::Unreachable { .. }
            | Self::Interrupted { .. }
            | Self::Silent { .. }
            | Self::NotAHub { .. } => ErrorCode::Unavailable,
        }
    }

    /// Returns advice for people.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Api(error) => error.hint.as_deref(),
            Self::Unreachable { .. } => Some("start one with `posthaste up --detach`"),
            Self::Interrupted { changes: true, .. } | Self::Silent { changes: true, .. } => {
                Some("it may have been done all the same: look before you repeat it")
            }
            Self::Interrupted { .. } => Some("try again"),
            Self::Silent { .. } => Some("`posthaste doctor` looks at the hub; then try again"),
            Self::NotAHub { .. } => Some("is this the right address and port?"),
            Self::BadUrl { .. } => Some("write it like http://127.0.0.1:9889"),
        }
    }

    /// Returns whether a later attempt may succeed without any change.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Api(error) => error.code == ErrorCode::Unavailable,
            Self::Unreachable { .. } | Self::Interrupted { .. } | Self::Silent { .. } => true,
            Self::NotAHub { .. } | Self::BadUrl { .. } => false,
        }
    }
}

/// Turns every failure into the form of the hub's own errors.
impl From<ClientError> for ApiError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Api(error) => error,
            other => {
                let told = Self::new(other.code(), other.to_string());
                match other.hint() {
                    Some(hint) => told.hint(hint),
                    None => told,
                }
            }
        }
    }
}
