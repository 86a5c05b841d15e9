//! `posthaste up --detach`: starts a hub in the background.

use std::net::SocketAddr;

use super::greeting::Greeting;
use super::{already_running, wanted};
use crate::cli::{Global, LogFormat, UpArgs};
use crate::commands::start::{self, Start};
use crate::failure::Failure;
use crate::identity::DataFolder;
use crate::output::Output;
use crate::wiring;

pub(super) async fn run(
    args: &UpArgs,
    listen: SocketAddr,
    global: &Global,
    folder: &DataFolder,
    output: &mut Output,
) -> Result<(), Failure> {
    if let Some(own) = folder.running() {
        if let Some(hub) = wanted(&own, listen, args).await? {
            return already_running(&hub, output);
        }
        wiring::must_be_free(folder)?;
    }
    let start = Start {
        folder: folder.clone(),
        config: global.config.clone().filter(|path| !path.as_os_str().is_empty()),
        flags: flags(args),
    };
    let started = start.start()?;
    let log = start.log();
    let place = format!("its log is {}", log.display());
    let hub = start::ready(folder, &place, || started.failure()).await?;
    Greeting { hub: &hub, folder, ephemeral: args.ephemeral, log: Some(&log) }.say(output)
}

/// Returns the same flags for the hub in the background.
fn flags(args: &UpArgs) -> Vec<String> {
    let mut flags = Vec::new();
    let mut with = |flag: &str, value: Option<String>| {
        flags.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
    };
    with("--listen", args.listen.map(|listen| listen.to_string()));
    with("--log", args.log.clone());
    let format = args.log_format.map(|format| match format {
        LogFormat::Human => "human",
        LogFormat::Json => "json",
    });
    with("--log-format", format.map(str::to_owned));
    let switches = [
        (args.any_port, "--any-port"),
        (args.ephemeral, "--ephemeral"),
        (args.allow_remote, "--allow-remote"),
    ];
    for (given, flag) in switches {
        flags.extend(given.then(|| flag.to_owned()));
    }
    flags
}
