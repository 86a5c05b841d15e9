//! The configuration: defaults, then the file, then the environment, then flags.
//!
//! Each crate owns its section. An unknown key is an error, because a misspelt limit
//! without effect is worse than a hub that does not start. `Config::default()` is a
//! working hub: loopback only, one folder.
//!
//! [`tell`] reports each value in force and where it came from.

mod check;
mod environment;
mod explain;
#[cfg(test)]
mod fuzz;
mod secret;
pub(crate) mod tell;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use directories::ProjectDirs;
use figment::error::{Actual, Kind};
use figment::providers::{Format, Toml};
use figment::value::Value;
use figment::value::magic::RelativePathBuf;
use figment::{Figment, Source};
use posthaste_agents::{ModelsConfig, RunnerConfig};
use posthaste_api::ApiError;
use posthaste_core::orchestration::AgentsConfig;
use posthaste_core::{Limits, settings};
use posthaste_server::{CompatConfig, McpConfig, ServerConfig};
use posthaste_store::StoreConfig;
use serde::{Deserialize, Serialize};

use crate::cli::{Global, LogFormat, UpArgs};
use crate::commands::hook::HooksConfig;
use crate::failure::invalid;
use crate::identity::DataFolder;
use crate::profiles::ProfilesConfig;
use check::LONGEST;
use environment::Environment;
#[cfg(target_env = "gnu")]
pub(crate) use environment::is_set;
pub(crate) use environment::{of_others, whole_environment};
use explain::explain;
pub(crate) use secret::Secret;

/// Our own lines, and only the warnings of libraries.
const DEFAULT_LOG: &str = "warn,posthaste=info";

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The data folder; in a file it is relative to that file.
    pub(crate) data: Option<RelativePathBuf>,
    pub(crate) server: ServerConfig,
    pub(crate) store: StoreConfig,
    pub(crate) limits: Limits,
    pub(crate) queue: QueueConfig,
    pub(crate) log: LogConfig,
    pub(crate) telemetry: TelemetryConfig,
    pub(crate) mcp: McpConfig,
    pub(crate) compat: CompatConfig,
    pub(crate) profiles: ProfilesConfig,
    pub(crate) agents: AgentsConfig,
    pub(crate) hooks: HooksConfig,
    pub(crate) runner: RunnerConfig,
    /// The language models of built-in assistants, by name.
    pub(crate) models: ModelsConfig,
}

settings! {
    pub(crate) struct QueueConfig {
        /// What carries tickets to readers: local, also called asyncio.
        backend: Backend = Backend::Local;
    }
}

settings! {
    pub(crate) struct LogConfig {
        /// What the log on stderr tells: debug, or warn,posthaste=debug.
        filter: String = DEFAULT_LOG.to_owned();
        /// The longest line, in bytes; what is longer is cut.
        line_bytes: usize = 4_096;
        /// How it looks: human or json.
        format: LogFormat = LogFormat::Human;
    }
}

settings! {
    pub(crate) struct TelemetryConfig {
        /// Where traces go by OTLP over HTTP, for example http://127.0.0.1:4318; empty
        /// for nowhere.
        otlp: String = String::new();
        /// Headers for it: name=value, with commas between several. Never shown.
        headers: Secret = Secret::default();
    }
}

/// The implementation of the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", rename_all = "lowercase")]
pub(crate) enum Backend {
    /// In this process. `asyncio` is its name in earlier tools.
    #[default]
    Local,
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "local" | "asyncio" => Ok(Self::Local),
            "rabbitmq" => Err("the queue `rabbitmq` is not built into this version yet".into()),
            _ => Err(format!("no queue is called `{text}`; known: local, asyncio, rabbitmq")),
        }
    }
}

