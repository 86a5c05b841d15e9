//! The owner of one worker: `posthaste keep`.
//!
//! It starts the worker in a process group of its own, copies what it writes to files
//! with a bound, ends it when it is asked to or when its time is up, and afterwards
//! ends whatever the worker left behind. Then it notes how the worker ended, and ends
//! itself. It talks to nobody: signals come in, files go out (`folder.rs`), so
//! it does not care whether the hub lives.
//!
//! On Linux everything that the worker starts becomes the keeper's child when it is
//! orphaned, also what left the process group. Elsewhere the group is all there is.

mod bounded;
mod clear;
mod feed;
mod pipe;
mod words;
mod work;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

pub(crate) use self::bounded::kept_at_once;
pub use self::words::{Keep, Manners, Owner};

/// The command of the binary that becomes a keeper.
pub const COMMAND: &str = "keep";

/// Every process below a keeper has this in its environment, so that a hub finds
/// them all when the keeper was killed.
pub(crate) const MARK: &str = "POSTHASTE_RUN";

/// Keeps one worker, from its start to its last descendant's end.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = Keep::read(words).and_then(|keep| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| format!("no runtime: {e}"))?;
        runtime.block_on(work::work(&keep)).map_err(|e| format!("cannot keep the worker: {e}"))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // For whoever tries it by hand; a closed stderr changes nothing.
            let _ = writeln!(std::io::stderr(), "error: {why}");
            ExitCode::FAILURE
        }
    }
}
