//! Makes a process from a job.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Hub;
use posthaste_core::ports::{Found, Job, LaunchError, Start, Way, Workplace};
use posthaste_core::profiles::Profile;
use posthaste_core::registry::{Instance, Work};

use super::keepers::Keeper;
use super::watch::{Stop, Watch};
use super::{Shared, Supervisor, outcome, remains};
use crate::environment::{Environment, data_of};
use crate::folder::{self, Folder};
use crate::keeper::{Keep, Owner};
use crate::settings::{Line, Settings, Stdin};
use crate::user::WorkerUser;
use crate::{drivers, letters, program, worktree};

/// Characters that may stand around a word of the shell, and those that end a word
/// without a space.
const QUOTES: [char; 2] = ['"', '\''];
const ENDS_A_WORD: [char; 8] = [';', '&', '|', '<', '>', '(', ')', '`'];

impl Shared {
    /// Returns the environment from which workers start: the hub's, or that of the user
    /// as whom they run.
    fn base(&self) -> Environment {
        let all = &self.config.environment;
        match &self.config.worker_user {
            Some(user) => Environment::of_user(all, user),
            None => Environment::inherited(all),
        }
    }

    pub(super) fn settings(
        &self,
        profile: &Profile,
        base: &Environment,
    ) -> Result<Settings, LaunchError> {
        Settings::read(profile, base.get("HOME").map(Path::new))
    }

    /// Returns the environment of an agent with these settings.
    pub(super) fn environment(&self, base: Environment, settings: &Settings) -> Environment {
        let mut all = base.with(settings);
        all.set("POSTHASTE", &self.config.binary);
        all.set("POSTHASTE_HUB", &self.config.hub_url);
        all
    }

    pub(super) fn check(&self, job: &Job) -> Result<Way, LaunchError> {
        let base = self.base();
        let settings = self.settings(&job.profile, &base)?;
        let Some(line) = drivers::line(&job.profile, &settings)? else {
            return Ok(Way::ByItself);
        };
        let directory = job.directory.as_ref().or(settings.directory.as_ref());
        if let Some(directory) = directory {
            check_directory(directory)?;
        }
        resolve(&line, &settings, &self.environment(base, &settings))?;
        let worktree = job.worktree.unwrap_or(settings.worktree);
        if worktree {
            self.check_worktree(directory.map(PathBuf::as_path))?;
        }
        Ok(Way::Started { worktree, timeout: settings.timeout })
    }

    /// Refuses a worktree for a worker of another user: the hub runs git there as itself,
    /// and the files that such a worker wrote could make git run anything.
    fn check_worktree(&self, directory: Option<&Path>) -> Result<(), LaunchError> {
        match &self.config.worker_user {
            None => worktree::check(&self.git, directory),
            Some(user) => Err(LaunchError {
                why: format!("workers run as {} (agents.user), and have no worktrees", user.name),
                hint: Some(
                    "make a checkout that belongs to that user, and name it as the working directory"
                        .to_owned(),
                ),
                key: None,
            }),
        }
    }

    pub(super) async fn prepare(
        &self,
        worker: &Instance,
        job: &Job,
    ) -> Result<Workplace, LaunchError> {
        let settings = self.settings(&job.profile, &self.base())?;
        let folder = self.folder(worker.id);
        folder
            .make()
            .and_then(|()| folder.note_prepared())
            .map_err(|e| no_folder(folder.path(), &e))?;
        let directory = job.directory.clone().or_else(|| settings.directory.clone());
        if job.worktree.unwrap_or(settings.worktree) {
            self.check_worktree(directory.as_deref())?;
            let directory = directory.unwrap_or_default();
            return worktree::make(&self.git, &folder, worker, &directory).await;
        }
        if self.config.worker_user.is_some() {
            let home = self.config.worker_root.join(worker.id.to_string());
            folder.note_home(&home).map_err(|e| no_folder(folder.path(), &e))?;
        }
        let home = folder.home();
        let scratch = home.join("work");
        let made = match &self.config.worker_user {
            Some(user) => user.make_home(&home, &[&scratch, Path::new(&data_of(&home))]),
            None if directory.is_none() => Folder::new(scratch.clone()).make(),
            None => Ok(()),
        };
        made.map_err(|e| no_folder(&home, &e))?;
        let directory = directory.unwrap_or(scratch);
        check_directory(&directory)?;
        if let Some(user) = &self.config.worker_user {
            self.check_access(user, &settings, job, &directory).await?;
        }
        Ok(Workplace { directory, branch: None })
    }

