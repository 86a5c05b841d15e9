//! Ends the processes that a killed keeper could not end.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Signal, kill_process_group};
use tokio::time::sleep;

use crate::environment;
use crate::folder::Started;
use crate::keeper::MARK;
use crate::process::{self, Mark};

/// Number of rounds until the hub gives up: a process may fork faster than it is found.
const ROUNDS: usize = 100;
const LOOK: Duration = Duration::from_millis(20);

/// Kills the worker's group, if its pid is still its own, and every process with the mark
/// of its run. The worker may have removed the note that has both, so every process with
/// the worker's data folder in its environment is killed as well, its keeper among them.
pub(super) async fn end(started: Option<Started>, home: &Path) {
    let mut marks = vec![Mark::new(environment::DATA, &environment::data_of(home))];
    if let Some(started) = &started {
        marks.push(Mark::new(MARK, started.run.as_ref()));
    }
    let worker = started.and_then(|note| Some((note.worker?, note.worker_began)));
    for _ in 0..ROUNDS {
        let marks = marks.clone();
        let look = move || {
            let group = worker.and_then(|(pid, began)| process::same(pid, began));
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let left = process::marked(&marks);
            left.iter().for_each(|pid| process::signal(*pid, Signal::KILL));
            left.is_empty()
        };
        if tokio::task::spawn_blocking(look).await.unwrap_or(true) {
            return;
        }
        sleep(LOOK).await;
    }
    tracing::warn!(home = %home.display(), "processes of a worker whose keeper was killed do not end");
}
