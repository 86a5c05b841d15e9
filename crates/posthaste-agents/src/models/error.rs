//! Why a model did not answer, in one sentence.

use std::error::Error;
use std::time::{Duration, SystemTime};

use humantime_serde::re::humantime::format_duration;

use super::ModelUsage;
use crate::conversation::one_line;

/// Number of characters of a provider's own words that are quoted.
const QUOTED: usize = 200;

#[derive(Debug, Clone, PartialEq)]
pub struct ModelError {
    pub kind: ModelErrorKind,
    /// One sentence for the operator.
    pub why: String,
    /// What the provider counted all the same.
    pub spent: ModelUsage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    Unreachable,
    Slow,
    Refused,
    RateLimited,
    Broken,
    /// The answer is larger than the hub takes.
    TooLong,
    /// The model used all its tokens before it said anything.
    UsedUp,
    /// The provider withholds the answer.
    Withheld,
    NoKey,
    Script,
}

impl ModelErrorKind {
    /// Returns whether another try may work.
    pub(super) fn may_pass(self) -> bool {
        matches!(self, Self::Unreachable | Self::Slow | Self::RateLimited | Self::Broken)
    }
}

impl ModelError {
    pub(super) fn new(kind: ModelErrorKind, why: String) -> Self {
        Self { kind, why, spent: ModelUsage::default() }
    }

    /// Makes the error of a failed request; `key` does not appear in it.
    pub(super) fn of(name: &str, error: &genai::Error, key: &str) -> Self {
        if let genai::Error::StreamParse { .. } = error {
            return Self::broken(name, &cause(error), key);
        }
        let (kind, why) = match status(error, key) {
            Some((429, body)) => (ModelErrorKind::RateLimited, format!("limits our rate{body}")),
            Some((401 | 403, body)) => {
                (ModelErrorKind::Refused, format!("refuses our key (models.{name}){body}"))
            }
            Some((404, body)) => (
                ModelErrorKind::Refused,
                format!("does not know the model or the address (models.{name}){body}"),
            ),
            Some((status @ (408 | 409 | 500..), body)) => {
                (ModelErrorKind::Unreachable, format!("cannot answer now ({status}){body}"))
            }
            Some((status, body)) => {
                (ModelErrorKind::Refused, format!("refuses the request ({status}){body}"))
            }
            None => match is_connection(error) {
                true => (
                    ModelErrorKind::Unreachable,
                    format!("cannot be reached: {}", quoted(&cause(error), key)),
                ),
                false => {
                    (ModelErrorKind::Broken, format!("broke off: {}", quoted(&cause(error), key)))
                }
            },
        };
        Self::new(kind, format!("the provider of the model {name} {why}"))
    }

    pub(super) fn broken(name: &str, why: &str, key: &str) -> Self {
        let why = quoted(why, key);
        let why = format!("the answer of the model {name} cannot be read: {why}");
        Self::new(ModelErrorKind::Broken, why)
    }

    /// Makes the error of an answer that has nothing of the provider's format.
    pub(super) fn foreign(name: &str) -> Self {
        let why = "it has nothing of the format of its provider; are provider and base_url right?";
        Self::broken(name, why, "")
    }

    pub(super) fn slow(name: &str, limit: Duration) -> Self {
        let limit = format_duration(limit);
        let why = format!("the model {name} took longer than {limit} (models.{name}.timeout)");
        Self::new(ModelErrorKind::Slow, why)
    }

    /// Makes the error of an answer that a filter of the provider has kept back.
    pub(super) fn withheld(name: &str, reason: &str, key: &str) -> Self {
        let reason = quoted(reason, key);
        let why = format!("the provider of the model {name} withholds the answer: {reason}");
        Self::new(ModelErrorKind::Withheld, why)
    }

    /// Makes the error of an answer that has nothing but the reason of its end.
    pub(super) fn ended(name: &str, reason: &str, key: &str) -> Self {
        let reason = quoted(reason, key);
        let why =
            format!("the answer of the model {name} broke off before it said anything: {reason}");
        Self::new(ModelErrorKind::Broken, why)
    }

