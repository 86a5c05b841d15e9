//! Wakes an agent that connects by itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::orchestration::AtShutdown;
use posthaste_core::ports::{LaunchError, WakeRequest};
use posthaste_core::registry::Status;
use rustix::process::Signal;
use tokio::time::timeout;

use super::keepers::Keeper;
use super::start::{check_directory, resolve};
use super::{Shared, Supervisor};
use crate::environment::Environment;
use crate::folder::{self, Folder};
use crate::keeper::Keep;
use crate::settings::Stdin;

/// The time that a keeper may take beyond the grace.
const MARGIN: Duration = Duration::from_secs(15);

impl Supervisor {
    /// Runs the wake command of the agent's profile, at most one at a time per agent.
    pub(super) fn wake_up(&self, request: &WakeRequest) -> Result<bool, LaunchError> {
        let shared = &self.shared;
        // The agent connects by itself, so its wake command runs as the hub's own user.
        let base = Environment::inherited(&shared.config.environment);
        let settings = shared.settings(&request.profile, &base)?;
        let Some(line) = &settings.wake else { return Ok(false) };
        let gone = matches!(request.who.status, Status::Away | Status::Lost);
        if settings.wake_when_away && !gone {
            return Ok(false);
        }
        let id = request.who.id;
        let folder = Folder::new(shared.folder(id).path().join("wake"));
        if shared.closing.is_cancelled() || !shared.waking.lock().insert(id) {
            return Ok(true);
        }
        let awake = Awake { shared: Arc::clone(shared), id };
        // A command that an earlier hub started may still run.
        if folder.is_held() {
            return Ok(true);
        }
        let mut environment = shared.environment(base, &settings);
        environment.sleeper(request, &shared.config.data);
        let directory = settings.directory.as_deref().unwrap_or(folder.path());
        let made = folder.make().and_then(|()| folder::create(&folder.task()).map(drop));
        made.map_err(|e| {
            LaunchError::new(format!("cannot write to {}: {e}", folder.path().display()), None)
        })?;
        check_directory(directory)?;
        let agents = &shared.config.agents;
        let keep = Keep {
            output_bytes: agents.output_bytes,
            grace: agents.grace,
            most: agents.wake_timeout,
            manners: shared.config.manners,
            stdin: Stdin::Task,
            owner: None,
            command: resolve(line, &settings, &environment)?,
        };
        let keeper = Keeper::start(&shared.config.keeper, &folder, directory, &keep, &environment)?;
        self.tasks.spawn(awake.watch(keeper, folder));
        Ok(true)
    }
}

/// A guard: while it exists, no other wake command runs for the same agent.
struct Awake {
    shared: Arc<Shared>,
    id: posthaste_core::address::InstanceId,
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.shared.waking.lock().remove(&self.id);
    }
}

impl Awake {
    async fn watch(self, mut keeper: Keeper, folder: Folder) {
        let agents = &self.shared.config.agents;
        tokio::select! {
            () = keeper.ended() => self.tell(&folder),
            () = self.shared.closing.cancelled() => {
                if agents.shutdown == AtShutdown::Leave {
                    return;
                }
                keeper.signal(Signal::TERM);
                if timeout(agents.grace + MARGIN, keeper.ended()).await.is_err() {
                    keeper.signal(Signal::KILL);
                    keeper.ended().await;
                }
            }
        }
    }

    /// Logs the result of a wake command: codes, and nothing of its output.
    fn tell(&self, folder: &Folder) {
        let exit = folder.exit().unwrap_or_default();
        match exit.code {
            Some(0) => tracing::debug!(who = %self.id, "woken"),
            _ => tracing::warn!(
                who = %self.id, code = exit.code, signal = exit.signal, overdue = exit.overdue,
                output = %show(folder.path()), "a wake command failed"
            ),
        }
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}
