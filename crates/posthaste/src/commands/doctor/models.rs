//! Checks each configured model with one real call.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use futures_util::future::join_all;
use posthaste_agents::{ModelErrorKind, Models, Provider, RunnerConfig};

use super::{Check, hub};
use crate::config::{Config, whole_environment};
use crate::identity::DataFolder;

/// Asks all models at once, as a hub with this configuration and environment would.
pub(super) async fn checks(config: &Config, data: Option<&DataFolder>) -> Vec<Check> {
    if config.models.is_empty() {
        return Vec::new();
    }
    let running = match data {
        Some(data) => hub::process(data).await.and_then(HubEnvironment::read),
        None => None,
    };
    // The doctor tells what it sees, and does not wait until it passes.
    let limits = RunnerConfig { attempts: 1, ..config.runner.clone() };
    let models = Models::new(config.models.clone(), limits, &whole_environment());
    let names = config.models.keys();
    join_all(names.map(|name| check(&models, config, name, running.as_ref()))).await
}

async fn check(
    models: &Models,
    config: &Config,
    name: &str,
    running: Option<&HubEnvironment>,
) -> Check {
    let title = format!("model {name}");
    let model = &config.models[name];
    if model.provider == Provider::Script {
        return match models.check(Some(name)) {
            Ok(()) => Check::ok(title, "a script, and no language model; it can be played"),
            Err(error) => Check::fail(title, error.why, "docs/guide/models.md shows its form"),
        };
    }
    let began = Instant::now();
    match models.probe(name).await {
        Ok(_) => {
            let seconds = began.elapsed().as_secs_f64();
            let told = format!("{} answered in {seconds:.1} s", model.model);
            let other = |variable: &&str| running.is_some_and(|hub| hub.has_another(variable));
            match model.key_variable().filter(other) {
                None => Check::ok(title, told),
                Some(variable) => Check::warn(
                    title,
                    format!("{told}, but the running hub was started with another {variable}"),
                    "start the hub again, with this variable",
                ),
            }
        }
        Err(error) => Check::fail(title, error.why, advice(name, error.kind)),
    }
}

/// The environment with which the running hub was started, as the system tells it: Linux
/// does.
struct HubEnvironment(Vec<u8>);

impl HubEnvironment {
    fn read(pid: u32) -> Option<Self> {
        fs::read(format!("/proc/{pid}/environ")).ok().map(Self)
    }

    /// Returns whether a variable has another value for the hub than here.
    fn has_another(&self, variable: &str) -> bool {
        let begins = format!("{variable}=");
        let there =
            self.0.split(|byte| *byte == 0).find_map(|line| line.strip_prefix(begins.as_bytes()));
        let here = whole_environment().into_iter().find(|(name, _)| name == variable);
        there.map(OsStr::from_bytes) != here.as_ref().map(|(_, value)| value.as_os_str())
    }
}

fn advice(name: &str, kind: ModelErrorKind) -> String {
    let section = format!("models.{name}");
    match kind {
        ModelErrorKind::Unreachable => {
            format!("look at {section}.base_url, the network and the provider's state")
        }
        ModelErrorKind::Slow => format!("allow more with {section}.timeout, or try again"),
        ModelErrorKind::Refused => format!("look at {section}: model, base_url and the key"),
        ModelErrorKind::RateLimited => "wait, or ask the provider for a higher limit".to_owned(),
        ModelErrorKind::Broken => format!("look at {section}: provider and base_url"),
        ModelErrorKind::TooLong => "raise runner.answer_bytes".to_owned(),
        ModelErrorKind::UsedUp => format!("raise {section}.max_tokens"),
        ModelErrorKind::Withheld => "ask the provider why its filter stops it".to_owned(),
        ModelErrorKind::NoKey => format!(
            "set {section}.api_key_env or {section}.api_key_file; a running hub sees a new \
             variable after a restart"
        ),
        ModelErrorKind::Script => "docs/guide/models.md shows its form".to_owned(),
    }
}
