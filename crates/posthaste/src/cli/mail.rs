//! The words of commands about one message, and about teams.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::time;

#[derive(Args)]
#[command(override_usage = "posthaste reply [OPTIONS] <ID> <TEXT>...")]
pub(crate) struct ReplyArgs {
    /// The number or id of the message that is answered
    pub(crate) id: String,
    /// The text: the rest of the line; `-` reads it from stdin, without the newline at its end
    #[arg(required = true, value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// Ahead of other mail, and it ends every wait
    #[arg(long)]
    pub(crate) urgent: bool,
    /// text, result, question, inform … [default: answer to a question, else text]
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// A label that readers can select by
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// Dies unread after this time: 30s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) ttl: Option<Duration>,
    /// The same key is accepted once: sending again is safe
    #[arg(long)]
    pub(crate) key: Option<String>,
}

#[derive(Args)]
pub(crate) struct ReadArgs {
    /// The message's number or id
    pub(crate) id: String,
    /// Only the text, byte for byte, as it also is in a pipe
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Args)]
pub(crate) struct MessagesArgs {
    /// Numbers or ids of messages
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
}

#[derive(Args)]
pub(crate) struct TeamsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TeamsCommand>,
}

#[derive(Subcommand)]
pub(crate) enum TeamsCommand {
    /// Make a team; one also comes to be when somebody joins with --team
    Create {
        name: String,
        /// Who leads it: names or instances; may be given several times
        #[arg(long = "leader", value_name = "WHO", value_delimiter = ',')]
        leaders: Vec<String>,
    },
    /// Show who leads a team, or say who does: they see everything addressed to it
    Leaders {
        team: String,
        /// Exactly these lead from now on: names or instances
        #[arg(value_name = "WHO")]
        leaders: Vec<String>,
        /// Nobody leads from now on
        #[arg(long, conflicts_with = "leaders")]
        none: bool,
    },
    /// Who is in a team
    Members { team: String },
}
