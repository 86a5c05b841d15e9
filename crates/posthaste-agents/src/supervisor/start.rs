//! Makes a process from a job.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Hub;
use posthaste_core::orchestration::AgentsConfig;
use posthaste_core::ports::{Found, Job, LaunchError, Start, Way, Workplace};
use posthaste_core::profiles::Profile;
use posthaste_core::registry::{Instance, Work};

use super::keepers::Keeper;
use super::session::{Place, Session};
use super::watch::{Stop, Watch};
use super::{Shared, Supervisor, SupervisorConfig, outcome, remains, window};
use crate::assistant::{Assistant, Left, Spec, SpecTask};
use crate::drivers::{self, Brief, Launch};
use crate::environment::{Environment, data_of};
use crate::folder::{self, Folder};
use crate::keeper::{COMMAND, Keep, Owner};
use crate::settings::{Line, Settings, Stdin};
use crate::ticket::{Revoked, Ticket};
use crate::tmux::NewPane;
use crate::user::WorkerUser;
use crate::{letters, program, transcript, worktree};

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

    /// Returns the program that becomes a keeper, by a path that means the same to every
    /// process.
    pub(super) fn binary_for_others(&self) -> PathBuf {
        let SupervisorConfig { binary, keeper, .. } = &self.config;
        let file = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        match file(binary) == file(keeper) {
            true => binary.clone(),
            // The file was replaced or removed. The hub waits until the keeper has started.
            false => format!("/proc/{}/exe", std::process::id()).into(),
        }
    }

    fn session_place(&self, folder: &Folder, stop: &Arc<Stop>) -> Place {
        let AgentsConfig { output_bytes: transcript_bytes, opening, retry_after, grace, .. } =
            self.config.agents;
        // A terminal that was found again is tried to be reached until tmux is there.
        let tmux = self.tmux().ok();
        let (folder, stop) = (folder.clone(), Arc::clone(stop));
        let workshop = Arc::clone(&self.workshop);
        Place { folder, stop, transcript_bytes, opening, retry_after, grace, tmux, workshop }
    }

    pub(super) fn check(&self, job: &Job) -> Result<Way, LaunchError> {
        let base = self.base();
        let settings = self.settings(&job.profile, &base)?;
        let Some(launch) = launch_of_nobody(&job.profile, &settings, &self.config.binary)? else {
            return Ok(Way::ByItself);
        };
        if launch.assistant {
            self.workshop.models.check(settings.model.as_deref())?;
        }
        if job.task {
            drivers::of(&job.profile)?.check_task(&job.profile.template)?;
        }
        let directory = job.directory.as_ref().or(settings.directory.as_ref());
        if let Some(directory) = directory {
            check_directory(directory)?;
        }
        resolve(&launch.line, &settings, &self.environment(base, &settings))
            .map_err(program::asked_of_hub)?;
        if launch.stdin == Stdin::Terminal {
            self.tmux()?;
        }
        let worktree = job.worktree.unwrap_or(settings.worktree);
        if worktree {
            self.check_worktree(directory.map(PathBuf::as_path))?;
        }
        let hears = launch.stdin != Stdin::Task;
        Ok(Way::Started { worktree, timeout: settings.timeout, hears })
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
        let Some(launch) = launch_of_nobody(&job.profile, settings, &self.config.binary)? else {
            return Ok(());
        };
        let command = resolve(&launch.line, settings, &self.environment(self.base(), settings))?;
        let (user, directory) = (user.clone(), directory.to_owned());
        let look = move || user.check(&directory, command.first().expect("a program"));
        let looked = tokio::task::spawn_blocking(look).await;
        looked.unwrap_or_else(|e| Err(LaunchError::new(e.to_string(), None)))
    }
}

