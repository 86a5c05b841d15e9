//! A model server: the test plays the model.
//!
//! Real agent programs send it their requests as they would to their provider, in the
//! provider's own wire format, on loopback. Every turn of the model comes to the test as
//! an [`Asked`], which holds the request and which the test answers with text or with tool
//! calls. So a test can await a turn, do something else in the world, and then decide.
//!
//! Requests that are no turns (for a title, for a count of tokens) are answered here and
//! never reach the test.

mod anthropic;
mod chat;
mod gemini;
mod openai;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::excerpt::{excerpt, places};
use crate::listening::{Listening, listen};

/// Longer than any agent program should need to come to its next turn.
const PATIENCE: Duration = Duration::from_secs(120);

/// The names that tests give the hub's MCP server.
const SERVERS: [&str; 2] = ["hub", "posthaste"];

/// An API of model providers on a port of its own.
pub struct ModelServer {
    asked: mpsc::UnboundedReceiver<Asked>,
    listening: Listening,
}

/// Stands for half of a character in the words of the model, as a provider may send it.
/// No text of Rust can have one.
pub const HALF: char = '\u{f8ff}';

/// One turn of the model: the request, and the way to answer it.
///
/// A request is hundreds of kilobytes: a failing test prints the turn (`{turn:?}`), or
/// asserts by [`assert_saw`](Asked::assert_saw) and the like, which print the difference.
pub struct Asked {
    provider: Provider,
    request: Value,
    answer: oneshot::Sender<Answer>,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// The name that the MCP server gave the tool, without the prefix of the agent
    /// program.
    pub name: String,
    pub description: String,
    /// The prefix of the agent program: `mcp__hub`, or with its hyphen `hub-`.
    server: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provider {
    Anthropic,
    OpenAi,
    Chat,
    Gemini,
}

#[derive(Debug)]
enum Answer {
    Say(String),
    Call(Vec<(Tool, Value)>),
}

impl ModelServer {
    pub async fn start() -> Self {
        let (turns, asked) = mpsc::unbounded_channel();
        let listening = listen(move |request| answer(request, turns.clone())).await;
        Self { asked, listening }
    }

    /// Returns the address for agent programs: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.listening.url
    }

    /// Waits for the next turn of the model.
    pub async fn asked(&mut self) -> Asked {
        let next = tokio::time::timeout(PATIENCE, self.asked.recv()).await;
        next.expect("the model is asked in time").expect("the server lives")
    }

    /// Returns whether no turn waits for the test.
    pub fn is_idle(&mut self) -> bool {
        self.asked.is_empty()
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (results, length) = (self.results(), self.request.to_string().len());
        write!(f, "a request of {length} bytes with {} results of tools", results.len())?;
        match results.last() {
            Some(last) => write!(f, ", the last: {}", excerpt(last)),
            None => Ok(()),
        }
    }
}

impl Asked {
    /// Returns the unchanged request.
    pub fn request(&self) -> &Value {
        &self.request
    }

    /// Returns the tools that the model was offered.
    pub fn tools(&self) -> Vec<Tool> {
        match self.provider {
            Provider::Anthropic => anthropic::tools(&self.request),
            Provider::OpenAi => openai::tools(&self.request),
            Provider::Chat => chat::tools(&self.request),
            Provider::Gemini => gemini::tools(&self.request),
        }
    }

    /// Returns the results of tool calls as the model sees them: all of this conversation,
    /// the latest last. The blocks of a result are joined by line ends.
    pub fn results(&self) -> Vec<String> {
        match self.provider {
            Provider::Anthropic => anthropic::results(&self.request),
            Provider::OpenAi => openai::results(&self.request),
            Provider::Chat => chat::results(&self.request),
            Provider::Gemini => gemini::results(&self.request),
        }
    }

    /// Returns the result of the last call.
    #[track_caller]
    pub fn result(&self) -> String {
        self.results().pop().unwrap_or_else(|| panic!("no tool was called: {self:?}"))
    }

    /// Returns whether this text stands anywhere in the request.
    pub fn saw(&self, text: &str) -> bool {
        self.times(text) > 0
    }

    /// Counts this text in the request.
    fn times(&self, text: &str) -> usize {
        strings(&self.request).map(|string| string.matches(text).count()).sum()
    }

    #[track_caller]
    pub fn assert_saw(&self, text: &str) {
        assert!(self.saw(text), "{text:?} is nowhere in {self:?}");
    }

    #[track_caller]
    pub fn assert_saw_once(&self, text: &str) {
        let times = self.times(text);
        assert_eq!(
            times,
            1,
            "times that {text:?} stands there: {:#?}; {self:?}",
            self.places(text)
        );
    }

    #[track_caller]
    pub fn assert_never_saw(&self, text: &str) {
        assert!(!self.saw(text), "{text:?} stands there: {:#?}", self.places(text));
    }

    /// Returns the first places of this text, with the text around them.
    fn places(&self, text: &str) -> Vec<String> {
        strings(&self.request).flat_map(|string| places(string, text)).take(3).collect()
    }

    /// Ends the turn with this text.
    pub fn say(self, text: &str) {
        self.answer(Answer::Say(text.to_owned()));
    }

    /// Calls one tool.
    #[track_caller]
    pub fn call(self, name: &str, arguments: Value) {
        self.call_all(&[(name, arguments)]);
    }

