//! Making a terminal: which program runs it, on which terms, in which session.

use std::collections::BTreeMap;
use std::path::Path;

use posthaste_api::cao::provider::{self, Provider};
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::address::Name;
use posthaste_core::messaging::message::{Principal, Via};
use posthaste_core::orchestration::{Assign, OpenWorker};
use posthaste_core::profiles::{Profile, Template};
use posthaste_core::registry::{Instance, Terms};
use serde_json::{Map, Value, json};

use super::terminal::{CaoRecord, PREFIX, Terminal};
use crate::App;
use crate::failure::{Failure, invalid, not_found};

/// Longest name of a session, as tmux and CAO have it.
const SESSION_CHARS: usize = 64;
/// Most characters of a description; CAO cuts a longer one.
const DESCRIPTION_CHARS: usize = 64;
/// Most variables for a terminal's environment, and the most bytes of one.
const VARIABLES: usize = 64;
const VARIABLE_BYTES: usize = 2048;
/// Most entries of a group, and the most characters of one.
const GROUP: usize = 16;
const GROUP_CHARS: usize = 128;

/// Drivers that a profile alone describes: no provider stands in for them.
const OWN_WAYS: [&str; 3] = ["command", "runner", "external"];

/// A request for a terminal.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) by: Principal,
    pub(super) agent: String,
    pub(super) provider: Option<String>,
    pub(super) session: InSession,
    pub(super) directory: Option<String>,
    pub(super) worktree: Option<bool>,
    pub(super) allowed_tools: Option<Vec<String>>,
    pub(super) model: Option<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) description: Option<String>,
    pub(super) metadata: Option<Map<String, Value>>,
    pub(super) group: Option<Vec<String>>,
    pub(super) key: Option<String>,
    pub(super) job: Option<String>,
    pub(super) has_task: bool,
}

/// The session of a new terminal.
#[derive(Debug)]
pub(super) enum InSession {
    /// A new one, of this name or of any.
    New(Option<String>),
    Existing(String),
}

/// A terminal that can be made.
#[derive(Debug)]
pub(super) struct Planned {
    by: Principal,
    agent: Name,
    directory: Option<String>,
    worktree: Option<bool>,
    /// `None` for an agent that connects by itself.
    terms: Option<Terms>,
    key: Option<String>,
}

impl Planned {
    /// Returns the request for a terminal with this task.
    pub(super) fn with_task(self, message: String) -> Assign {
        Assign {
            by: self.by,
            agent: self.agent,
            worker: None,
            team: None,
            message,
            label: None,
            directory: self.directory,
            worktree: self.worktree,
            timeout: None,
            terms: self.terms,
            idempotency_key: self.key,
            via: Via::Cao,
        }
    }

    /// Makes a terminal that waits for its first prompt. The same key returns the same
    /// terminal.
    pub(super) async fn open(self, app: &App) -> Result<Instance, Failure> {
        let same = |found: &Terminal| {
            let record = found.record.as_ref();
            self.key.is_some() && record.is_some_and(|record| record.key == self.key)
        };
        if let Some(made) = Terminal::all(app).into_iter().find(same) {
            let i = made.view.instance;
            if i.agent == self.agent && i.parent == self.by.instance() {
                return Ok(i);
            }
            let why = "the idempotency key was given with another request";
            return Err(ApiError::new(ErrorCode::KeyReused, why).into());
        }
        let Self { by, agent, directory, worktree, terms, .. } = self;
        let Some(terms) = terms else {
            let why = format!("{agent} connects by itself: the hub does not start it");
            return Err(ApiError::new(ErrorCode::Conflict, why)
                .hint("give it a message, which goes to one that is here")
                .into());
        };
        let (team, label) = (None, None);
        let open = OpenWorker { by, agent, team, label, directory, worktree, terms };
        Ok(app.hub.open_worker(open).await?)
    }
}

