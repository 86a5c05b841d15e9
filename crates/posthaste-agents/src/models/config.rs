//! The `[models.NAME]` sections of the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use genai::adapter::AdapterKind;
use reqwest::Url;
use serde::{Deserialize, Serialize};

/// The configured models, by name.
pub type ModelsConfig = BTreeMap<String, ModelConfig>;

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    pub provider: Provider,
    /// The provider's name of the model; a script has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The address of a compatible endpoint, up to its version: `http://127.0.0.1:8080/v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The variable that holds the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The file that holds the key and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_file: Option<PathBuf>,
    /// The longest time of one try.
    #[serde(default = "patience", with = "humantime_serde")]
    pub timeout: Duration,
    /// The longest answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// How much the model thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The file of steps of a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// The price of a million tokens, in USD.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// For input that the provider had cached; as `input` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    Openai,
    Anthropic,
    Gemini,
    Ollama,
    /// Plays a file of steps: for tests, demonstrations and work without a network.
    Script,
}

/// How much a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

fn patience() -> Duration {
    Duration::from_secs(120)
}

impl Provider {
    pub(super) fn adapter(self) -> AdapterKind {
        match self {
            Self::Openai | Self::Script => AdapterKind::OpenAI,
            Self::Anthropic => AdapterKind::Anthropic,
            Self::Gemini => AdapterKind::Gemini,
            Self::Ollama => AdapterKind::Ollama,
        }
    }

    pub(super) fn needs_key(self) -> bool {
        !matches!(self, Self::Ollama | Self::Script)
    }

    /// The variable that its users usually have.
    fn usual_variable(self) -> Option<&'static str> {
        match self {
            Self::Openai => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama | Self::Script => None,
        }
    }

    fn usual_endpoint(self) -> &'static str {
        match self {
            Self::Openai | Self::Script => "https://api.openai.com/v1/",
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
            Self::Ollama => "http://127.0.0.1:11434/",
        }
    }
}

impl ModelConfig {
    /// Every key, and what it is for.
    pub const KEYS: &'static [(&'static str, &'static str)] = &[
        ("provider", "The format of requests: openai, anthropic, gemini, ollama or script."),
        ("model", "The provider's name of the model."),
        ("base_url", "The address of a compatible endpoint, up to its version."),
        ("api_key_env", "The variable that holds the key."),
        ("api_key_file", "The file that holds the key; relative to the configuration file."),
        ("timeout", "The longest time of one try."),
        ("max_tokens", "The longest answer, in tokens."),
        ("effort", "How much the model thinks: none, minimal, low, medium, high, xhigh or max."),
        ("price.input", "The price of a million tokens that the model reads, in USD."),
        ("price.output", "The price of a million tokens that the model writes, in USD."),
        ("price.cached_input", "The same for tokens that the provider had cached."),
        ("file", "The file of steps of a script; relative to the configuration file."),
    ];

    /// Returns the variable that holds the key, unless a file does.
    pub fn key_variable(&self) -> Option<&str> {
        match (&self.api_key_file, &self.api_key_env) {
            (Some(_), _) => None,
            (None, Some(name)) => Some(name),
            // A compatible endpoint of one's own may need none.
            (None, None) if self.base_url.is_some() => None,
            (None, None) => self.provider.usual_variable(),
        }
    }

    /// Returns the address, with a slash at its end.
    pub(super) fn endpoint(&self) -> String {
        let mut url = match &self.base_url {
            Some(url) => url.clone(),
            None => self.provider.usual_endpoint().to_owned(),
        };
        if !url.ends_with('/') {
            url.push('/');
        }
        url
    }

    /// Returns the address of requests.
    pub(super) fn url(&self) -> String {
        let (base, model) = (self.endpoint(), &self.model);
        match self.provider {
            Provider::Openai | Provider::Script => format!("{base}chat/completions"),
            Provider::Anthropic => format!("{base}messages"),
            Provider::Gemini => format!("{base}models/{model}:streamGenerateContent?alt=sse"),
            Provider::Ollama => format!("{base}api/chat"),
        }
    }

    /// Returns the headers of requests: none for a key if there is none.
    pub(super) fn headers(&self, key: &str) -> Vec<(String, String)> {
        let header = |name: &str, value: String| (name.to_owned(), value);
        let mut headers = Vec::new();
        if self.provider == Provider::Anthropic {
            headers.push(header("anthropic-version", "2023-06-01".to_owned()));
        }
        if !key.is_empty() {
            headers.push(match self.provider {
                Provider::Anthropic => header("x-api-key", key.to_owned()),
                Provider::Gemini => header("x-goog-api-key", key.to_owned()),
                // Ollama wants no key, but a gateway before it may.
                Provider::Openai | Provider::Ollama | Provider::Script => {
                    header("authorization", format!("Bearer {key}"))
                }
            });
        }
        headers
    }

    /// Returns what is wrong with the section: the key, and why. A value that might be a
    /// secret is not repeated.
    pub fn fault(&self) -> Option<(&'static str, String)> {
        let wrong = |key, why: &str| Some((key, why.to_owned()));
        if self.provider == Provider::Script {
            return match &self.file {
                None => wrong("file", "a script has a file of steps"),
                Some(_) => None,
            };
        }
        if self.model.is_empty() {
            return wrong("model", "name the model, as its provider does");
        }
        if self.model.contains("::") {
            return wrong("model", "the name of a model has no :: in it");
        }
        if self.file.is_some() {
            return wrong("file", "only a script has a file");
        }
        if self.api_key_env.is_some() && self.api_key_file.is_some() {
            return wrong("api_key_file", "the key is in a variable or in a file, not in both");
        }
        if self.api_key_env.as_deref().is_some_and(|name| !is_variable(name)) {
            return wrong("api_key_env", "it is the name of a variable, and not the key itself");
        }
        if self.max_tokens == Some(0) {
            return wrong("max_tokens", "it is more than nothing; leave it out for the provider's");
        }
        if self.timeout.is_zero() {
            return wrong("timeout", "it is longer than nothing");
        }
        let is_url = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        if self.base_url.as_ref().is_some_and(|url| !is_url(url)) {
            return wrong("base_url", "it begins with http:// or https://");
        }
        let authority = |url: &String| Some(url.split_once("://")?.1.split('/').next()?.to_owned());
        if self.base_url.as_ref().and_then(authority).is_some_and(|host| host.contains('@')) {
            return wrong("base_url", "a password does not belong into the address");
        }
        if self.base_url.as_ref().is_some_and(|url| url.contains(['?', '#'])) {
            return wrong("base_url", "it ends before ? and #");
        }
        let host = self.base_url.as_ref().and_then(authority);
        let is_word = |url: &String| !url.contains(|c: char| c.is_whitespace() || c.is_control());
        let is_address = |url: &String| is_word(url) && Url::parse(url).is_ok();
        if host.is_some_and(|host| host.is_empty())
            || self.base_url.as_ref().is_some_and(|url| !is_address(url))
        {
            return wrong("base_url", "it is no address, such as http://127.0.0.1:8080/v1");
        }
        let prices = self
            .price
            .into_iter()
            .flat_map(|price| [price.input, price.output, price.cached_input.unwrap_or_default()]);
        if prices.into_iter().any(|usd| !usd.is_finite() || usd < 0.0) {
            return wrong("price", "a price is a number that is not below zero");
        }
        None
    }
}