    /// Checks whether the worker's user can enter the directory and execute the program.
    async fn check_access(
        &self,
        user: &WorkerUser,
        settings: &Settings,
        job: &Job,
        directory: &Path,
    ) -> Result<(), LaunchError> {
        let Some(line) = drivers::line(&job.profile, settings)? else { return Ok(()) };
        let command = resolve(&line, settings, &self.environment(self.base(), settings))?;
        let (user, directory) = (user.clone(), directory.to_owned());
        let look = move || user.check(&directory, command.first().expect("a program"));
        let looked = tokio::task::spawn_blocking(look).await;
        looked.unwrap_or_else(|e| Err(LaunchError::new(e.to_string(), None)))
    }
}

impl Supervisor {
    pub(super) fn start_worker(&self, hub: &Arc<Hub>, start: &Start) -> Result<(), LaunchError> {
        let shared = &self.shared;
        if shared.closing.is_cancelled() {
            return Err(LaunchError::new("the hub is stopping", None));
        }
        let profile = &start.job.profile;
        let base = shared.base();
        let settings = shared.settings(profile, &base)?;
        let Some(line) = drivers::line(profile, &settings)? else {
            let why = format!("{} comes by itself; nobody starts it", profile.template.name);
            return Err(LaunchError::new(why, None));
        };
        let folder = shared.folder(start.worker.id);
        let home = shared.home(start.worker.id);
        let user = shared.config.worker_user.as_ref();
        let mut environment = shared.environment(base, &settings);
        environment.worker(start, &home);
        let directory = &start.place.directory;
        check_directory(directory)?;
        let command = resolve(&line, &settings, &environment)?;
        let own = Own { folder: &folder, home: &home, user };
        own.hand_over(start, &settings, &mut environment)
            .map_err(|e| no_folder(folder.path(), &e))?;
        let agents = &shared.config.agents;
        let keep = Keep {
            output_bytes: agents.output_bytes,
            grace: agents.grace,
            most: longest(agents.stale, start.worker.work.as_deref()),
            manners: shared.config.manners,
            stdin: settings.stdin,
            owner: user.map(|user| Owner { uid: user.uid, gid: user.gid }),
            command: user.map_or(command.clone(), |user| user.runs(&command)),
        };
        // Registered before the process starts, so that a stop in between is not lost.
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
        self.watch(hub, &start.worker, stop, keeper);
        Ok(())
    }

    fn watch(&self, hub: &Arc<Hub>, worker: &Instance, stop: Arc<Stop>, keeper: Keeper) {
        let shared = Arc::clone(&self.shared);
        let folder = shared.folder(worker.id);
        let (hub, worker) = (Arc::clone(hub), worker.clone());
        let watch = Watch { hub, shared, worker, folder, stop, keeper };
        self.tasks.spawn(watch.run());
    }

    /// Finds a worker after a restart of the hub: running, ended, or never started.
    pub(super) async fn find_worker(&self, hub: &Arc<Hub>, worker: &Instance) -> Found {
        let folder = self.shared.folder(worker.id);
        if folder.is_held() {
            let stop = Arc::new(Stop::default());
            self.shared.running.lock().insert(worker.id, Arc::clone(&stop));
            self.watch(hub, worker, stop, Keeper::adopt(folder));
            return Found::Running;
        }
        if folder.exit().is_none() {
            match folder.started() {
                None if folder.is_prepared() => return Found::NeverRan,
                started => remains::end(started.flatten(), &self.shared.home(worker.id)).await,
            }
        }
        let mut outcome = outcome::of(&self.shared, worker, &folder, None).await;
        outcome.kept_branch = worktree::settle(&self.shared.git, &folder).await;
        Found::Ended(outcome)
    }
}