    /// Calls several tools in one turn. Panics if the model was not offered one of them.
    #[track_caller]
    pub fn call_all(self, calls: &[(&str, Value)]) {
        let tools = self.tools();
        let find = |name: &str| tools.iter().find(|tool| tool.name == name).cloned();
        let calls = calls.iter().map(|(name, arguments)| {
            let tool = find(name).unwrap_or_else(|| {
                let names: Vec<_> = tools.iter().map(|tool| &tool.name).collect();
                panic!("{name} is not offered, but {names:?}")
            });
            (tool, arguments.clone())
        });
        let calls = calls.collect();
        self.answer(Answer::Call(calls));
    }

    fn answer(self, answer: Answer) {
        // A killed agent program does not wait for an answer.
        let _ = self.answer.send(answer);
    }
}

impl Tool {
    /// Splits `mcp__hub__check_inbox`; a tool of the program's own has no server.
    fn new(full_name: &str, description: &Value) -> Self {
        let (server, name) = match full_name.rsplit_once("__") {
            Some((server, name)) if server.starts_with("mcp__") => (server, name),
            _ => ("", full_name),
        };
        let description = description.as_str().unwrap_or_default().to_owned();
        Self { name: name.to_owned(), description, server: server.to_owned() }
    }

    /// Splits the names that other agent programs make: `mcp_hub_check_inbox`,
    /// `hub_check_inbox`, `hub-check_inbox`. Here `server` is the prefix to the letter.
    fn flat(full_name: &str, description: &Value) -> Self {
        let bare = full_name.strip_prefix("mcp_").unwrap_or(full_name).trim_start_matches('_');
        let own = |server: &str| bare.strip_prefix(server).filter(|rest| !rest.is_empty());
        let name = SERVERS.iter().find_map(|server| own(server)).unwrap_or(full_name);
        let name = name.trim_start_matches(['_', '-']);
        let server = full_name.strip_suffix(name).unwrap_or_default().to_owned();
        let description = description.as_str().unwrap_or_default().to_owned();
        Self { name: name.to_owned(), description, server }
    }

    /// Returns the name that [`Tool::flat`] has split.
    fn full_name(&self) -> String {
        format!("{}{}", self.server, self.name)
    }
}

async fn answer(
    request: Request<Incoming>,
    turns: mpsc::UnboundedSender<Asked>,
) -> Response<Full<Bytes>> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let provider = match path.as_str() {
        "/v1/messages" => Provider::Anthropic,
        "/v1/responses" => Provider::OpenAi,
        "/v1/chat/completions" => Provider::Chat,
        path if path.ends_with("enerateContent") => Provider::Gemini,
        _ => return aside(&method, &path),
    };
    let streamed = path.ends_with(":streamGenerateContent");
    let Ok(body) = request.into_body().collect().await else {
        return reply(StatusCode::BAD_REQUEST, "text/plain", "the request broke off");
    };
    let Ok(request) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return reply(StatusCode::BAD_REQUEST, "text/plain", "the request is no JSON");
    };
    let streams = request["stream"] == true || streamed;
    // Only a turn of the agent comes with tools.
    let answer = if request["tools"].as_array().is_none_or(Vec::is_empty) {
        Some(Answer::Say(json!({ "title": "a scripted talk" }).to_string()))
    } else {
        let (answer, answered) = oneshot::channel();
        let _ = turns.send(Asked { provider, request, answer });
        answered.await.ok()
    };
    let Some(answer) = answer else {
        return reply(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "nobody plays the model");
    };
    let response = match provider {
        Provider::Anthropic => anthropic::message(&answer),
        Provider::OpenAi => openai::response(&answer),
        Provider::Chat => chat::completion(&answer),
        Provider::Gemini => gemini::response(&answer),
    };
    if !streams {
        return reply(StatusCode::OK, "application/json", &response.to_string());
    }
    let events = match provider {
        Provider::Anthropic => anthropic::events(&response),
        Provider::OpenAi => openai::events(&response),
        Provider::Chat => chat::events(&response),
        Provider::Gemini => vec![response],
    };
    let line = |event: Value| match event["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    let mut stream: String = events.into_iter().map(line).collect();
    stream = stream.replace(HALF, r"\ud83d");
    if provider == Provider::Chat {
        stream.push_str("data: [DONE]\n\n");
    }
    reply(StatusCode::OK, "text/event-stream", &stream)
}

/// Answers requests that are no turns of the model.
fn aside(method: &Method, path: &str) -> Response<Full<Bytes>> {
    let json = |value: Value| reply(StatusCode::OK, "application/json", &value.to_string());
    match (method, path) {
        (&Method::POST, "/v1/messages/count_tokens") => json(json!({ "input_tokens": 1 })),
        (&Method::POST, path) if path.ends_with(":countTokens") => {
            json(json!({ "totalTokens": 1 }))
        }
        (&Method::GET, "/v1/models") => json(json!({ "data": [], "models": [] })),
        (&Method::HEAD, _) => reply(StatusCode::OK, "text/plain", ""),
        _ => reply(StatusCode::NOT_FOUND, "application/json", "{}"),
    }
}

fn reply(status: StatusCode, kind: &str, body: &str) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header(CONTENT_TYPE, kind);
    response.body(Full::from(body.to_owned())).expect("plain parts")
}

/// Returns every text in a document.
fn strings(value: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match value {
        Value::String(string) => Box::new(std::iter::once(string.as_str())),
        Value::Array(items) => Box::new(items.iter().flat_map(strings)),
        Value::Object(fields) => Box::new(fields.values().flat_map(strings)),
        _ => Box::new(std::iter::empty()),
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the text blocks of a content, which may be plain text.
fn text_of(content: &Value) -> String {
    match content {
        Value::Array(blocks) => {
            let texts: Vec<_> = blocks.iter().map(|block| word(&block["text"])).collect();
            texts.join("\n")
        }
        plain => word(plain).to_owned(),
    }
}