fn is_variable(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_key_of_a_section_is_told_with_its_meaning_and_no_other() {
        let whole: ModelConfig = serde_json::from_value(json!({
            "provider": "openai", "model": "m", "base_url": "http://x", "api_key_env": "K",
            "api_key_file": "f", "timeout": "1s", "max_tokens": 1, "file": "f",
            "effort": "none",
            "price": { "input": 1.0, "output": 1.0, "cached_input": 1.0 },
        }))
        .expect("every key is known");
        let section = serde_json::to_value(whole).expect("JSON");
        let mut real = BTreeSet::new();
        for (key, value) in section.as_object().expect("a section") {
            match value {
                Value::Object(inner) => real.extend(inner.keys().map(|k| format!("{key}.{k}"))),
                _ => drop(real.insert(key.clone())),
            }
        }
        let told: BTreeSet<String> =
            ModelConfig::KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
        assert_eq!(told, real);
    }

    #[test]
    fn what_is_wrong_with_a_section_is_named_and_a_key_in_it_is_not_repeated() {
        for (section, key) in [
            (json!({ "provider": "script" }), "file"),
            (json!({ "provider": "openai" }), "model"),
            (json!({ "provider": "openai", "model": "m", "file": "f" }), "file"),
            (json!({ "provider": "openai", "model": "openai::m" }), "model"),
            (
                json!({ "provider": "openai", "model": "m", "api_key_env": "sk-geheim" }),
                "api_key_env",
            ),
            (json!({ "provider": "openai", "model": "m", "api_key_env": "" }), "api_key_env"),
            (
                json!({ "provider": "openai", "model": "m", "api_key_env": "K", "api_key_file": "f" }),
                "api_key_file",
            ),
            (json!({ "provider": "openai", "model": "m", "timeout": "0s" }), "timeout"),
            (json!({ "provider": "openai", "model": "m", "max_tokens": 0 }), "max_tokens"),
            (json!({ "provider": "openai", "model": "m", "base_url": "localhost:1" }), "base_url"),
            (
                json!({ "provider": "openai", "model": "m", "base_url": "http://a:geheim@b/v1" }),
                "base_url",
            ),
            (
                json!({ "provider": "openai", "model": "m", "base_url": "http://b/v1?key=geheim" }),
                "base_url",
            ),
            (
                json!({ "provider": "openai", "model": "m", "price": { "input": -1.0, "output": 0.0 } }),
                "price",
            ),
        ] {
            let model: ModelConfig = serde_json::from_value(section.clone()).expect("known keys");
            let (named, why) = model.fault().unwrap_or_else(|| panic!("{section}"));
            assert_eq!(named, key, "{section}: {why}");
            assert!(!why.contains("geheim"), "{why}");
        }
        for url in [
            "http://",
            "https:///v1",
            "http://127.0.0.1:99999/v1",
            "http://exa mple/v1",
            "http://example/v1 ",
            "http://example/v\t1",
            "http://[::1/v1",
            "http://:80/v1",
        ] {
            let section = json!({ "provider": "openai", "model": "m", "base_url": url });
            let model: ModelConfig = serde_json::from_value(section).expect("known keys");
            assert_eq!(model.fault().map(|(key, _)| key), Some("base_url"), "{url}");
        }
        for good in [
            json!({ "provider": "openai", "model": "m", "base_url": "https://größe.example:8/v1/" }),
            json!({ "provider": "ollama", "model": "qwen3:8b" }),
            json!({ "provider": "openai", "model": "m", "base_url": "http://[::1]:1/v1/@x" }),
            json!({ "provider": "script", "file": "steps.json" }),
        ] {
            let model: ModelConfig = serde_json::from_value(good.clone()).expect("known keys");
            assert_eq!(model.fault(), None, "{good}");
        }
    }
}
