//! The owner of one worker: `posthaste keep`.
//!
//! The keeper starts the worker in its own process group, copies the worker's output to
//! bounded files, ends the worker on request or when its time is up, and then ends every
//! process that the worker left behind. Then it records how the worker ended, and ends
//! itself. It receives signals and writes files (`folder.rs`), so it does not depend on
//! the hub. A worker that the hub holds a conversation with has a socket beside its files
//! as well (`session.rs`): the hub, or the next one, reads the worker's output and writes
//! its input through it.
//!
//! A command that the hub runs for an assistant has a smaller keeper (`tree.rs`), which
//! ends with the hub.
//!
//! On Linux every orphaned descendant of the worker becomes a child of the keeper, also
//! one that left the process group. Elsewhere the keeper knows the group only.

mod bounded;
mod clear;
mod feed;
mod pipe;
mod session;
mod terminal;
mod tied;
mod tree;
mod ways;
mod words;
mod work;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

pub(crate) use self::bounded::kept_at_once;
pub(crate) use self::tied::TIED;
pub(crate) use self::tree::{TreeEnd, TreeStdin, TreeWords};
pub use self::words::{Keep, Manners, Owner};

/// The command of the binary that becomes a keeper.
pub const COMMAND: &str = "keep";

/// The mark: every process below a keeper has this variable in its environment, so that a
/// hub finds them all after the keeper was killed.
pub(crate) const MARK: &str = "POSTHASTE_RUN";

/// Keeps one worker, from its start to the end of its last descendant.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    let done = match words.split_first() {
        Some((first, tree)) if first == tree::TREE => match tree::keep(tree) {
            Ok(code) => return ExitCode::from(code),
            Err(why) => Err(why),
        },
        Some((first, program)) if first == terminal::FOREGROUND => terminal::become_one(program),
        Some((first, program)) if first == TIED => tied::become_one(program),
        _ => keep(words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // For a person who runs this by hand; a closed stderr changes nothing.
            let _ = writeln!(std::io::stderr(), "error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Becomes a program: returns only if that cannot be run.
#[expect(clippy::disallowed_methods, reason = "this process becomes the program")]
fn become_program(words: &[OsString]) -> Result<(), String> {
    let Some((name, arguments)) = words.split_first() else {
        return Err("this command is for a keeper or a hub, which names a program".to_owned());
    };
    let error = Command::new(name).args(arguments).exec();
    Err(format!("cannot run {}: {error}", name.to_string_lossy()))
}

fn keep(words: Vec<OsString>) -> Result<(), String> {
    Keep::read(words).and_then(|keep| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| format!("no runtime: {e}"))?;
        runtime.block_on(work::work(&keep)).map_err(|e| format!("cannot keep the worker: {e}"))
    })
}
