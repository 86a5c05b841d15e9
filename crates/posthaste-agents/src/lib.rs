//! Running agents: processes, from spawn to reap.
//!
//! The hub starts no worker itself. It starts a [`keeper`] for each, which owns the
//! worker and everything that the worker starts, outlives a hub that was killed, and
//! leaves a note how it ended. A worker's folder (`folder.rs`) is all that the two have
//! in common. [`Supervisor`] is the hub's side: one task per worker.
//!
//! How an agent of a profile is run is a driver's business (`drivers.rs`), one file
//! each.

mod drivers;
mod environment;
mod folder;
#[cfg(test)]
mod fuzz;
mod git;
pub mod keeper;
mod letters;
mod process;
mod program;
mod settings;
mod supervisor;
mod user;
mod worktree;

pub use self::drivers::check_profile;
pub use self::environment::VARIABLES;
pub use self::supervisor::{CLIPPED, NOT_WHOLE, Supervisor, SupervisorConfig};
pub use self::user::WorkerUser;
