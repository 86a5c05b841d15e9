//! Giving an agent work.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::Hub;
use crate::address::{Address, Name};
use crate::messaging::message::{Details, Draft, DraftError, Kind, Principal, Seq, Via};
use crate::messaging::send::SendError;
use crate::ports::{Hire, Hired, Job, LaunchError, StoreError, Way};
use crate::profiles::{FileFault, Profile};
use crate::registry::{Instance, RegistryError, Work};

/// A request for work by an agent.
#[derive(Debug, Clone)]
pub struct Assign {
    pub by: Principal,
    pub agent: Name,
    /// The giver's own team if `None`.
    pub team: Option<Name>,
    pub message: String,
    pub label: Option<String>,
    /// An absolute path.
    pub directory: Option<String>,
    /// Request for a git worktree of its own; `None`: as the profile says.
    pub worktree: Option<bool>,
    /// Maximum time that the worker may run; `None`: as the profile says.
    pub timeout: Option<Duration>,
    pub idempotency_key: Option<String>,
    pub via: Via,
}

/// The result of an assign.
#[derive(Debug, Clone)]
pub struct Assigned {
    pub instance: Instance,
    /// The number of the task, which names the assignment.
    pub task: Seq,
    pub duplicate: bool,
}

/// The reason why no agent got the work. Nothing is kept of it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AssignError {
    #[error("there is no profile called {name}")]
    NoProfile { name: String, nearest: Vec<String> },
    #[error("there is no profile called {name}, because its file is wrong: {fault}")]
    BrokenProfile { name: String, fault: FileFault },
    #[error("{name} comes by itself, and nobody of that name is here")]
    NobodyHere { name: String },
    #[error("{name} comes by itself, so the hub cannot end it after a timeout")]
    NoTimeout { name: String },
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("{limit} workers wait in line already")]
    LineFull { limit: usize },
    #[error("workers of workers may be {limit} deep, and this would be one more")]
    TooDeep { limit: usize },
    #[error(transparent)]
    Draft(#[from] DraftError),
    #[error(transparent)]
    Send(SendError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Hub {
    /// Gives an agent work and returns at once. Its report comes by mail.
    pub async fn assign(self: &Arc<Self>, assign: Assign) -> Result<Assigned, AssignError> {
        let Assign { by, agent, team, message, label, directory, worktree, timeout, .. } = assign;
        let idempotency_key = assign.idempotency_key;
        let details =
            Details { kind: Kind::DIRECTIVE, label, idempotency_key, ..Details::default() };
        let to = Address::Named { name: agent.clone(), team: None };
        let mut draft = Draft::new(by, to, message.into(), details, assign.via, &self.limits)?;
        draft.assigns();
        let work = match self.work_for(by, &agent, directory, worktree, timeout).await {
            Ok(work) => work,
            // An accepted request is answered as such, whatever has become of the profile
            // since.
            Err(error) => {
                let before = self.engine.hired(&draft).await?;
                let Hired { instance, task, duplicate } = before.ok_or(error)?;
                return Ok(Assigned { instance, task, duplicate });
            }
        };
        if work.is_none() && by != Principal::Operator {
            // An external agent is a peer: it gets a plain message and no directive.
            draft.asks();
        }
        let staff = self.staff()?;
        let starts = work.is_some();
        let (line, depth) = (staff.config.line, staff.config.depth);
        let hired = self.engine.hire(Hire { draft, agent, team, work, line, depth }).await?;
        let Hired { instance, task, duplicate } = hired;
        if starts && !duplicate {
            staff.line_moves();
        }
        Ok(Assigned { instance, task, duplicate })
    }

    /// Returns the work to be started; `None` for an external agent.
    async fn work_for(
        &self,
        by: Principal,
        agent: &Name,
        directory: Option<String>,
        worktree: Option<bool>,
        timeout: Option<Duration>,
    ) -> Result<Option<Work>, AssignError> {
        let Some(profile) = self.engine.profile(agent.clone()).await? else {
            let name = agent.to_string();
            if let Some(fault) = self.fault_of(agent) {
                return Err(AssignError::BrokenProfile { name, fault });
            }
            let nearest = self.engine.ledger(|l| l.nearest_profiles(agent.as_str()));
            return Err(AssignError::NoProfile { name, nearest });
        };
        let directory = directory.or_else(|| self.directory_of(by));
        let job = Job { profile, directory: directory.map(PathBuf::from), worktree };
        Ok(match self.staff()?.launcher.check(&job)? {
            Way::Started { worktree, timeout: of_profile } => Some(Work {
                directory: job.directory.map(|path| path.to_string_lossy().into_owned()),
                worktree,
                timeout: timeout.or(of_profile),
                ..Work::default()
            }),
            Way::ByItself if timeout.is_some() => {
                return Err(AssignError::NoTimeout { name: agent.to_string() });
            }
            Way::ByItself => None,
        })
    }

    /// Returns the way in which an agent of this profile would come to work here, or an
    /// error.
    pub fn way_of(&self, profile: Profile) -> Result<Way, LaunchError> {
        let job = Job { profile, directory: None, worktree: None };
        self.staff()?.launcher.check(&job)
    }

    /// Returns the giver's directory: a worker's workers work there unless told
    /// otherwise.
    fn directory_of(&self, by: Principal) -> Option<String> {
        let parent = self.engine.ledger(|l| l.instance(by.instance()?))?.instance;
        let work = parent.work?;
        // A worktree is the worker's own; one that is made from it starts at the same
        // commit.
        work.directory.clone()
    }
}
