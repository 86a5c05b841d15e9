//! Everything that assistants share: models, tools, budgets.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_core::Hub;
use posthaste_core::address::InstanceId;

use crate::assistant::{Assistant, Spec, Surroundings, Usages};
use crate::environment::Environment;
use crate::folder::Folder;
use crate::models::Models;
use crate::runner_config::RunnerConfig;
use crate::tools::{HubFiles, ToolboxSpec, Tools};
use crate::transcript::Transcript;
use crate::user::WorkerUser;

pub(super) struct Workshop {
    pub(super) models: Arc<Models>,
    tools: Tools,
    limits: RunnerConfig,
    /// The environment that the hub was started with.
    environment: Vec<(OsString, OsString)>,
    user: Option<WorkerUser>,
    hub_files: HubFiles,
    assistants: Mutex<HashMap<InstanceId, Arc<Assistant>>>,
    pub(super) usages: Arc<Usages>,
}

impl Workshop {
    pub(super) fn new(
        models: Models,
        tools: Tools,
        limits: RunnerConfig,
        environment: Vec<(OsString, OsString)>,
        user: Option<WorkerUser>,
        agents: PathBuf,
    ) -> Self {
        let data = agents.parent().unwrap_or(&agents).to_owned();
        let hub_files = HubFiles { data, agents: agents.clone(), keys: models.key_files() };
        let (models, usages) = (Arc::new(models), Arc::new(Usages::new(agents)));
        let assistants = Mutex::default();
        Self { models, tools, limits, environment, user, hub_files, assistants, usages }
    }

    /// Opens the assistant of this folder.
    pub(super) fn assistant(
        &self,
        hub: &Arc<Hub>,
        who: InstanceId,
        folder: &Folder,
        transcript: &Arc<Transcript>,
    ) -> io::Result<Arc<Assistant>> {
        let spec = Spec::read(folder).ok_or(io::ErrorKind::NotFound)?;
        let toolbox = self.tools.toolbox(ToolboxSpec {
            services: spec.services.clone(),
            servers: spec.servers.clone(),
            directory: spec.directory.clone(),
            environment: self.environment_of(&spec),
            user: self.user.clone(),
            hub: self.hub_files.clone(),
        });
        let around = Surroundings {
            hub: Arc::clone(hub),
            who,
            models: Arc::clone(&self.models),
            toolbox,
            limits: self.limits.clone(),
            transcript: Arc::clone(transcript),
            usages: Arc::clone(&self.usages),
            session_cost: self.session_cost(hub, who),
        };
        let assistant = Arc::new(Assistant::open(folder.path(), spec, around)?);
        self.assistants.lock().insert(who, Arc::clone(&assistant));
        Ok(assistant)
    }

    /// Returns the environment of the assistant's tools, without the keys of models.
    fn environment_of(&self, spec: &Spec) -> Environment {
        let keys = self.models.key_variables();
        let is_key = |name: &OsString| keys.iter().any(|key| name == *key);
        let all: Vec<_> =
            self.environment.iter().filter(|(name, _)| !is_key(name)).cloned().collect();
        let mut environment = match &self.user {
            Some(user) => Environment::of_user(&all, user),
            None => Environment::inherited(&all),
        };
        environment.add(&spec.env);
        environment
    }

    /// Sums what all assistants of a session have spent, those that have ended included: the
    /// instance at the top, with the workers that it started, and theirs.
    fn session_cost(&self, hub: &Arc<Hub>, who: InstanceId) -> Box<dyn Fn() -> f64 + Send + Sync> {
        let (hub, usages) = (Arc::downgrade(hub), Arc::clone(&self.usages));
        Box::new(move || {
            let Some(hub) = hub.upgrade() else { return 0.0 };
            let top = hub.top(who);
            usages.cost(|id| hub.top(id) == top)
        })
    }

    /// Ends the commands and the MCP servers of all assistants.
    pub(super) async fn close(&self) {
        self.tools.close().await;
    }

    pub(super) fn find(&self, who: InstanceId) -> Option<Arc<Assistant>> {
        self.assistants.lock().get(&who).cloned()
    }

    pub(super) fn forget(&self, who: InstanceId) {
        self.assistants.lock().remove(&who);
    }
}
