//! Why a command ended without doing what was asked.
//!
//! There is one table from failures to exit codes, the hub's own; a failure that
//! never met the hub is told in the same words. Some commands did what was asked and still
//! have something to tell a script: no mail came, a gather is not complete, a worker
//! failed. Each of these has an exit code that no error has.

use std::fmt::Display;
use std::path::Path;

use posthaste_api::client::ClientError;
use posthaste_api::{ApiError, ErrorCode};

/// The inbox stayed empty.
const NO_MAIL: u8 = 7;
/// Not everybody has reported yet.
const INCOMPLETE: u8 = 8;
/// Everybody has reported, and a worker has failed.
const WORKER_FAILED: u8 = 9;
/// The exit status of a program that wrote to a closed pipe: 128 + SIGPIPE.
const UNHEARD: u8 = 141;
/// The same of one that was interrupted: 128 + SIGINT.
const INTERRUPTED: u8 = 130;

pub(crate) enum Failure {
    /// To be told on stderr, with its hint.
    Told(ApiError),
    /// It was told already; only the exit status is left.
    Shown(ErrorCode),
    /// No mail came within the time, and that was told.
    NoMail,
    /// The time is up, or something came between, and the work goes on.
    Incomplete,
    /// All is settled and shown, and a worker has failed.
    WorkerFailed,
    /// Nobody reads stdout any more.
    Unheard,
    /// Ctrl-C, and what that means was told.
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

/// The caller asked for something that cannot be.
pub(crate) fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidArgument, message)
}

/// The machine refused: a file, a folder, a socket.
pub(crate) fn machine(what: &str, path: &Path, error: impl Display) -> ApiError {
    ApiError::new(ErrorCode::Internal, format!("cannot {what} {}: {error}", path.display()))
}

/// Something that should not have happened.
pub(crate) fn internal(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::Internal, message)
}

/// Every failure in the form in which the hub tells one.
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
