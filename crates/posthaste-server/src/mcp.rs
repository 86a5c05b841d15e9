//! The MCP door: every agent's mailbox as tools, at `/mcp`.
//!
//! Revisions 2024-11-05 to 2026-07-28 on one endpoint. The protocol itself is
//! rmcp's, without sessions; around it stands a front of our own:
//!
//! * who calls is decided by the token of each request, never by a session;
//! * a session id is a label, made of the caller and its client: it separates the
//!   request ids of two processes, and none is ever unknown;
//! * `tools/call` is answered here when it is plainly right, for it carries the
//!   mail: rmcp would cost more than the call. Anything doubtful goes to rmcp,
//!   which words the error;
//! * an answer is watched until it is written ([`written`](crate::written)), and a
//!   client that hangs up ends its call.
//!
//! Start with [`post`]; [`tools`] is the table of tools.

mod asker;
mod assistant;
mod call;
mod clients;
mod dialects;
mod events;
mod handler;
mod label;
mod rpc;
mod schema;
mod stream;
mod text;
mod tools;

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::proof::Hello;
use tokio_util::sync::CancellationToken;

use self::asker::Asker;
use self::handler::{Front, Left, Service};
use self::rpc::{Envelope, Kind, Params};
use crate::App;
use crate::bodies::Held;
use crate::config::McpConfig;
use crate::extract::{Whole, whole_body};
use crate::failure::{Failure, takes_only};
use crate::unread::Inlet;
use crate::written::{Outgoing, Reply, json};

pub(crate) use self::assistant::offer;
pub(crate) use self::events::Events;
pub(crate) use self::tools::{INSTRUCTIONS, reference};

pub(crate) const PATH: &str = "/mcp";

/// Most characters of rmcp's reason to refuse a request.
const LONGEST_REFUSAL: usize = 300;

/// The state of the door between calls. None of it needs to survive a restart.
pub(crate) struct Mcp {
    config: McpConfig,
    service: Service,
}

impl Mcp {
    pub(crate) fn new(config: McpConfig, stop: CancellationToken) -> Self {
        Self { config, service: handler::service(stop) }
    }

    /// Returns the number of characters that a hook may show to a model.
    pub(crate) fn hook_chars(&self) -> usize {
        self.config.piggyback_chars
    }
}

/// `/mcp`
pub(crate) async fn answer(
    app: &App,
    request: Request<Inlet>,
    who: &mut Option<Principal>,
    outgoing: Arc<Outgoing>,
) -> Result<Response<Reply>, Failure> {
    let (parts, body) = request.into_parts();
    let asker = asker::identify(app, &parts)?;
    *who = asker.principal();
    meet(app, &asker, None);
    match parts.method {
        Method::POST => {
            let body = whole_body(body, app).await?;
            post(app, parts, body, asker, who, outgoing).await
        }
        Method::GET => stream::open(app, &parts, &asker),
        // A session is a label: there is nothing to end.
        Method::DELETE => Ok(empty(StatusCode::NO_CONTENT)),
        _ => Err(takes_only(PATH, "GET, POST, DELETE")),
    }
}

/// Answers one message of JSON-RPC.
async fn post(
    app: &App,
    parts: Parts,
    Whole { bytes, share }: Whole,
    mut asker: Asker,
    caller: &mut Option<Principal>,
    outgoing: Arc<Outgoing>,
) -> Result<Response<Reply>, Failure> {
    let message: Envelope<'_> = match rpc::read(&bytes, app.mcp.config.id_bytes) {
        Ok(message) => message,
        Err(refused) => return Ok(*refused),
    };
    let (id, method) = match message.kind() {
        Kind::Request { id, method } => (id, method),
        Kind::Notification { method } => {
            if let (Some(who), "notifications/cancelled") = (asker.principal(), method) {
                cancelled(app, who, &asker, &message);
            }
            return Ok(empty(StatusCode::ACCEPTED));
        }
        // The hub never sends a request to a client, so nothing waits for this response.
        Kind::Response => return Ok(empty(StatusCode::ACCEPTED)),
    };
    let most = app.mcp.config.meta_bytes;
    if message.beside_arguments(most) > most {
        let why =
            format!("what stands beside the arguments has at most {most} bytes (mcp.meta_bytes)");
        return Ok(json(StatusCode::OK, rpc::fault(id, rpc::INVALID_PARAMS, &why)));
    }
    match method {
        "tools/call" => {
            let who = asker.acts(app).await?;
            *caller = Some(who);
            if let Some(params) = rpc::plain_call(&parts.headers, &message) {
                let begun = call::begin(app, who, &asker, id, &params, share);
                // The call may wait: keep nothing of its request.
                drop((bytes, parts, asker));
                return Ok(match begun {
                    Ok(begun) => begun.answer(outgoing).await,
                    Err(refused) => *refused,
                });
            }
        }
        "initialize" => meet(app, &asker, Some(Hello::Initialize)),
        "server/discover" => meet(app, &asker, Some(Hello::Discover)),
        "subscriptions/listen" => {
            let plain = rpc::plain_listen(&parts.headers, &message);
            if let Some(wanted) = plain.and_then(|params| params.notifications) {
                return stream::listen(app, &asker, id, wanted);
            }
            let who = asker.somebody()?;
            let attached = stream::attach(app, who)?;
            let (id, body) = (id.to_owned(), Whole { bytes, share });
            let response = Box::pin(ask_rmcp(app, parts, body, &asker, id, outgoing)).await?;
            return Ok(response.map(|reply| stream::held(reply, attached)));
        }
        _ => {}
    }
    if let Err(why) = handler::params_fit(method, message.raw_params()) {
        return Ok(json(StatusCode::OK, rpc::fault(id, rpc::INVALID_PARAMS, &why)));
    }
    let named = message.params().unwrap_or_default();
    let label = (method == "initialize").then(|| label::make(asker.principal(), named.client()));
    let (id, body) = (id.to_owned(), Whole { bytes, share });
    let mut response = Box::pin(ask_rmcp(app, parts, body, &asker, id, outgoing)).await?;
    if let Some(Ok(label)) = label.map(|label| HeaderValue::from_str(&label)) {
        response.headers_mut().insert(label::HEADER, label);
    }
    Ok(response)
}

