//! The settings in a profile for running its agents.
//!
//! The settings stand in the profile's `config`, beside keys of other programs, which are
//! ignored. An error names a key of ours that has the wrong form.

use std::path::{Path, PathBuf};
use std::time::Duration;

use humantime_serde::re::humantime;
use posthaste_core::ports::LaunchError;
use posthaste_core::profiles::{Profile, Source};
use serde_json::{Map, Value};

use crate::tmux;

/// The longest timeout, which every clock can represent.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// A command as a profile writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A program and its arguments.
    Words(Vec<String>),
    /// A text for the shell.
    Shell(String),
}

impl Line {
    pub(crate) fn words(&self) -> Vec<String> {
        match self {
            Self::Words(words) => words.clone(),
            Self::Shell(text) => vec!["/bin/sh".into(), "-c".into(), text.clone()],
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Name of the profile.
    pub(crate) profile: String,
    /// The folder of the profile's file, to which commands are relative.
    pub(crate) beside: Option<PathBuf>,
    pub(crate) command: Option<Line>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) model: Option<String>,
    /// How much the program may do without being allowed to, in the program's own word.
    pub(crate) permission_mode: Option<String>,
    pub(crate) worktree: bool,
    /// The longest time that a worker may run.
    pub(crate) timeout: Option<Duration>,
    /// External MCP servers, for programs that read them from a file.
    pub(crate) mcp_config: Option<String>,
    pub(crate) wake: Option<Line>,
    /// Wake an agent only when its program has gone.
    pub(crate) wake_when_away: bool,
    pub(crate) stdin: Stdin,
    /// The session of tmux in which a terminal opens.
    pub(crate) session: Option<String>,
}

/// The content of a worker's stdin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stdin {
    /// The task, and then the end of the input.
    #[default]
    Task,
    /// The task, and then every message for the worker as long as it runs: one JSON
    /// object a line.
    Mail,
    /// A conversation that the hub leads through the keeper's socket. A driver chooses
    /// it, not a profile.
    Session,
    /// The terminal in which the keeper runs. A driver chooses it, not a profile.
    Terminal,
}

impl Settings {
    /// Reads the settings of a profile; `home` replaces `~`.
    pub(crate) fn read(profile: &Profile, home: Option<&Path>) -> Result<Self, LaunchError> {
        let name = profile.template.name.to_string();
        let wrong = |key: &'static str, why: &str| LaunchError {
            why: format!("the profile {name} cannot be used: `{key}` {why}"),
            hint: Some(format!("change it, and see `posthaste profiles show {name}`")),
            key: Some(key),
        };
        let config: Map<String, Value> = serde_json::from_str(&profile.template.config)
            .map_err(|_| wrong("config", "is not an object"))?;
        let get = |key: &str| config.get(key).filter(|value| !value.is_null());
        let text = |key: &'static str| match get(key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
            Some(_) => Err(wrong(key, "is a text")),
        };
        let command = |key: &'static str| match get(key) {
            None => Ok(None),
            Some(value) => line(value).map(Some).map_err(|why| wrong(key, why)),
        };
        let env = match get("env") {
            None => Vec::new(),
            Some(Value::Object(all)) => all
                .iter()
                .map(|(key, value)| variable(key, value))
                .collect::<Result<_, _>>()
                .map_err(|why| wrong("env", &why))?,
            Some(_) => return Err(wrong("env", "is an object of texts")),
        };
        let directory = text("working_directory")?.map(|path| at_home(&path, home));
        if directory.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(wrong("working_directory", "is a path that begins with / or ~/"));
        }
        let worktree = match get("worktree") {
            None => false,
            Some(Value::Bool(worktree)) => *worktree,
            Some(_) => return Err(wrong("worktree", "is true or false")),
        };
        let timeout = match get("timeout").map(time) {
            None => None,
            Some(Some(time)) if time <= YEAR => Some(time),
            Some(_) => {
                return Err(wrong("timeout", "is a time like 10m, or seconds, and at most a year"));
            }
        };
        let mcp_config = match (get("mcp_config"), get("mcpServers")) {
            (None, None) => None,
            (Some(_), Some(_)) => {
                return Err(wrong(
                    "mcp_config",
                    "means the same as `mcpServers`: keep one of them",
                ));
            }
            (Some(own @ Value::Object(_)), _) => Some(own.to_string()),
            (None, Some(servers @ Value::Object(_))) => {
                Some(serde_json::json!({ "mcpServers": servers }).to_string())
            }
            (Some(_), _) => return Err(wrong("mcp_config", "is an object")),
            (None, Some(_)) => return Err(wrong("mcpServers", "is an object")),
        };
        let session = text("session")?;
        if session.as_deref().is_some_and(|name| !tmux::is_name(name)) {
            let form = "is a name of at most 64 letters, digits, - and _";
            return Err(wrong("session", form));
        }
        Ok(Self {
            command: command("command")?,
            env,
            directory,
            model: text("model")?,
            permission_mode: text("permission_mode")?,
            worktree,
            timeout,
            mcp_config,
            wake: command("wake")?,
            wake_when_away: match text("wake_when")?.as_deref() {
                None | Some("quiet") => false,
                Some("away") => true,
                Some(_) => return Err(wrong("wake_when", "is `quiet` or `away`")),
            },
            stdin: match text("stdin")?.as_deref() {
                None | Some("task") => Stdin::Task,
                Some("mail") => Stdin::Mail,
                Some(_) => return Err(wrong("stdin", "is `task` or `mail`")),
            },
            session,
            profile: name.clone(),
            beside: match &profile.source {
                Source::File(file) => Path::new(&**file).parent().map(Path::to_owned),
                Source::Api | Source::Join => None,
            },
        })
    }
}

