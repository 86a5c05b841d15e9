//! One try of a request.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use genai::chat::{
    ChatOptions, ChatRequest, ChatStreamEvent, ReasoningEffort, StopReason, StreamEnd,
};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, Headers, ModelIden, ServiceTarget};
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use super::config::Effort;
use super::frames::Frames;
use super::{
    ModelConfig, ModelError, ModelReply, ModelRequest, Models, Progress, Provider, convert, error,
};

/// A try that failed, and the time after which the provider wants to be asked again.
pub(super) type Failed = (ModelError, Option<Duration>);

enum Stopped {
    Failed(genai::Error),
    TooLong,
}

impl From<genai::Error> for Stopped {
    fn from(error: genai::Error) -> Self {
        Self::Failed(error)
    }
}

impl Models {
    pub(super) async fn attempt(
        &self,
        name: &str,
        model: &ModelConfig,
        request: &ModelRequest,
        progress: &(dyn Fn(Progress<'_>) + Send + Sync),
    ) -> Result<ModelReply, Failed> {
        let key = self.key(name, model).map_err(|error| (error, None))?;
        let target = ServiceTarget {
            endpoint: Endpoint::from_owned(model.endpoint()),
            auth: AuthData::RequestOverride {
                url: model.url(),
                headers: Headers::from(model.headers(&key)),
            },
            model: ModelIden::new(model.provider.adapter(), name_for_genai(model)),
        };
        let frames = Arc::new(Frames::new(model.provider, self.limits.answer_bytes));
        let options = options(model, &frames);
        let work = async {
            let asked = convert::request(request, model);
            let client = self.client.get_or_init(client);
            let answer = client.exec_chat_stream(target.clone(), asked, Some(&options)).await?;
            let (mut stream, mut text) = (answer.stream, String::new());
            let unheard = async || {
                if frames.is_empty() {
                    let asked = convert::request(request, model);
                    frames.hear(unstreamed(client, target, asked, options.clone()).await);
                }
            };
            loop {
                let event = tokio::select! {
                    biased;
                    () = frames.too_many() => return Err(Stopped::TooLong),
                    () = frames.over() => return Ok(None),
                    event = stream.next() => event,
                };
                let more = match event {
                    Some(Ok(ChatStreamEvent::Chunk(chunk))) if !frames.reads() => {
                        Some(chunk.content)
                    }
                    Some(Ok(ChatStreamEvent::End(end))) => {
                        unheard().await;
                        return Ok::<Option<StreamEnd>, Stopped>(Some(end));
                    }
                    Some(Err(error)) if !is_of_no_matter(&error, &frames) => {
                        return Err(error.into());
                    }
                    Some(_) => frames.text_from(text.len()),
                    None => {
                        unheard().await;
                        return Ok(None);
                    }
                };
                if let Some(more) = more {
                    text.push_str(&more);
                    progress(Progress::Writing(&text));
                }
            }
        };
        // genai logs the texts of providers, which are data and may repeat the key.
        let work = work.with_subscriber(NoSubscriber::new());
        let worked = timeout(model.timeout, work).await;
        let spent = convert::usage(frames.tokens(), model);
        let failed = |error: ModelError| (ModelError { spent: spent.clone(), ..error }, None);
        if let Some(reason) = frames.blocked() {
            return Err(failed(ModelError::withheld(name, &reason, &key)));
        }
        if let Some(why) = frames.error() {
            return Err(failed(ModelError::broke_off(name, &why, &key)));
        }
        if let Some(why) = frames.unreadable() {
            return Err(failed(ModelError::broken(name, &why, &key)));
        }
        match worked {
            Ok(Ok(end)) if is_whole(end.as_ref(), &frames) => {
                let end = end.unwrap_or_default();
                let reason = match frames.reads() {
                    true => frames.reason(),
                    false => end.captured_stop_reason.clone(),
                };
                let known = request.call_ids();
                let reply = convert::reply(end, &frames, model, &known)
                    .map_err(|why| failed(ModelError::broken(name, &why, &key)))?;
                ended(name, reply, reason, &key).map_err(failed)
            }
            Ok(Ok(_)) if frames.is_empty() => Err(failed(ModelError::foreign(name))),
            Ok(Ok(_)) => Err(failed(ModelError::broken(name, "it broke off", &key))),
            Ok(Err(Stopped::TooLong)) => {
                Err(failed(ModelError::too_long(name, self.limits.answer_bytes)))
            }
            Ok(Err(Stopped::Failed(error))) => {
                let wait = error::retry_after(&error);
                Err((failed(ModelError::of(name, &error, &key)).0, wait))
            }
            Err(_) => Err(failed(ModelError::slow(name, model.timeout))),
        }
    }
}

/// Returns the name of a model as genai may have it. genai takes an end such as `-max` for
/// an effort, unless another one is given, and off the name. `options` and the address have
/// the true name.
fn name_for_genai(model: &ModelConfig) -> String {
    let end = model.model.rsplit_once('-').map(|(_, end)| end);
    let is_effort = end.and_then(ReasoningEffort::from_keyword).is_some();
    match is_effort && model.effort.is_none() && model.provider != Provider::Ollama {
        true => format!("{}-", model.model),
        false => model.model.clone(),
    }
}

fn options(model: &ModelConfig, frames: &Arc<Frames>) -> ChatOptions {
    let mut options = ChatOptions::default()
        // OpenAI is asked for the usage; `Frames::tokens` counts it.
        .with_capture_usage(model.provider == Provider::Openai)
        // See `Frames::parts`.
        .with_capture_content(!frames.reads())
        .with_capture_tool_calls(!frames.reads())
        // Anthropic is asked for its thoughts.
        .with_capture_reasoning_content(model.provider == Provider::Anthropic)
        .with_raw_frame_sink_arc(Arc::clone(frames) as _);
    if let Some(most) = model.max_tokens {
        options = options.with_max_tokens(most);
    }
    if let Some(effort) = model.effort {
        options = options.with_reasoning_effort(match effort {
            // Otherwise Gemini is not asked to think less.
            Effort::None if model.provider == Provider::Gemini => ReasoningEffort::Budget(0),
            Effort::None => ReasoningEffort::Zero,
            Effort::Minimal => ReasoningEffort::Minimal,
            Effort::Low => ReasoningEffort::Low,
            Effort::Medium => ReasoningEffort::Medium,
            Effort::High => ReasoningEffort::High,
            Effort::Xhigh => ReasoningEffort::XHigh,
            Effort::Max => ReasoningEffort::Max,
        });
    }
    if matches!(model.provider, Provider::Openai | Provider::Anthropic) {
        // See `name_for_genai`.
        options = options.with_extra_body(json!({ "model": model.model }));
    }
    options
}

/// Tells why an answer ended, where that is not as usual.
fn ended(
    name: &str,
    mut reply: ModelReply,
    reason: Option<StopReason>,
    key: &str,
) -> Result<ModelReply, ModelError> {
    let cut = match reason {
        Some(StopReason::ContentFilter(reason)) => match reply.is_empty() {
            true => return Err(ModelError::withheld(name, &reason, key)),
            false => format!(
                "The answer ends here because the provider of the model withholds the rest: {}.",
                error::quoted(&reason, key)
            ),
        },
        Some(StopReason::MaxTokens(_)) => match reply.is_empty() {
            true => return Err(ModelError::used_up(name)),
            false => format!(
                "The answer ends here because it has reached the longest one of the model \
                 (models.{name}.max_tokens)."
            ),
        },
        Some(StopReason::Other(reason)) if reply.is_empty() => {
            return Err(ModelError::ended(name, &reason, key));
        }
        _ => return Ok(reply),
    };
    if reply.tool_calls.is_empty() {
        let text = reply.content.unwrap_or_default();
        reply.content = Some(format!("{text}\n\n[posthaste] {cut}"));
    }
    Ok(reply)
}

/// Returns whether an answer came to its end. For some genai makes up an end when the stream
/// stops before it.
fn is_whole(end: Option<&StreamEnd>, frames: &Frames) -> bool {
    match frames.provider() {
        Provider::Openai | Provider::Anthropic => frames.is_over(),
        Provider::Gemini | Provider::Ollama => {
            end.is_some_and(|end| end.captured_stop_reason.is_some())
        }
        Provider::Script => end.is_some(),
    }
}

/// Returns whether genai alone fails at a frame, and [`Frames`] does not.
fn is_of_no_matter(error: &genai::Error, frames: &Frames) -> bool {
    let is_of_frame =
        matches!(error, genai::Error::JsonValueExt(_) | genai::Error::ChatResponse { .. });
    frames.reads() && is_of_frame && frames.error().is_none()
}

/// Sends a request again, without a stream, and returns the answer if it is JSON. Where an
/// answer has no events, genai does not tell what it says instead.
async fn unstreamed(
    client: &Client,
    target: ServiceTarget,
    asked: ChatRequest,
    options: ChatOptions,
) -> Option<Value> {
    let options = options.with_capture_raw_body(true);
    match client.exec_chat(target, asked, Some(&options)).await {
        Ok(answer) => answer.captured_raw_body,
        Err(genai::Error::ChatResponseGeneration { response_body, .. }) => Some(*response_body),
        Err(_) => None,
    }
}

/// Makes the client of providers: TLS by rustls with ring.
fn client() -> Client {
    // Another part of the program may have installed one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A redirect would carry the key to another host.
    let redirects = reqwest::redirect::Policy::none();
    let http = reqwest::Client::builder().redirect(redirects).build().unwrap_or_default();
    Client::builder().with_reqwest(http).build().expect("a client without settings of its own")
}
