//! The hub and the limits of its machine, measured in the same rounds.
//!
//! A figure alone says little: machines differ, and a shared one differs from
//! minute to minute. So every measure is a ratio to what the same machine could
//! do at best a second before: an HTTP echo, a flush, a commit.
//!
//! Read in this order: [`cli`] says what can be asked, [`rounds`] in which order
//! it is measured, [`measure`] how (one file each), [`targets`] what the hub must
//! reach, [`compare`] what became better or worse. [`load`], [`http`] and [`mcp`] are the load generator, [`hub`] and [`child`] what
//! it is pointed at, [`peers`] other systems on the same work, [`kill`] the test that ends the hub a thousand times,
//! [`soak`] the one that runs it for hours, [`overload`] the one with too many senders.

use std::process::ExitCode;

use anyhow::bail;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use cli::{Cli, Command};
use settings::Settings;

mod agents;
mod answers;
mod child;
mod cli;
mod compare;
mod echo;
mod http;
mod hub;
mod kill;
mod load;
mod mcp;
mod measure;
mod output;
mod overload;
mod pace;
mod peers;
mod pin;
mod probe;
mod procfs;
mod report;
mod requests;
mod rounds;
mod settings;
mod soak;
mod stats;
mod targets;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(until_interrupted(run(cli))));
    match done {
        Ok(code) => code,
        Err(error) => {
            output::note(&format!("posthaste-bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    if matches!(cli.command, Some(Command::EchoServer)) {
        return echo::serve().await.map(|()| ExitCode::SUCCESS);
    }
    let settings = Settings::new(&cli.options)?;
    pin::this_process(settings.pins.map(|pins| pins.load))?;
    procfs::raise_open_files();
    match cli.command.unwrap_or(Command::All) {
        Command::Kill(_) | Command::Overload | Command::Soak(_) if settings.against.is_some() => {
            bail!("--against is for what is measured in rounds")
        }
        Command::Kill(args) => kill::run(&settings, &args).await,
        Command::Overload => overload::run(&settings).await,
        Command::Soak(args) => soak::run(&settings, &args).await,
        Command::Compare if settings.against.is_none() => {
            bail!("`compare` needs --against and the binary of the other hub")
        }
        command => {
            let sheet = rounds::run(&settings, &command.steps()).await?;
            report::print(&settings, &sheet)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Ctrl-C and `kill` drop the work, and with it every child and every folder.
async fn until_interrupted(
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => return done,
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    output::note("interrupted");
    Ok(ExitCode::from(130))
}