impl Settings {
    /// Returns the profile's own MCP servers by name.
    pub(crate) fn mcp_servers(&self) -> Result<Map<String, Value>, LaunchError> {
        let Some(config) = &self.mcp_config else { return Ok(Map::new()) };
        let wrong = |why: String| {
            LaunchError::new(
                format!("{}: {why}", self.profile),
                "for example `mcp_config: {mcpServers: {files: {command: files-mcp}}}`",
            )
            .about("mcp_config")
        };
        let mut config: Map<String, Value> = serde_json::from_str(config).unwrap_or_default();
        let servers = config.remove("mcpServers");
        if let Some(key) = config.keys().next() {
            return Err(wrong(format!(
                "its `mcp_config` has `{key}`, which nothing reads: MCP servers stand under \
                 `mcpServers`"
            )));
        }
        let servers = match servers {
            Some(Value::Object(servers)) => servers,
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Err(wrong("`mcp_config` has servers of a wrong form".to_owned())),
        };
        match servers.iter().find(|(_, server)| !server.is_object()) {
            Some((name, _)) => Err(wrong(format!("the MCP server {name} is no object"))),
            None => Ok(servers),
        }
    }
}

/// Parses a time with its unit, or in seconds; zero is refused.
fn time(value: &Value) -> Option<Duration> {
    let time = match value {
        Value::String(text) => match text.parse::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Err(_) => humantime::parse_duration(text).ok(),
        },
        Value::Number(seconds) => Duration::try_from_secs_f64(seconds.as_f64()?).ok(),
        _ => None,
    };
    time.filter(|time| !time.is_zero())
}

/// Parses a list of words, or one text for the shell.
fn line(value: &Value) -> Result<Line, &'static str> {
    const FORM: &str = "is a list of words, the program first, or one text for /bin/sh";
    const ZERO: &str = "has a zero byte";
    let line = match value {
        Value::String(text) if !text.trim().is_empty() => Line::Shell(text.clone()),
        Value::Array(words) => {
            let words: Option<Vec<String>> = words.iter().map(scalar).collect();
            match words {
                Some(words) if words.first().is_some_and(|program| !program.is_empty()) => {
                    Line::Words(words)
                }
                _ => return Err(FORM),
            }
        }
        _ => return Err(FORM),
    };
    match line.words().iter().any(|word| word.contains('\0')) {
        true => Err(ZERO),
        false => Ok(line),
    }
}

/// Number of characters of a wrong name that an error quotes.
const QUOTED: usize = 60;

fn variable(name: &str, value: &Value) -> Result<(String, String), String> {
    let shown: String = name.chars().take(QUOTED).collect();
    let value =
        scalar(value).ok_or_else(|| format!("is an object of texts, and {shown:?} is none"))?;
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Err(format!("has a variable that cannot be one: {shown:?}"));
    }
    Ok((name.to_owned(), value))
}

