//! What the models of assistants have used, ended ones included.
//!
//! The conversation of an assistant says what it has used. A small file beside it says the
//! same, so that a hub that starts anew need not read the conversations of everybody who
//! has ended.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use posthaste_core::address::InstanceId;

use super::Spent;
use crate::folder;

/// The file of an assistant's usage, in the worker's folder.
const USAGE: &str = "usage.json";

pub(crate) struct Usages {
    /// The folder of the folders of workers.
    agents: PathBuf,
    /// `None`: the files have not been read yet.
    known: Mutex<Option<HashMap<InstanceId, Spent>>>,
}

impl Usages {
    pub(crate) fn new(agents: PathBuf) -> Self {
        Self { agents, known: Mutex::new(None) }
    }

    /// Returns what an assistant has spent; `None` for anybody else.
    pub(crate) fn of(&self, who: InstanceId) -> Option<Spent> {
        self.known().get(&who).cloned()
    }

    /// Returns the cost of all assistants for which `counts` holds.
    pub(crate) fn cost(&self, counts: impl Fn(InstanceId) -> bool) -> f64 {
        let all: Vec<(InstanceId, f64)> =
            self.known().iter().map(|(who, spent)| (*who, spent.cost_usd)).collect();
        all.into_iter().filter(|(who, _)| counts(*who)).map(|(_, cost)| cost).sum()
    }

    /// Sets what an assistant has spent, as its conversation says.
    pub(crate) fn set(&self, who: InstanceId, spent: Spent) {
        if self.of(who).as_ref() == Some(&spent) {
            return;
        }
        let file = self.agents.join(who.to_string()).join(USAGE);
        let written = serde_json::to_vec(&spent).map_err(std::io::Error::other);
        if let Err(error) = written.and_then(|text| folder::replace(&file, &text)) {
            // The conversation has it, and is read when the assistant is found again.
            tracing::warn!(%who, %error, "the usage of an assistant cannot be written");
        }
        self.known().insert(who, spent);
    }

    pub(crate) fn forget(&self, who: InstanceId) {
        self.known().remove(&who);
    }

    fn known(&self) -> MappedMutexGuard<'_, HashMap<InstanceId, Spent>> {
        MutexGuard::map(self.known.lock(), |known| {
            known.get_or_insert_with(|| read_all(&self.agents))
        })
    }
}

fn read_all(agents: &Path) -> HashMap<InstanceId, Spent> {
    let entries = std::fs::read_dir(agents).into_iter().flatten().flatten();
    let read = |entry: std::fs::DirEntry| {
        let who = entry.file_name().to_str()?.parse().ok()?;
        Some((who, folder::read(&entry.path().join(USAGE))?))
    };
    entries.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use posthaste_runner::protocol::TokenUsage;

    use super::*;

    fn spent(calls: usize, cost_usd: f64) -> Spent {
        Spent { calls, usage: TokenUsage { input_tokens: 10, output_tokens: 2 }, cost_usd }
    }

    fn id(text: &str) -> InstanceId {
        text.parse().expect("an id")
    }

    #[test]
    fn what_was_spent_is_known_to_the_next_hub_and_forgotten_with_the_folder() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let [one, two, odd] = ["00000001", "00000002", "00000003"].map(id);
        for who in [one, two, odd] {
            std::fs::create_dir(scratch.path().join(who.to_string())).expect("made");
        }
        std::fs::create_dir(scratch.path().join("no instance")).expect("made");
        let usages = Usages::new(scratch.path().to_owned());
        assert_eq!(usages.of(one), None);
        usages.set(one, spent(1, 0.25));
        usages.set(one, spent(2, 0.5));
        usages.set(two, spent(1, 1.0));

        std::fs::write(scratch.path().join(odd.to_string()).join(USAGE), "{").expect("written");
        let next = Usages::new(scratch.path().to_owned());
        assert_eq!((next.of(one), next.of(odd)), (Some(spent(2, 0.5)), None));
        assert!((next.cost(|_| true) - 1.5).abs() < 1e-9);
        assert!((next.cost(|who| who == two) - 1.0).abs() < 1e-9);
        next.forget(two);
        assert!((next.cost(|_| true) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_folder_that_cannot_be_written_loses_no_sum() {
        let usages = Usages::new("/nonexistent".into());
        usages.set(id("00000001"), spent(1, 0.25));
        assert_eq!(usages.of(id("00000001")), Some(spent(1, 0.25)));
    }
}
