//! The words of commands that give out work.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::{number, time};

/// What is to be done, by whom, and where.
#[derive(Args)]
pub(crate) struct TaskArgs {
    /// The profile of the worker: a name from `posthaste profiles`, or name@team
    pub(crate) agent: String,
    /// The task; `-` reads it from stdin, without the newline at its end
    pub(crate) message: String,
    /// A label that the report carries
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// The worker's team [default: the giver's own]
    #[arg(long)]
    pub(crate) team: Option<String>,
    /// Where it works [default: here; for an agent, where the agent works]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// In a git worktree of its own, made from that folder
    #[arg(long)]
    pub(crate) worktree: bool,
    /// The same key is the same worker: assigning again is safe
    #[arg(long)]
    pub(crate) key: Option<String>,
}

#[derive(Args)]
pub(crate) struct AssignArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    /// How long the worker may run: seconds, or 10m. Then it is ended, and its report says
    /// that it timed out [default: as the profile says]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Args)]
pub(crate) struct HandoffArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    /// How long to wait for the result: seconds, or 10m
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    pub(crate) timeout: Duration,
    /// The result as it is, also on a terminal; a pipe or a file always gets it so
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Args)]
pub(crate) struct PollArgs {
    /// Its name if nobody else has it, its address, or its id of 8 hex digits
    #[arg(value_name = "AGENT")]
    pub(crate) instance: String,
}

#[derive(Args)]
pub(crate) struct StopArgs {
    /// Their names where nobody else has them, their addresses, or their ids of 8 hex digits
    #[arg(required_unless_present = "all", value_name = "AGENT")]
    pub(crate) instances: Vec<String>,
    /// Every worker that was started for you, and all below them
    #[arg(long, conflicts_with = "instances")]
    pub(crate) all: bool,
}

#[derive(Args)]
pub(crate) struct LogsArgs {
    /// Its name if nobody else has it or it was the last to end, its address, or its id of 8 hex digits
    #[arg(value_name = "AGENT")]
    pub(crate) instance: String,
    /// Go on until it ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// What it wrote to stderr instead of stdout
    #[arg(long)]
    pub(crate) stderr: bool,
    /// Only the last lines, or the last entries of its conversation
    #[arg(long, value_name = "N", value_parser = number::<usize>)]
    pub(crate) tail: Option<usize>,
    /// Its bytes as they are, also on a terminal; a pipe or a file always gets them so
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Args)]
pub(crate) struct AttachArgs {
    /// Its name if nobody else has it, its address, or its id of 8 hex digits
    #[arg(value_name = "AGENT")]
    pub(crate) instance: String,
    /// Only look: what is typed does not reach the worker
    #[arg(long, short)]
    pub(crate) read_only: bool,
    /// Begin with the last so many entries of its conversation
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = number::<usize>)]
    pub(crate) tail: usize,
    /// Every line is urgent, as with `!` before it
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) urgent: bool,
}

#[derive(Args)]
pub(crate) struct ChatArgs {
    /// A profile, or the agent's address, or its id of 8 hex digits
    pub(crate) agent: String,
    /// The message; `-` reads it from stdin, as a pipe without a message does
    pub(crate) message: Vec<String>,
    /// Start another agent, also if one of that name is here
    #[arg(long)]
    pub(crate) new: bool,
    /// The team of an agent that is started
    #[arg(long)]
    pub(crate) team: Option<String>,
    /// A label of an agent that is started
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// Where an agent that is started works [default: here]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// How long to wait for the answer to a message: seconds, or 10m
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    pub(crate) timeout: Duration,
    /// Begin a conversation with its last so many messages, 1 to 200
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = number::<u32>)]
    pub(crate) last: u32,
}

#[derive(Args)]
pub(crate) struct WindowArgs {
    /// Only look: the hub holds no conversation with the worker
    #[arg(long)]
    pub(crate) read_only: bool,
}
