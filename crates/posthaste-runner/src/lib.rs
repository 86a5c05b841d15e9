//! The built-in assistant: its conversation and its loop.
//!
//! It speaks JSON-RPC on stdio and knows no hub, no key and no network. Start with
//! [`protocol`], the words that it shares with the hub; `docs/reference/runner.md` explains
//! them. Then read `agent.rs`, the loop; `fit.rs` shortens a conversation for one request,
//! and `hub.rs` makes calls and reads what the hub says meanwhile.

use std::io::{BufRead, Write};

mod agent;
mod conversation;
mod error;
pub mod fit;
#[cfg(test)]
mod fuzz;
mod hub;
mod lines;
mod prompt;
pub mod protocol;
mod wire;

pub use error::RunnerError;

/// Runs one assistant until the hub ends it or its work is done.
///
/// A thread reads `input` and outlives this call until `input` ends or brings another line.
pub fn run(input: impl BufRead + Send + 'static, output: impl Write) -> Result<(), RunnerError> {
    let events = lines::events(input).map_err(RunnerError::Input)?;
    match hub::Hub::meet(events, output)? {
        Some((hub, start)) => agent::Agent::new(hub, start).live(),
        None => Ok(()),
    }
}
