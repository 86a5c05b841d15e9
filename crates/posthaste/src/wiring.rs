//! The one place that names concrete backends.

use std::path::PathBuf;
use std::sync::Arc;

use posthaste_agents::keeper::Manners;
use posthaste_agents::{Supervisor, SupervisorConfig, WorkerUser};
use posthaste_api::{ApiError, ErrorCode};
use posthaste_core::orchestration::AgentsConfig;
use posthaste_core::ports::{Clock, LaunchError, Launcher, Queue};
use posthaste_core::{Hub, SystemClock};
use posthaste_queue::LocalQueue;
use posthaste_server::{KeyFiles, Keys};
use posthaste_store::{FolderLock, OpenError, Place};
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[cfg(not(feature = "otlp"))]
use crate::config::TelemetryConfig;
use crate::config::{Backend, Config, whole_environment};
use crate::failure::{internal, invalid};
use crate::identity::{DataFolder, Key, Token};

/// Opens a hub over the store and the queue that the configuration names.
pub(crate) async fn hub(
    config: &Config,
    folder: &DataFolder,
    ephemeral: bool,
    clock: SystemClock,
) -> Result<Arc<Hub>, ApiError> {
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let queue: Arc<dyn Queue> = match config.queue.backend {
        Backend::Local => Arc::new(LocalQueue::new()),
    };
    let place = match ephemeral {
        true => Place::Memory,
        false => Place::File(folder.path().to_owned()),
    };
    let (store, limits) = (config.store.clone(), config.limits.clone());
    let engine = posthaste_store::open(&place, store, limits, queue, clock).await;
    Ok(Hub::start(engine.map_err(|e| explain(&e))?))
}

/// Locks the folder for a hub that keeps only its tokens and its address in it: two hubs
/// would still overwrite each other's files.
pub(crate) fn lock(folder: &DataFolder, ephemeral: bool) -> Result<Option<FolderLock>, ApiError> {
    // The store of a durable hub takes the lock itself.
    let lock = ephemeral.then(|| FolderLock::take(folder.path())).transpose();
    lock.map_err(|e| explain(&e))
}

/// Fails with the error of a hub that finds another one on its folder.
pub(crate) fn must_be_free(folder: &DataFolder) -> Result<(), ApiError> {
    lock(folder, true).map(drop)
}

/// This program, also after its file was replaced: hub and keepers have the same version.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Makes the launcher of agents for the hub at this address.
pub(crate) fn launcher(
    config: &Config,
    folder: &DataFolder,
    hub_url: &str,
    manners: Manners,
) -> Result<Arc<dyn Launcher>, ApiError> {
    let binary = std::env::current_exe().map_err(|e| internal(format!("no program: {e}")))?;
    let this = PathBuf::from(THIS_PROGRAM);
    let agents = &config.agents;
    let worker_user = worker_user(agents)?;
    let worker_root = worker_root(agents, folder);
    if let Some(user) = &worker_user {
        user.make_root(&worker_root).map_err(cannot_switch)?;
    }
    Ok(Arc::new(Supervisor::new(SupervisorConfig {
        data: folder.path().to_owned(),
        keeper: if this.exists() { this } else { binary.clone() },
        binary,
        worker_user,
        worker_root,
        hub_url: hub_url.to_owned(),
        agents: agents.clone(),
        environment: whole_environment(),
        manners,
        answer_bytes: config.limits.body_bytes,
        models: config.models.clone(),
        runner: config.runner.clone(),
    })))
}

/// Returns the user as whom workers run, if it is not the hub's own; an error if the hub
/// may not switch to it.
pub(crate) fn worker_user(agents: &AgentsConfig) -> Result<Option<WorkerUser>, ApiError> {
    let environment = whole_environment();
    let path =
        environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
    WorkerUser::find(&agents.user, path).map_err(cannot_switch)
}

/// Returns the folder for the files of workers of another user.
pub(crate) fn worker_root(agents: &AgentsConfig, folder: &DataFolder) -> PathBuf {
    if !agents.folder.as_os_str().is_empty() {
        return agents.folder.clone();
    }
    // By its components, so that a slash at the end does not count.
    let mut beside = folder.path().components().as_path().as_os_str().to_owned();
    beside.push("-workers");
    beside.into()
}

/// Makes the error that workers cannot run as another user.
pub(crate) fn cannot_switch(error: LaunchError) -> ApiError {
    let told = invalid(error.why);
    match error.hint {
        Some(hint) => told.hint(hint),
        None => told,
    }
}

/// Traces messages, if the configuration names a collector.
#[cfg(feature = "otlp")]
pub(crate) fn traces(
    config: &Config,
    hub: &Hub,
    stopped: CancellationToken,
) -> Result<Option<JoinHandle<()>>, ApiError> {
    let started = crate::telemetry::start(&config.telemetry, stopped)?;
    Ok(started.map(|(tracer, exporting)| {
        hub.follow(Arc::new(tracer));
        exporting
    }))
}

#[cfg(not(feature = "otlp"))]
pub(crate) fn traces(
    config: &Config,
    _: &Hub,
    _: CancellationToken,
) -> Result<Option<JoinHandle<()>>, ApiError> {
    let TelemetryConfig { otlp, headers } = &config.telemetry;
    match otlp.is_empty() && headers.reveal().is_empty() {
        true => Ok(None),
        false => Err(invalid("telemetry: this binary was built without traces")
            .hint("build it with the feature `otlp`")),
    }
}

/// Returns the hub's own tokens, in the form in which the server compares them. Makes
/// them if this is the folder's first hub.
pub(crate) fn keys(folder: &DataFolder) -> Result<impl KeyFiles + use<>, ApiError> {
    folder.key_or_new(Key::Operator)?;
    folder.key_or_new(Key::Join)?;
    Ok(TokenFiles(folder.clone()))
}

struct TokenFiles(DataFolder);

impl KeyFiles for TokenFiles {
    fn read(&self) -> Result<Keys, ApiError> {
        let hash = |token: Token| <[u8; 32]>::from(Sha256::digest(token.reveal()));
        let kept = |key| self.0.key(key)?.map(hash).ok_or_else(|| self.0.no_key(key));
        Ok(Keys { operator: kept(Key::Operator)?, join: kept(Key::Join)? })
    }
}

fn explain(error: &OpenError) -> ApiError {
    let code = match error {
        OpenError::Locked { .. } => ErrorCode::Conflict,
        OpenError::Corrupt { .. }
        | OpenError::Foreign { .. }
        | OpenError::Newer { .. }
        | OpenError::Unusable { .. } => ErrorCode::Internal,
    };
    ApiError::new(code, error.to_string()).hint(error.hint())
}
