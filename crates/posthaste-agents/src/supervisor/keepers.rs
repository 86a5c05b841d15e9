//! A keeper as the hub sees it: a child process, or a keeper that an earlier hub started.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use posthaste_core::address::InstanceId;
use posthaste_core::ports::LaunchError;
use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout_at};

use crate::environment::Environment;
use crate::folder::Folder;
use crate::keeper::{COMMAND, Keep};
use crate::process;
use crate::ticket::{Revoked, Ticket};
use crate::tmux::{NewPane, Tmux};

/// The time that a keeper may take beyond the grace, in which it ends the worker's
/// strays.
const MARGIN: Duration = Duration::from_secs(15);
/// The time until a keeper that could not be reached is tried again.
const AGAIN: Duration = Duration::from_millis(100);
/// The time between two looks at a keeper that is not our child.
const LOOK: Duration = Duration::from_millis(200);
/// The time between two looks at a keeper that is about to start.
const SOON: Duration = Duration::from_millis(10);
/// The longest time that a keeper may take to start in its pane.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) enum Keeper {
    Child(Child),
    /// A keeper of an earlier hub, or one in a pane, which lives as long as its lock is
    /// held.
    Adopted(Folder),
}

impl Keeper {
    /// Starts a keeper for the worker of this folder, which works in this directory. The
    /// keeper holds the worker's lock for its whole life.
    pub(super) fn start(
        program: &Path,
        folder: &Folder,
        directory: &Path,
        keep: &Keep,
        environment: &Environment,
    ) -> Result<Self, LaunchError> {
        let lock = hold(folder, directory)?;
        let mut command = command(program);
        command
            .arg0("posthaste")
            .arg(COMMAND)
            .args(keep.words())
            .env_clear()
            .envs(environment.all())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(lock)
            .stderr(Stdio::null());
        command.spawn().map(Self::Child).map_err(failed)
    }

    /// Starts a keeper in a new pane of tmux. The pane is opened under the lock, which the
    /// keeper then takes itself, with its ticket.
    pub(super) async fn start_in_pane(
        tmux: &Tmux,
        pane: &NewPane<'_>,
        folder: &Folder,
        directory: &Path,
        environment: &Environment,
    ) -> Result<Self, LaunchError> {
        tmux.check_version().await?;
        let lock = hold(folder, directory)?;
        let variables = environment.all().map(|(name, value)| (name.into(), value.into()));
        let ticket = Ticket { tmux: tmux.program().into(), environment: variables.collect() };
        ticket.write(folder).map_err(failed)?;
        if let Err(error) = tmux.open(pane).await {
            drop(lock);
            Ticket::revoke(folder).map_err(failed)?;
            return Err(error);
        }
        drop(lock);
        let until = Instant::now() + PATIENCE;
        loop {
            if folder.started().is_some() || folder.exit().is_some() {
                return Ok(Self::Adopted(folder.clone()));
            }
            let is_late = Instant::now() > until;
            let revoked = match is_late || !Ticket::waits(folder) {
                true => Ticket::revoke(folder).map_err(failed)?,
                false => Revoked::Held,
            };
            match revoked {
                // It is on its way, or about to note its start.
                Revoked::Held => sleep(SOON).await,
                Revoked::None if folder.started().is_some() || folder.exit().is_some() => {}
                Revoked::Yes | Revoked::None => {
                    return Err(LaunchError::new(
                        "its keeper did not start in the pane that tmux opened",
                        "does `tmux new-window` work as the hub's user?",
                    ));
                }
            }
        }
    }

    /// Takes over a living keeper of an earlier hub.
    pub(super) fn adopt(folder: Folder) -> Self {
        Self::Adopted(folder)
    }

    /// Completes when the keeper has ended. A child is reaped then.
    pub(super) async fn ended(&mut self) {
        match self {
            Self::Child(child) => {
                if let Err(error) = child.wait().await {
                    tracing::warn!(%error, "a keeper could not be waited for");
                }
            }
            Self::Adopted(folder) => {
                while folder.is_held() {
                    sleep(LOOK).await;
                }
            }
        }
    }

    /// Asks the keeper to end, and kills it if it does not end in time.
    pub(super) async fn end(&mut self, worker: InstanceId, grace: Duration) {
        let asked = async {
            while !self.signal(Signal::TERM) {
                tokio::select! {
                    () = self.ended() => return,
                    () = sleep(AGAIN) => {}
                }
            }
            self.ended().await;
        };
        if timeout_at(Instant::now() + grace + MARGIN, asked).await.is_err() {
            tracing::warn!(who = %worker, "a keeper does not end; it is killed");
            self.signal(Signal::KILL);
            self.ended().await;
        }
    }

    /// Sends the keeper a signal. Returns `false` if the keeper cannot be reached yet.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let pid = match self {
            Self::Child(child) => child.id().and_then(|id| Pid::from_raw(id.cast_signed())),
            Self::Adopted(folder) => keeper_of(folder),
        };
        if let Some(pid) = pid {
            process::signal(pid, signal);
        }
        pid.is_some()
    }
}

/// Takes the lock for a new keeper of a worker that works in this directory.
fn hold(folder: &Folder, directory: &Path) -> Result<File, LaunchError> {
    let Some(lock) = folder.hold().map_err(failed)? else {
        let why = format!("{} is in use by an earlier start", folder.path().display());
        return Err(LaunchError::new(why, None));
    };
    folder.work_in(directory).map_err(failed)?;
    Ok(lock)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: io::Error) -> LaunchError {
    LaunchError::new(format!("cannot start a process: {error}"), "`posthaste doctor` looks")
}

/// Returns the process that holds the lock, by its own note.
pub(crate) fn keeper_of(folder: &Folder) -> Option<Pid> {
    let note = folder.started()??;
    match note.keeper_began {
        Some(began) => process::same(note.keeper, Some(began)),
        // The system does not report start times, but the holder of the lock has not ended.
        None => process::numbered(note.keeper).filter(|_| folder.is_held()),
    }
}

#[expect(clippy::disallowed_methods, reason = "one task owns it, until it is reaped")]
fn command(program: &Path) -> Command {
    Command::new(program)
}
