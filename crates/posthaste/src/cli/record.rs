//! The words of commands that look at what happens and what has happened.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;

use super::values::number;

#[derive(Args)]
pub(crate) struct TailArgs {
    /// Only about these agents: names, addresses, or instances; a name means all who have it
    #[arg(long, value_name = "WHO", value_delimiter = ',')]
    pub(crate) agent: Vec<String>,
    /// Only about these teams
    #[arg(long, value_name = "TEAM", value_delimiter = ',')]
    pub(crate) team: Vec<String>,
    /// Only about this agent and all who work for it; `human` for those started for you
    #[arg(long, value_name = "WHO", value_delimiter = ',')]
    pub(crate) session: Vec<String>,
    /// Only about these conversations
    #[arg(long, value_name = "THREAD", value_delimiter = ',')]
    pub(crate) thread: Vec<String>,
    /// Only these types, or families: delivery.dead, message, instance
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub(crate) kind: Vec<String>,
    /// Begin after this event instead of now; 0 for all that is kept
    #[arg(long, value_name = "NUMBER", value_parser = number::<u64>)]
    pub(crate) after: Option<u64>,
    /// Begin with the last so many events that fit
    #[arg(long, value_name = "NUMBER", conflicts_with = "after", value_parser = number::<u64>)]
    pub(crate) last: Option<u64>,
    /// End after so many events
    #[arg(long, value_name = "NUMBER", value_parser = number::<NonZeroU64>)]
    pub(crate) count: Option<NonZeroU64>,
}

#[derive(Args)]
pub(crate) struct HistoryArgs {
    /// How many of the newest, up to 200
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = number::<u32>)]
    pub(crate) last: u32,
    /// Everything addressed to this team, for its leaders and the operator
    #[arg(long)]
    pub(crate) team: Option<String>,
    /// Of this conversation
    #[arg(long)]
    pub(crate) thread: Option<String>,
    /// In this mailbox, as `posthaste stats` names it: bob, bob@team, an address or instance,
    /// @anyone, @anyone@team, human
    #[arg(long)]
    pub(crate) mailbox: Option<String>,
    /// From this instance, name or address
    #[arg(long, value_name = "WHO")]
    pub(crate) from: Option<String>,
    /// With this label
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// Of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// queued, leased, acked or dead
    #[arg(long)]
    pub(crate) status: Option<String>,
}

#[derive(Args)]
pub(crate) struct TrailArgs {
    /// The message's number or id
    pub(crate) id: String,
}

#[derive(Args)]
pub(crate) struct StatsArgs {
    /// Mail that does not move, why, and what to do about it
    #[arg(long, conflicts_with_all = ["agents", "teams"])]
    pub(crate) stuck: bool,
    /// By agent instead of by mailbox
    #[arg(long, conflicts_with = "teams")]
    pub(crate) agents: bool,
    /// By team instead of by mailbox
    #[arg(long)]
    pub(crate) teams: bool,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Write to this file [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Only messages above this number: goes on where an export broke off, and adds to FILE
    #[arg(long, value_name = "SEQ", value_parser = number::<u64>)]
    pub(crate) after: Option<u64>,
}
