//! The binary `posthaste`: flags, configuration, wiring.
//!
//! Read in this order: [`cli`] is the table of commands, [`commands`] their
//! implementation, [`config`] the settings of an operator, [`wiring`] the choice of
//! backends. This is the only crate that reads the environment, the command line and
//! configuration files.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, CommandFactory};

use cli::{Cli, ColorWord, Command};
use failure::Failure;
use output::Output;

mod arena;
mod cli;
mod clock;
mod command_line;
mod commands;
mod config;
mod failure;
mod identity;
mod keyring;
mod listening;
mod log;
mod output;
mod paint;
mod private;
mod profiles;
mod progress;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod spoken;
mod table;
#[cfg(feature = "otlp")]
mod telemetry;
mod terminal;
mod when;
mod wiring;
mod words;

/// Threads for blocking calls: the store's writer, checkpoint and readers, and some for
/// files. The runtime's default, hundreds, would be as many calls to one disk.
const BLOCKING_THREADS: usize = 8;
/// The time that blocking calls may take when all else has ended.
const LAST_CALLS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let cli = match command_line::read() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    if let Some(Command::Keep(args)) = cli.command {
        // A keeper outlives the hub, and has a small runtime of its own.
        return posthaste_agents::keeper::run(args.words);
    }
    if let Some(Command::Runner) = cli.command {
        return commands::runner::run();
    }
    if matches!(cli.command, None | Some(Command::Up(_))) {
        arena::have_one();
    }
    let mut output = Output::new(cli.global.json, cli.global.color);
    let done = run(cli, &mut output).and_then(|()| output.flush());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Output from before the failure comes first.
            let _ = output.flush();
            if let Failure::Told(error) = &failure {
                output.fail(error);
            }
            ExitCode::from(failure.exit())
        }
    }
}

/// Runs a command on one thread for all sockets: the store has its own, and a message
/// that changes threads on its way costs more than it gains.
fn run(cli: Cli, output: &mut Output) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build();
    let runtime = runtime.map_err(|e| failure::internal(format!("no runtime: {e}")))?;
    let done = runtime.block_on(commands::run(cli, output));
    // A thread that hangs on a disk must not prevent the end.
    runtime.shutdown_timeout(LAST_CALLS);
    done
}

/// Returns the first word that is neither a flag nor the value of one, also if the rest
/// is wrong.
fn command_word(words: impl IntoIterator<Item = OsString>) -> Option<OsString> {
    let cli = Cli::command();
    let valued = cli.get_arguments().filter(|flag| flag.get_action().takes_values());
    let valued: Vec<&str> = valued.filter_map(Arg::get_long).collect();
    let mut words = words.into_iter().skip(1);
    loop {
        let word = words.next()?;
        match word.to_string_lossy().strip_prefix('-') {
            None => return Some(word),
            Some(flag) if valued.iter().any(|long| flag.strip_prefix('-') == Some(long)) => {
                words.next();
            }
            Some(_) => (),
        }
    }
}

/// Reports a result of clap: help is an answer, and everything else is a usage error.
fn usage(error: &clap::Error) -> ExitCode {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !asked && command_word(std::env::args_os()).is_some_and(|word| word == "hook") {
        let _ = error.print();
        // Agent programs take exit code 2 of a hook as an order to stop, and 1 as a mere failure.
        return ExitCode::FAILURE;
    }
    if asked || !std::env::args_os().any(|arg| arg == "--json") {
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    Output::new(true, ColorWord::Never).fail(&command_line::fault(error));
    ExitCode::from(2)
}
