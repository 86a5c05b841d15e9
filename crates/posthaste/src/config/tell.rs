//! Every setting: its value, its origin, and its description.
//!
//! All of it is made from the types of the sections, so it is never stale.

use std::fmt;
use std::path::PathBuf;

use figment::Source;
use posthaste_agents::{ModelConfig, RunnerConfig};
use posthaste_api::ApiError;
use posthaste_core::Limits;
use posthaste_core::orchestration::AgentsConfig;
use posthaste_server::{CompatConfig, McpConfig, ServerConfig};
use posthaste_store::StoreConfig;
use serde::Serialize;
use serde_json::Value;

use super::environment::is_set;
use super::{
    Config, Layers, LogConfig, QueueConfig, TelemetryConfig, data_folder, default_data_folder,
};
use crate::cli::{Global, UpArgs};
use crate::commands::hook::HooksConfig;
use crate::profiles::ProfilesConfig;

type Keys = &'static [(&'static str, &'static str)];

const DATA: &str = "data";
/// The section of the models, each of which has a section of its own below.
pub(super) const MODELS: &str = "models";
const DATA_ABOUT: &str = "The data folder; in a file it is relative to that file.";

/// The sections, as they stand in a file.
const SECTIONS: [(&str, Keys); 12] = [
    ("server", ServerConfig::KEYS),
    ("store", StoreConfig::KEYS),
    ("limits", Limits::KEYS),
    ("profiles", ProfilesConfig::KEYS),
    ("agents", AgentsConfig::KEYS),
    ("hooks", HooksConfig::KEYS),
    ("runner", RunnerConfig::KEYS),
    ("queue", QueueConfig::KEYS),
    ("log", LogConfig::KEYS),
    ("telemetry", TelemetryConfig::KEYS),
    ("mcp", McpConfig::KEYS),
    ("compat", CompatConfig::KEYS),
];

/// The end of the example file. There are no models without configuration, so it has no
/// defaults to show.
const EXAMPLE_OF_MODELS: &str = "
# The language models of built-in assistants, each in a section with a name of your own,
# such as:
#     [models.large]
#     provider = \"anthropic\"
#     model = \"claude-sonnet-4-5\"
#     api_key_env = \"ANTHROPIC_API_KEY\"
#     price = { input = 3.0, output = 15.0, cached_input = 0.3 }
#     [models.local]
#     provider = \"ollama\"
#     model = \"qwen3:8b\"
# The keys of such a section:
";

/// The lowest similarity of a suggestion.
const ALIKE: f64 = 0.6;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) from: Origin,
    pub(crate) about: &'static str,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(PathBuf),
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns the names of the sections.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().map(|(section, _)| *section)
}

/// Returns every key with its description.
pub(super) fn keys() -> impl Iterator<Item = (String, &'static str)> {
    let of = |(section, keys): &(&'static str, Keys)| {
        let section = *section;
        keys.iter().map(move |(key, about)| (format!("{section}.{key}"), about.trim()))
    };
    std::iter::once((DATA.to_owned(), DATA_ABOUT)).chain(SECTIONS.iter().flat_map(of))
}

/// Returns the description of a key.
pub(super) fn about(key: &str) -> Option<&'static str> {
    let of_model = key.strip_prefix("models.").and_then(|key| {
        let told = ModelConfig::KEYS.iter();
        told.clone().find(|(known, _)| key.ends_with(&format!(".{known}"))).map(|(_, about)| *about)
    });
    of_model.or_else(|| keys().find(|(known, _)| known == key).map(|(_, about)| about))
}

/// Returns the word that is most similar to this one.
pub(super) fn most_alike<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().filter_map(|known| Some((likeness(word, known)?, *known)));
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

/// Returns the keys of the configured models with their values.
fn of_models(values: &Value) -> Vec<(String, Value)> {
    fn leaves(key: String, value: &Value, found: &mut Vec<(String, Value)>) {
        match value {
            Value::Object(inner) => {
                inner
                    .iter()
                    .for_each(|(name, value)| leaves(format!("{key}.{name}"), value, found));
            }
            leaf => found.push((key, leaf.clone())),
        }
    }
    let mut found = Vec::new();
    for (name, model) in values[MODELS].as_object().into_iter().flatten() {
        leaves(format!("{MODELS}.{name}"), model, &mut found);
    }
    found
}

/// Returns the values in force with these flags, and their origins.
pub(crate) fn settings(global: &Global, up: &UpArgs) -> Result<Vec<Setting>, ApiError> {
    let config = Config::load(global, up)?;
    let layers = Layers::new(global)?;
    let mut values = serde_json::to_value(&config).expect("settings have only text keys");
    values[DATA] = data_folder(global)?.path().to_string_lossy().into();
    let setting = |(key, about): (String, &'static str)| {
        let pointer = format!("/{}", key.replace('.', "/"));
        let value = values.pointer(&pointer).cloned().unwrap_or_default();
        let from = by_flag(&key, global, up).unwrap_or_else(|| in_layers(&layers, &key));
        Setting { key, value, from, about }
    };
    let mut all: Vec<Setting> = keys().map(setting).collect();
    all.extend(of_models(&values).into_iter().map(|(key, value)| Setting {
        from: in_layers(&layers, &key),
        about: about(&key).unwrap_or_default(),
        key,
        value,
    }));
    Ok(all)
}

