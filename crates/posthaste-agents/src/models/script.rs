//! The model that is none: it plays a file of steps.
//!
//! For tests, demonstrations and work without a network. Each text that it says begins with
//! `[script]`. The step is the number of the answers of the model in the request, so a hub
//! that starts anew goes on with the right one.

use std::time::Duration;

use posthaste_runner::protocol::{ChatMessage, MAIL, ToolCall};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ModelConfig, ModelError, ModelErrorKind, ModelReply, ModelRequest, ModelUsage};

/// Begins each text of a script.
const LABEL: &str = "[script] ";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// A text that the request must have.
    #[serde(default)]
    expect: Option<String>,
    #[serde(default, with = "humantime_serde")]
    delay: Duration,
    #[serde(default)]
    say: Option<String>,
    #[serde(default)]
    call: Vec<Call>,
}

impl Step {
    fn is_empty(&self) -> bool {
        self.call.is_empty() && self.say.as_deref().is_none_or(str::is_empty)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl Script {
    pub(super) fn read(name: &str, model: &ModelConfig) -> Result<Self, ModelError> {
        let wrong = |why: String| ModelError::new(ModelErrorKind::Script, why);
        let file = model.file.as_ref().ok_or_else(|| wrong(format!("{name} has no file")))?;
        let text = std::fs::read(file).map_err(|error| {
            wrong(format!("the script of the model {name}: {}: {error}", file.display()))
        })?;
        let wrong = |why: &dyn std::fmt::Display| {
            wrong(format!("the script of the model {name}: {}: {why}", file.display()))
        };
        let script: Self = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
        if script.steps.is_empty() {
            return Err(wrong(&"it has no steps"));
        }
        match script.steps.iter().position(Step::is_empty) {
            Some(at) => Err(wrong(&format!("step {} neither says nor calls anything", at + 1))),
            None => Ok(script),
        }
    }

    pub(super) async fn play(
        &self,
        name: &str,
        request: &ModelRequest,
    ) -> Result<ModelReply, ModelError> {
        let wrong = |why: String| ModelError::new(ModelErrorKind::Script, why);
        let answered = |message: &&ChatMessage| match message {
            ChatMessage::Assistant { tool_calls, .. } => {
                tool_calls.first().is_none_or(|call| !call.id.starts_with(MAIL))
            }
            _ => false,
        };
        let number = request.messages.iter().filter(answered).count();
        let Some(step) = self.steps.get(number) else {
            let steps = self.steps.len();
            let why = format!("the script of the model {name} has {steps} steps, and is over");
            return Err(wrong(why));
        };
        if let Some(expected) = &step.expect {
            let seen = serde_json::to_string(&request.messages).unwrap_or_default();
            let escaped = Value::from(expected.as_str()).to_string();
            if !seen.contains(escaped.trim_matches('"')) {
                let why = format!(
                    "step {} of the script of the model {name} expects {expected:?}, and the \
                     request does not have it",
                    number + 1
                );
                return Err(wrong(why));
            }
        }
        tokio::time::sleep(step.delay).await;
        let call = |(at, call): (usize, &Call)| ToolCall {
            id: format!("script_{number}_{at}"),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        };
        Ok(ModelReply {
            content: step.say.as_ref().map(|text| format!("{LABEL}{text}")),
            tool_calls: step.call.iter().enumerate().map(call).collect(),
            thoughts: None,
            usage: ModelUsage::default(),
        })
    }
}
