//! Runs agents as processes, from spawn to reap.
//!
//! The hub starts no worker itself. It starts a [`keeper`] for each worker. The keeper
//! owns the worker and every process below it, outlives a hub that was killed, and leaves
//! a note of how the worker ended. Hub and keeper share the worker's folder (`folder.rs`)
//! and nothing else. [`Supervisor`] is the hub's side: one task per worker.
//!
//! A driver (`drivers.rs`, one file each) decides by which command an agent of a profile
//! is run.

mod assistant;
mod conversation;
mod drivers;
mod environment;
mod folder;
mod frames;
#[cfg(test)]
mod fuzz;
mod git;
mod installed;
pub mod keeper;
mod letters;
mod models;
mod process;
mod program;
mod runner_config;
mod settings;
mod supervisor;
mod ticket;
mod tmux;
mod tools;
mod transcript;
mod user;
mod worktree;

pub use self::drivers::check_profile;
pub use self::environment::VARIABLES;
pub use self::installed::installed;
pub use self::models::{
    ModelConfig, ModelError, ModelErrorKind, ModelReply, Models, ModelsConfig, Price, Provider,
    Thoughts,
};
pub use self::program::find_program;
pub use self::runner_config::RunnerConfig;
pub use self::supervisor::{CLIPPED, NOT_WHOLE, Supervisor, SupervisorConfig};
pub use self::user::WorkerUser;