/// The way in which a terminal is run.
enum Run {
    AsProfile,
    With(&'static Provider),
    ByItself,
}

/// Decides how a terminal is made, and refuses a request that cannot be one. The caller
/// holds [`App::making`] until the terminal is made.
pub(super) async fn plan(app: &App, wanted: Wanted) -> Result<Planned, Failure> {
    let agent: Name = wanted.agent.parse()?;
    if wanted.directory.as_ref().is_some_and(|path| !Path::new(path).is_absolute()) {
        return Err(invalid("working_directory", "it is an absolute path"));
    }
    let profile = app.hub.profile(&agent).await?;
    let provider = wanted.provider.as_deref().map(known_provider).transpose()?.flatten();
    let run = way(profile.as_ref(), provider, wanted.by);
    let session = session_of(app, &wanted)?;
    let mut env = session_env(app, &session);
    env.extend(wanted.env.clone());
    check_env(&env)?;
    let named = match &run {
        Run::With(provider) => provider.name.to_owned(),
        Run::AsProfile | Run::ByItself => {
            let driver = profile.as_ref().and_then(|p| p.template.driver.as_deref());
            let driver = driver.unwrap_or("external");
            wanted.provider.clone().unwrap_or_else(|| provider::provider_of(driver).to_owned())
        }
    };
    let record = CaoRecord {
        session: session.clone(),
        provider: named,
        model: wanted.model.clone(),
        allowed_tools: wanted.allowed_tools.clone(),
        description: wanted.description.as_deref().map(described),
        metadata: wanted.metadata.as_ref().map(|all| told(app, all)).transpose()?,
        group: wanted.group.clone().map(checked_group).transpose()?,
        env: env.clone(),
        key: wanted.key.clone(),
        job: wanted.job.clone(),
        has_task: wanted.has_task,
        deleted: false,
    };
    let terms = match run {
        Run::ByItself => None,
        Run::AsProfile => Some(as_profile(profile.as_ref(), &wanted, &session, &env)?),
        Run::With(provider) => Some(with(provider, profile.as_ref(), &wanted, &session, &env)?),
    };
    let trusts = trusts_all(app, wanted.by) || wanted.allowed_tools.is_none();
    let terms =
        terms.map(|terms| if trusts { ask_nothing(terms, profile.as_ref()) } else { terms });
    let record = Some(record.to_text()?);
    let terms = terms.map(|terms| Terms { record, ..terms });
    let Wanted { by, directory, worktree, key, .. } = wanted;
    Ok(Planned { by, agent, directory, worktree, terms, key })
}

/// Reads the name of a provider; `None` for the name of a driver, which these routes tell
/// of terminals without a provider.
fn known_provider(name: &str) -> Result<Option<&'static Provider>, Failure> {
    match provider::provider(name) {
        Some(known) => Ok(Some(known)),
        None if OWN_WAYS.contains(&name) => Ok(None),
        None => {
            let known: Vec<&str> = provider::names().collect();
            Err(invalid("provider", format!("it is one of {}", known.join(", "))))
        }
    }
}

/// Chooses between the profile's own way and the provider. CAO's programs fill in the
/// provider of the terminal that calls where they do not know the profile, so the provider
/// of a terminal's request does not replace a driver that the profile itself names, nor
/// anybody's a command that it names.
fn way(profile: Option<&Profile>, given: Option<&'static Provider>, by: Principal) -> Run {
    let Some(profile) = profile else {
        return match given {
            // The echo agent needs no profile.
            Some(mock) if mock.name == provider::MOCK => Run::With(mock),
            _ => Run::AsProfile,
        };
    };
    let template = &profile.template;
    match (template.driver.as_deref(), given) {
        (Some("external"), _) => Run::ByItself,
        (Some(driver), _) if OWN_WAYS.contains(&driver) => Run::AsProfile,
        (Some(_), None) => Run::AsProfile,
        (Some(_), Some(_)) if by.instance().is_some() => Run::AsProfile,
        (Some(driver), Some(given)) if driver == given.driver && runs(template, given) => {
            Run::AsProfile
        }
        (_, Some(given)) => Run::With(given),
        (None, None) => provider::provider(provider::DEFAULT).map_or(Run::AsProfile, Run::With),
    }
}

/// Returns whether the profile's program is that of the provider.
fn runs(template: &Template, given: &Provider) -> bool {
    let config: Map<String, Value> = serde_json::from_str(&template.config).unwrap_or_default();
    given.command.is_empty() || config.get("command") == Some(&json!(given.command))
}

fn as_profile(
    profile: Option<&Profile>,
    wanted: &Wanted,
    session: &str,
    env: &BTreeMap<String, String>,
) -> Result<Terms, Failure> {
    let template = profile.map(|profile| &profile.template);
    let mut config = config_of(template);
    fill_in(&mut config, wanted, session, env);
    let driver = template.and_then(|template| template.driver.as_deref()).unwrap_or_default();
    let allowed_tools = wanted.allowed_tools.as_ref();
    Ok(Terms {
        config: Some(Value::Object(config).to_string()),
        allowed_tools: allowed_tools.and_then(|list| provider::tools_for(driver, list)),
        ..Terms::default()
    })
}