fn by_flag(key: &str, global: &Global, up: &UpArgs) -> Option<Origin> {
    // Some flags take their value from a variable if they are not given.
    let or_variable = |flag: &'static str, variable: &str| {
        let written = std::env::args_os().any(|arg| {
            let rest = arg.as_encoded_bytes().strip_prefix(flag.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"="))
        });
        match !written && is_set(variable) {
            true => Origin::Variable(variable.to_owned()),
            false => Origin::Flag(flag),
        }
    };
    match key {
        DATA if global.data.as_ref().is_some_and(|path| !path.as_os_str().is_empty()) => {
            Some(or_variable("--data", "POSTHASTE_DATA"))
        }
        "server.listen" if up.listen.is_some() => Some(Origin::Flag("--listen")),
        "server.allow_remote" if up.allow_remote => Some(Origin::Flag("--allow-remote")),
        "log.format" if up.log_format.is_some() => Some(Origin::Flag("--log-format")),
        "log.filter" if up.log.as_ref().is_some_and(|text| !text.is_empty()) => {
            Some(or_variable("--log", "POSTHASTE_LOG"))
        }
        _ => None,
    }
}

fn in_layers(layers: &Layers, key: &str) -> Origin {
    if let Some(variable) = layers.environment.variable(key) {
        return Origin::Variable(variable.to_owned());
    }
    match layers.figment.find_metadata(key).and_then(|found| found.source.clone()) {
        Some(Source::File(path)) => Origin::File(path),
        _ => Origin::Default,
    }
}

/// Returns the key or the section that was probably meant: the same word in another
/// section, or the most similar one.
pub(crate) fn nearest(key: &str) -> Option<String> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
    let sections = SECTIONS.iter().map(|(section, _)| (*section).to_owned());
    let all: Vec<String> =
        keys().map(|(known, _)| known).chain(sections).filter(|known| known != key).collect();
    let whole = all.iter().find(|known| known.contains('.') && last(known) == last(key));
    let scored = || all.iter().filter_map(|known| Some((likeness(key, known)?, known)));
    let alike = || scored().max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known);
    whole.or_else(alike).cloned()
}

/// Returns the similarity of two keys, part by part, so that a shared section does not
/// make their words more similar.
fn likeness(key: &str, known: &str) -> Option<f64> {
    let (parts, others) = (key.split('.'), known.split('.'));
    if parts.clone().count() != others.clone().count() {
        return None;
    }
    let alike = parts.zip(others).map(|(a, b)| strsim::normalized_damerau_levenshtein(a, b));
    alike.reduce(f64::min).filter(|least| *least >= ALIKE)
}

/// Returns a file with the same effect as no file: every key with its default.
pub(crate) fn example() -> String {
    let values = serde_json::to_value(Config::default()).expect("settings have only text keys");
    let folder = default_data_folder().unwrap_or_else(|_| "posthaste".into());
    let mut text = format!(
        "# The configuration of Posthaste: every key with its default.\n\
         # Take the # away where you want something else.\n\n\
         # {DATA_ABOUT}\n\
         #{DATA} = {}\n",
        written(&folder.to_string_lossy().into())
    );
    for (section, keys) in SECTIONS {
        text.push_str(&format!("\n[{section}]\n"));
        for (key, about) in keys {
            let value = written(&values[section][key]);
            text.push_str(&format!("# {}\n#{key} = {value}\n", about.trim()));
        }
    }
    text.push_str(EXAMPLE_OF_MODELS);
    for (key, about) in ModelConfig::KEYS {
        text.push_str(&format!("# {key}: {about}\n"));
    }
    text
}

/// Returns the value as it stands in a file. Settings need only what JSON and TOML have
/// in common.
pub(crate) fn written(value: &Value) -> String {
    value.to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_key_of_the_types_is_told_with_its_meaning_and_no_other() {
        let values = serde_json::to_value(Config::default()).expect("JSON");
        let mut real = BTreeSet::from([DATA.to_owned()]);
        for (section, inner) in values.as_object().expect("sections") {
            let keys = inner.as_object().into_iter().flatten();
            real.extend(keys.map(|(key, _)| format!("{section}.{key}")));
        }
        let told: BTreeSet<String> = keys().map(|(key, _)| key).collect();
        assert_eq!(told, real);
        for (key, about) in keys() {
            assert!(about.ends_with('.') && !about.contains('\n'), "{key}: {about}");
        }
    }

    #[test]
    fn the_example_with_every_sign_taken_away_says_the_defaults() {
        let text: String = example()
            .lines()
            .filter(|line| !line.starts_with("# ") && !line.starts_with("#data "))
            .map(|line| format!("{}\n", line.strip_prefix('#').unwrap_or(line)))
            .collect();
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let path = scratch.path().join("config.toml");
        for text in [text, example()] {
            std::fs::write(&path, &text).expect("written");
            let nothing = super::super::Environment::new(std::iter::empty()).expect("good");
            let layers = Layers::of(Some(&path), nothing).expect("readable");
            let config: Config = layers.figment.extract().expect("every key is known");
            let (read, default) = (serde_json::to_value(&config), Config::default());
            assert_eq!(read.ok(), serde_json::to_value(&default).ok(), "{text}");
        }
    }

    #[test]
    fn the_keys_of_models_have_their_meaning() {
        let values = serde_json::json!({ MODELS: { "large": {
            "provider": "openai", "price": { "input": 1.0 },
        } } });
        let keys: Vec<String> = of_models(&values).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["models.large.provider", "models.large.price.input"]);
        assert!(keys.iter().all(|key| about(key).is_some()), "{keys:?}");
        assert_eq!(about("models.large.other"), None);
    }

    #[test]
    fn a_secret_shows_no_more_than_that_there_is_one() {
        let secret: super::super::Secret =
            serde_json::from_value("open sesame".into()).expect("text");
        assert_eq!(secret.reveal(), "open sesame");
        assert_eq!(serde_json::to_string(&secret).expect("JSON"), "\"(hidden)\"");
        assert!(!format!("{secret:?}").contains("sesame"));
    }
}
