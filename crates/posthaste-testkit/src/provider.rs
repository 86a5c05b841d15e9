//! The API of a provider of models, with the answers that a test has planned.
//!
//! A [`ProviderServer`] checks every request as strictly as its provider: path, key, roles,
//! order, the link between a tool's call and its result. A wrong one gets a 400 that says
//! why. A right one gets the next planned [`Reply`], streamed in the provider's own format,
//! and perhaps broken in one of the ways in which providers break.

mod anthropic;
mod gemini;
mod ollama;
mod openai;
mod read;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;

pub use self::read::{Heard, Said};
use crate::listening::{Listening, listen};

/// The number of bytes in each piece of a torn stream: less than an event, and odd.
const TORN: usize = 7;

/// A format of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    OpenAi,
    Anthropic,
    Gemini,
    Ollama,
}

impl Format {
    /// Returns the pieces of a stream that says this.
    pub fn stream(self, turn: &Turn) -> Vec<String> {
        match self {
            Self::OpenAi => openai::stream(turn),
            Self::Anthropic => anthropic::stream(turn),
            Self::Gemini => gemini::stream(turn),
            Self::Ollama => ollama::stream(turn),
        }
    }

    /// Returns the type of its streams.
    pub fn kind(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Anthropic | Self::Gemini => "text/event-stream",
            Self::Ollama => "application/x-ndjson",
        }
    }
}

/// The key that a server of this test accepts.
pub const KEY: &str = "sk-of-the-test-0123456789";

/// A provider on a port of its own.
pub struct ProviderServer {
    format: Format,
    shared: Arc<Mutex<Shared>>,
    listening: Listening,
}

#[derive(Default)]
struct Shared {
    planned: VecDeque<Reply>,
    heard: Vec<Heard>,
}

/// What the model says in one turn.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// The text, in the pieces in which it is streamed.
    pub text: Vec<String>,
    pub calls: Vec<Call>,
    /// The thought before it, and the provider's signature of it.
    pub thought: Option<(String, String)>,
    pub usage: Usage,
    /// The reason why the turn ended, if not the usual one.
    pub finish: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Clone)]
pub struct Call {
    /// `None`: the provider gives no id.
    pub id: Option<String>,
    pub name: String,
    /// JSON, or what a model takes for it.
    pub arguments: String,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Cached tokens included; each format counts them in its own way.
    pub input: u64,
    pub cached: u64,
    pub output: u64,
}

/// A planned answer.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Body,
    ending: Ending,
    torn: bool,
    gate: Option<Arc<Semaphore>>,
}

#[derive(Debug, Clone)]
enum Body {
    Turn(Turn),
    Error(String),
    Text(&'static str, Bytes),
}

/// How a stream ends.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
    Whole,
    /// The connection breaks after so many pieces.
    Breaks(usize),
    /// The stream ends in order, and too early.
    Early(usize),
    /// Nothing more comes, and the connection stays.
    Silent(usize),
    /// The last of so many pieces comes again and again.
    Endless(usize),
}

impl Turn {
    pub fn says(pieces: &[&str]) -> Self {
        let text = pieces.iter().map(|&piece| piece.to_owned()).collect();
        Self { text, ..Self::default() }
    }

    #[must_use]
    pub fn calls(mut self, id: impl Into<Option<&'static str>>, name: &str, args: &str) -> Self {
        let id = id.into().map(str::to_owned);
        self.calls.push(Call { id, name: name.to_owned(), arguments: args.to_owned() });
        self
    }

    #[must_use]
    pub fn thinks(mut self, thought: &str, signature: &str) -> Self {
        self.thought = Some((thought.to_owned(), signature.to_owned()));
        self
    }

    #[must_use]
    pub fn used(mut self, input: u64, cached: u64, output: u64) -> Self {
        self.usage = Usage { input, cached, output };
        self
    }

    #[must_use]
    pub fn finished(mut self, reason: &str) -> Self {
        self.finish = Some(reason.to_owned());
        self
    }
}

impl From<Turn> for Reply {
    fn from(turn: Turn) -> Self {
        Self::of(200, Body::Turn(turn))
    }
}

impl Reply {
    fn of(status: u16, body: Body) -> Self {
        Self { status, headers: Vec::new(), body, ending: Ending::Whole, torn: false, gate: None }
    }

    /// An error in the provider's own form.
    pub fn error(status: u16, message: &str) -> Self {
        Self::of(status, Body::Error(message.to_owned()))
    }