fn with(
    provider: &Provider,
    profile: Option<&Profile>,
    wanted: &Wanted,
    session: &str,
    env: &BTreeMap<String, String>,
) -> Result<Terms, Failure> {
    let template = profile.map(|profile| &profile.template);
    let mut config = config_of(template);
    // What the profile says of another program does not fit this one.
    for key in ["command", "stdin", "permission_mode", "wake"] {
        config.remove(key);
    }
    if let Some(shell) = provider.shell {
        config.insert("command".into(), shell.into());
    } else if !provider.command.is_empty() {
        config.insert("command".into(), json!(provider.command));
    }
    if let Some(stdin) = provider.stdin {
        config.insert("stdin".into(), stdin.into());
    }
    fill_in(&mut config, wanted, session, env);
    let of_profile = template.and_then(|template| template.allowed_tools.as_ref());
    let list = wanted.allowed_tools.as_ref().or(of_profile);
    let allowed_tools = match provider.name {
        // The echo agent uses no tool.
        provider::MOCK => Some(vec!["*".to_owned()]),
        _ => list.and_then(|list| provider::tools_for(provider.driver, list)),
    };
    Ok(Terms {
        driver: Some(provider.driver.to_owned()),
        config: Some(Value::Object(config).to_string()),
        allowed_tools,
        record: None,
    })
}

/// Returns whether the caller may let a terminal use every tool unasked: the operator, and
/// a terminal that may so itself.
fn trusts_all(app: &App, caller: Principal) -> bool {
    let Some(id) = caller.instance() else { return true };
    let own = Terminal::find(app, id).and_then(|terminal| terminal.record?.allowed_tools);
    own.is_some_and(|list| provider::is_every(&list))
}

/// Lets an agent that may use every tool ask for nothing, unless its profile says how much
/// it may do.
fn ask_nothing(terms: Terms, profile: Option<&Profile>) -> Terms {
    let of_profile = profile.and_then(|profile| profile.template.driver.as_deref());
    let driver = terms.driver.as_deref().or(of_profile).unwrap_or_default();
    let every = terms.allowed_tools.as_ref().is_some_and(|list| provider::is_every(list));
    let Some(mode) = provider::mode_for_every_tool(driver).filter(|_| every) else { return terms };
    let config = terms.config.as_deref().and_then(|config| serde_json::from_str(config).ok());
    let mut config: Map<String, Value> = config.unwrap_or_default();
    config.entry("permission_mode").or_insert(mode.into());
    Terms { config: Some(Value::Object(config).to_string()), ..terms }
}

fn config_of(template: Option<&Template>) -> Map<String, Value> {
    let config = template.and_then(|template| serde_json::from_str(&template.config).ok());
    config.unwrap_or_default()
}

/// Puts model and environment of the request into the settings, and the session: that of
/// tmux, to which people attach, has its name.
fn fill_in(
    config: &mut Map<String, Value>,
    wanted: &Wanted,
    session: &str,
    env: &BTreeMap<String, String>,
) {
    config.insert("session".into(), session.into());
    if let Some(model) = wanted.model.as_deref().filter(|model| !model.trim().is_empty()) {
        config.insert("model".into(), model.into());
    }
    if !env.is_empty() {
        let all = config.entry("env").or_insert_with(|| json!({}));
        for (name, value) in env {
            if let Value::Object(all) = all {
                all.insert(name.clone(), value.as_str().into());
            }
        }
    }
}

/// Returns the name of the session, which is free or known as the request says.
fn session_of(app: &App, wanted: &Wanted) -> Result<String, Failure> {
    match &wanted.session {
        InSession::New(None) => Ok(format!("{PREFIX}{:08x}", rand::random::<u32>())),
        InSession::New(Some(name)) => {
            let name = match name.starts_with(PREFIX) {
                true => name.clone(),
                false => format!("{PREFIX}{name}"),
            };
            let name = session_name(&name)?;
            let known = Terminal::of_session(app, &name);
            // The same request again means the same terminal.
            let again = |t: &Terminal| {
                t.record.as_ref().is_some_and(|r| r.key.is_some() && r.key == wanted.key)
            };
            if !known.is_empty() && !known.iter().any(again) {
                let why = format!("there is a session called {name} already");
                let hint = "choose another name, or end it: DELETE /sessions/{name}";
                return Err(ApiError::new(ErrorCode::Conflict, why).hint(hint).into());
            }
            Ok(name)
        }
        InSession::Existing(name) => {
            let name = session_name(name)?;
            let of_caller = wanted.by.instance().and_then(|id| Terminal::find(app, id));
            let known = of_caller.is_some_and(|caller| caller.session_name() == name)
                || !Terminal::of_session(app, &name).is_empty();
            known.then_some(name).ok_or_else(|| not_found("session"))
        }
    }
}

