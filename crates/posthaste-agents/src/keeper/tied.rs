//! A program that ends with the hub that started it.
//!
//! The hub's client of tmux needs this: when a hub is killed while a pane writes, tmux 3.3
//! waits for ever for somebody to read the rest, and neither the client nor the server
//! can be ended by tmux's own commands.

use std::ffi::OsString;

use rustix::process::{Pid, getppid};

use super::become_program;

/// The word after `keep` with which a hub starts such a program, before the number of the
/// hub's process and the words of the program.
pub(crate) const TIED: &str = "tied";

/// Becomes a program that the system kills when the hub ends. Outside Linux no system does
/// that, and the program ends as it likes.
pub(super) fn become_one(words: &[OsString]) -> Result<(), String> {
    let for_hubs = || "this command is for a hub, which starts it".to_owned();
    let (hub, program) = words.split_first().ok_or_else(for_hubs)?;
    let hub = hub.to_str().and_then(|hub| Pid::from_raw(hub.parse().ok()?)).ok_or_else(for_hubs)?;
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|e| format!("cannot be tied to the hub: {e}"))?;
    // It may have ended before the system was asked.
    if getppid() != Some(hub) {
        return Err("the hub has ended".to_owned());
    }
    become_program(program)
}
