//! Streams that stay open: a sign of life, and the place for news.

use axum::body::Body;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::settle::Attached;
use posthaste_core::registry::NewInstance;
use std::convert::Infallible;

use serde_json::value::RawValue;

use super::asker::Asker;
use super::events::event;
use super::rpc::{self, Wanted};
use crate::App;
use crate::auth::Identity;
use crate::failure::Failure;
use crate::written::Reply;

const PING: &[u8] = b": ping\n\n";

/// `GET /mcp`: opens a stream that carries only pings, because the tools never change and
/// mail is fetched. An open stream is a sign of life of its agent.
pub(crate) fn open(app: &App, parts: &Parts, asker: &Asker) -> Result<Response<Reply>, Failure> {
    let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    if !accept.is_some_and(|accept| accept.contains("text/event-stream") || accept.contains("*/*"))
    {
        let why = "this is a stream: accept text/event-stream";
        return Err(ApiError::new(ErrorCode::BadRequest, why).into());
    }
    begin(app, asker, Bytes::from_static(PING))
}

/// `subscriptions/listen`: opens the same stream in the newest era.
pub(crate) fn listen(
    app: &App,
    asker: &Asker,
    id: &RawValue,
    wanted: Wanted,
) -> Result<Response<Reply>, Failure> {
    begin(app, asker, event(&rpc::listening(id, wanted)))
}

/// Opens a stream. Its first line comes at once, so the client sees that it is connected.
fn begin(app: &App, asker: &Asker, first: Bytes) -> Result<Response<Reply>, Failure> {
    let owner = match &asker.from {
        Identity::Newcomer(new) => StreamOwner::Early(new.clone()),
        _ => {
            let who = asker.somebody()?;
            StreamOwner::Of { who, _attached: attach(app, who)? }
        }
    };
    let state = Pings { app: app.clone(), owner, first: Some(first) };
    let pings = stream::unfold(state, Pings::next);
    let mut response = Response::new(Reply::Routed(Body::from_stream(pings)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

pub(crate) fn attach(app: &App, who: Principal) -> Result<Attached, Failure> {
    let most = app.mcp.config.streams_each;
    app.hub.attach(who, most).ok_or_else(|| {
        let why = format!("{most} streams of this agent are open already");
        let error =
            ApiError::new(ErrorCode::RateLimited, why).hint("close one, or raise mcp.streams_each");
        error.into()
    })
}

/// The owner of a stream.
enum StreamOwner {
    Of {
        who: Principal,
        _attached: Attached,
    },
    /// A newcomer that has only opened its stream. The stream creates no instance, and
    /// passes to the instance that the newcomer's first act creates.
    Early(Box<NewInstance>),
}

impl StreamOwner {
    /// Returns whether the stream goes on.
    fn look(&mut self, app: &App) -> bool {
        let who = match self {
            Self::Of { who, .. } => *who,
            Self::Early(new) => {
                let (Some(team), Some(key)) = (&new.team, &new.key) else { return false };
                let Some(id) = app.hub.keyed(&new.agent, team, key) else { return true };
                let who = Principal::Instance(id);
                let Ok(attached) = attach(app, who) else { return false };
                *self = Self::Of { who, _attached: attached };
                who
            }
        };
        match who {
            Principal::Operator => true,
            Principal::Instance(id) => app.hub.lives(id),
        }
    }
}

struct Pings {
    app: App,
    owner: StreamOwner,
    first: Option<Bytes>,
}

impl Pings {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if let Some(first) = self.first.take() {
            return Some((Ok(first), self));
        }
        tokio::select! {
            () = tokio::time::sleep(self.app.mcp.config.ping) => {}
            () = self.app.hub.stopped() => return None,
        }
        if !self.owner.look(&self.app) {
            return None;
        }
        Some((Ok(Bytes::from_static(PING)), self))
    }
}

/// Keeps an agent attached as long as its answer is open.
pub(crate) fn held(reply: Reply, attached: Attached) -> Reply {
    let Reply::Routed(body) = reply else { return reply };
    Reply::Routed(Body::new(body.map_frame(move |frame| {
        let _open = &attached;
        frame
    })))
}
