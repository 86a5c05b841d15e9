//! What can be asked on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::rounds::Step;

/// Measures the hub against the limits of its machine.
///
/// Starts the hub itself, built with the profile `dist`, on loopback and in a scratch
/// folder, and ends and removes everything that it started.
#[derive(Parser)]
#[command(name = "posthaste-bench", version)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Args)]
pub(crate) struct Options {
    /// The hub's binary [default: `posthaste` next to this one]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) hub_bin: Option<PathBuf>,
    /// Another hub's binary, measured in the same rounds; prints the ratio of the two
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Rounds; each measures everything once [default: 5]
    #[arg(long, global = true)]
    pub(crate) rounds: Option<usize>,
    /// Length of one run [default: 2]
    #[arg(long, global = true)]
    pub(crate) seconds: Option<f64>,
    /// Two short rounds with small numbers: to see that it works, not how fast
    #[arg(long, global = true)]
    pub(crate) quick: bool,
    /// Server and load on cores of their own [default: true with two cores or more]
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub(crate) pin: Option<bool>,
    /// Writes every figure of every round there, too
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Messages of the sustained run [default: 1000000]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) messages: Option<usize>,
    /// Waiting readers of T9 [default: 10000]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) waiting: Option<usize>,
    /// Pending messages of T11 [default: 1000000]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) pending: Option<usize>,
    /// Messages that T12 reads out [default: 200000]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) backlog: Option<usize>,
    /// Profiles of T14 [default: 10000]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) profiles: Option<usize>,
    /// Connected agents of T16 [default: 1000]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) agents: Option<usize>,
    /// Where scratch folders go; must be on the disk to be measured [default: next to this binary]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Longest wait before a run for others to leave the cores
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) calm: u64,
    /// One more setting of the hub, for example POSTHASTE_STORE__BATCH=256
    #[arg(long, global = true, value_name = "NAME=VALUE")]
    pub(crate) hub_env: Vec<String>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Everything that is measured in rounds (what is done without a command)
    All,
    /// What a refactoring must not make worse: T4, T6, T8, T9, T11, T12, T13; see --against
    Compare,
    /// Only what limits the work: echo, flush, commit
    Limits,
    /// Durable sends per second, and CPU per message
    T4,
    /// T4s, T17: a million messages on one hub; CPU and acks of the second half, memory
    #[command(visible_alias = "t4s")]
    Sustained,
    /// What the parts of T4 cost the server: where to look when it is short
    Parts,
    /// Send to receive at 300 per second
    T6,
    /// Fifty workers send at once, one call holds all; beside RabbitMQ
    T8,
    /// What a worker costs the hub
    Workers,
    /// Memory and wake-up of many waiting readers
    T9,
    /// Sends, and a restart, with a million pending elsewhere
    T11,
    /// Reading a backlog out
    T12,
    /// Sends through MCP beside sends through REST
    T13,
    /// Finding profiles by their words
    T14,
    /// Memory when idle, and start to first answer
    T15,
    /// Memory of one more agent that is connected through MCP
    T16,
    /// R1, R2: kill -9 at random instants under load; counts what was lost
    Kill(KillArgs),
    /// R9: mixed load of 200 agents; fails when memory, files or tasks grow, or mail is lost
    Soak(SoakArgs),
    /// R10: far more senders than the hub can serve; it refuses some and loses nothing
    Overload,
    #[command(hide = true)]
    EchoServer,
}

#[derive(Args)]
pub(crate) struct KillArgs {
    /// How often the hub is killed
    #[arg(long, default_value_t = 20)]
    pub(crate) kills: usize,
    /// The same seed gives the same instants and choices [default: random]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Longest time between a first answer and the next kill, in milliseconds
    #[arg(long, default_value_t = 300, value_name = "MS")]
    pub(crate) longest: u64,
}

#[derive(Args)]
pub(crate) struct SoakArgs {
    /// How long the load lasts
    #[arg(long, default_value_t = 2.0)]
    pub(crate) minutes: f64,
    /// Orders per second beside the readers' own calls
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
    /// The same seed gives the same choices [default: random]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

impl Command {
    /// What each round runs; the limits stand beside what is divided by them.
    pub(crate) fn steps(&self) -> Vec<Step> {
        use Step::{Commit, CommitPaced, Connected, Drain, Echo, EchoPaced, Flush, Gather};
        use Step::{Mcp, Paced, Parts, Pending, Saturate, Search, Start, Sustained, Wait, Workers};
        match self {
            Self::All => vec![
                Flush,
                Commit,
                Echo,
                Saturate,
                Sustained,
                Drain,
                Mcp,
                EchoPaced,
                CommitPaced,
                Paced,
                Gather,
                Workers,
                Search,
                Start,
                Wait,
                Connected,
                Pending,
            ],
            Self::Compare => vec![
                Echo,
                Saturate,
                Drain,
                Mcp,
                EchoPaced,
                CommitPaced,
                Paced,
                Gather,
                Wait,
                Pending,
            ],
            Self::Limits => vec![Flush, Commit, Echo, EchoPaced, CommitPaced],
            Self::T4 => vec![Echo, Saturate],
            Self::Sustained => vec![Echo, Saturate, Sustained],
            Self::Parts => vec![Echo, Parts, Saturate],
            Self::T6 => vec![EchoPaced, CommitPaced, Paced],
            Self::T8 => vec![Gather],
            Self::Workers => vec![Workers],
            Self::T9 => vec![Wait],
            Self::T11 => vec![Pending],
            Self::T12 => vec![Saturate, Drain],
            Self::T13 => vec![Mcp],
            Self::T14 => vec![Search],
            Self::T15 => vec![Start],
            Self::T16 => vec![Connected],
            Self::Kill(_) | Self::Soak(_) | Self::Overload | Self::EchoServer => Vec::new(),
        }
    }
}