impl TryFrom<String> for Backend {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl Config {
    pub(crate) fn load(global: &Global, up: &UpArgs) -> Result<Self, ApiError> {
        let mut config = Layers::new(global)?.config()?;
        if let Some(listen) = up.listen {
            config.server.listen = listen;
        }
        config.server.allow_remote |= up.allow_remote;
        if let Some(filter) = up.log.clone().filter(|text| !text.is_empty()) {
            config.log.filter = filter;
        }
        config.log.format = up.log_format.unwrap_or(config.log.format);
        config.check()?;
        Ok(config)
    }
}

/// The layers between the defaults and the flags.
struct Layers {
    figment: Figment,
    environment: Environment,
}

impl Layers {
    fn new(global: &Global) -> Result<Self, ApiError> {
        Self::of(global.config.as_deref(), Environment::of_this_process()?)
    }

    /// Reads the file and the environment. A file that was named must exist.
    fn of(file: Option<&Path>, environment: Environment) -> Result<Self, ApiError> {
        let figment = match config_file(file)? {
            Some(path) => Figment::new().merge(Toml::file_exact(path)),
            None => Figment::new(),
        };
        Ok(Self { figment: figment.merge(&environment), environment })
    }

    fn config(&self) -> Result<Config, ApiError> {
        tell::sections().try_for_each(|section| self.check_section(section))?;
        let models = self.figment.find_value("models").ok();
        for name in models.iter().flat_map(|models| models.as_dict()).flat_map(|all| all.keys()) {
            self.check_section(&format!("models.{name}"))?;
        }
        let mut config: Config = self.figment.extract().map_err(|e| explain(&e))?;
        for (name, model) in &mut config.models {
            for (key, path) in
                [("file", &mut model.file), ("api_key_file", &mut model.api_key_file)]
            {
                if let Some(path) = path {
                    self.beside_its_file(&format!("models.{name}.{key}"), path);
                }
            }
        }
        Ok(config)
    }

    /// Makes a path relative to the file that names it.
    fn beside_its_file(&self, key: &str, path: &mut PathBuf) {
        let source = self.figment.find_metadata(key).and_then(|found| found.source.as_ref());
        if let Some(folder) = source.and_then(Source::file_path).and_then(Path::parent) {
            *path = std::path::absolute(folder.join(&path)).unwrap_or_else(|_| path.clone());
        }
    }

