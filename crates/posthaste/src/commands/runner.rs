//! `posthaste runner`: the built-in assistant, which the hub starts.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

/// Runs one assistant. It reads no configuration and no environment.
pub(crate) fn run() -> ExitCode {
    let told = |text: &str| drop(writeln!(io::stderr(), "posthaste runner: {text}"));
    if io::stdin().is_terminal() {
        told("the hub starts this for profiles with `driver: runner`; try `posthaste up`");
        return ExitCode::from(2);
    }
    match posthaste_runner::run(io::BufReader::new(io::stdin()), io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            told(&error.to_string());
            ExitCode::FAILURE
        }
    }
}
