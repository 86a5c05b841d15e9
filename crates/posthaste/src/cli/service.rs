//! The words of `posthaste service`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args)]
pub(crate) struct ServiceArgs {
    #[command(subcommand)]
    pub(crate) command: ServiceCommand,
}

#[derive(Subcommand)]
pub(crate) enum ServiceCommand {
    /// Write the service and let it start with your session; `start` starts it now
    ///
    /// The service runs `posthaste up` with this data folder and this configuration file, and
    /// with your PATH, so that workers find the same programs as you.
    Install {
        /// Show what would be written, and change nothing
        #[arg(long)]
        print: bool,
        /// The program that the service starts [default: this one]
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
    },
    /// Start it now, and wait until the hub takes mail
    Start,
    /// Stop it; it starts again with your next session
    Stop,
    /// Whether it is installed and runs; fails if it does not run
    Status,
    /// Stop it, and remove what `install` wrote; the data folder stays
    Uninstall,
}
