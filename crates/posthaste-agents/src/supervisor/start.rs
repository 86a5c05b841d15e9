//! From a job to a process.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posthaste_core::Hub;
use posthaste_core::ports::{Found, Job, LaunchError, Place, Start, Way};
use posthaste_core::profiles::Profile;
use posthaste_core::registry::Instance;

use super::keepers::Keeper;
use super::watch::{Stop, Watch};
use super::{Shared, Supervisor, outcome, remains};
use crate::environment::Environment;
use crate::folder::{self, Folder};
use crate::keeper::Keep;
use crate::settings::{Line, Settings, Stdin};
use crate::{drivers, letters, program, worktree};

impl Shared {
    pub(super) fn settings(&self, profile: &Profile) -> Result<Settings, LaunchError> {
        let all = Environment::inherited(&self.config.environment);
        Settings::read(profile, all.get("HOME").map(Path::new))
    }

    /// What the hub's environment is for an agent with these settings.
    pub(super) fn environment(&self, settings: &Settings) -> Environment {
        let mut all = Environment::inherited(&self.config.environment).with(settings);
        all.set("POSTHASTE", &self.config.binary);
        all.set("POSTHASTE_HUB", &self.config.hub_url);
        all
    }

    pub(super) fn check(&self, job: &Job) -> Result<Way, LaunchError> {
        let settings = self.settings(&job.profile)?;
        let Some(line) = drivers::of(&job.profile)?.line(&settings)? else {
            return Ok(Way::ByItself);
        };
        let directory = job.directory.as_ref().or(settings.directory.as_ref());
        if let Some(directory) = directory {
            check_directory(directory)?;
        }
        resolve(&line, &settings, &self.environment(&settings))?;
        let worktree = job.worktree.unwrap_or(settings.worktree);
        if worktree {
            worktree::check(&self.git, directory.map(PathBuf::as_path))?;
        }
        Ok(Way::Started { worktree })
    }

    pub(super) async fn prepare(&self, worker: &Instance, job: &Job) -> Result<Place, LaunchError> {
        let settings = self.settings(&job.profile)?;
        let folder = self.folder(worker.id);
        folder
            .make()
            .and_then(|()| folder.note_prepared())
            .map_err(|e| no_folder(folder.path(), &e))?;
        let directory = job.directory.clone().or_else(|| settings.directory.clone());
        if job.worktree.unwrap_or(settings.worktree) {
            worktree::check(&self.git, directory.as_deref())?;
            let directory = directory.unwrap_or_default();
            return worktree::make(&self.git, &folder, worker, &directory).await;
        }
        let directory = match directory {
            Some(directory) => {
                check_directory(&directory)?;
                directory
            }
            None => {
                let scratch = Folder::new(folder.path().join("work"));
                scratch.make().map_err(|e| no_folder(scratch.path(), &e))?;
                scratch.path().to_owned()
            }
        };
        Ok(Place { directory, branch: None })
    }
}

impl Supervisor {
    pub(super) fn start_worker(&self, hub: &Arc<Hub>, start: &Start) -> Result<(), LaunchError> {
        let shared = &self.shared;
        if shared.closing.is_cancelled() {
            return Err(LaunchError::new("the hub is stopping", None));
        }
        let profile = &start.job.profile;
        let settings = shared.settings(profile)?;
        let Some(line) = drivers::of(profile)?.line(&settings)? else {
            let why = format!("{} comes by itself; nobody starts it", profile.template.name);
            return Err(LaunchError::new(why, None));
        };
        let folder = shared.folder(start.worker.id);
        let mut environment = shared.environment(&settings);
        environment.worker(start, folder.path());
        let directory = &start.place.directory;
        check_directory(directory)?;
        let command = resolve(&line, &settings, &environment)?;
        hand_over(&folder, start, &settings, &mut environment)
            .map_err(|e| no_folder(folder.path(), &e))?;
        let agents = &shared.config.agents;
        let keep = Keep {
            output_bytes: agents.output_bytes,
            grace: agents.grace,
            most: agents.stale,
            manners: shared.config.manners,
            stdin: settings.stdin,
            command,
        };
        // Before the process, so that nobody can be stopped in between and slip through.
        let stop = Arc::new(Stop::default());
        shared.running.lock().insert(start.worker.id, Arc::clone(&stop));
        let keeper =
            match Keeper::start(&shared.config.keeper, &folder, directory, &keep, &environment) {
                Ok(keeper) => keeper,
                Err(error) => {
                    shared.running.lock().remove(&start.worker.id);
                    return Err(error);
                }
            };
        self.watch(hub, start.worker.id, stop, keeper);
        Ok(())
    }