impl Supervisor {
    pub(super) async fn start_worker(
        &self,
        hub: &Arc<Hub>,
        mut start: Start,
    ) -> Result<(), LaunchError> {
        let shared = &self.shared;
        if shared.closing.is_cancelled() {
            return Err(LaunchError::new("the hub is stopping", None));
        }
        let folder = shared.folder(start.worker.id);
        let mut ago = Duration::ZERO;
        if let Some(earlier) = Spec::read(&folder) {
            // Its task stands in its conversation, and is not taken again.
            start.task = start.task.or(earlier.task.map(Into::into));
            let began = start.worker.work.as_deref().and_then(|work| work.started_at);
            ago = began.map(|began| hub.now().since(began)).unwrap_or_default();
            transcript::keep_for_next_run(folder.path())
                .map_err(|e| no_folder(folder.path(), &e))?;
        }
        let start = &start;
        let profile = &start.job.profile;
        let base = shared.base();
        let settings = shared.settings(profile, &base)?;
        let home = shared.home(start.worker.id);
        let directory = &start.place.directory;
        let instructions = letters::instructions(start, drivers::of(profile)?.tools_of_hub());
        let thread = start.worker.thread.to_string();
        let alias = folder.alias(&home);
        let brief = Brief {
            template: &profile.template,
            settings: &settings,
            directory,
            home: &alias,
            hub: &shared.config.hub_url,
            binary: &shared.config.binary,
            instructions: &instructions,
            thread: &thread,
        };
        let Some(launch) = drivers::launch(profile, &brief)? else {
            let why = format!("{} comes by itself; nobody starts it", profile.template.name);
            return Err(LaunchError::new(why, None));
        };
        let user = shared.config.worker_user.as_ref();
        let mut environment = match launch.assistant {
            true => Environment::of_runner(&base, &settings),
            false => shared.environment(base, &settings),
        };
        launch.env.iter().for_each(|(name, value)| environment.set(name, value));
        if launch.assistant {
            let spec = spec_of(start, &settings, &instructions)?;
            spec.write(&folder).map_err(|e| no_folder(folder.path(), &e))?;
        } else {
            environment.worker(start, &home);
        }
        if let Some(session) = &settings.session {
            environment.set("CAO_SESSION_NAME", session);
        }
        check_directory(directory)?;
        let command = resolve(&launch.line, &settings, &environment)?;
        if !launch.files.is_empty() {
            folder.link_alias(&alias, &home).map_err(|e| no_folder(folder.path(), &e))?;
        }
        let own = Own { folder: &folder, home: &home, user };
        own.hand_over(start, &settings, &launch, &mut environment)
            .map_err(|e| no_folder(folder.path(), &e))?;
        let agents = &shared.config.agents;
        let keep = Keep {
            output_bytes: agents.output_bytes,
            grace: agents.grace,
            most: longest(agents.stale, start.worker.work.as_deref(), launch.assistant, ago),
            manners: shared.config.manners,
            stdin: launch.stdin,
            owner: user.map(|user| Owner { uid: user.uid, gid: user.gid }),
            command: user.map_or(command.clone(), |user| user.runs(&command)),
        };
        let tmux = match launch.stdin {
            Stdin::Terminal => Some(shared.tmux()?),
            Stdin::Task | Stdin::Mail | Stdin::Session => None,
        };
        // Registered before the process starts, so that a stop in between is not lost.
        let stop = Arc::new(Stop::default());
        let session = match &launch.state {
            Some(state) => {
                let place = shared.session_place(&folder, &stop);
                let source = (drivers::of(profile)?, launch.stdin);
                let session = Session::new(hub, start, source, state, place);
                Some(session.map_err(|e| no_folder(folder.path(), &e))?)
            }
            None => None,
        };
        shared.running.lock().insert(start.worker.id, Arc::clone(&stop));
        let binary = &shared.config.keeper;
        let keeper = match tmux {
            Some(tmux) => {
                let window = window::name(&start.worker);
                let own = format!("posthaste-{window}");
                let session = settings.session.as_deref().unwrap_or(&own);
                let program = [shared.binary_for_others().into(), COMMAND.into()];
                let words: Vec<_> = program.into_iter().chain(keep.words()).collect();
                let pane =
                    NewPane { session, window: &window, words: &words, folder: folder.path() };
                Keeper::start_in_pane(&tmux, &pane, &folder, directory, &environment).await
            }
            None => Keeper::start(binary, &folder, directory, &keep, &environment),
        };
        let keeper = keeper.inspect_err(|_| {
            shared.running.lock().remove(&start.worker.id);
        })?;
        self.watch(hub, &start.worker, stop, keeper, session);
        if launch.stdin != Stdin::Terminal
            && let Some(session) = &settings.session
        {
            shared.show_in_window(session, &start.worker, launch.stdin, &folder).await;
        }
        Ok(())
    }

    fn watch(
        &self,
        hub: &Arc<Hub>,
        worker: &Instance,
        stop: Arc<Stop>,
        keeper: Keeper,
        session: Option<Session>,
    ) {
        let shared = Arc::clone(&self.shared);
        let folder = shared.folder(worker.id);
        if let Some(session) = &session {
            let transcript = Arc::clone(&session.transcript);
            shared.transcripts.lock().insert(worker.id, transcript);
        }
        let (hub, worker) = (Arc::clone(hub), worker.clone());
        let watch = Watch { hub, shared, worker, folder, stop, keeper, session };
        self.tasks.spawn(watch.run());
    }

