//! Everything once per round, the limits beside what is divided by them.
//!
//! Every other round runs backwards, so that a machine that tires, or wakes up,
//! favours nobody. With `--against` each step runs on both builds of the hub, one after the other,
//! and they too change places from round to round.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::probe::Steady;
use crate::settings::{Build, Settings};
use crate::{measure, output, peers, probe, procfs};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Flush,
    Commit,
    CommitPaced,
    Echo,
    EchoPaced,
    Saturate,
    Sustained,
    Parts,
    Paced,
    Gather,
    Workers,
    Wait,
    Pending,
    Drain,
    Mcp,
    Search,
    Start,
    Connected,
}

impl Step {
    /// Whether everything that it needs is there; the error says how to get it.
    fn possible(self, settings: &Settings) -> anyhow::Result<()> {
        match self {
            Self::Gather if settings.against.is_none() => peers::rabbit::installed(),
            _ => Ok(()),
        }
    }

    /// The builds that it runs on. A limit of the machine has none and counts for both.
    fn builds(self, settings: &Settings) -> &'static [Build] {
        if self.is_limit() || settings.against.is_none() {
            &[Build::This]
        } else {
            &[Build::This, Build::Other]
        }
    }

    fn is_limit(self) -> bool {
        matches!(
            self,
            Self::Flush | Self::Commit | Self::CommitPaced | Self::Echo | Self::EchoPaced
        )
    }
}

/// Figures by name; the names are those of [`crate::targets`].
pub(crate) type Found = Vec<(&'static str, f64)>;

/// The figures of one round, by name.
pub(crate) type Round = BTreeMap<&'static str, f64>;

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    pub(crate) rounds: Vec<Round>,
    /// The same rounds of the other build.
    pub(crate) other: Vec<Round>,
    /// What a reader of the figures must know.
    pub(crate) flags: Vec<String>,
    /// What other systems say about themselves, and how they are set up.
    pub(crate) peers: BTreeSet<String>,
    /// Median flush around each run, in microseconds.
    pub(crate) flushes: Vec<f64>,
    /// Share of the cores that others used during each run.
    pub(crate) others: Vec<f64>,
    pub(crate) load_before: Option<f64>,
}

impl Sheet {
    /// Of many steps, what is not possible here is left out and flagged. One alone is
    /// what was asked for: then it is an error.
    fn possible(&mut self, settings: &Settings, steps: &[Step]) -> anyhow::Result<Vec<Step>> {
        let mut possible = Vec::with_capacity(steps.len());
        for step in steps {
            match step.possible(settings) {
                Ok(()) => possible.push(*step),
                Err(why) if steps.len() == 1 => return Err(why),
                Err(why) => self.flags.push(format!("{step:?} was left out: {why:#}")),
            }
        }
        Ok(possible)
    }

    /// Keeps what was found on one of the builds.
    pub(crate) fn keep(&mut self, round: usize, build: Build, found: Found) {
        match build {
            Build::This => self.rounds[round].extend(found),
            Build::Other => self.other[round].extend(found),
        }
    }

    /// Keeps what a run was up against.
    pub(crate) fn note<T>(&mut self, round: usize, what: &str, steady: &Steady<T>) {
        self.flushes.push(steady.flush_us);
        self.others.push(steady.others);
        if let Some(flag) = steady.flag() {
            self.flags.push(format!("round {}, {what}: {flag}", round + 1));
        }
    }
}

pub(crate) async fn run(settings: &Settings, steps: &[Step]) -> anyhow::Result<Sheet> {
    let mut sheet = Sheet { load_before: procfs::load_average(), ..Sheet::default() };
    sheet.rounds.resize(settings.rounds, Round::new());
    sheet.other.resize(settings.rounds, Round::new());
    let hubs = [Some(&settings.hub_bin), settings.against.as_ref()];
    sheet.flags.extend(hubs.into_iter().flatten().filter_map(|hub| quickly_built(hub)));
    let steps = sheet.possible(settings, steps)?;
    // Filling takes longer than all the rest: done once, its rounds come last.
    let (once, each): (Vec<Step>, Vec<Step>) = steps.iter().partition(|s| **s == Step::Pending);
    let runs =
        each.iter().flat_map(|step| step.builds(settings).iter().map(|build| (*step, *build)));
    let runs: Vec<(Step, Build)> = runs.collect();
    for round in 0..settings.rounds {
        let mut order = runs.clone();
        if round % 2 == 1 {
            order.reverse();
        }
        for (step, build) in order {
            let Some(settings) = &settings.of(build) else { continue };
            let what = match build {
                Build::This => format!("{step:?}"),
                Build::Other => format!("{step:?}, other hub"),
            };
            output::note(&format!("round {} of {}: {what}", round + 1, settings.rounds));
            let peers = &mut sheet.peers;
            let work = async || one(settings, step, peers).await;
            let steady = probe::steady(settings, work).await?;
            sheet.note(round, &what, &steady);
            if step.is_limit() {
                sheet.keep(round, Build::Other, steady.found.clone());
            }
            sheet.keep(round, build, steady.found);
        }
    }
    if !once.is_empty() {
        measure::pending::run(settings, &mut sheet).await?;
    }
    Ok(sheet)
}

/// Flags a hub that Cargo built with another profile than `dist`, by its folder.
fn quickly_built(hub: &Path) -> Option<String> {
    let profile = match hub.parent()?.file_name()?.to_str()? {
        "release" => "release",
        "debug" => "dev",
        _ => return None,
    };
    let hub = hub.display();
    Some(format!("{hub} has the profile `{profile}`: what counts is `cargo build --profile dist`"))
}

async fn one(
    settings: &Settings,
    step: Step,
    peers: &mut BTreeSet<String>,
) -> anyhow::Result<Found> {
    match step {
        Step::Flush => measure::limits::flush(settings),
        Step::Commit => measure::commit::closed(settings).await,
        Step::CommitPaced => measure::commit::paced(settings).await,
        Step::Echo => measure::limits::echo(settings).await,
        Step::EchoPaced => measure::limits::echo_paced(settings).await,
        Step::Saturate => measure::saturate::run(settings).await,
        Step::Sustained => measure::sustained::run(settings).await,
        Step::Parts => measure::parts::run(settings).await,
        Step::Paced => measure::paced::run(settings).await,
        Step::Gather => measure::gather::run(settings, peers).await,
        Step::Workers => measure::workers::run(settings).await,
        Step::Wait => measure::wait::run(settings).await,
        Step::Drain => measure::drain::run(settings).await,
        Step::Mcp => measure::mcp::run(settings).await,
        Step::Search => measure::search::run(settings).await,
        Step::Start => measure::start::run(settings).await,
        Step::Connected => measure::connected::run(settings).await,
        Step::Pending => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_of_another_profile_than_dist_is_flagged() {
        let flag = |hub| quickly_built(Path::new(hub));
        assert!(flag("/x/target/release/posthaste").is_some_and(|flag| flag.contains("`release`")));
        assert!(flag("/x/target/debug/posthaste").is_some_and(|flag| flag.contains("`dev`")));
        assert_eq!(flag("/x/target/dist/posthaste"), None);
        assert_eq!(flag("/usr/local/bin/posthaste"), None);
    }
}
