//! Giving an agent work.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::Hub;
use crate::address::{Address, InstanceId, Name};
use crate::messaging::message::{Details, Draft, DraftError, Kind, Principal, Seq, Via};
use crate::messaging::send::SendError;
use crate::ports::{Hire, Hired, Job, LaunchError, Opening, StoreError, Way};
use crate::profiles::{FileFault, Profile, Source, Template};
use crate::registry::{AgentKind, Instance, RegistryError, Status, Terms, Work};

/// A request for work by an agent.
#[derive(Debug, Clone)]
pub struct Assign {
    pub by: Principal,
    pub agent: Name,
    /// The instance that is to do it, if it is to be no other; then `agent` is its name.
    pub worker: Option<InstanceId>,
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
    /// Settings of a new worker in place of its profile's.
    pub terms: Option<Terms>,
    pub idempotency_key: Option<String>,
    pub via: Via,
}

/// A request for a worker that waits for its first mail.
#[derive(Debug, Clone)]
pub struct OpenWorker {
    pub by: Principal,
    pub agent: Name,
    /// The giver's own team if `None`.
    pub team: Option<Name>,
    pub label: Option<String>,
    /// An absolute path.
    pub directory: Option<String>,
    pub worktree: Option<bool>,
    pub terms: Terms,
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
    #[error("{name} does one task and ends")]
    NeedsTask { name: String },
    #[error("{address} does one task and ends, and has had it")]
    HearsNothing { address: String },
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

/// Where and how a new worker is to work.
struct Place {
    directory: Option<String>,
    worktree: Option<bool>,
    timeout: Option<Duration>,
    terms: Option<Terms>,
    task: bool,
}

impl Place {
    fn of(assign: &mut Assign) -> Self {
        Self {
            directory: assign.directory.take(),
            worktree: assign.worktree,
            timeout: assign.timeout,
            terms: assign.terms.take(),
            task: true,
        }
    }
}

impl Hub {
    /// Gives an agent work and returns at once. Its report comes by mail.
    pub async fn assign(self: &Arc<Self>, mut assign: Assign) -> Result<Assigned, AssignError> {
        let place = Place::of(&mut assign);
        let Assign { by, agent, worker, team, message, label, idempotency_key, .. } = assign;
        let details =
            Details { kind: Kind::DIRECTIVE, label, idempotency_key, ..Details::default() };
        let to = match worker {
            Some(instance) => Address::Exact { name: None, instance, team: None },
            None => Address::Named { name: agent.clone(), team: None },
        };
        let mut draft = Draft::new(by, to, message.into(), details, assign.via, &self.limits)?;
        draft.assigns();
        let work = match worker {
            Some(id) => self.listens(id).await.map(|()| None),
            None => self.work_for(by, &agent, place).await.map(|found| found.map(|(work, _)| work)),
        };
        let work = match work {
            Ok(work) => work,
            // An accepted request is answered as such, whatever has become of the profile
            // since.
            Err(error) => {
                let before = self.engine.hired(&draft).await?;
                let Hired { instance, task, duplicate } = before.ok_or(error)?;
                return Ok(Assigned { instance, task, duplicate });
            }
        };
        let directs = worker.is_some_and(|id| self.is_above(by, id));
        if work.is_none() && by != Principal::Operator && !directs {
            // A peer gets a plain message and no directive.
            draft.asks();
        }
        let staff = self.staff()?;
        let starts = work.is_some();
        let (line, depth) = (staff.config.line, staff.config.depth);
        let hire = Hire { draft, agent, team, work, worker, line, depth };
        let Hired { instance, task, duplicate } = self.engine.hire(hire).await?;
        if starts && !duplicate {
            staff.line_moves();
        }
        Ok(Assigned { instance, task, duplicate })
    }

    /// Makes a worker that starts at once and waits for its first mail.
    pub async fn open_worker(self: &Arc<Self>, open: OpenWorker) -> Result<Instance, AssignError> {
        let OpenWorker { by, agent, team, label, directory, worktree, terms } = open;
        let place = Place { directory, worktree, timeout: None, terms: Some(terms), task: false };
        let name = agent.to_string();
        let work = match self.work_for(by, &agent, place).await? {
            Some((work, true)) => work,
            Some((_, false)) => return Err(AssignError::NeedsTask { name }),
            None => return Err(AssignError::NobodyHere { name }),
        };
        let staff = self.staff()?;
        let (line, depth) = (staff.config.line, staff.config.depth);
        let opening = Opening { by, agent, team, label, work, line, depth };
        let instance = self.engine.open_worker(opening).await?;
        staff.line_moves();
        Ok(instance)
    }

