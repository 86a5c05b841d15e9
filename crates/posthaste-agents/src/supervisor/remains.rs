//! What a keeper that was killed could not end.

use std::time::Duration;

use rustix::process::{Signal, kill_process_group};
use tokio::time::sleep;

use crate::folder::Started;
use crate::keeper::MARK;
use crate::process;

/// Looks, until nobody is left. A process that forks faster than this is not met.
const ROUNDS: usize = 100;
const LOOK: Duration = Duration::from_millis(20);

/// Ends the worker's group, if its number still is its own, and everybody who carries
/// its mark.
pub(super) async fn end(started: Option<Started>) {
    let Some(Started { run, worker, worker_began, .. }) = started else { return };
    for _ in 0..ROUNDS {
        let run = run.clone();
        let look = move || {
            let group = worker.and_then(|pid| process::same(pid, worker_began));
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let left = process::marked(MARK, &run);
            left.iter().for_each(|pid| process::signal(*pid, Signal::KILL));
            left.is_empty()
        };
        if tokio::task::spawn_blocking(look).await.unwrap_or(true) {
            return;
        }
        sleep(LOOK).await;
    }
    tracing::warn!(%run, "processes of a worker whose keeper was killed do not end");
}
