//! Assignments: giving out work, and its reports.
//!
//! An assignment is a message with a promise. `assign` makes a worker and its task in one
//! transaction; the task is ordinary mail in the worker's mailbox, and its number names
//! the assignment. The assignment is open until the worker sends a message of type
//! `result` to its giver, or ends: then the hub itself sends the worker's answer as
//! `result`, or `system.agent_failed`. Each assignment has exactly one report that is not
//! `late`, in the same transaction as the end itself.
//!
//! ```text
//! assign ──▶ starting ──(a place is free)──▶ running ──▶ finished | failed | stopped
//!               │ the line                      │                 │
//!               └───────────── stop ────────────┴── the report ◀──┘
//! ```
//!
//! The top of a tree of workers is its session: an external agent, or the human. A
//! limited number of a session's workers run at a time ([`AgentsConfig`]), the rest wait
//! in line; a parent that waits for its children does not count, or they would wait for
//! each other.

mod assign;
mod assignment;
mod assistant;
mod config;
mod context;
mod feeding;
mod handoff;
mod lifecycle;
mod line;
mod stop;
mod turns;
mod waking;

pub use self::assign::{Assign, AssignError, Assigned, OpenWorker};
pub use self::assignment::{Assignment, Report, ReportState};
pub use self::assistant::Utterance;
pub use self::config::{AgentsConfig, AtShutdown};
pub use self::context::Context;
pub use self::handoff::{HandedOff, Handoff, HandoffEnd, HandoffError, Patience, WorkerReport};
pub use self::lifecycle::HUB_STOPPED;
pub(crate) use self::line::Staff;
pub use self::stop::StopError;
pub use self::turns::TurnActivity;

/// Stands for the answer of a model that ended its work without one.
pub const SAID_NOTHING: &str = "(it finished without a word)";
