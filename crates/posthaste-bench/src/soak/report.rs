//! The verdict, for people as a table and for programs as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::growth::{self, Growth};
use super::record::Counts;
use super::sample::{SERIES, Sample};
use crate::cli::SoakArgs;
use crate::output;
use crate::settings::Settings;
use crate::stats;

/// Lines of the table: a few minutes each in a run of hours.
const WINDOWS: usize = 24;

pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) agents: usize,
    /// Seconds that are not judged.
    pub(super) warm_up: f64,
    pub(super) seconds: f64,
    pub(super) samples: Vec<Sample>,
    pub(super) counts: Counts,
    /// Seconds of CPU that the hub used.
    pub(super) cpu: f64,
    /// Accepted and never seen; given out and never reported.
    pub(super) missing: (usize, usize),
    /// Orders that were still open when the load ended: the machine was too slow.
    pub(super) behind: usize,
    pub(super) clean: bool,
}

impl Report {
    /// What must be 0.
    fn musts(&self) -> [(&'static str, u64); 5] {
        [
            ("accepted and lost", self.missing.0 as u64),
            ("read twice, unmarked", self.counts.twice_unmarked),
            ("doubled by a repeat", self.counts.doubled),
            ("work without a report", self.missing.1 as u64),
            ("last stop not in order", u64::from(!self.clean)),
        ]
    }

    fn growths(&self) -> Vec<(&'static str, Option<Growth>)> {
        let judged = |(at, (name, allowance)): (usize, &(&'static str, _))| {
            let allowance = Option::clone(allowance)?;
            let after = self.samples.iter().filter(|sample| sample.at >= self.warm_up);
            let values: Vec<f64> = after.map(|sample| sample.values[at]).collect();
            Some((*name, growth::judge(&values, allowance)))
        };
        SERIES.iter().enumerate().filter_map(judged).collect()
    }

    /// Nothing lost, nothing doubled, nothing that grows; too short to tell is not good.
    pub(super) fn is_good(&self) -> bool {
        let flat = |growth: &Option<Growth>| growth.is_some_and(|growth| !growth.grows);
        self.musts().iter().all(|(_, count)| *count == 0)
            && self.growths().iter().all(|(_, growth)| flat(growth))
    }

    pub(super) fn print(&self, settings: &Settings, args: &SoakArgs) -> anyhow::Result<()> {
        output::say(&self.table());
        output::say(&self.text());
        if let Some(path) = &settings.json {
            let text = serde_json::to_string_pretty(&self.json(settings, args))?;
            std::fs::write(path, text)?;
        }
        Ok(())
    }

    fn table(&self) -> String {
        let mut text = format!("{:>8}", "minute");
        for (name, _) in SERIES {
            let _ = write!(text, "  {name:>15}");
        }
        let each = self.samples.len().div_ceil(WINDOWS).max(1);
        for window in self.samples.chunks(each) {
            let minute = window[0].at / 60.0;
            let warm = if window[0].at < self.warm_up { " (warm-up)" } else { "" };
            let _ = write!(text, "\n{minute:>8.1}");
            for at in 0..SERIES.len() {
                let values: Vec<f64> = window.iter().map(|sample| sample.values[at]).collect();
                let _ = write!(text, "  {:>15.1}", stats::median(&values).unwrap_or(0.0));
            }
            text += warm;
        }
        text
    }

    fn text(&self) -> String {
        let counts = &self.counts;
        let per_second = counts.calls as f64 / self.seconds;
        let (share, minutes) = (self.cpu / self.seconds * 100.0, self.seconds / 60.0);
        let mut text = format!(
            "\n{} agents, {minutes:.1} minutes, seed {}: {} calls ({per_second:.0} per second), \
             hub CPU {share:.1} % of a core\n\
             accepted {}, read {}, of these marked {}; repeats recognised {}; work given out {}; \
             guests {}; calls taken back {}, dropped {}; connections broken {}; orders left over {}\n",
            self.agents,
            self.seed,
            counts.calls,
            counts.accepted,
            counts.read,
            counts.marked,
            counts.recognised,
            counts.given_out,
            counts.guests,
            counts.cancelled,
            counts.dropped,
            counts.broken,
            self.behind,
        );
        for (what, count) in self.musts() {
            let verdict = if count == 0 { "ok" } else { "BROKEN" };
            let _ = writeln!(text, "{what:<24} {count:>8}  must 0  {verdict}");
        }
        let _ = writeln!(text, "growth after the first {:.0} s:", self.warm_up);
        for (name, growth) in self.growths() {
            let _ = match growth {
                None => writeln!(text, "{name:<16} too few samples: let it run longer"),
                Some(Growth { first, last, trend, allowed, grows }) => writeln!(
                    text,
                    "{name:<16} {first:>8.1} -> {last:>8.1}  trend {trend:>+7.1}  allowed {allowed:>+6.1}  {}",
                    if grows { "GROWS" } else { "ok" }
                ),
            };
        }
        text + if self.is_good() { "good" } else { "not good" }
    }

    fn json(&self, settings: &Settings, args: &SoakArgs) -> Value {
        let growths = self.growths().into_iter().map(|(name, growth)| {
            let told = growth.map(|growth| {
                json!({
                    "first": growth.first,
                    "last": growth.last,
                    "trend": growth.trend,
                    "allowed": growth.allowed,
                    "grows": growth.grows,
                })
            });
            (name.to_owned(), told.into())
        });
        let growths: serde_json::Map<String, Value> = growths.collect();
        let musts = self.musts().into_iter().map(|(what, count)| (what.to_owned(), count.into()));
        let musts: serde_json::Map<String, Value> = musts.collect();
        let counts = &self.counts;
        json!({
            "good": self.is_good(),
            "musts": musts,
            "growth": growths,
            "warm_up_s": self.warm_up,
            "seconds": self.seconds,
            "hub_cpu_s": self.cpu,
            "seed": self.seed,
            "counts": {
                "calls": counts.calls,
                "accepted": counts.accepted,
                "read": counts.read,
                "marked": counts.marked,
                "recognised": counts.recognised,
                "given_out": counts.given_out,
                "guests": counts.guests,
                "cancelled": counts.cancelled,
                "dropped": counts.dropped,
                "broken": counts.broken,
            },
            "samples": self.samples.iter().map(Sample::json).collect::<Vec<_>>(),
            "settings": {
                "hub": settings.hub_bin,
                "agents": self.agents,
                "minutes": args.minutes,
                "rate": args.rate,
                "pins": settings.pins.map(|pins| json!({"server": pins.server, "load": pins.load})),
                "hub_env": settings.hub_env,
            },
        })
    }
}