/// Checks the name of a session, which people use as the name of a tmux session, too.
pub(super) fn session_name(name: &str) -> Result<String, Failure> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let begins = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let fits = name.len() <= SESSION_CHARS && name.starts_with(begins) && name.chars().all(good);
    match fits {
        true => Ok(name.to_owned()),
        false => Err(invalid(
            "session_name",
            format!("it has up to {SESSION_CHARS} letters, digits, `_` and `-`"),
        )),
    }
}

/// Returns the variables with which the session was made.
fn session_env(app: &App, session: &str) -> BTreeMap<String, String> {
    let first = Terminal::of_session(app, session).into_iter().next();
    first.and_then(|first| first.record).map(|record| record.env).unwrap_or_default()
}

fn check_env(env: &BTreeMap<String, String>) -> Result<(), Failure> {
    let wrong = |(name, value): (&String, &String)| {
        name.is_empty()
            || name.contains(['=', '\0'])
            || value.contains('\0')
            || name.len() + value.len() > VARIABLE_BYTES
    };
    if env.len() > VARIABLES || env.iter().any(wrong) {
        let why = format!(
            "at most {VARIABLES} variables, each with a name without `=` and {VARIABLE_BYTES} bytes"
        );
        return Err(invalid("env_vars", why));
    }
    Ok(())
}

fn described(text: &str) -> String {
    let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    line.take(DESCRIPTION_CHARS).collect()
}

fn checked_group(group: Vec<String>) -> Result<Vec<String>, Failure> {
    let fits = |entry: &String| !entry.is_empty() && entry.chars().count() <= GROUP_CHARS;
    match (1..=GROUP).contains(&group.len()) && group.iter().all(fits) {
        true => Ok(group),
        false => {
            let why = format!("it has up to {GROUP} entries of up to {GROUP_CHARS} characters");
            Err(invalid("group", why))
        }
    }
}

/// Checks what a terminal tells its siblings.
pub(super) fn told(app: &App, all: &Map<String, Value>) -> Result<Map<String, Value>, Failure> {
    let most = app.hub.limits().metadata_bytes;
    match serde_json::to_string(all).map_or(usize::MAX, |text| text.len()) <= most {
        true => Ok(all.clone()),
        false => {
            let why = format!("it has at most {most} bytes as JSON (limits.metadata_bytes)");
            Err(invalid("metadata", why))
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::registry::AgentKind;

    use super::*;

    #[test]
    fn an_agent_that_may_use_every_tool_runs_in_the_mode_that_asks_for_nothing() {
        let terms = |driver: &str, config: &str, list: &[&str]| {
            let list: Vec<String> = list.iter().map(|tool| (*tool).to_owned()).collect();
            let terms = Terms {
                driver: Some(driver.to_owned()),
                config: Some(config.to_owned()),
                allowed_tools: provider::tools_for(driver, &list),
                record: None,
            };
            ask_nothing(terms, None)
        };
        let mode = |terms: &Terms| {
            let config: Value =
                serde_json::from_str(terms.config.as_deref().expect("one")).expect("JSON");
            config["permission_mode"].clone()
        };
        for (driver, expected) in [
            ("claude", json!("bypassPermissions")),
            ("codex", json!("danger-full-access never")),
            ("acp", Value::Null),
        ] {
            let every = terms(driver, "{}", &["*"]);
            assert_eq!(mode(&every), expected, "{driver}");
            let name = "planner".parse().expect("a name");
            let mut template = Template::new(name, AgentKind::External);
            template.tools = Some(vec!["Read".to_owned()]);
            template.allowed_tools = Some(vec!["*".to_owned()]);
            every.apply(&mut template);
            assert_eq!((template.tools, template.allowed_tools), (None, None), "{driver}");
        }
        let careful = terms("claude", r#"{"permission_mode": "plan"}"#, &["*"]);
        assert_eq!(mode(&careful), "plan", "its profile says how much it may do");
        assert_eq!(mode(&terms("claude", "{}", &["fs_read"])), Value::Null);
    }
}
