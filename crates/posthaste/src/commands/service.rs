//! `posthaste service`: a hub that the system keeps running for its user, without an open
//! terminal.
//!
//! systemd and launchd have a file each. Both are built everywhere, so that a change to
//! one is checked on either system.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output as Ended, Stdio};

use posthaste_api::{ApiError, ErrorCode};
use serde_json::json;

use super::connect::{programs, wish};
use super::{Session, start};
use crate::cli::{Global, ServiceArgs, ServiceCommand};
use crate::config;
use crate::failure::{Failure, internal, invalid, machine};
use crate::output::Output;
use launchd::Launchd;
use systemd::Systemd;

mod launchd;
mod systemd;

const WITHOUT: &str = "`posthaste up --detach` starts a hub in the background without it";

/// The command of the service.
struct Job {
    program: String,
    args: Vec<String>,
    /// The search path of the hub, from which workers are started.
    path: Option<String>,
    /// The file of its output, where the system does not keep it.
    log: String,
}

/// A service manager of the system.
trait Manager {
    /// The manager's name for people.
    fn name(&self) -> &'static str;
    /// The file from which the manager reads the service.
    fn file(&self) -> &Path;
    /// Returns the text of that file.
    fn text(&self, job: &Job) -> String;
    /// Checks whether the manager runs here for this user; the error says why not.
    fn check(&self) -> Result<(), ApiError>;
    /// Lets the service start with the user's session.
    fn enable(&self) -> Result<(), ApiError>;
    /// Stops the service, and does not start it with the session any more.
    fn disable(&self) -> Result<(), ApiError>;
    /// Tells the manager that the file is removed.
    fn forget(&self) -> Result<(), ApiError>;
    fn start(&self) -> Result<(), ApiError>;
    fn stop(&self) -> Result<(), ApiError>;
    fn is_active(&self) -> bool;
    /// The command or the file by which to read the service's log.
    fn log(&self, folder: &Path) -> String;
    /// Advice after an installation.
    fn advice(&self) -> Option<&'static str>;
}

pub(super) async fn run(
    args: ServiceArgs,
    global: &Global,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let manager = manager()?;
    let manager = manager.as_ref();
    match args.command {
        ServiceCommand::Install { print, program } => {
            let job = job(program, global, session)?;
            match print {
                true => show(manager, &job, output),
                false => install(manager, &job, output),
            }
        }
        ServiceCommand::Start => begin(manager, session, output).await,
        ServiceCommand::Stop => end(manager, output),
        ServiceCommand::Status => status(manager, session, output),
        ServiceCommand::Uninstall => uninstall(manager, output),
    }
}

fn manager() -> Result<Box<dyn Manager>, ApiError> {
    let homeless = || invalid("there is no home folder to keep a service in").hint(WITHOUT);
    let dirs = directories::BaseDirs::new().ok_or_else(homeless)?;
    Ok(match cfg!(target_os = "macos") {
        true => Box::new(Launchd::new(dirs.home_dir())),
        false => Box::new(Systemd::new(dirs.config_dir())),
    })
}

/// Returns `posthaste up` with the flags that name the hub's folder.
fn job(program: Option<PathBuf>, global: &Global, session: &Session) -> Result<Job, Failure> {
    if session.hub.is_some() {
        let told = invalid("a service is a hub of this machine, and not one that is named");
        return Err(told.hint("leave --hub and POSTHASTE_HUB out").into());
    }
    let program = match program {
        Some(program) => std::path::absolute(&program).map_err(|e| machine("find", &program, e))?,
        None => programs::own()?,
    };
    let mut args = vec!["up".to_owned()];
    args.extend(wish::options(global, session)?);
    if let Some(config) = global.config.as_ref().filter(|path| !path.as_os_str().is_empty()) {
        let config = std::path::absolute(config).map_err(|e| machine("find", config, e))?;
        args.extend(["--config".to_owned(), wish::text(&config)?]);
    }
    Ok(Job {
        program: wish::text(&program)?,
        args,
        path: config::of_others("PATH"),
        log: wish::text(&start::log(&session.folder))?,
    })
}

/// Shows what `install` would write.
fn show(manager: &dyn Manager, job: &Job, output: &mut Output) -> Result<(), Failure> {
    let text = manager.text(job);
    match output.json() {
        true => output.answer(&json!({ "file": manager.file(), "text": text })),
        false => output.raw(text.as_bytes()),
    }
}

