//! Drivers, the ways to run agents: one file for each.
//!
//! All that is special about a driver stands in its file, and the supervisor asks it. To
//! add a driver, add a file and a line here.

mod acp;
mod claude;
mod codex;
mod command;
mod external;
mod limits;
mod runner;
mod subject;
mod terminal;

use std::path::Path;

use posthaste_core::Timestamp;
use posthaste_core::ports::LaunchError;
use posthaste_core::profiles::{Profile, Source, Template};
use serde_json::Value;

pub(crate) use self::limits::Limit;
use crate::conversation::Conversation;
use crate::settings::{Line, Settings, Stdin};

/// One way to run agents.
pub(crate) trait Driver: Sync {
    /// The name in a profile's `driver`.
    fn name(&self) -> &'static str;

    /// Returns whether the driver enforces this limit of the profile on its agents.
    fn keeps(&self, limit: Limit) -> bool;

    /// Returns how an agent is limited instead by a driver that enforces no list of tools,
    /// as the rest of a sentence.
    fn other_limits(&self) -> Option<&'static str> {
        None
    }

    /// Returns the setting with which the agent asks for no permission, if its program asks
    /// for any.
    fn asks_nothing(&self) -> Option<&'static str> {
        None
    }

    /// Returns how a worker is run; `None` if such an agent connects by itself and the
    /// hub runs nothing. A setting of the profile that the program cannot honour is an
    /// error here, before anything starts. Pure: it looks at nothing but the brief.
    fn launch(&self, brief: &Brief<'_>) -> Result<Option<Launch>, LaunchError>;

    /// Returns where an agent finds the hub's tools, for its system prompt.
    fn tools_of_hub(&self) -> &'static str {
        "the tools of the MCP server posthaste"
    }

    /// Refuses a profile whose workers can be started, and cannot be given a task.
    fn check_task(&self, _profile: &Template) -> Result<(), LaunchError> {
        Ok(())
    }

    /// Returns the conversation with the program, as it was when this state was kept.
    /// `None`: the state is not one of this driver's.
    fn resume(&self, _state: &Value) -> Option<Box<dyn Conversation>> {
        None
    }

    /// Returns whether its agents answer the operator's messages by messages of their own.
    fn answers_operator(&self) -> bool {
        false
    }

    /// Returns what may be wrong with a program that is never ready for its task.
    fn hint_to_open(&self) -> &'static str {
        "is its `command` right?"
    }

    /// Returns what the end of the program means, by the end of its stderr: a sentence
    /// for its user, if the driver knows better than the exit code tells.
    fn explains(&self, _stderr: &str) -> Option<String> {
        None
    }
}

/// All that a driver may know of a worker that it is to run.
pub(crate) struct Brief<'a> {
    pub(crate) template: &'a Template,
    pub(crate) settings: &'a Settings,
    /// The directory in which the program works.
    pub(crate) directory: &'a Path,
    /// The folder of the worker's own files, in which [`Launch::files`] are written.
    pub(crate) home: &'a Path,
    /// The URL of the hub.
    pub(crate) hub: &'a str,
    /// The program whose `mcp` command is a bridge from stdio to the hub.
    pub(crate) binary: &'a Path,
    /// The system prompt: that of the profile, and then who the worker is and how it
    /// reports.
    pub(crate) instructions: &'a str,
    /// The worker's own thread.
    pub(crate) thread: &'a str,
}

/// The way in which a worker is run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Launch {
    pub(crate) line: Line,
    /// Variables beside those of the profile. The worker's own token is in the
    /// environment as `POSTHASTE_TOKEN` anyway.
    pub(crate) env: Vec<(String, String)>,
    /// Files for the worker alone, by name, in its home.
    pub(crate) files: Vec<(&'static str, String)>,
    pub(crate) stdin: Stdin,
    /// The first state of the conversation, for [`Stdin::Session`] and
    /// [`Stdin::Terminal`].
    pub(crate) state: Option<Value>,
    /// The hub calls the model and the tools for this program, which gets no secrets.
    pub(crate) assistant: bool,
}

impl Launch {
    /// Runs a command whose output is its answer.
    pub(crate) fn plain(line: Line, stdin: Stdin) -> Self {
        Self { line, env: Vec::new(), files: Vec::new(), stdin, state: None, assistant: false }
    }
}

const ALL: [&dyn Driver; 7] = [
    &acp::Acp,
    &claude::Claude,
    &codex::Codex,
    &command::Command,
    &external::External,
    &runner::Runner,
    &terminal::Terminal,
];

/// Returns how a worker of this profile is run; `None` if the agent connects by itself.
/// Refuses a profile with a limit that its driver cannot enforce.
pub(crate) fn launch(profile: &Profile, brief: &Brief<'_>) -> Result<Option<Launch>, LaunchError> {
    let driver = of(profile)?;
    let launch = driver.launch(brief)?;
    if launch.is_some() {
        limits::check(&profile.template, brief.settings, driver)?;
    }
    Ok(launch)
}

/// Checks whether a worker of this profile could be started, as far as the profile alone
/// tells: the driver is known, the keys have the right form, and the driver can enforce
/// every limit. Does not look for programs and folders.
pub fn check_profile(template: &Template) -> Result<(), LaunchError> {
    let now = Timestamp(0);
    let profile = Profile {
        template: template.clone(),
        source: Source::Api,
        version: 0,
        created_at: now,
        updated_at: now,
    };
    let settings = Settings::read(&profile, Some(Path::new("/")))?;
    launch(&profile, &Brief::of_nobody(template, &settings)).map(|_| ())
}

impl<'a> Brief<'a> {
    /// Makes the brief of a worker that does not exist yet, to check its profile.
    pub(crate) fn of_nobody(template: &'a Template, settings: &'a Settings) -> Self {
        let nowhere = Path::new("/");
        Self {
            template,
            settings,
            directory: nowhere,
            home: nowhere,
            hub: "",
            binary: nowhere,
            instructions: "",
            thread: "",
        }
    }
}

/// Returns the driver of a profile: the external one if the profile names none.
pub(crate) fn of(profile: &Profile) -> Result<&'static dyn Driver, LaunchError> {
    let template = &profile.template;
    let Some(wanted) = &template.driver else { return Ok(&external::External) };
    named(wanted).ok_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|driver| driver.name()).collect();
        LaunchError {
            why: format!("{}: no driver is called `{wanted}`", template.name),
            hint: Some(format!(
                "known: {}; `driver: command` with a `command` runs any program",
                known.join(", ")
            )),
            key: Some("driver"),
        }
    })
}

pub(crate) fn named(name: &str) -> Option<&'static dyn Driver> {
    ALL.into_iter().find(|driver| driver.name() == name)
}

/// Returns the words with which a program of a known kind begins: those of the profile's
/// `command`, else these.
fn program_of(settings: &Settings, usual: &[&str]) -> Result<Vec<String>, LaunchError> {
    match &settings.command {
        None => Ok(usual.iter().map(|word| (*word).to_owned()).collect()),
        Some(Line::Words(words)) => Ok(words.clone()),
        Some(Line::Shell(_)) => Err(LaunchError::new(
            format!("{}: with this driver `command` is a list of words", settings.profile),
            "the program first, for example `command: [/opt/claude/bin/claude]`",
        )
        .about("command")),
    }
}
