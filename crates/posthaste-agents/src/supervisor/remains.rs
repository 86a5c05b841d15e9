//! What a keeper that was killed could not end.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Signal, kill_process_group};
use tokio::time::sleep;

use crate::environment;
use crate::folder::Started;
use crate::keeper::MARK;
use crate::process::{self, Mark};

/// Looks, until nobody is left. A process that forks faster than this is not met.
const ROUNDS: usize = 100;
const LOOK: Duration = Duration::from_millis(20);

/// Ends the worker's group, if its number still is its own, and everybody who carries
/// the mark of its run. The worker may have removed the note that tells both, so those
/// whose data folder is the worker's own are ended as well, its keeper among them.
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