    /// Makes the error of a model that used all its tokens before it said anything.
    pub(super) fn used_up(name: &str) -> Self {
        let why = format!(
            "the model {name} reached its longest answer before it said anything \
             (models.{name}.max_tokens)"
        );
        Self::new(ModelErrorKind::UsedUp, why)
    }

    /// Makes the error of a stream that ended with an error of the provider.
    pub(super) fn broke_off(name: &str, why: &str, key: &str) -> Self {
        let why = format!("the provider of the model {name} broke off: {}", quoted(why, key));
        Self::new(ModelErrorKind::Broken, why)
    }

    pub(super) fn too_long(name: &str, most: usize) -> Self {
        let why =
            format!("the answer of the model {name} is over {most} bytes (runner.answer_bytes)");
        Self::new(ModelErrorKind::TooLong, why)
    }
}

/// Returns the status of an answer, and the provider's words after a colon.
fn status(error: &genai::Error, key: &str) -> Option<(u16, String)> {
    let body = match error {
        genai::Error::HttpError { body, .. }
        | genai::Error::WebModelCall {
            webc_error: genai::webc::Error::ResponseFailedStatus { body, .. },
            ..
        } => said(body, key),
        genai::Error::WebStream { error, .. } => {
            return status(error.downcast_ref::<genai::Error>()?, key);
        }
        _ => String::new(),
    };
    let body = if body.is_empty() { body } else { format!(": {body}") };
    Some((error.status()?.as_u16(), body))
}

/// Returns the message in a provider's error, in whichever of their forms.
fn said(body: &str, key: &str) -> String {
    let json: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message = json.as_ref().and_then(message);
    quoted(message.unwrap_or(body), key)
}

/// Returns the provider's words in an error.
pub(super) fn message(json: &serde_json::Value) -> Option<&str> {
    let json = json.get(0).unwrap_or(json);
    let error = json.get("error").unwrap_or(json);
    error.get("message").unwrap_or(error).as_str()
}

/// Shortens a text to one line, after the key was taken out of it.
pub(super) fn quoted(text: &str, key: &str) -> String {
    match key.is_empty() {
        true => one_line(text, QUOTED),
        false => one_line(&text.replace(key, "[key]"), QUOTED),
    }
}

/// Returns the time after which the provider wants to be asked again.
pub(super) fn retry_after(error: &genai::Error) -> Option<Duration> {
    let error = match error {
        genai::Error::WebStream { error, .. } => error.downcast_ref()?,
        other => other,
    };
    let headers = error.headers()?;
    let read = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim());
    let number = |name: &str| read(name)?.parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|milliseconds| milliseconds / 1000.0);
    match seconds.or_else(|| number("retry-after")) {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => {
            let date = httpdate::parse_http_date(read("retry-after")?).ok()?;
            date.duration_since(SystemTime::now()).ok()
        }
    }
}

/// Returns whether there was no answer at all.
fn is_connection(error: &genai::Error) -> bool {
    let is_ours = |error: &(dyn Error + 'static)| {
        let known = error.downcast_ref::<reqwest::Error>();
        known.is_some_and(|error| error.is_connect() || error.is_request())
    };
    causes(error).into_iter().any(is_ours)
}

/// Returns the last cause, which says most.
fn cause(error: &genai::Error) -> String {
    if let genai::Error::ChatResponse { body, .. } = error {
        return message(body).map_or_else(|| body.to_string(), str::to_owned);
    }
    let last = causes(error).pop().map(ToString::to_string);
    last.unwrap_or_else(|| error.to_string())
}

fn causes(error: &genai::Error) -> Vec<&(dyn Error + 'static)> {
    let mut next: Option<&(dyn Error + 'static)> = match error {
        genai::Error::WebModelCall { webc_error: genai::webc::Error::Reqwest(error), .. } => {
            Some(error)
        }
        genai::Error::WebStream { error, .. } => Some(error.as_ref()),
        genai::Error::StreamParse { serde_error, .. } => Some(serde_error),
        _ => error.source(),
    };
    let mut all = Vec::new();
    while let Some(error) = next {
        all.push(error);
        next = error.source();
    }
    all
}
