//! Calling language models for assistants.
//!
//! A model has a name in the configuration, `[models.NAME]`. [`Models::ask`] sends one
//! request in the provider's own format, streams the answer, tries again what may work
//! later, and says in one sentence what does not.

mod attempt;
mod config;
mod convert;
mod error;
mod frames;
mod script;
#[cfg(test)]
mod tests;
mod thoughts;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use genai::Client;
use posthaste_core::ports::LaunchError;
use posthaste_runner::protocol::{ChatMessage, ToolCall, ToolSpec};
use rand::RngExt;
use tokio::time::sleep;

pub use self::config::{ModelConfig, ModelsConfig, Price, Provider};
pub use self::error::{ModelError, ModelErrorKind};
pub use self::thoughts::Thoughts;
use crate::runner_config::RunnerConfig;

/// A request to a model.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    pub messages: Vec<ChatMessage>,
    pub tools: Vec<ToolSpec>,
    /// The model's thoughts behind earlier answers, by the id of the first call of each.
    pub thoughts: HashMap<String, Thoughts>,
}

impl ModelRequest {
    /// Returns the ids of the calls in the conversation.
    fn call_ids(&self) -> HashSet<&str> {
        let calls = self.messages.iter().flat_map(|message| match message {
            ChatMessage::Assistant { tool_calls, .. } => tool_calls.as_slice(),
            _ => &[],
        });
        calls.map(|call| call.id.as_str()).collect()
    }
}

/// The answer of a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelReply {
    pub content: Option<String>,
    pub tool_calls: Vec<ToolCall>,
    /// What has to go back to the model with the results of these calls.
    pub thoughts: Option<Thoughts>,
    pub usage: ModelUsage,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// `None`: the configuration has no price.
    pub cost_usd: Option<f64>,
}