/// Tells the hub which process of the reader is there.
fn meet(app: &App, asker: &Asker, hello: Option<Hello>) {
    if let Some(who) = asker.principal() {
        app.hub.meet(who, asker.process(), hello);
    }
}

/// Ends a call that has no answer yet; an answer that was given becomes suspicious.
/// Ignores unknown calls.
fn cancelled(app: &App, who: Principal, asker: &Asker, message: &Envelope<'_>) {
    let request = message.params().and_then(|p: Params<'_>| p.request_id);
    if let Some(name) = request.and_then(|id| asker.process().name_of(id.get())) {
        app.hub.cancel_call(who, &name);
    }
}

/// Lets rmcp answer. The mail of a tool that rmcp called is watched like any other.
async fn ask_rmcp(
    app: &App,
    mut parts: Parts,
    body: Whole,
    asker: &Asker,
    id: Box<serde_json::value::RawValue>,
    outgoing: Arc<Outgoing>,
) -> Result<Response<Reply>, Failure> {
    let left = Left::default();
    let (held, id) = (Held::default(), &*id);
    held.keep(body.share);
    let front = Front::new(app, asker, id, left.clone(), held.clone());
    parts.extensions.insert(front);
    let request = Request::from_parts(parts, Full::new(body.bytes));
    let response = app.mcp.service.handle(request).await;
    let Some(handed) = left.take() else {
        let response = response.map(|body| Reply::Routed(Body::new(body)));
        return Ok(briefly(in_the_protocol(response, id).await, id).await);
    };
    let (head, body) = response.into_parts();
    let whole = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
    let reply = Reply::Whole { data: Some(whole), watch: Some((handed, outgoing)) };
    Ok(Response::from_parts(head, reply))
}

/// Turns a refusal of rmcp in plain text, or without a word, into an answer of the
/// protocol.
async fn in_the_protocol(
    response: Response<Reply>,
    id: &serde_json::value::RawValue,
) -> Response<Reply> {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    if !(status.is_client_error() || status.is_server_error())
        || kind.starts_with(b"application/json")
    {
        return response;
    }
    let code = match status {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => rpc::INVALID_PARAMS,
        _ if status.is_server_error() => rpc::INTERNAL_ERROR,
        _ => rpc::INVALID_REQUEST,
    };
    let told = response.into_body().collect().await.map(|b| b.to_bytes()).unwrap_or_default();
    let told = String::from_utf8_lossy(&told);
    let told: String = told.chars().take(LONGEST_REFUSAL).collect();
    json(status, rpc::fault(id, code, &told))
}

/// Shortens an error of rmcp, which quotes values of any length, for example the name of a
/// tool that its header does not repeat.
async fn briefly(response: Response<Reply>, id: &serde_json::value::RawValue) -> Response<Reply> {
    let kind = response.headers().get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    if !kind.starts_with(b"application/json") {
        return response;
    }
    let (head, body) = response.into_parts();
    let whole = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
    match rpc::fault_of(&whole) {
        Some((code, why)) if why.chars().nth(LONGEST_REFUSAL).is_some() => {
            let why: String = why.chars().take(LONGEST_REFUSAL).collect();
            json(head.status, rpc::fault(id, code, &why))
        }
        _ => Response::from_parts(head, Reply::Whole { data: Some(whole), watch: None }),
    }
}

fn empty(status: StatusCode) -> Response<Reply> {
    let mut response = Response::new(Reply::Routed(Body::empty()));
    *response.status_mut() = status;
    response
}
