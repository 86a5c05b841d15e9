//! A terminal: an instance, and what CAO knows of it beside.

use std::collections::BTreeMap;

use posthaste_api::cao::provider;
use posthaste_api::cao::terminals::{CaoInitialDelivery, CaoTerminal};
use posthaste_core::address::InstanceId;
use posthaste_core::messaging::message::{MessageRef, Principal};
use posthaste_core::orchestration::{Assignment, TurnActivity};
use posthaste_core::registry::{InstanceFilter, InstanceView, Status, Work};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::App;
use crate::failure::Failure;
use crate::words::work::activity;

/// The beginning of every session's name.
pub(super) const PREFIX: &str = "cao-";

/// What CAO knows of a terminal and the hub does not: kept with the worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CaoRecord {
    pub(super) session: String,
    pub(super) provider: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allowed_tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<Vec<String>>,
    /// The variables that later terminals of the session get, too.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) env: BTreeMap<String, String>,
    /// The key under which it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    /// The last step that it was given, by its caller's name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) job: Option<String>,
    /// It was made with a message.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_task: bool,
    /// A user deleted it: no route shows it any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) deleted: bool,
}

impl CaoRecord {
    /// Reads the record of a worker; `None` for that of another door.
    fn read(text: &str) -> Option<Self> {
        let record: Self = serde_json::from_str(text).ok()?;
        (!record.session.is_empty()).then_some(record)
    }

    pub(super) fn to_text(&self) -> Result<String, Failure> {
        serde_json::to_string(self).map_err(crate::failure::unwritable)
    }
}

/// An instance with CAO's record of it; without one if another door made it.
#[derive(Debug, Clone)]
pub(super) struct Terminal {
    pub(super) view: InstanceView,
    pub(super) record: Option<CaoRecord>,
}

impl Terminal {
    fn of(view: InstanceView) -> Option<Self> {
        let record = view.instance.work.as_deref().and_then(Work::record);
        let record = record.and_then(CaoRecord::read);
        match &record {
            Some(record) if record.deleted => None,
            _ => Some(Self { view, record }),
        }
    }

    /// Finds a terminal that no user has deleted. Of the instances that have ended, only
    /// those that these routes made are terminals.
    pub(super) fn find(app: &App, id: InstanceId) -> Option<Self> {
        let found = Self::of(app.hub.instance(id)?)?;
        (found.record.is_some() || !found.view.instance.status.has_ended()).then_some(found)
    }

    /// Returns all terminals that these routes made, the oldest first.
    pub(super) fn all(app: &App) -> Vec<Self> {
        let all = InstanceFilter { limit: usize::MAX, ..InstanceFilter::default() };
        let found = app.hub.instances(&all).into_iter().filter_map(Self::of);
        let mut found: Vec<Self> = found.filter(|found| found.record.is_some()).collect();
        found.sort_by_key(|found| (found.view.instance.created_at, found.view.instance.id));
        found
    }

    /// Returns the terminal that was given this step last, also one that has been deleted.
    pub(super) fn of_job(app: &App, job: &str) -> Option<Self> {
        let all = InstanceFilter { limit: usize::MAX, ..InstanceFilter::default() };
        app.hub.instances(&all).into_iter().find_map(|view| {
            let record = view.instance.work.as_deref().and_then(Work::record)?;
            let record = CaoRecord::read(record)?;
            let found = record.job.as_deref() == Some(job);
            found.then_some(Self { view, record: Some(record) })
        })
    }

    /// Returns the terminals of a session, the oldest first.
    pub(super) fn of_session(app: &App, name: &str) -> Vec<Self> {
        let mut all = Self::all(app);
        all.retain(|found| found.session_name() == name);
        all
    }

    pub(super) fn id(&self) -> InstanceId {
        self.view.instance.id
    }

    /// Returns the name of its session; that of its team if another door made it.
    pub(super) fn session_name(&self) -> String {
        match &self.record {
            Some(record) => record.session.clone(),
            None => format!("{PREFIX}{}", self.view.instance.team),
        }
    }

    pub(super) fn group(&self) -> Vec<String> {
        let own = self.record.as_ref().and_then(|record| record.group.clone());
        own.unwrap_or_else(|| vec![self.session_name()])
    }

    pub(super) fn directory(&self) -> Option<String> {
        self.view.instance.work.as_deref()?.directory.clone()
    }

    /// Returns CAO's word for what it does.
    pub(super) fn status(&self, app: &App) -> &'static str {
        self.status_with(app, &app.hub.taken_on(self.id()))
    }

    fn status_with(&self, app: &App, taken: &[Assignment]) -> &'static str {
        let busy = taken.iter().any(|given| given.report.is_none());
        match self.view.instance.status {
            Status::Failed => "error",
            Status::Finished => "completed",
            Status::Stopped | Status::Lost => "unknown",
            Status::Starting if busy => "processing",
            Status::Starting => "unknown",
            Status::Running | Status::Away => match activity(&app.hub, &self.view, taken) {
                "waiting_user" => "waiting_user_answer",
                "busy" | "quiet" => "processing",
                "waiting_inbox" if busy => "processing",
                _ if taken.is_empty() => "idle",
                _ => "completed",
            },
        }
    }

    /// Returns the terminal in CAO's words.
    pub(super) async fn shown(&self, app: &App) -> Result<CaoTerminal, Failure> {
        let i = &self.view.instance;
        let id = i.id.to_string();
        let record = self.record.clone().unwrap_or_default();
        let taken = app.hub.taken_on(i.id);
        let provider = match self.record {
            Some(_) => record.provider,
            None => provider::provider_of("external").to_owned(),
        };
        Ok(CaoTerminal {
            name: format!("{}-{id}", i.agent),
            id,
            provider,
            session_name: self.session_name(),
            agent_profile: i.agent.to_string(),
            model: record.model,
            caller_id: i.parent.map(|parent| parent.to_string()),
            allowed_tools: record.allowed_tools.unwrap_or_else(|| vec!["*".to_owned()]),
            group: self.group(),
            description: record.description,
            metadata: record.metadata,
            initial_delivery: match record.has_task {
                true => Some(self.first_delivery(app, &taken).await?),
                false => None,
            },
            status: self.status_with(app, &taken).to_owned(),
            last_active: i.last_seen.to_string(),
        })
    }

    /// Tells where the message stands with which it was made.
    async fn first_delivery(
        &self,
        app: &App,
        taken: &[Assignment],
    ) -> Result<CaoInitialDelivery, Failure> {
        let told = |state: &str, why: Option<(&str, String)>| {
            let (kind, message) = why.map(|(kind, message)| (kind.to_owned(), message)).unzip();
            CaoInitialDelivery { state: state.to_owned(), kind, message }
        };
        // A task that is kept no more was done long ago.
        let Some(task) = taken.first() else { return Ok(told("delivered", None)) };
        let message = app.hub.message(Principal::Operator, MessageRef::Seq(task.task)).await?;
        let state =
            message.and_then(|record| Some(record.deliveries.first()?.state.as_str().to_owned()));
        Ok(match state.as_deref() {
            Some("queued") => told("pending", None),
            // Its driver holds it until the program is ready.
            Some("leased") if app.hub.turn_activity(self.id()) == Some(TurnActivity::Starting) => {
                told("pending", None)
            }
            Some("dead") => {
                let work = self.view.instance.work.as_deref();
                let why = work.and_then(|work| work.why.clone());
                let why = why.unwrap_or_else(|| "the terminal ended before it had it".to_owned());
                told("failed", Some(("not_delivered", why)))
            }
            _ => told("delivered", None),
        })
    }
}
