//! Checks each configured model with one real call.

use std::time::Instant;

use futures_util::future::join_all;
use posthaste_agents::{ModelErrorKind, Models, Provider, RunnerConfig};

use super::Check;
use crate::config::{Config, whole_environment};

/// Asks all models at once, as a hub with this configuration and environment would.
pub(super) async fn checks(config: &Config) -> Vec<Check> {
    // The doctor tells what it sees, and does not wait until it passes.
    let limits = RunnerConfig { attempts: 1, ..config.runner.clone() };
    let models = Models::new(config.models.clone(), limits, &whole_environment());
    join_all(config.models.keys().map(|name| check(&models, config, name))).await
}

async fn check(models: &Models, config: &Config, name: &str) -> Check {
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
            Check::ok(title, format!("{} answered in {seconds:.1} s", model.model))
        }
        Err(error) => Check::fail(title, error.why, advice(name, error.kind)),
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
        ModelErrorKind::NoKey => format!(
            "set {section}.api_key_env or {section}.api_key_file; a running hub sees a new \
             variable after a restart"
        ),
        ModelErrorKind::Script => "docs/guide/models.md shows its form".to_owned(),
    }
}