    fn watch(
        &self,
        hub: &Arc<Hub>,
        who: posthaste_core::address::InstanceId,
        stop: Arc<Stop>,
        keeper: Keeper,
    ) {
        let shared = Arc::clone(&self.shared);
        let folder = shared.folder(who);
        let watch = Watch { hub: Arc::clone(hub), shared, who, folder, stop, keeper };
        self.tasks.spawn(watch.run());
    }

    /// What is left of a worker after a hub start.
    pub(super) async fn find_worker(&self, hub: &Arc<Hub>, worker: &Instance) -> Found {
        let folder = self.shared.folder(worker.id);
        if folder.is_held() {
            let stop = Arc::new(Stop::default());
            self.shared.running.lock().insert(worker.id, Arc::clone(&stop));
            self.watch(hub, worker.id, stop, Keeper::adopt(folder));
            return Found::Running;
        }
        if folder.exit().is_none() {
            match folder.started() {
                None if folder.is_prepared() => return Found::NeverRan,
                started => remains::end(started.flatten(), &folder).await,
            }
        }
        let mut outcome = outcome::of(&self.shared, worker.id, &folder, None).await;
        outcome.kept_branch = worktree::settle(&self.shared.git, &folder).await;
        Found::Ended(outcome)
    }
}

/// A command with its program's whole path.
pub(super) fn resolve(
    line: &Line,
    settings: &Settings,
    environment: &Environment,
) -> Result<Vec<std::ffi::OsString>, LaunchError> {
    if let Line::Shell(text) = line
        && let Some(first) = text.split_whitespace().next()
        && (first.starts_with("./") || first.starts_with("../"))
    {
        return Err(LaunchError {
            why: format!("the shell would look for `{first}` in the working directory"),
            hint: Some(format!(
                "write the command as a list, [{first}]: then it is the program beside the profile's file; or give its full path"
            )),
        });
    }
    let words = line.words();
    let (program, arguments) = words.split_first().expect("a line has a program");
    let program = program::find(program, settings.beside.as_deref(), environment.get("PATH"))?;
    let mut command = vec![program.into_os_string()];
    command.extend(arguments.iter().map(Into::into));
    Ok(command)
}

pub(super) fn check_directory(directory: &Path) -> Result<(), LaunchError> {
    let wrong = |why: &str, hint: &'static str| {
        Err(LaunchError::new(format!("{} {why}", directory.display()), hint))
    };
    if !directory.is_absolute() {
        return wrong("is no absolute path", "a working directory begins with /");
    }
    match fs::metadata(directory) {
        Ok(known) if known.is_dir() => Ok(()),
        Ok(_) => wrong("is no folder", "name the folder in which to work"),
        Err(e) => wrong(&format!("cannot be worked in: {e}"), "make it, or name another one"),
    }
}

/// The task and what else the worker reads, for its eyes alone.
fn hand_over(
    folder: &Folder,
    start: &Start,
    settings: &Settings,
    environment: &mut Environment,
) -> std::io::Result<()> {
    folder.make()?;
    let write = |path: &Path, text: &str| folder::create(path)?.write_all(text.as_bytes());
    match settings.stdin {
        Stdin::Task => write(&folder.task(), &start.task)?,
        Stdin::Mail => write(&folder.mail(), &letters::task(start))?,
    }
    let prompt = &start.job.profile.template.system_prompt;
    if !prompt.is_empty() {
        let path = folder.path().join("prompt");
        write(&path, prompt)?;
        environment.set("POSTHASTE_PROMPT_FILE", &path);
    }
    if let Some(servers) = &settings.mcp_config {
        let path = folder.path().join("mcp.json");
        write(&path, servers)?;
        environment.set("POSTHASTE_MCP_CONFIG", &path);
    }
    Ok(())
}

fn no_folder(path: &Path, error: &std::io::Error) -> LaunchError {
    LaunchError::new(
        format!("cannot write to {}: {error}", path.display()),
        "is the disk full, or the data folder read-only? `posthaste doctor` looks",
    )
}
