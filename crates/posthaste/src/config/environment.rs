//! The environment as a layer of the configuration: `POSTHASTE_SECTION__KEY`, and names
//! that other programs used before.

use std::convert::Infallible;
use std::ffi::OsString;

use clap::CommandFactory;
use figment::value::{Dict, Map, Value};
use figment::{Metadata, Profile, Provider};
use posthaste_api::ApiError;

use super::tell;
use crate::cli::Cli;
use crate::failure::invalid;

const PREFIX: &str = "POSTHASTE_";

/// Other names, from the weakest; the name of the key itself takes precedence.
const ALIASES: [(&str, &str); 4] = [
    ("CAO_QUEUE_BACKEND", "queue.backend"),
    ("POSTHASTE_QUEUE_BACKEND", "queue.backend"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "telemetry.otlp"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "telemetry.headers"),
];

/// Variables between the test script and its tests.
const OF_THE_TESTS: [&str; 4] =
    ["POSTHASTE_FUZZ", "POSTHASTE_FUZZ_SEED", "POSTHASTE_QUICK", "POSTHASTE_REQUIRE"];

/// The lowest similarity of a suggestion. The names are long, and share their sections.
const ALIKE: f64 = 0.75;

/// More brackets than any value needs.
const MOST_BRACKETS: usize = 64;

/// The values of the environment, from the weakest to the strongest.
pub(super) struct Environment(Vec<Said>);

struct Said {
    variable: String,
    key: String,
    value: String,
}

impl Environment {
    pub(super) fn of_this_process() -> Result<Self, ApiError> {
        Self::new(variables())
    }

    /// Reads the same without checking other variables: for a caller that needs one key.
    pub(super) fn lenient() -> Self {
        Self(variables().filter_map(said).collect())
    }

    pub(super) fn new(vars: impl Iterator<Item = (String, String)>) -> Result<Self, ApiError> {
        let mut found = Vec::new();
        for (name, value) in vars.filter(|(_, value)| !value.is_empty()) {
            if name.starts_with(PREFIX) && !name.contains("__") && !is_known(&name) {
                let told = invalid(format!("unknown variable `{name}` in the environment"));
                return Err(match nearest(&name) {
                    Some(meant) => told.hint(format!("did you mean `{meant}`?")),
                    None => told.hint(
                        "`posthaste config` lists the keys; unset it if it is not for the hub",
                    ),
                });
            }
            found.extend(said((name, value)));
        }
        found.sort_by_key(|said| {
            ALIASES.iter().position(|(name, _)| *name == said.variable).unwrap_or(ALIASES.len())
        });
        Ok(Self(found))
    }

    /// Returns the variable that decides about this key.
    pub(super) fn variable(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|said| said.key == key).map(|said| said.variable.as_str())
    }
}

/// Returns whether this variable has a value.
#[expect(clippy::disallowed_methods, reason = "this is the one room that reads the environment")]
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Returns the value of another program's variable.
#[expect(clippy::disallowed_methods, reason = "this is the one room that reads the environment")]
pub(crate) fn of_others(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// Returns the whole environment, for the processes that the hub starts.
#[expect(clippy::disallowed_methods, reason = "this is the one room that reads the environment")]
pub(crate) fn whole_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

#[expect(clippy::disallowed_methods, reason = "this is the one room that reads the environment")]
fn variables() -> impl Iterator<Item = (String, String)> {
    // A variable that is not text is not ours.
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text)
}

fn said((variable, value): (String, String)) -> Option<Said> {
    if value.is_empty() {
        return None;
    }
    let alias = ALIASES.iter().find(|(name, _)| *name == variable);
    let key = match alias {
        Some((_, key)) => (*key).to_owned(),
        None => {
            let name = variable.strip_prefix(PREFIX).filter(|name| name.contains("__"))?;
            name.to_ascii_lowercase().replace("__", ".")
        }
    };
    Some(Said { variable, key, value })
}

/// Returns the variables that set flags.
fn of_flags() -> Vec<String> {
    fn collect(command: &clap::Command, found: &mut Vec<String>) {
        let names = command.get_arguments().filter_map(|arg| arg.get_env()?.to_str());
        found.extend(names.map(str::to_owned));
        command.get_subcommands().for_each(|sub| collect(sub, found));
    }
    let mut found = Vec::new();
    collect(&Cli::command(), &mut found);
    found
}

fn is_known(name: &str) -> bool {
    ALIASES.iter().any(|(alias, _)| *alias == name)
        || OF_THE_TESTS.contains(&name)
        // A worker may call a hub, or start a separate one.
        || posthaste_agents::VARIABLES.contains(&name)
        || of_flags().iter().any(|flag| flag == name)
}

/// Returns the variable of a key.
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_ascii_uppercase())
}

fn nearest(name: &str) -> Option<String> {
    let keys = tell::keys().map(|(key, _)| variable_of(&key));
    let known: Vec<String> = of_flags().into_iter().chain(keys).collect();
    let last = name.strip_prefix(PREFIX).unwrap_or(name);
    let whole = known.iter().find(|k| k.rsplit("__").next() == Some(last));
    // All names share the prefix, so it must not count.
    let likeness = |known: &String| {
        let known = known.strip_prefix(PREFIX).unwrap_or(known);
        strsim::normalized_damerau_levenshtein(last, known)
    };
    let scored = || known.iter().map(|known| (likeness(known), known));
    let alike = || scored().filter(|(score, _)| *score >= ALIKE);
    whole.or_else(|| alike().max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)).cloned()
}

impl Provider for &Environment {
    fn metadata(&self) -> Metadata {
        Metadata::named("the environment").interpolater(|_, keys| variable_of(&keys.join(".")))
    }

    fn data(&self) -> figment::error::Result<Map<Profile, Dict>> {
        let mut all = Dict::new();
        for Said { key, value, .. } in &self.0 {
            // These values are always text.
            let value = match key.as_str() {
                "telemetry.otlp" | "telemetry.headers" | "log.filter" => value.clone().into(),
                _ if is_deep(value) || is_misread(value) => value.clone().into(),
                _ => value.parse().unwrap_or_else(|never: Infallible| match never {}),
            };
            put(&mut all, key, value);
        }
        Ok(Profile::Default.collect(all))
    }
}

/// Returns whether the parser of values would run out of stack on this nesting. No
/// setting is deeper than a list, so the value stays text and is refused for its form.
fn is_deep(value: &str) -> bool {
    value.matches(['[', '{', '(']).count() > MOST_BRACKETS
}

/// Returns whether the parser would misread the value: it counts characters where it
/// should count bytes, so an escape after a non-ASCII letter cuts the text short, or
/// panics.
fn is_misread(value: &str) -> bool {
    value.contains('\\') && !value.is_ascii()
}

fn put(dict: &mut Dict, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            dict.insert(key.to_owned(), value);
        }
        Some((section, rest)) => {
            let inner = dict.entry(section.to_owned()).or_insert_with(|| Dict::new().into());
            if let Value::Dict(_, inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}
