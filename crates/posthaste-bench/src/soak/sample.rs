//! One look at the hub from outside.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use super::growth::Allowance;
use super::line::Line;
use super::record::Record;
use crate::hub::Hub;
use crate::procfs;
use crate::requests::get;

const MIB: f64 = 1024.0 * 1024.0;

/// What is sampled, in the order of [`Sample::values`], and how far each may drift.
/// `None` is shown and not judged.
pub(super) const SERIES: [(&str, Option<Allowance>); 8] = [
    ("rss_mib", Some(MEMORY)),
    ("open_files", Some(FILES)),
    ("tasks", Some(TASKS)),
    ("threads", Some(THREADS)),
    ("connections", None),
    ("open_deliveries", Some(DELIVERIES)),
    ("database_mib", Some(DISK)),
    ("folder_files", Some(FOLDER)),
];

/// Resident memory: the allocator keeps what it may need again.
const MEMORY: Allowance = Allowance { share: 0.05, swing: 4.0 };
/// Files may not grow beyond the load's own swing: connections that it has just dropped,
/// second connections of clients that take calls back, workers that run.
const FILES: Allowance = Allowance { share: 0.0, swing: 24.0 };
/// On a busy machine each agent may have a write under way, with a task of its own.
const TASKS: Allowance = Allowance { share: 0.0, swing: super::AGENTS as f64 };
/// The pool for calls that block comes and goes.
const THREADS: Allowance = Allowance { share: 0.0, swing: 8.0 };
/// Mail under way: one message to everyone more or less.
const DELIVERIES: Allowance = Allowance { share: 0.1, swing: 250.0 };
/// Database and log: free pages are used again, not always at once.
const DISK: Allowance = Allowance { share: 0.1, swing: 8.0 };
/// Entries in the data folder, about eight for a worker: those that ended are removed in
/// time, later on a busy machine.
const FOLDER: Allowance = Allowance { share: 0.1, swing: 200.0 };

#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Seconds since the load began.
    pub(super) at: f64,
    pub(super) values: [f64; SERIES.len()],
}

impl Sample {
    pub(super) async fn take(
        at: f64,
        hub: &Hub,
        folder: &Path,
        line: &mut Line,
        record: &Record,
    ) -> anyhow::Result<Self> {
        let request = get("/metrics", &hub.operator);
        let page = line.expect(record, 200, &request).await?.body;
        let page = String::from_utf8(page).context("/metrics is not text")?;
        let (mut database, mut entries) = (0, 0);
        measure(folder, &mut database, &mut entries)?;
        Ok(Self {
            at,
            values: [
                hub.rss()? as f64 / MIB,
                procfs::open_files(hub.pid())? as f64,
                metric(&page, "posthaste_tasks")?,
                procfs::threads(hub.pid())? as f64,
                metric(&page, "posthaste_connections")?,
                metric(&page, "posthaste_open_deliveries")?,
                database as f64 / MIB,
                entries as f64,
            ],
        })
    }

    pub(super) fn json(&self) -> Value {
        let mut told = json!({ "at_s": self.at });
        for ((name, _), value) in SERIES.iter().zip(self.values) {
            told[*name] = value.into();
        }
        told
    }
}

/// A gauge without labels.
fn metric(page: &str, name: &str) -> anyhow::Result<f64> {
    let mut lines = page.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find_map(|(key, value)| (key == name).then(|| value.parse().ok())?);
    found.with_context(|| format!("/metrics does not tell {name}"))
}

/// Bytes of the database and its log, and how much else there is. Workers' files may go
/// while one looks.
fn measure(folder: &Path, database: &mut u64, entries: &mut usize) -> anyhow::Result<()> {
    let Ok(listed) = fs::read_dir(folder) else { return Ok(()) };
    for entry in listed.flatten() {
        *entries += 1;
        let path = entry.path();
        let is_database = entry.file_name().to_string_lossy().starts_with("hub.db");
        match entry.metadata() {
            Ok(data) if data.is_dir() => measure(&path, database, entries)?,
            Ok(data) if is_database => *database += data.len(),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_found_by_its_whole_name() {
        let page = "# TYPE x gauge\nposthaste_tasks_total 9\nposthaste_tasks 7\n";
        assert_eq!(metric(page, "posthaste_tasks").expect("there"), 7.0);
        assert!(metric(page, "posthaste_task").is_err());
    }
}
