//! The reasons why a command ended without doing what was asked.
//!
//! The hub's table maps failures to exit codes; a failure without a call to the hub uses
//! the same codes. Some commands did what was asked and still have a result for a script:
//! no message came, a gather is not complete, a worker failed. Each of these has an exit
//! code that no error has.

use std::fmt::Display;
use std::path::Path;

use posthaste_api::client::ClientError;
use posthaste_api::{ApiError, ErrorCode};

/// The inbox stayed empty.
const NO_MAIL: u8 = 7;
/// Not every worker has reported yet.
const INCOMPLETE: u8 = 8;
/// Every worker has reported, and one has failed.
const WORKER_FAILED: u8 = 9;
/// The exit status of a program that wrote to a closed pipe: 128 + SIGPIPE.
const UNHEARD: u8 = 141;
/// The exit status of an interrupted program: 128 + SIGINT.
const INTERRUPTED: u8 = 130;

pub(crate) enum Failure {
    /// An error to report on stderr, with its hint.
    Told(ApiError),
    /// An error that was reported; only the exit status is left.
    Shown(ErrorCode),
    /// No message came within the time, which was reported.
    NoMail,
    /// The time is up, or an urgent message interrupted the wait, and the work goes on.
    Incomplete,
    /// Every report is shown, and a worker has failed.
    WorkerFailed,
    /// The reader of stdout has gone.
    Unheard,
    /// Ctrl-C, the consequences of which were reported.
    Interrupted,
}

impl Failure {
    pub(crate) fn exit(&self) -> u8 {
        match self {
            Self::Told(error) => error.code.exit(),
            Self::Shown(code) => code.exit(),
            Self::NoMail => NO_MAIL,
            Self::Incomplete => INCOMPLETE,
            Self::WorkerFailed => WORKER_FAILED,
            Self::Unheard => UNHEARD,
            Self::Interrupted => INTERRUPTED,
        }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Told(error)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Told(error.into())
    }
}

/// Makes an error for a request that cannot be met.
pub(crate) fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidArgument, message)
}

/// Makes an error of the machine: a file, a folder, a socket.
pub(crate) fn machine(what: &str, path: &Path, error: impl Display) -> ApiError {
    ApiError::new(ErrorCode::Internal, format!("cannot {what} {}: {error}", path.display()))
}

/// Makes an error for something that should not have happened.
pub(crate) fn internal(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::Internal, message)
}

/// Returns every failure in the form of the hub's errors.
pub(crate) fn told(failure: Failure) -> ApiError {
    match failure {
        Failure::Told(error) => error,
        Failure::Shown(code) => ApiError::new(code, "it failed"),
        Failure::NoMail => ApiError::new(ErrorCode::Internal, "no mail came"),
        Failure::Incomplete => ApiError::new(ErrorCode::Internal, "it is not complete yet"),
        Failure::WorkerFailed => ApiError::new(ErrorCode::Internal, "a worker failed"),
        Failure::Interrupted => ApiError::new(ErrorCode::Internal, "it was interrupted"),
        Failure::Unheard => ApiError::new(ErrorCode::Internal, "nobody reads stdout"),
    }
}