    /// Replaces the record that a door keeps of its worker.
    pub async fn put_record(&self, of: InstanceId, record: String) -> Result<(), RegistryError> {
        self.engine.put_record(of, record).await
    }

    /// Refuses a worker that runs and can be told of nothing more.
    pub(crate) async fn listens(&self, id: InstanceId) -> Result<(), AssignError> {
        let Some(view) = self.engine.ledger(|l| l.instance(id)) else { return Ok(()) };
        let worker = view.instance;
        if worker.work.is_none() || worker.status != Status::Running {
            return Ok(());
        }
        let launcher = &self.staff()?.launcher;
        let hears = match self.job_of(&worker).await?.map(|job| launcher.check(&job)) {
            Some(Ok(Way::Started { hears, .. })) => hears,
            // Its profile has changed since it was started.
            _ => launcher.hears(id) || self.turn_activity(id).is_some(),
        };
        match hears {
            true => Ok(()),
            false => Err(AssignError::HearsNothing { address: worker.address.to_string() }),
        }
    }

    /// Returns the job of a worker: its profile on its own terms, and where it works.
    /// `None` if the profile has been removed.
    pub(crate) async fn job_of(&self, worker: &Instance) -> Result<Option<Job>, StoreError> {
        let Some(mut profile) = self.engine.profile(worker.agent.clone()).await? else {
            return Ok(None);
        };
        let known = worker.work.as_deref();
        if let Some(terms) = known.and_then(|work| work.terms.as_ref()) {
            terms.apply(&mut profile.template);
        }
        let directory = known.and_then(|work| work.directory.as_ref()).map(PathBuf::from);
        let worktree = known.map(|work| work.worktree);
        // Whether it can take a task was checked when it got one.
        Ok(Some(Job { profile, directory, worktree, task: false }))
    }

    /// Returns the work to be started, and whether the worker could be told of mail;
    /// `None` for an external agent.
    async fn work_for(
        &self,
        by: Principal,
        agent: &Name,
        place: Place,
    ) -> Result<Option<(Work, bool)>, AssignError> {
        let Place { directory, worktree, timeout, terms, task } = place;
        let driven = terms.as_ref().is_some_and(|terms| terms.driver.is_some());
        let mut profile = match self.engine.profile(agent.clone()).await? {
            Some(profile) => profile,
            None if driven => self.profile_of_nobody(agent),
            None => {
                let name = agent.to_string();
                if let Some(fault) = self.fault_of(agent) {
                    return Err(AssignError::BrokenProfile { name, fault });
                }
                let nearest = self.engine.ledger(|l| l.nearest_profiles(agent.as_str()));
                return Err(AssignError::NoProfile { name, nearest });
            }
        };
        if let Some(terms) = &terms {
            terms.apply(&mut profile.template);
        }
        let directory = directory.or_else(|| self.directory_of(by));
        let job = Job { profile, directory: directory.map(PathBuf::from), worktree, task };
        Ok(match self.staff()?.launcher.check(&job)? {
            Way::Started { worktree, timeout: of_profile, hears } => {
                let work = Work {
                    directory: job.directory.map(|path| path.to_string_lossy().into_owned()),
                    worktree,
                    timeout: timeout.or(of_profile),
                    terms,
                    ..Work::default()
                };
                Some((work, hears))
            }
            Way::ByItself if timeout.is_some() => {
                return Err(AssignError::NoTimeout { name: agent.to_string() });
            }
            Way::ByItself => None,
        })
    }

    /// Makes the profile of an agent of which only the name is known.
    fn profile_of_nobody(&self, name: &Name) -> Profile {
        let now = self.clock.now();
        let template = Template::new(name.clone(), AgentKind::default());
        Profile { template, source: Source::Join, version: 0, created_at: now, updated_at: now }
    }

    /// Returns the way in which an agent of this profile would come to work here, or an
    /// error.
    pub fn way_of(&self, profile: Profile) -> Result<Way, LaunchError> {
        let job = Job { profile, directory: None, worktree: None, task: false };
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