    /// Any text, of any type.
    pub fn text(status: u16, kind: &'static str, text: impl Into<Vec<u8>>) -> Self {
        Self::of(status, Body::Text(kind, Bytes::from(text.into())))
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    #[must_use]
    pub fn ends(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    /// Tears the stream into pieces that respect neither events nor characters.
    #[must_use]
    pub fn torn(mut self) -> Self {
        self.torn = true;
        self
    }

    /// Holds each piece back until the test adds a permit.
    #[must_use]
    pub fn gated(mut self, gate: &Arc<Semaphore>) -> Self {
        self.gate = Some(Arc::clone(gate));
        self
    }
}

impl ProviderServer {
    pub async fn start(format: Format) -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let state = Arc::clone(&shared);
        let listening = listen(move |request| answer(format, request, Arc::clone(&state))).await;
        Self { format, shared, listening }
    }

    /// Returns the address for the configuration of a model.
    pub fn base_url(&self) -> String {
        let url = &self.listening.url;
        match self.format {
            Format::OpenAi | Format::Anthropic => format!("{url}/v1"),
            Format::Gemini => format!("{url}/v1beta"),
            Format::Ollama => url.clone(),
        }
    }

    /// Plans the answer to the next request that has none.
    pub fn plan(&self, reply: impl Into<Reply>) {
        self.shared.lock().planned.push_back(reply.into());
    }

    /// Returns the requests so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.shared.lock().heard.clone()
    }
}

type Bytestream = UnsyncBoxBody<Bytes, io::Error>;

async fn answer(
    format: Format,
    request: Request<Incoming>,
    shared: Arc<Mutex<Shared>>,
) -> Response<Bytestream> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let read = serde_json::from_slice::<Value>(&body).map_err(|error| error.to_string());
    let read = read.and_then(|body| {
        let path = head.uri.path_and_query().map_or("", |path| path.as_str());
        let asked = read::Asked { path, headers: &head.headers, body: &body };
        match format {
            Format::OpenAi => openai::read(&asked),
            Format::Anthropic => anthropic::read(&asked),
            Format::Gemini => gemini::read(&asked),
            Format::Ollama => ollama::read(&asked),
        }
    });
    let reply = match read {
        Ok(heard) => {
            let mut shared = shared.lock();
            shared.heard.push(heard);
            let planned = shared.planned.pop_front();
            planned.unwrap_or_else(|| Reply::error(400, "the test has planned no answer"))
        }
        Err(why) => Reply::error(400, &format!("the request is wrong: {why}")),
    };
    respond(format, reply)
}

fn respond(format: Format, reply: Reply) -> Response<Bytestream> {
    let Reply { status, headers, body, ending, torn, gate } = reply;
    let (kind, pieces) = match body {
        Body::Turn(turn) => {
            (format.kind(), format.stream(&turn).into_iter().map(Bytes::from).collect())
        }
        Body::Error(message) => {
            let error = match format {
                Format::OpenAi => openai::error(&message),
                Format::Anthropic => anthropic::error(&message),
                Format::Gemini => gemini::error(status, &message),
                Format::Ollama => ollama::error(&message),
            };
            ("application/json", vec![Bytes::from(error.to_string())])
        }
        Body::Text(kind, text) => (kind, vec![text]),
    };
    let mut response = Response::builder().status(status).header("content-type", kind);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    let body = match (status, ending) {
        (200, _) | (_, Ending::Endless(_)) => streamed(pieces, ending, torn, gate),
        _ => Full::from(pieces.concat()).map_err(never).boxed_unsync(),
    };
    response.body(body).expect("plain parts")
}

fn never(never: Infallible) -> io::Error {
    match never {}
}

fn streamed(
    mut pieces: Vec<Bytes>,
    ending: Ending,
    torn: bool,
    gate: Option<Arc<Semaphore>>,
) -> Bytestream {
    let kept = match ending {
        Ending::Whole => pieces.len(),
        Ending::Breaks(n) | Ending::Early(n) | Ending::Silent(n) | Ending::Endless(n) => n,
    };
    pieces.truncate(kept);
    let last = pieces.last().cloned().unwrap_or_default();
    let bytes: Vec<Bytes> = match torn {
        true => pieces.concat().chunks(TORN).map(Bytes::copy_from_slice).collect(),
        false => pieces,
    };
    let whole = stream::iter(bytes).then(move |bytes| {
        let gate = gate.clone();
        async move {
            if let Some(gate) = gate {
                gate.acquire().await.map_err(io::Error::other)?.forget();
            }
            // A reader that is quicker than the writer sees the pieces one by one.
            tokio::task::yield_now().await;
            Ok(Frame::data(bytes))
        }
    });
    let end = match ending {
        Ending::Whole | Ending::Early(_) => stream::empty().boxed(),
        Ending::Breaks(_) => {
            stream::once(async { Err(io::Error::other("the line is cut")) }).boxed()
        }
        Ending::Silent(_) => stream::pending().boxed(),
        Ending::Endless(_) => stream::repeat_with(move || Ok(Frame::data(last.clone()))).boxed(),
    };
    StreamBody::new(whole.chain(end)).boxed_unsync()
}