/// News of a call that is under way.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The text of the answer so far.
    Writing(&'a str),
    /// One try failed, for this reason, and there is another one.
    Retrying(&'a str),
}

/// The configured models.
pub struct Models {
    all: ModelsConfig,
    limits: RunnerConfig,
    /// The keys of the configured variables, as the hub was started with them.
    keys: BTreeMap<String, OsString>,
    /// Made for the first request: it reads the system's certificates.
    client: OnceLock<Client>,
}

impl Models {
    /// Makes the models of a configuration. `environment` is that of the hub, of which only
    /// the variables that the configuration names are kept.
    pub fn new(
        all: ModelsConfig,
        limits: RunnerConfig,
        environment: &[(OsString, OsString)],
    ) -> Self {
        let named = |name: &str| environment.iter().find(|(known, _)| known == name);
        let variables = all.values().filter_map(|model| model.key_variable());
        let keys = variables.filter_map(|name| {
            let (_, value) = named(name)?;
            Some((name.to_owned(), value.clone()))
        });
        let keys = keys.collect();
        Self { all, limits, keys, client: OnceLock::new() }
    }

    pub fn names(&self) -> Vec<&str> {
        self.all.keys().map(String::as_str).collect()
    }

    /// Returns the variables that hold keys: no tool gets them.
    pub fn key_variables(&self) -> Vec<&str> {
        self.all.values().filter_map(|model| model.key_variable()).collect()
    }

    /// Returns the files that hold keys: no tool of a confined service gets them.
    pub fn key_files(&self) -> Vec<PathBuf> {
        self.all.values().filter_map(|model| model.api_key_file.clone()).collect()
    }

    /// Checks whether a profile's model is configured and its key is there. Asks nobody.
    pub fn check(&self, name: Option<&str>) -> Result<(), LaunchError> {
        let (name, model) = self.find(name)?;
        let checked = match model.provider {
            Provider::Script => script::Script::read(name, model).map(drop),
            _ => self.key(name, model).map(drop),
        };
        checked.map_err(|error| LaunchError::new(error.why, None).about("model"))
    }

    fn find(&self, name: Option<&str>) -> Result<(&str, &ModelConfig), LaunchError> {
        const HOW: &str = "add a section [models.NAME] with provider and model to the \
            configuration: docs/guide/models.md";
        let found = match name {
            Some(name) => self.all.get_key_value(name),
            None if self.all.len() == 1 => self.all.iter().next(),
            None => None,
        };
        if let Some((name, model)) = found {
            return Ok((name, model));
        }
        let known = self.names().join(", ");
        let why = match (name, self.all.is_empty()) {
            (_, true) => "no language model is configured".to_owned(),
            (Some(name), false) => format!("no model is called `{name}`; configured: {known}"),
            (None, false) => format!("its profile names no `model`; configured: {known}"),
        };
        Err(LaunchError::new(why, HOW).about("model"))
    }

    /// Returns the key of a model.
    fn key(&self, name: &str, model: &ModelConfig) -> Result<String, ModelError> {
        let no_key = |why: String| {
            let why = format!("the model {name} has no key: {why}");
            Err(ModelError::new(ModelErrorKind::NoKey, why))
        };
        // `None`: the place holds nothing.
        let (place, bytes) = match (&model.api_key_file, model.key_variable()) {
            (Some(file), _) => {
                let place = file.display().to_string();
                match std::fs::read(file) {
                    Ok(bytes) => (place, Some(bytes)),
                    Err(error) => return no_key(format!("{place}: {error}")),
                }
            }
            (None, Some(variable)) => {
                let value = self.keys.get(variable);
                let bytes = value.map(|value| value.as_encoded_bytes().to_owned());
                (format!("the variable {variable}"), bytes)
            }
            (None, None) => return Ok(String::new()),
        };
        let Ok(text) = String::from_utf8(bytes.unwrap_or_default()) else {
            return no_key(format!("{place} holds no text (UTF-8)"));
        };
        // Some editors put a mark before the text.
        let key = text.trim_start_matches('\u{feff}').trim();
        let is_word = key.bytes().all(|byte| byte.is_ascii_graphic());
        match (key.is_empty(), &model.api_key_file) {
            (false, _) if is_word => Ok(key.to_owned()),
            (false, _) => no_key(format!("{place} holds more than one word")),
            (true, Some(_)) => no_key(format!("{place} is empty")),
            (true, None) if model.provider.needs_key() || model.api_key_env.is_some() => {
                no_key(format!("{place} is not set where the hub was started"))
            }
            (true, None) => Ok(String::new()),
        }
    }

    /// Asks a model. Dropping the future cancels the request.
    pub async fn ask(
        &self,
        name: Option<&str>,
        request: &ModelRequest,
        progress: &(dyn Fn(Progress<'_>) + Send + Sync),
    ) -> Result<ModelReply, ModelError> {
        let (name, model) =
            self.find(name).map_err(|error| ModelError::new(ModelErrorKind::Refused, error.why))?;
        if model.provider == Provider::Script {
            return script::Script::read(name, model)?.play(name, request).await;
        }
        let mut tries = 0;
        // The provider wants to be paid for an answer of no use as well.
        let mut spent = ModelUsage::default();
        loop {
            tries += 1;
            let tried = self.attempt(name, model, request, progress).await;
            let last = tries >= self.limits.attempts.max(1);
            // What was written in this try does not go on in the next one.
            progress(Progress::Writing(""));
            spent = spent.and(match &tried {
                Ok(reply) => &reply.usage,
                Err((error, _)) => &error.spent,
            });
            match tried {
                // A model that says nothing is asked once more.
                Ok(reply) if tries > 1 || !reply.is_empty() || last => {
                    return Ok(ModelReply { usage: spent, ..reply });
                }
                Ok(_) => progress(Progress::Retrying(&format!("the model {name} said nothing"))),
                Err((error, _)) if last || !error.kind.may_pass() => {
                    let times =
                        if tries == 1 { String::new() } else { format!(" ({tries} tries)") };
                    let why = format!("{}{times}", error.why);
                    return Err(ModelError { why, spent, ..error });
                }
                Err((error, wait)) => {
                    progress(Progress::Retrying(&format!("{}; trying again", error.why)));
                    sleep(self.pause(tries, wait)).await;
                }
            }
        }
    }

    /// Returns the time before the next try: doubled each time, with some chance in it, and
    /// what the provider asks for.
    fn pause(&self, tries: usize, wanted: Option<Duration>) -> Duration {
        let doubled = 1_u32 << tries.saturating_sub(1).min(16);
        let base = self.limits.retry_after.saturating_mul(doubled);
        let some = base.mul_f64(rand::rng().random_range(0.75..1.25));
        some.max(wanted.unwrap_or_default()).min(self.limits.retry_most)
    }

    /// Asks a model for one word, to see whether it can be used.
    pub async fn probe(&self, name: &str) -> Result<ModelReply, ModelError> {
        let content = "Answer with the word: ready".to_owned();
        let messages = vec![ChatMessage::User { content }];
        let request = ModelRequest { messages, ..ModelRequest::default() };
        self.ask(Some(name), &request, &|_| {}).await
    }
}

impl ModelUsage {
    fn and(self, other: &Self) -> Self {
        let cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(one), Some(two)) => Some(one + two),
            (one, two) => one.or(two),
        };
        Self {
            input_tokens: self.input_tokens + other.input_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
            cost_usd,
        }
    }
}

impl ModelReply {
    fn is_empty(&self) -> bool {
        self.tool_calls.is_empty()
            && self.content.as_ref().is_none_or(|text| text.trim().is_empty())
    }
}
