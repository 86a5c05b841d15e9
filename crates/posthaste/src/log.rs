//! The hub's log, on stderr.

mod bounded;
mod lasting;
mod quiet;

use std::io::{self, IsTerminal};

use posthaste_api::ApiError;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::LogFormat;
use crate::config::LogConfig;
use crate::failure::{internal, invalid};
use bounded::Bounded;
use lasting::Log;

/// Makes this process log to stderr.
pub(crate) fn to_stderr(config: &LogConfig) -> Result<(), ApiError> {
    let filter = &config.filter;
    let filter = EnvFilter::try_new(filter).map_err(|e| {
        invalid(format!("`{filter}` cannot filter the log: {e}"))
            .hint("for example POSTHASTE_LOG=debug or POSTHASTE_LOG=warn,posthaste=debug")
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Bounded::new(Log::new(io::stderr(), config.format), config))
        // The library would complain on stderr, and panic when stderr cannot be written.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal());
    let ready = match config.format {
        LogFormat::Human => log.finish().with(quiet::layer()).try_init(),
        LogFormat::Json => log.json().finish().with(quiet::layer()).try_init(),
    };
    ready.map_err(|e| internal(format!("no log: {e}")))
}
