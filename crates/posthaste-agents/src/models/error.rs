//! Why a model did not answer, in one sentence.

use std::time::Duration;

use humantime_serde::re::humantime::format_duration;

use crate::conversation::one_line;

/// Number of characters of a provider's own words that are quoted.
const QUOTED: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelError {
    pub kind: ModelErrorKind,
    /// One sentence for the operator.
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    Unreachable,
    Slow,
    Refused,
    RateLimited,
    Broken,
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
    pub(super) fn of(name: &str, error: &genai::Error) -> Self {
        let (kind, why) = match status(error) {
            Some((429, body)) => (ModelErrorKind::RateLimited, format!("limits our rate: {body}")),
            Some((401 | 403, body)) => {
                (ModelErrorKind::Refused, format!("refuses our key (models.{name}): {body}"))
            }
            Some((404, body)) => (
                ModelErrorKind::Refused,
                format!("does not know the model or the address (models.{name}): {body}"),
            ),
            Some((status @ (408 | 409 | 500..), body)) => {
                (ModelErrorKind::Unreachable, format!("cannot answer now ({status}): {body}"))
            }
            Some((status, body)) => {
                (ModelErrorKind::Refused, format!("refuses the request ({status}): {body}"))
            }
            None => match is_connection(error) {
                true => (
                    ModelErrorKind::Unreachable,
                    format!("cannot be reached: {}", quoted(&cause(error))),
                ),
                false => (ModelErrorKind::Broken, format!("broke off: {}", quoted(&cause(error)))),
            },
        };
        Self { kind, why: format!("the provider of the model {name} {why}") }
    }

    pub(super) fn broken(name: &str, why: &str) -> Self {
        let why = format!("the model {name} answered with something unreadable: {}", quoted(why));
        Self { kind: ModelErrorKind::Broken, why }
    }

    pub(super) fn slow(name: &str, limit: Duration) -> Self {
        let limit = format_duration(limit);
        let why = format!("the model {name} took longer than {limit} (models.{name}.timeout)");
        Self { kind: ModelErrorKind::Slow, why }
    }

    /// Takes a key out of the sentence, in case the provider repeated it.
    pub(super) fn without(self, key: &str) -> Self {
        match key.len() < 4 {
            true => self,
            false => Self { why: self.why.replace(key, "[key]"), ..self },
        }
    }
}

/// Returns the status of an answer, and the provider's words.
fn status(error: &genai::Error) -> Option<(u16, String)> {
    match error {
        genai::Error::HttpError { status, body, .. } => Some((status.as_u16(), said(body))),
        genai::Error::WebModelCall { webc_error, .. }
        | genai::Error::WebAdapterCall { webc_error, .. } => {
            let status = webc_error.status()?.as_u16();
            let body = match webc_error {
                genai::webc::Error::ResponseFailedStatus { body, .. } => said(body),
                _ => String::new(),
            };
            Some((status, body))
        }
        _ => None,
    }
}

/// Returns the message in a provider's error, in whichever of their forms.
fn said(body: &str) -> String {
    let json: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message = json.as_ref().and_then(|json| {
        let error = json.get(0).unwrap_or(json).get("error")?;
        error.get("message").unwrap_or(error).as_str()
    });
    quoted(message.unwrap_or(body))
}

fn quoted(text: &str) -> String {
    one_line(text, QUOTED)
}

/// Returns the time after which the provider wants to be asked again.
pub(super) fn retry_after(error: &genai::Error) -> Option<Duration> {
    let headers = match error {
        genai::Error::HttpError { headers, .. } => headers,
        genai::Error::WebModelCall {
            webc_error: genai::webc::Error::ResponseFailedStatus { headers, .. },
            ..
        } => headers,
        _ => return None,
    };
    let seconds = headers.get("retry-after")?.to_str().ok()?.trim().parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn is_connection(error: &genai::Error) -> bool {
    chain(error).iter().any(|text| {
        ["connect", "dns", "Connection refused", "error sending request"]
            .iter()
            .any(|word| text.contains(word))
    })
}

/// Returns the last cause, which says most.
fn cause(error: &genai::Error) -> String {
    chain(error).pop().unwrap_or_else(|| error.to_string())
}

fn chain(error: &genai::Error) -> Vec<String> {
    let mut all = vec![error.to_string()];
    let mut next: Option<&(dyn std::error::Error + 'static)> = match error {
        genai::Error::WebModelCall { webc_error: genai::webc::Error::Reqwest(error), .. } => {
            Some(error)
        }
        genai::Error::WebStream { error, .. } => Some(error.as_ref()),
        _ => std::error::Error::source(error),
    };
    while let Some(error) = next {
        all.push(error.to_string());
        next = error.source();
    }
    all
}