/// Returns the longest time that a worker may run.
fn longest(stale: Duration, work: Option<&Work>) -> Duration {
    work.and_then(|work| work.timeout).map_or(stale, |timeout| timeout.min(stale))
}

/// Returns the words of a command, with the absolute path of its program.
pub(super) fn resolve(
    line: &Line,
    settings: &Settings,
    environment: &Environment,
) -> Result<Vec<std::ffi::OsString>, LaunchError> {
    if let Line::Shell(text) = line
        && let Some(first) = relative_program(text)
    {
        return Err(LaunchError {
            why: format!("the shell would look for `{first}` in the working directory"),
            hint: Some(format!(
                "write the command as a list, [{first}]: then it is the program beside the profile's file; or give its full path"
            )),
            key: Some("command"),
        });
    }
    let words = line.words();
    let (program, arguments) = words.split_first().expect("a line has a program");
    let program = program::find(program, settings.beside.as_deref(), environment.get("PATH"))?;
    let mut command = vec![program.into_os_string()];
    command.extend(arguments.iter().map(Into::into));
    Ok(command)
}

/// Returns the program with which a text for the shell begins, if the shell would look
/// for it in the working directory. The rest of the text, and what only the shell can
/// tell, is up to the profile.
fn relative_program(text: &str) -> Option<&str> {
    let first = text.split_whitespace().next()?.trim_start_matches(QUOTES);
    let first = first.split(ENDS_A_WORD).next().unwrap_or_default().trim_end_matches(QUOTES);
    let elsewhere = first.starts_with(['/', '~', '$']) || first.contains('=');
    (first.contains('/') && !elsewhere).then_some(first)
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

/// The places where a worker finds its files.
struct Own<'a> {
    folder: &'a Folder,
    home: &'a Path,
    user: Option<&'a WorkerUser>,
}

impl Own<'_> {
    /// Writes the task and the other files for the worker, readable by the worker alone.
    fn hand_over(
        &self,
        start: &Start,
        settings: &Settings,
        environment: &mut Environment,
    ) -> std::io::Result<()> {
        self.folder.make()?;
        match settings.stdin {
            Stdin::Task => self.write(&self.folder.task(), &start.task)?,
            Stdin::Mail => self.write(&self.folder.mail(), &letters::task(start))?,
        }
        let prompt = &start.job.profile.template.system_prompt;
        if !prompt.is_empty() {
            let path = self.home.join("prompt");
            self.write(&path, prompt)?;
            environment.set("POSTHASTE_PROMPT_FILE", &path);
        }
        if let Some(servers) = &settings.mcp_config {
            let path = self.home.join("mcp.json");
            self.write(&path, servers)?;
            environment.set("POSTHASTE_MCP_CONFIG", &path);
        }
        Ok(())
    }

    fn write(&self, path: &Path, text: &str) -> std::io::Result<()> {
        let mut file = folder::create(path)?;
        if let Some(user) = self.user {
            user.give(&file)?;
        }
        file.write_all(text.as_bytes())
    }
}

fn no_folder(path: &Path, error: &std::io::Error) -> LaunchError {
    LaunchError::new(
        format!("cannot write to {}: {error}", path.display()),
        "is the disk full, or the data folder read-only? `posthaste doctor` looks",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_for_the_shell_must_not_begin_with_a_program_of_the_working_directory() {
        for text in ["./tool", "../tool -v", "bin/tool --quick", " \"bin/tool\" x", "bin/tool;ls"] {
            assert!(relative_program(text).is_some(), "{text}");
        }
        for text in [
            "",
            "tool bin/x",
            "/bin/tool",
            "~/bin/tool",
            "$HOME/bin/tool",
            "\"$HOME/bin/tool\"",
            "'/opt/my tools/tool' x",
            "PLACE=bin/x tool",
            "cat</etc/hostname",
            "2>/dev/null tool",
            "(cd bin; tool)",
        ] {
            assert_eq!(relative_program(text), None, "{text}");
        }
    }
}