fn install(manager: &dyn Manager, job: &Job, output: &mut Output) -> Result<(), Failure> {
    manager.check()?;
    let program = Path::new(&job.program);
    if programs::is_built(program) {
        output.note(&format!(
            "{} lies in a build folder and may vanish; `posthaste install` copies it to a place \
             that stays, then install the service with that one",
            job.program
        ));
    }
    let (file, text) = (manager.file(), manager.text(job));
    let before = fs::read_to_string(file).ok();
    let word = match before {
        Some(before) if before == text => "unchanged",
        Some(_) => "replaced",
        None => "installed",
    };
    if word != "unchanged" {
        write(file, &text).map_err(|e| machine("write", file, e))?;
    }
    manager.enable()?;
    if output.json() {
        return output.answer(&json!({ "status": word, "file": file, "manager": manager.name() }));
    }
    let place = file.display();
    output.say(&match word {
        "unchanged" => format!("the service was installed already: {place}"),
        "replaced" => format!("the service is installed anew: {place}"),
        _ => format!("the service is installed: {place}"),
    })?;
    output.say("It starts with your session; `posthaste service start` starts it now.")?;
    if word == "replaced" && manager.is_active() {
        output.note("it still runs as before: `posthaste service stop`, then `start`");
    }
    match manager.advice() {
        Some(advice) => output.say(advice),
        None => Ok(()),
    }
}

async fn begin(
    manager: &dyn Manager,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    installed(manager)?;
    manager.check()?;
    if !manager.is_active()
        && let Some(hub) = session.folder.running()
    {
        let told = format!("a hub runs already at {} (pid {}), not as a service", hub.url, hub.pid);
        let hint = "stop it with `posthaste down`, then start the service";
        return Err(ApiError::new(ErrorCode::Conflict, told).hint(hint).into());
    }
    manager.start()?;
    let log = manager.log(session.folder.path());
    let hub = start::ready(&session.folder, &format!("its log: {log}"), || None).await?;
    match output.json() {
        true => output.answer(&json!({
            "status": "running", "url": hub.url, "pid": hub.pid, "log": log,
        })),
        false => {
            output.say(&format!("the service runs at {} (pid {})\nlog: {log}", hub.url, hub.pid))
        }
    }
}

fn end(manager: &dyn Manager, output: &mut Output) -> Result<(), Failure> {
    installed(manager)?;
    manager.check()?;
    manager.stop()?;
    match output.json() {
        true => output.answer(&json!({ "status": "stopped" })),
        false => output.say("the service has stopped; it starts again with your next session"),
    }
}

fn status(manager: &dyn Manager, session: &Session, output: &mut Output) -> Result<(), Failure> {
    installed(manager)?;
    manager.check()?;
    let (active, file) = (manager.is_active(), manager.file());
    let hub = session.folder.running().filter(|_| active);
    let log = manager.log(session.folder.path());
    if output.json() {
        let status = if active { "running" } else { "stopped" };
        let (url, pid) = (hub.as_ref().map(|hub| &hub.url), hub.as_ref().map(|hub| hub.pid));
        output.answer(&json!({
            "status": status, "file": file, "manager": manager.name(),
            "url": url, "pid": pid, "log": log,
        }))?;
    } else {
        output.say(&match (active, hub) {
            (true, Some(hub)) => format!("the service runs at {} (pid {})", hub.url, hub.pid),
            // The hub is just starting, or has another data folder.
            (true, None) => "the service runs, and not on this data folder".to_owned(),
            (false, _) => "the service does not run: `posthaste service start` starts it".into(),
        })?;
        output.say(&format!("file: {}\nlog:  {log}", file.display()))?;
    }
    if active { Ok(()) } else { Err(Failure::Shown(ErrorCode::Unavailable)) }
}

fn uninstall(manager: &dyn Manager, output: &mut Output) -> Result<(), Failure> {
    installed(manager)?;
    manager.check()?;
    manager.disable()?;
    let file = manager.file();
    fs::remove_file(file).map_err(|e| machine("remove", file, e))?;
    manager.forget()?;
    match output.json() {
        true => output.answer(&json!({ "status": "removed", "file": file })),
        false => output.say(&format!(
            "the service is removed: {}\nThe data folder stays as it is.",
            file.display()
        )),
    }
}

fn installed(manager: &dyn Manager) -> Result<(), ApiError> {
    match manager.file().exists() {
        true => Ok(()),
        false => Err(ApiError::new(ErrorCode::NotFound, "the service is not installed")
            .hint("posthaste service install")),
    }
}

/// Writes beside the target and then renames, so that a reader finds a whole file.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    std::io::Write::write_all(&mut draft, text.as_bytes())?;
    draft.persist(file)?;
    Ok(())
}

/// Runs a system program to its end.
#[expect(clippy::disallowed_methods, reason = "it is waited for here")]
fn ask(program: &Path, args: &[&str]) -> Result<Ended, ApiError> {
    let ended = Command::new(program).args(args).stdin(Stdio::null()).output();
    ended.map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            let told = format!("there is no `{}` here", program.display());
            ApiError::new(ErrorCode::Unavailable, told).hint(WITHOUT)
        }
        _ => internal(format!("`{}` cannot be run: {e}", program.display())),
    })
}

/// Does the same, and turns a failure into an error with the program's own text.
fn tell(program: &Path, args: &[&str]) -> Result<(), ApiError> {
    let ended = ask(program, args)?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let said = said.trim().lines().next().unwrap_or("it did not say why").to_owned();
    let line = format!("{} {}", program.display(), args.join(" "));
    Err(ApiError::new(ErrorCode::Unavailable, format!("`{line}` failed: {said}")))
}
