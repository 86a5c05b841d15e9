//! Calls of models, with a server that speaks the formats of the providers.

mod answers;
mod faults;
mod fuzz;
mod keys;
mod requests;
mod retries;
mod scripts;

use std::ffi::OsString;
use std::time::Duration;

use parking_lot::Mutex;
use posthaste_testkit::provider::{Format, KEY, ProviderServer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const ALL: [Format; 4] = [Format::OpenAi, Format::Anthropic, Format::Gemini, Format::Ollama];

/// Returns limits with so little time between tries that a test need not wait.
fn quick() -> RunnerConfig {
    RunnerConfig {
        retry_after: Duration::from_millis(1),
        retry_most: Duration::from_millis(20),
        ..RunnerConfig::default()
    }
}

/// Returns the configuration of a model of this server, with its key in a variable.
fn config(server: &ProviderServer, format: Format) -> ModelConfig {
    let provider = match format {
        Format::OpenAi => "openai",
        Format::Anthropic => "anthropic",
        Format::Gemini => "gemini",
        Format::Ollama => "ollama",
    };
    let section = json!({
        "provider": provider, "model": "a-model", "base_url": server.base_url(),
        "api_key_env": "A_KEY", "timeout": "20s", "max_tokens": 500,
        "price": { "input": 2.0, "output": 10.0, "cached_input": 0.5 },
    });
    serde_json::from_value(section).expect("a section of the configuration")
}

fn models(model: ModelConfig, limits: RunnerConfig) -> Models {
    let environment = [(OsString::from("A_KEY"), OsString::from(KEY))];
    Models::new(ModelsConfig::from([("large".to_owned(), model)]), limits, &environment)
}

fn user(content: &str) -> ChatMessage {
    ChatMessage::User { content: content.to_owned() }
}

fn hello() -> ModelRequest {
    ModelRequest { messages: vec![user("hello")], ..ModelRequest::default() }
}

/// Asks the model, and returns what was told meanwhile as well.
async fn asked(
    models: &Models,
    request: &ModelRequest,
) -> (Result<ModelReply, ModelError>, Vec<String>) {
    let told = Mutex::new(Vec::new());
    let tell = |progress: Progress<'_>| match progress {
        Progress::Writing(text) => told.lock().push(text.to_owned()),
        Progress::Retrying(why) => told.lock().push(format!("again: {why}")),
    };
    let answered = models.ask(Some("large"), request, &tell).await;
    (answered, told.into_inner())
}

async fn ask(models: &Models, request: &ModelRequest) -> Result<ModelReply, ModelError> {
    asked(models, request).await.0
}

/// Takes a connection and reads its request, and answers it. Returns head and body.
async fn serve(listener: &TcpListener, answer: &str) -> (String, serde_json::Value) {
    let (mut socket, _) = listener.accept().await.expect("a request");
    let mut bytes = Vec::new();
    loop {
        socket.read_buf(&mut bytes).await.expect("more of the request");
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if let Ok(body) = serde_json::from_str(body) {
            socket.write_all(answer.as_bytes()).await.expect("answered");
            return (head.to_owned(), body);
        }
    }
}

/// Asks a model once, and returns the head and the body of the request on the wire.
async fn wired(mut model: ModelConfig) -> (String, serde_json::Value) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    model.base_url = Some(format!("http://{address}/v1"));
    let models = models(model, RunnerConfig { attempts: 1, ..quick() });
    let request = hello();
    let answer = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    let (answered, wired) = tokio::join!(ask(&models, &request), serve(&listener, answer));
    answered.expect_err("refused");
    wired
}