    /// Finds a worker after a restart of the hub: running, ended, or never started.
    pub(super) async fn find_worker(&self, hub: &Arc<Hub>, worker: &Instance) -> Found {
        let folder = self.shared.folder(worker.id);
        // A keeper that an earlier hub started in a pane may be on its way. First the ticket
        // and then the lock: whoever took the ticket has the lock.
        let taken = Ticket::waits(&folder) && is_held_at_revoking(&folder);
        let mut is_held = taken || folder.is_held();
        let is_dismissed = folder.is_dismissed();
        if is_held && (folder.is_paused() || is_dismissed) {
            // The earlier hub was killed while it stopped, or while it ended the worker.
            Keeper::adopt(folder.clone()).end(worker.id, self.shared.config.agents.grace).await;
            is_held = false;
        }
        if is_held {
            let stop = Arc::new(Stop::default());
            self.shared.running.lock().insert(worker.id, Arc::clone(&stop));
            let place = self.shared.session_place(&folder, &stop);
            let session = Session::resume(hub, worker.id, place);
            if session.is_none() && folder.session_state().exists() {
                stop.fail(outcome::LOST_SESSION);
            }
            self.watch(hub, worker, stop, Keeper::adopt(folder), session);
            return Found::Running;
        }
        // A keeper that was about to start it again may have been killed.
        let may_go_on = !is_dismissed && (folder.is_interrupted() || folder.is_prepared());
        let left = may_go_on.then(|| Assistant::left(&folder)).flatten();
        if folder.exit().is_none() {
            match folder.started() {
                None if may_go_on && folder.is_prepared() && left.is_none() => {
                    return Found::NeverRan;
                }
                started => remains::end(started.flatten(), &self.shared.home(worker.id)).await,
            }
        }
        match left {
            Some(Left::Work) => return Found::Resumable,
            Some(Left::Done(end)) => {
                let mut outcome = outcome::of_turn(end);
                outcome.kept_branch = worktree::settle(&self.shared.git, &folder).await;
                return Found::Ended(outcome);
            }
            None => {}
        }
        let mut outcome = outcome::of(&self.shared, worker, &folder, None).await;
        let place = self.shared.session_place(&folder, &Arc::default());
        match Session::resume(hub, worker.id, place) {
            Some(session) => {
                let (driver, most) = (session.driver, self.shared.config.agents.tail_chars);
                let end = session.finish().await;
                outcome::of_session(&mut outcome, &folder, (driver, end), None, most);
            }
            None => outcome::of_lost_session(&mut outcome, &folder),
        }
        outcome.kept_branch = worktree::settle(&self.shared.git, &folder).await;
        Found::Ended(outcome)
    }
}

/// Revokes a ticket. Returns whether a keeper has the lock.
fn is_held_at_revoking(folder: &Folder) -> bool {
    Ticket::revoke(folder).unwrap_or_else(|error| {
        tracing::warn!(%error, "the ticket of a keeper cannot be revoked");
        Revoked::None
    }) == Revoked::Held
}

/// Returns how a worker of this profile would be run, before there is one.
fn launch_of_nobody(
    profile: &Profile,
    settings: &Settings,
    binary: &Path,
) -> Result<Option<Launch>, LaunchError> {
    let brief = Brief { binary, ..Brief::of_nobody(&profile.template, settings) };
    drivers::launch(profile, &brief)
}

/// Returns the facts about an assistant that outlive the hub.
fn spec_of(start: &Start, settings: &Settings, instructions: &str) -> Result<Spec, LaunchError> {
    let template = &start.job.profile.template;
    let task = start.task.as_ref();
    Ok(Spec {
        profile: template.name.to_string(),
        address: start.worker.address.to_string(),
        thread: start.worker.thread.to_string(),
        instructions: instructions.to_owned(),
        model: settings.model.clone(),
        services: template.services.clone().unwrap_or_default(),
        tools: template.tools.clone(),
        servers: settings.mcp_servers()?,
        directory: start.place.directory.clone(),
        env: settings.env.clone(),
        parent: start.parent.clone(),
        stay: start.worker.work.as_deref().is_some_and(|work| work.record().is_some()),
        task: task.map(|task| SpecTask { seq: task.id.0, text: task.text.clone() }),
    })
}

/// Returns the longest time that a worker may run that first started so long ago. An
/// assistant to which the human talks waits for the next message however long that takes.
fn longest(stale: Duration, work: Option<&Work>, is_assistant: bool, ago: Duration) -> Duration {
    let is_talked_to = is_assistant && work.is_some_and(|work| work.record().is_some());
    let stale = if is_talked_to { Duration::MAX } else { stale };
    let timeout = work.and_then(|work| work.timeout);
    timeout.map_or(stale, |timeout| timeout.saturating_sub(ago).min(stale))
}

/// Returns the words of a command, with the absolute path of its program.
pub(crate) fn resolve(
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
        launch: &Launch,
        environment: &mut Environment,
    ) -> std::io::Result<()> {
        self.folder.make()?;
        for (name, content) in &launch.files {
            self.write(&self.home.join(name), content)?;
        }
        match launch.stdin {
            Stdin::Task => self.write(&self.folder.task(), start.task_text())?,
            Stdin::Mail => self.write(&self.folder.mail(), &letters::task(start))?,
            Stdin::Session | Stdin::Terminal => {}
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
