//! The words of commands about what waits for the operator.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct NeedsArgs {
    /// Only this one, whole: the number that the list shows
    #[arg(conflicts_with_all = ["all", "kind"])]
    pub(crate) id: Option<String>,
    /// Also what was answered or withdrawn
    #[arg(long)]
    pub(crate) all: bool,
    /// Only these
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<KindWord>,
    #[command(subcommand)]
    pub(crate) command: Option<NeedsCommand>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindWord {
    Question,
    Permission,
    Failed,
    Dead,
}

impl KindWord {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Permission => "permission",
            Self::Failed => "failed",
            Self::Dead => "dead",
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum NeedsCommand {
    /// Verdicts that are given without asking you: `answer --remember` makes them
    Remembered,
    /// Be asked again about something
    Forget {
        /// The profile whose agents ask
        profile: String,
        /// What was remembered, as `needs remembered` shows it
        subject: String,
    },
}

#[derive(Args)]
#[command(override_usage = "posthaste answer [OPTIONS] <ID> [TEXT]...")]
pub(crate) struct AnswerArgs {
    /// The number that `posthaste needs` shows
    pub(crate) id: String,
    /// The answer in words: the rest of the line; `-` reads it from stdin, without the newline at
    /// its end
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// Yes to a permission; queue dead mail again
    #[arg(long, conflicts_with = "deny")]
    pub(crate) allow: bool,
    /// No to a permission; leave dead mail as it is
    #[arg(long)]
    pub(crate) deny: bool,
    /// Also from now on, without asking, for every agent of the same profile
    #[arg(long)]
    pub(crate) remember: bool,
    /// One of the answers that are offered
    #[arg(long, value_name = "ANSWER")]
    pub(crate) option: Option<String>,
}
