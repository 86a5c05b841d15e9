//! The options of the command line, with every default filled in.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::cli::Options;
use crate::pin::{self, Pins};

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) hub_bin: PathBuf,
    /// Another hub, to compare with.
    pub(crate) against: Option<PathBuf>,
    /// This program, which is its own echo server.
    pub(crate) own_bin: PathBuf,
    pub(crate) rounds: usize,
    pub(crate) seconds: Duration,
    pub(crate) pins: Option<Pins>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) messages: u64,
    pub(crate) waiting: usize,
    pub(crate) pending: usize,
    pub(crate) backlog: usize,
    pub(crate) profiles: usize,
    pub(crate) agents: usize,
    pub(crate) scratch: PathBuf,
    pub(crate) hub_env: Vec<(String, String)>,
    /// How long to wait before a run for others to leave the cores.
    pub(crate) calm: Duration,
}

/// Which of two builds of the hub that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    This,
    Other,
}

impl Settings {
    pub(crate) fn new(options: &Options) -> anyhow::Result<Self> {
        let own_bin = std::env::current_exe().context("this program has no path")?;
        let beside = own_bin.parent().context("this program has no folder")?.to_owned();
        let hub_bin = options.hub_bin.clone().unwrap_or_else(|| beside.join("posthaste"));
        ensure!(
            hub_bin.is_file(),
            "there is no hub at {}: build it with `cargo build --profile dist -p posthaste`, or name it with --hub-bin",
            hub_bin.display()
        );
        if let Some(against) = &options.against {
            ensure!(against.is_file(), "there is no hub at {}", against.display());
        }
        let quick = options.quick;
        let number = |given: Option<usize>, usual, small| {
            given.unwrap_or([usual, small][usize::from(quick)])
        };
        let seconds = options.seconds.unwrap_or(if quick { 0.5 } else { 2.0 });
        let rounds = number(options.rounds, 5, 2);
        ensure!(rounds > 0 && seconds > 0.0, "rounds and seconds are more than nothing");
        let pins = match options.pin {
            Some(false) => None,
            Some(true) => Some(Pins::choose().context("pinning needs Linux and two cores")?),
            None => Pins::choose(),
        };
        Ok(Self {
            hub_bin: std::path::absolute(hub_bin)?,
            against: options.against.as_ref().map(std::path::absolute).transpose()?,
            own_bin,
            rounds,
            seconds: Duration::try_from_secs_f64(seconds).context("seconds")?,
            pins,
            json: options.json.clone(),
            messages: u64::try_from(number(options.messages, 1_000_000, 20_000).max(10_000))?,
            waiting: number(options.waiting, 10_000, 500).max(20),
            pending: number(options.pending, 1_000_000, 20_000),
            backlog: number(options.backlog, 200_000, 16_000),
            profiles: number(options.profiles, 10_000, 500),
            agents: number(options.agents, 1_000, 100).max(1),
            scratch: options.scratch.clone().unwrap_or(beside),
            hub_env: options.hub_env.iter().map(|text| setting(text)).collect::<Result<_, _>>()?,
            calm: Duration::from_secs(options.calm),
        })
    }

    /// Long enough to fill caches and grow buffers, and not counted.
    pub(crate) fn warm_up(&self) -> Duration {
        (self.seconds / 4).min(Duration::from_millis(500))
    }

    /// The cores that are measured on.
    pub(crate) fn cores(&self) -> Vec<usize> {
        self.pins.map_or_else(pin::allowed, |pins| vec![pins.server, pins.load])
    }

    /// The settings for one of the builds; `None` if there is no other.
    pub(crate) fn of(&self, build: Build) -> Option<Self> {
        let hub_bin = match build {
            Build::This => self.hub_bin.clone(),
            Build::Other => self.against.clone()?,
        };
        Some(Self { hub_bin, ..self.clone() })
    }

    /// The same with one more setting of the hub, which the options may overrule.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut with = self.clone();
        with.hub_env.insert(0, (name.to_owned(), value.to_owned()));
        with
    }

    /// A folder that is gone when its owner is.
    pub(crate) fn folder(&self) -> anyhow::Result<tempfile::TempDir> {
        let made = tempfile::Builder::new().prefix("bench-").tempdir_in(&self.scratch);
        made.with_context(|| format!("no scratch folder in {}", self.scratch.display()))
    }
}

fn setting(text: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = text.split_once('=').context("--hub-env takes NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
