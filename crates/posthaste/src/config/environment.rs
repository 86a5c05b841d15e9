//! The environment as a layer of the configuration: `POSTHASTE_SECTION__KEY`, and
//! names that others gave the same things before.

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

/// Other names, from the weakest; the name of the key itself beats them all.
const ALIASES: [(&str, &str); 4] = [
    ("CAO_QUEUE_BACKEND", "queue.backend"),
    ("POSTHASTE_QUEUE_BACKEND", "queue.backend"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "telemetry.otlp"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "telemetry.headers"),
];

/// How the test script talks to its tests.
const OF_THE_TESTS: [&str; 4] =
    ["POSTHASTE_FUZZ", "POSTHASTE_FUZZ_SEED", "POSTHASTE_QUICK", "POSTHASTE_REQUIRE"];

/// Names less alike than this are no suggestion. They are long, and share their sections.
const ALIKE: f64 = 0.75;

/// More than any value needs.
const MOST_BRACKETS: usize = 64;

/// What the environment says, from the weakest to the strongest.
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

    /// The same, whatever else is set: for whoever needs one key of it.
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

    /// The variable that decides about this key.
    pub(super) fn variable(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|said| said.key == key).map(|said| said.variable.as_str())
    }
}

/// Whether somebody said something in this variable.
#[expect(clippy::disallowed_methods, reason = "this is the one room that reads the environment")]
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// What another program said in a variable of its own.
#[expect(clippy::disallowed_methods, reason = "this is the one room that reads the environment")]
pub(crate) fn of_others(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// Everything, for those whom the hub starts.
#[expect(clippy::disallowed_methods, reason = "this is the one room that reads the environment")]
pub(crate) fn whole_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

#[expect(clippy::disallowed_methods, reason = "this is the one room that reads the environment")]
fn variables() -> impl Iterator<Item = (String, String)> {
    // What is not text is not ours.
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

/// The variables that flags take their values from.
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
        // A worker may ask about a hub, or start one of its own.
        || posthaste_agents::VARIABLES.contains(&name)
        || of_flags().iter().any(|flag| flag == name)
}

/// The variable of a key.
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_ascii_uppercase())
}

fn nearest(name: &str) -> Option<String> {
    let keys = tell::keys().map(|(key, _)| variable_of(&key));
    let known: Vec<String> = of_flags().into_iter().chain(keys).collect();
    let last = name.strip_prefix(PREFIX).unwrap_or(name);
    let whole = known.iter().find(|k| k.rsplit("__").next() == Some(last));
    // All of them begin alike, which says nothing.
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
            // These are text, whatever they look like.
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

/// The parser of values would go as deep, and run out of stack. No setting is deeper than
/// a list, so what remains a text is refused for its form.
fn is_deep(value: &str) -> bool {
    value.matches(['[', '{', '(']).count() > MOST_BRACKETS
}

/// The parser counts characters where it should count bytes: an escape after a letter
/// beyond ASCII cuts the text short, or panics.
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