/// Reads numbers and booleans as text, because people write them where they mean text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(word) => Some(word.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn at_home(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_owned(),
        (Some(rest), Some(home)) if rest.starts_with('/') => home.join(&rest[1..]),
        _ => path.into(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use posthaste_core::Timestamp;
    use posthaste_core::profiles::Template;
    use posthaste_core::registry::AgentKind;

    use super::*;

    pub(crate) fn profile(driver: Option<&str>, config: &str) -> Profile {
        let name = "counter".parse().expect("a name");
        let template = Template {
            driver: driver.map(str::to_owned),
            config: config.to_owned(),
            ..Template::new(name, AgentKind::External)
        };
        let now = Timestamp(0);
        Profile { template, source: Source::Api, version: 1, created_at: now, updated_at: now }
    }

    fn read(config: &str) -> Result<Settings, LaunchError> {
        Settings::read(&profile(None, config), Some(Path::new("/home/me")))
    }

    #[test]
    fn a_profile_says_what_runs_it_and_may_say_other_things() {
        let settings = read(
            r#"{"command": ["wc", "-w", 3], "env": {"LANG": "C", "PORT": 80, "ON": true},
                "working_directory": "~/code", "model": "small", "worktree": true,
                "mcp_config": {"mcpServers": {}}, "wake": "echo mail", "theirs": [1]}"#,
        )
        .expect("a good profile");
        assert_eq!(settings.command.expect("given").words(), ["wc", "-w", "3"]);
        assert!(settings.env.contains(&("PORT".into(), "80".into())));
        assert_eq!(settings.directory, Some("/home/me/code".into()));
        assert!(settings.worktree);
        assert_eq!(settings.mcp_config.as_deref(), Some(r#"{"mcpServers":{}}"#));
        assert_eq!(settings.wake.expect("given").words(), ["/bin/sh", "-c", "echo mail"]);
        assert_eq!(read("{}").expect("empty is fine").command, None);
    }

    #[test]
    fn a_timeout_is_seconds_or_has_a_unit() {
        for (config, seconds) in [
            (r#"{"timeout": "10m"}"#, 600),
            (r#"{"timeout": 90}"#, 90),
            (r#"{"timeout": "90"}"#, 90),
        ] {
            let settings = read(config).expect("a good profile");
            assert_eq!(settings.timeout, Some(Duration::from_secs(seconds)), "{config}");
        }
        assert_eq!(read("{}").expect("empty is fine").timeout, None);
    }

    #[test]
    fn a_key_of_the_wrong_form_is_named() {
        for (config, key) in [
            (r#"{"command": {}}"#, "`command`"),
            (r#"{"command": []}"#, "`command`"),
            (r#"{"command": ["", "x"]}"#, "`command`"),
            (r#"{"command": "  "}"#, "`command`"),
            (r#"{"command": ["a", ["b"]]}"#, "`command`"),
            (r#"{"command": "a\u0000b"}"#, "`command`"),
            (r#"{"env": ["A"]}"#, "`env`"),
            (r#"{"env": {"A=B": "c"}}"#, "`env`"),
            (r#"{"env": {"A": {}}}"#, "`env`"),
            (r#"{"working_directory": "code"}"#, "`working_directory`"),
            (r#"{"working_directory": 7}"#, "`working_directory`"),
            (r#"{"worktree": "yes"}"#, "`worktree`"),
            (r#"{"mcp_config": "x"}"#, "`mcp_config`"),
            (r#"{"mcp_config": {}, "mcpServers": {}}"#, "`mcp_config`"),
            (r#"{"model": 3}"#, "`model`"),
            (r#"{"wake": 3}"#, "`wake`"),
            (r#"{"session": "a:b"}"#, "`session`"),
            (r#"{"session": 7}"#, "`session`"),
            (r#"{"wake_when": "never"}"#, "`wake_when`"),
            (r#"{"timeout": "soon"}"#, "`timeout`"),
            (r#"{"timeout": 0}"#, "`timeout`"),
            (r#"{"timeout": -1}"#, "`timeout`"),
            (r#"{"timeout": 10000000000000000}"#, "`timeout`"),
            (r#"{"timeout": [1]}"#, "`timeout`"),
        ] {
            let error = read(config).expect_err(config);
            assert!(error.why.contains(key), "{config}: {error}");
            assert_eq!(error.key, Some(key.trim_matches('`')), "{config}");
            assert!(error.hint.is_some(), "{config}");
        }
    }

    #[test]
    fn servers_that_nothing_would_read_are_an_error() {
        for (config, why) in [
            (r#"{"mcp_config": {"files": {"command": "x"}}}"#, "`files`"),
            (r#"{"mcp_config": {"servers": {}}}"#, "`mcpServers`"),
            (r#"{"mcp_config": {"mcpServers": {}, "inputs": []}}"#, "`inputs`"),
            (r#"{"mcp_config": {"mcpServers": []}}"#, "wrong form"),
            (r#"{"mcpServers": {"files": "x"}}"#, "files is no object"),
        ] {
            for driver in ["claude", "codex", "acp", "runner"] {
                let mut config: Value = serde_json::from_str(config).expect("JSON");
                config["command"] = serde_json::json!(["x"]);
                let profile = profile(Some(driver), &config.to_string());
                let error = crate::check_profile(&profile.template).expect_err(why);
                assert!(error.why.contains(why) && error.hint.is_some(), "{driver}: {error}");
                assert_eq!(error.key, Some("mcp_config"), "{driver}");
            }
        }
    }

    #[test]
    fn an_unknown_driver_is_told_with_the_known_ones() {
        let error = crate::drivers::of(&profile(Some("tmux"), "{}")).err().expect("unknown");
        assert!(error.why.contains("`tmux`"), "{error}");
        assert!(error.hint.expect("a hint").contains("driver: command"));
        let of = |driver| crate::drivers::of(&profile(driver, "{}")).map(|driver| driver.name());
        assert_eq!(of(None), Ok("external"));
        assert_eq!(of(Some("command")), Ok("command"));
    }

    #[test]
    fn a_command_without_its_driver_is_a_mistake_and_so_is_the_reverse() {
        for (driver, config) in [(None, r#"{"command": "true"}"#), (Some("command"), "{}")] {
            let profile = profile(driver, config);
            let settings = Settings::read(&profile, None).expect("readable");
            let driver = crate::drivers::of(&profile).expect("known");
            let brief = crate::drivers::Brief::of_nobody(&profile.template, &settings);
            let error = driver.launch(&brief).expect_err("a mistake");
            assert!(error.why.contains("counter") && error.hint.is_some(), "{error}");
        }
    }
}