    /// Refuses a list in place of a section. Serde would read it as the values of the
    /// section without their keys, and an empty list as none.
    fn check_section(&self, section: &str) -> Result<(), ApiError> {
        match self.figment.find_value(section) {
            Ok(Value::Array(..)) => {
                let mut error =
                    figment::Error::from(Kind::InvalidType(Actual::Seq, "a map".into()))
                        .with_path(section);
                error.metadata = self.figment.find_metadata(section).cloned();
                Err(explain(&error))
            }
            _ => Ok(()),
        }
    }
}

fn config_file(named: Option<&Path>) -> Result<Option<PathBuf>, ApiError> {
    match named.filter(|path| !path.as_os_str().is_empty()) {
        Some(path) if !path.is_file() => {
            Err(invalid(format!("there is no configuration file {}", path.display())))
        }
        Some(path) => Ok(Some(path.to_owned())),
        None => Ok(project()
            .ok()
            .map(|project| project.config_dir().join("config.toml"))
            .filter(|path| path.exists())),
    }
}

/// Returns the whole path of the file that a hub would read here.
pub(crate) fn file(global: &Global) -> Result<Option<PathBuf>, ApiError> {
    let file = config_file(global.config.as_deref())?;
    Ok(file.map(|path| path.canonicalize().unwrap_or(path)))
}

/// Reads the data folder alone, so that a client does not fail on a setting that only the
/// hub needs.
pub(crate) fn data_folder(global: &Global) -> Result<DataFolder, ApiError> {
    let given = global.data.clone().filter(|path| !path.as_os_str().is_empty());
    let path = match given {
        Some(path) => path,
        None => {
            let layers = Layers::of(global.config.as_deref(), Environment::lenient())?;
            match layers.figment.extract_inner::<RelativePathBuf>("data") {
                Ok(path) => path.relative(),
                Err(e) if e.missing() => default_data_folder()?,
                Err(e) => return Err(explain(&e)),
            }
        }
    };
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok(DataFolder::new(path))
}

/// Reads the section of hooks alone: a hook must not fail on a setting that only the hub
/// needs.
pub(crate) fn hooks(global: &Global) -> Result<HooksConfig, ApiError> {
    let layers = Layers::of(global.config.as_deref(), Environment::lenient())?;
    layers.check_section("hooks")?;
    let hooks: HooksConfig = match layers.figment.extract_inner("hooks") {
        Err(e) if e.missing() => HooksConfig::default(),
        hooks => hooks.map_err(|e| explain(&e))?,
    };
    Ok(HooksConfig {
        sign_of_life: hooks.sign_of_life.min(LONGEST),
        patience: hooks.patience.min(LONGEST),
        ..hooks
    })
}

pub(crate) fn default_data_folder() -> Result<PathBuf, ApiError> {
    Ok(project()?.data_dir().to_owned())
}

fn project() -> Result<ProjectDirs, ApiError> {
    ProjectDirs::from("", "", "posthaste").ok_or_else(|| {
        invalid("there is no home folder to keep data in").hint("name one with --data DIR")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    pub(super) fn load(file: impl AsRef<[u8]>, vars: &[(&str, &str)]) -> Result<Config, ApiError> {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let path = scratch.path().join("config.toml");
        std::fs::write(&path, file).expect("written");
        let vars = vars.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let layers = Layers::of(Some(&path), Environment::new(vars)?)?;
        let config = layers.config()?;
        config.check().map(|()| config)
    }

    fn error(file: &str, vars: &[(&str, &str)]) -> String {
        let error = load(file, vars).expect_err("refused");
        assert_eq!(error.code.exit(), 2);
        format!("{} / {}", error.message, error.hint.unwrap_or_default())
    }

    #[test]
    fn nothing_at_all_is_a_working_hub_on_loopback() {
        let config = load("", &[]).expect("the defaults are good");
        assert_eq!(config.server.listen.to_string(), "127.0.0.1:9889");
        assert_eq!(config.queue.backend, Backend::Local);
        assert!(!config.server.allow_remote);
    }

    #[test]
    fn a_hub_that_nobody_configured_has_the_limits_that_its_users_are_told() {
        let config = load("", &[]).expect("the defaults are good");
        let told = serde_json::to_value(&config).expect("only text keys");
        for (key, default) in [
            ("body_bytes", json!(1_048_576)),
            ("metadata_bytes", json!(4_096)),
            ("mailbox_messages", json!(10_000)),
            ("sender_per_minute", json!(600)),
            ("pair_per_minute", json!(60)),
            ("hops", json!(16)),
            ("wait", json!("10m")),
            ("away_after", json!("1m")),
            ("settled_retention", json!("1day")),
            ("dead_retention", json!("30days")),
        ] {
            assert_eq!(told["limits"][key], default, "{key}");
        }
        assert_eq!(told["agents"]["running"], 8);
    }

    #[test]
    fn the_environment_beats_the_file() {
        let file = "[server]\nlisten = '127.0.0.1:1'\n[limits]\nrecipients = 7\nattempts = 3\n";
        let vars = [
            ("POSTHASTE_LIMITS__RECIPIENTS", "8"),
            ("POSTHASTE_LIMITS__SWEEP", "5s"),
            ("POSTHASTE_SERVER__LISTEN", ""),
            ("POSTHASTE_TOKEN", "geheim"),
            ("HOME__SWEET", "home"),
        ];
        let config = load(file, &vars).expect("good");
        assert_eq!(config.server.listen.port(), 1);
        assert_eq!((config.limits.recipients, config.limits.attempts), (8, 3));
        assert_eq!(config.limits.sweep.as_secs(), 5);
    }

    #[test]
    fn a_client_cannot_be_given_longer_for_its_head_than_a_clock_can_tell() {
        for key in ["head_timeout", "spare_head_timeout"] {
            let told = error(&format!("[server]\n{key} = '100000000000years'\n"), &[]);
            assert!(told.starts_with(&format!("server.{key} is longer than")), "{told}");
        }
    }

    #[test]
    fn a_misspelt_key_is_named_with_its_place() {
        let told = error("[limits]\nrecipient = 7\n", &[]);
        assert!(told.starts_with("unknown key `limits.recipient` in "), "{told}");
        assert!(told.contains("config.toml") && told.contains("recipients"), "{told}");
        let told = error("", &[("POSTHASTE_LIMITS__RECIPIENT", "7")]);
        assert!(told.starts_with("unknown key `limits.recipient` in the environment"), "{told}");
        let told = error("dta = '/tmp'\n", &[]);
        assert!(told.starts_with("unknown key `dta` in ") && told.contains("data, "), "{told}");
        let told = error("[serve]\nlisten = '127.0.0.1:1'\n", &[]);
        assert!(told.starts_with("unknown key `serve` in "), "{told}");
    }

    #[test]
    fn the_nearest_key_is_named() {
        let told = error("[limits]\nrecipient = 7\n", &[]);
        assert!(told.contains("did you mean `limits.recipients`?"), "{told}");
        let told = error("[server]\nbody_bytes = 7\n", &[]);
        assert!(told.contains("did you mean `limits.body_bytes`?"), "{told}");
        let told = error("", &[("POSTHASTE_LISTEN", "127.0.0.1:1")]);
        assert!(told.starts_with("unknown variable `POSTHASTE_LISTEN`"), "{told}");
        assert!(told.contains("did you mean `POSTHASTE_SERVER__LISTEN`?"), "{told}");
        let told = error("", &[("POSTHASTE_TOKE", "geheim")]);
        assert!(told.contains("`POSTHASTE_TOKEN`") && !told.contains("geheim"), "{told}");
        let told = error("[limit]\nrecipents = 7\n", &[]);
        assert!(told.contains("did you mean `limits`?"), "{told}");
    }

    #[test]
    fn a_key_that_is_not_close_is_not_suggested() {
        for name in ["POSTHASTE_ZZZZZZZZ", "POSTHASTE_FOO", "POSTHASTE_LIMITS_FOO"] {
            let told = error("", &[(name, "1")]);
            assert!(!told.contains("did you mean"), "{name}: {told}");
            assert!(told.contains("posthaste config"), "{name}: {told}");
        }
        let told = error("[limits]\nfoo = 7\n", &[]);
        assert!(!told.contains("did you mean") && told.contains("--example"), "{told}");
    }

    #[test]
    fn a_wrong_value_is_named_with_its_key() {
        for (file, wrong) in [
            (
                "[limits]\nrecipients = 'many'\n",
                "`limits.recipients` in FILE is \"many\", and should be a whole number from 0",
            ),
            (
                "[limits]\nsweep = 5\n",
                "`limits.sweep` in FILE is 5, and should be a time like \"30s\" or \"10m\"",
            ),
            (
                "[limits]\nsweep = 'soon'\n",
                "`limits.sweep` in FILE is \"soon\", and should be a time like \"30s\" or \"10m\"",
            ),
            (
                "[limits]\nhops = 300\n",
                "`limits.hops` in FILE is 300, and should be a whole number from 0 to 255",
            ),
            (
                "[limits]\nhops = -1\n",
                "`limits.hops` in FILE is -1, and should be a whole number from 0 to 255",
            ),
            (
                "[limits]\nwrite_policy = 'x'\n",
                "`limits.write_policy` in FILE is \"x\", and should be open, team or family",
            ),
            (
                "[log]\nformat = 'loud'\n",
                "`log.format` in FILE is \"loud\", and should be human or json",
            ),
            (
                "[server]\nhosts = 5\n",
                "`server.hosts` in FILE is 5, and should be a list like [\"one\", \"two\"]",
            ),
            (
                "[server]\nallow_remote = 'yes'\n",
                "`server.allow_remote` in FILE is \"yes\", and should be true or false",
            ),
            (
                "[server]\nlisten = 'here'\n",
                "`server.listen` in FILE should be an address and a port, like 127.0.0.1:9889",
            ),
            (
                "[server]\nlisten = 9889\n",
                "`server.listen` in FILE is 9889, and should be an address and a port, like \
                 127.0.0.1:9889",
            ),
            (
                "server = 5\n",
                "`server` in FILE is 5, and should be a section: [server] and its keys below",
            ),
            (
                "limits = []\n",
                "`limits` in FILE is a list, and should be a section: [limits] and its keys below",
            ),
            (
                "[[queue]]\nbackend = 'local'\n",
                "`queue` in FILE is a list, and should be a section: [queue] and its keys below",
            ),
            ("data = 5\n", "`data` in FILE is 5, and should be a path"),
        ] {
            let told = error(file, &[]);
            let from = told.find(" in ").expect("where it stands") + " in ".len();
            let to = told.rfind("config.toml").expect("a file") + "config.toml".len();
            let said = told.replace(&told[from..to], "FILE");
            assert!(said.starts_with(wrong), "{file}: {said}");
            assert!(told.contains("posthaste config --example"), "{told}");
        }
        let told = error("", &[("POSTHASTE_LIMITS__RECIPIENTS", "many")]);
        assert!(told.starts_with("`limits.recipients` in the environment is \"many\""), "{told}");
        let told = error("[limits\n", &[]);
        assert!(told.contains("config.toml"), "{told}");
    }

    #[test]
    fn a_queue_that_nobody_knows_stops_the_start_with_the_list_of_those_known() {
        for (vars, told) in [
            ([("CAO_QUEUE_BACKEND", "kafka")], "known: local, asyncio, rabbitmq"),
            ([("POSTHASTE_QUEUE_BACKEND", "rabbitmq")], "not built into this version yet"),
            ([("POSTHASTE_QUEUE__BACKEND", "redis")], "no queue is called `redis`"),
        ] {
            assert!(error("", &vars).contains(told), "{vars:?}");
        }
        let both = [("CAO_QUEUE_BACKEND", "kafka"), ("POSTHASTE_QUEUE_BACKEND", "asyncio")];
        assert!(load("[queue]\nbackend = 'local'\n", &both).is_ok());
    }

    #[test]
    fn folders_of_profiles_are_relative_to_the_file_that_names_them() {
        let config = load("[profiles]\nfolders = ['team', '/srv/agents']\n", &[]).expect("good");
        let folders = config.profiles.folders();
        assert!(folders[0].is_absolute() && folders[0].ends_with("team"), "{folders:?}");
        assert_eq!(folders[1], Path::new("/srv/agents"));
        assert!(error("[profiles]\nrescan = '0s'\n", &[]).contains("profiles.rescan"));
        assert!(error("[profiles]\nfolder = 'x'\n", &[]).contains("`profiles.folder`"));
    }

    #[test]
    fn a_model_is_configured_by_a_section_of_its_own() {
        let file = "[models.large]\nprovider = 'anthropic'\nmodel = 'm'\n\
                    api_key_file = 'key'\ntimeout = '1m'\n[models.large.price]\ninput = 3\n\
                    output = 15.5\n[models.played]\nprovider = 'script'\nfile = '/srv/steps'\n";
        let config = load(file, &[("POSTHASTE_MODELS__LARGE__TIMEOUT", "5s")]).expect("good");
        let large = &config.models["large"];
        assert_eq!(large.timeout, Duration::from_secs(5));
        assert_eq!(large.price.map(|price| (price.input, price.output)), Some((3.0, 15.5)));
        let key = large.api_key_file.as_deref().expect("a file");
        assert!(key.is_absolute() && key.ends_with("key"), "{}", key.display());
        assert_eq!(config.models["played"].file.as_deref(), Some(Path::new("/srv/steps")));
    }

    #[test]
    fn what_is_wrong_with_a_model_is_named_with_its_key() {
        let good = "provider = 'openai'\nmodel = 'm'\n";
        for (more, told) in [
            ("api_key = 'geheim'\n", "`models.large.api_key` in "),
            ("api_key = 'geheim'\n", "a key does not stand in this file"),
            ("api_key = 'geheim'\n", "api_key_env"),
            ("api_key = 'geheim'\n", "api_key_file"),
            ("timout = '1m'\n", "unknown key `models.large.timout` in "),
            ("timout = '1m'\n", "did you mean `models.large.timeout`?"),
            ("timeout = 5\n", "`models.large.timeout` in "),
            ("timeout = 5\n", "should be a time like"),
            ("timeout = 5\n", "The longest time of one try."),
            ("price = 5\n", "`models.large.price` in "),
            ("api_key_env = 'sk-geheim'\n", "models.large.api_key_env: it is the name of"),
            ("[models.'a b']\nprovider = 'openai'\nmodel = 'm'\n", "models: a name has"),
        ] {
            let refused = error(&format!("[models.large]\n{good}{more}"), &[]);
            assert!(refused.contains(told), "{more}: {refused}");
            assert!(!refused.contains("geheim"), "{more}: {refused}");
        }
        let refused = error("[models.large]\nprovider = 'opnai'\n", &[]);
        assert!(refused.contains("`models.large.provider` in "), "{refused}");
        assert!(refused.contains("openai, anthropic, gemini, ollama or script"), "{refused}");
        let refused = error("[models.large]\nmodel = 'm'\n", &[]);
        assert!(refused.contains("`models.large`") && refused.contains("provider"), "{refused}");
        for wrong in ["[[models.large]]\nprovider = 'openai'\n", "[models]\nlarge = 'gpt'\n"] {
            let refused = error(wrong, &[]);
            assert!(refused.contains("should be a section: [models.large]"), "{refused}");
        }
    }

    #[test]
    fn a_number_of_connections_that_nobody_could_use_is_refused() {
        for bad in ["0", "1000001", "9223372036854775807"] {
            let told = error(&format!("[server]\nconnections = {bad}\n"), &[]);
            assert!(told.contains("server.connections lies between 1 and 1000000"), "{told}");
        }
        assert!(load("[server]\nconnections = 1\n", &[]).is_ok());
        for bad in [
            "[limits]\nevent_page = 0\n",
            "[limits]\nevent_readers = 9223372036854775807\n",
            "[store]\nreaders = 0\n",
            "[store]\nreaders = 5\n",
            "[limits]\nsweep = '500000000000years'\n",
        ] {
            assert!(load(bad, &[]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_in_the_address_of_a_collector_is_refused_and_not_repeated() {
        let told = error("[telemetry]\notlp = 'http://me:geheim@127.0.0.1:4318'\n", &[]);
        assert!(told.contains("telemetry.headers") && !told.contains("geheim"), "{told}");
        assert!(load("[telemetry]\notlp = 'http://127.0.0.1:4318/@'\n", &[]).is_ok());
    }

    #[test]
    fn other_machines_are_let_in_only_on_request() {
        let told = error("[server]\nlisten = '0.0.0.0:9889'\n", &[]);
        assert!(told.contains("0.0.0.0:9889") && told.contains("--allow-remote"), "{told}");
        let file = "[server]\nlisten = '0.0.0.0:9889'\nallow_remote = true\n";
        assert!(load(file, &[]).is_ok());
        assert!(load("[server]\nlisten = '[::1]:9889'\n", &[]).is_ok());
    }
}
