//! One message on its way to the hub, and the answer to it.
//!
//! The hub identifies each request by the bridge and the request's id, so the same line
//! may be sent again when its outcome is unknown.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use parking_lot::Mutex;
use posthaste_api::error::ErrorBody;
use posthaste_api::{ApiError, ErrorCode};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::value::RawValue;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Bridge;
use super::hub::Waiting;
use super::message::{Message, is_answer};
use super::reply;
use super::sse;
use super::who::{Bearer, Trouble};

/// The forms in which the hub may answer.
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A call ends when the hub ends it, or when its client gives it up.
const ENDLESS: Duration = Duration::MAX;

/// The time for which a notification looks for a hub: nobody waits for it.
const NOTICE: Duration = Duration::from_secs(5);

/// Number of answered requests that are remembered for a late cancel.
const FINISHED: usize = 64;

/// One request that the client waits for.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// Ends the call at once.
    pub(super) stop: CancellationToken,
    /// The client does not want the answer any more.
    unwanted: AtomicBool,
    /// The hub may have the request.
    sent: AtomicBool,
    /// The caller, once the request was sent: its cancel is sent as the same agent.
    bearer: Mutex<Option<Bearer>>,
}

impl Running {
    /// Records that the client gave the request up. Returns whether the hub has to be
    /// told.
    pub(super) fn disown(&self) -> bool {
        self.unwanted.store(true, Ordering::Relaxed);
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns whether the hub may have the request.
    pub(super) fn is_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the caller of the request.
    pub(super) fn bearer(&self) -> Option<Bearer> {
        self.bearer.lock().clone()
    }

    fn is_wanted(&self) -> bool {
        !self.unwanted.load(Ordering::Relaxed)
    }
}

/// The last answered requests, with their callers.
#[derive(Debug, Default)]
pub(super) struct Finished(VecDeque<(String, Bearer)>);

impl Finished {
    pub(super) fn add(&mut self, id: &str, bearer: Bearer) {
        if self.0.len() >= FINISHED {
            self.0.pop_front();
        }
        self.0.push_back((id.to_owned(), bearer));
    }

    /// Returns the caller of the request that this message cancels. Ids may repeat: the
    /// last one counts.
    pub(super) fn caller(&self, message: &Message) -> Option<Bearer> {
        let id = message.cancels.as_deref()?.get();
        self.0.iter().rev().find(|(of, _)| of == id).map(|(_, bearer)| bearer.clone())
    }
}

/// One attempt to send a message.
struct Carrying<'a> {
    message: &'a Message,
    running: &'a Running,
    bearer: &'a Bearer,
}

impl Bridge {
    /// Sends a request and returns its answer to the client; there is always one, unless
    /// the client does not want it any more.
    pub(super) async fn call(&self, message: &Message, running: &Running) {
        let id = message.id.as_deref();
        if let Some(why) = self.who.refusal(message) {
            return self.out.line(&reply::failed_tool(id, &why, message.is_new_era()));
        }
        let carried = tokio::select! {
            () = running.stop.cancelled() => return,
            carried = self.carry(message, running, None) => carried,
        };
        if let Err(why) = carried
            && running.is_wanted()
        {
            self.out.line(&reply::refused(id, &why));
        }
    }

    /// Sends a message that needs no answer; a cancel as the agent of the cancelled call.
    pub(super) async fn notify(&self, message: &Message, as_agent: Option<Bearer>) {
        let running = Running::default();
        let what = if message.method.is_empty() { "an answer" } else { &message.method };
        let carried = self.carry(message, &running, as_agent.as_ref());
        match timeout(NOTICE, carried).await {
            Ok(Ok(())) => (),
            Ok(Err(why)) => self.out.note(&format!("{what}: {}", reply::in_one_line(&why))),
            Err(_) => self.out.note(&format!("{what}: no hub answers")),
        }
    }

    /// Tries until the hub has answered or refused.
    async fn carry(
        &self,
        message: &Message,
        running: &Running,
        as_agent: Option<&Bearer>,
    ) -> Result<(), ApiError> {
        let mut waiting = Waiting::new(&self.hub);
        let mut renewed = false;
        loop {
            let (trouble, bearer) = match self.attempt(message, running, as_agent).await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            if !running.is_wanted() {
                return Ok(());
            }
            match trouble {
                Trouble::Absent(why) => waiting.absent(&why).await?,
                Trouble::Cut(why) => waiting.cut(&why).await?,
                Trouble::Busy(why) => waiting.busy(&why).await?,
                Trouble::Refused(why) => {
                    // The token was replaced, or its instance has ended: tries once more with a
                    // new one.
                    let again = match (why.code, bearer) {
                        (ErrorCode::Unauthorized, Some(bearer))
                            if !renewed && as_agent.is_none() =>
                        {
                            self.who.forget(&bearer).await
                        }
                        _ => false,
                    };
                    if !again {
                        return Err(self.who.explain(why));
                    }
                    renewed = true;
                }
            }
        }
    }

    async fn attempt(
        &self,
        message: &Message,
        running: &Running,
        as_agent: Option<&Bearer>,
    ) -> Result<(), (Trouble, Option<Bearer>)> {
        let hub = self.hub.url().map_err(|why| (Trouble::Absent(why), None))?;
        let lost = |trouble: &Trouble| {
            if matches!(trouble, Trouble::Absent(_) | Trouble::Cut(_)) {
                self.hub.lost(&hub);
            }
        };
        let bearer = match as_agent {
            Some(bearer) => bearer.clone(),
            None => self.who.bearer(&hub, message).await.map_err(|trouble| {
                lost(&trouble);
                (trouble, None)
            })?,
        };
        // A cancel does not count as a use of its agent.
        let used = bearer.identity.as_deref().filter(|_| as_agent.is_none());
        let _in_use = used.map(|identity| self.uses(identity));
        *running.bearer.lock() = Some(bearer.clone());
        let request = self
            .signed(self.http.post(self.door(&hub)), &bearer)
            .headers(self.handshake.head(message, &bearer))
            .header(ACCEPT, EITHER)
            .header(CONTENT_TYPE, JSON)
            .body(message.line.clone());
        let carrying = Carrying { message, running, bearer: &bearer };
        running.sent.store(true, Ordering::Relaxed);
        self.exchange(request, &carrying).await.map_err(|trouble| {
            running.sent.store(false, Ordering::Relaxed);
            lost(&trouble);
            (trouble, Some(bearer))
        })
    }

    /// Adds the caller and the bridge to a request.
    pub(super) fn signed(&self, request: RequestBuilder, bearer: &Bearer) -> RequestBuilder {
        let request = request
            .bearer_auth(bearer.token.reveal())
            .header("x-posthaste-bridge", self.id())
            .header("x-posthaste-conversation", &bearer.conversation);
        match bearer.instance {
            Some(instance) => request.header("x-posthaste-instance", instance.to_string()),
            None => request,
        }
    }

    async fn exchange(
        &self,
        request: RequestBuilder,
        carrying: &Carrying<'_>,
    ) -> Result<(), Trouble> {
        let answer = request.send().await.map_err(|e| self.absent(e))?;
        self.hub.met();
        if is_stream(answer.headers()) {
            return self.read_stream(answer, carrying).await;
        }
        let (status, head) = (answer.status(), answer.headers().clone());
        let body = answer.bytes().await.map_err(|e| self.absent(e))?;
        let text = std::str::from_utf8(&body).unwrap_or_default();
        if is_message(text) {
            self.hand_back(text, &head, carrying);
            return Ok(());
        }
        if !status.is_success() {
            return Err(refusal(status, text));
        }
        let Carrying { message, running, .. } = carrying;
        if message.is_request() && running.is_wanted() {
            self.out.line(&reply::unanswered(message.id.as_deref(), status.as_u16()));
        }
        Ok(())
    }

    /// Reads notifications, and then the answer. A stream that ends without an answer was
    /// cut.
    async fn read_stream(&self, answer: Response, carrying: &Carrying<'_>) -> Result<(), Trouble> {
        let head = answer.headers().clone();
        let mut messages = sse::messages(answer, ENDLESS);
        let mut answered = !carrying.message.is_request();
        // Reads to the very end, also behind the answer: if the bridge closes the connection
        // earlier, the hub suspects that the answer was lost.
        while let Some(text) = messages.next().await {
            answered |= is_answer(&text);
            self.hand_back(&text, &head, carrying);
        }
        match answered {
            true => Ok(()),
            false => Err(Trouble::Cut(self.hub.absent("the hub left in mid-answer"))),
        }
    }

    /// Writes one line for the client.
    fn hand_back(&self, text: &str, head: &HeaderMap, carrying: &Carrying<'_>) {
        let Carrying { message, running, bearer } = carrying;
        if message.is("initialize") {
            self.handshake.agreed(head, text, bearer);
        }
        match message.is_request() {
            true if running.is_wanted() => self.out.line(text.as_bytes()),
            true => (),
            // Nobody asked; an answer without a request would confuse the client.
            false => self.out.note(&format!("{}: {text}", message.method)),
        }
    }

    fn absent(&self, error: reqwest::Error) -> Trouble {
        match error.is_connect() {
            true => Trouble::Absent(self.hub.absent("no hub answers")),
            false => Trouble::Cut(self.hub.absent("the hub left in mid-call")),
        }
    }
}

/// Returns whether an answer is a stream of events.
pub(super) fn is_stream(head: &HeaderMap) -> bool {
    head.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Returns whether this is a message of JSON-RPC, and not one of the hub's other answers.
fn is_message(text: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Any<'a> {
        #[serde(borrow, rename = "jsonrpc")]
        _version: &'a RawValue,
    }
    text.starts_with('{') && serde_json::from_str::<Any<'_>>(text).is_ok()
}

/// Makes an error of a bad answer, in the hub's own words if it has any.
pub(super) fn refusal(status: StatusCode, text: &str) -> Trouble {
    let told = serde_json::from_str::<ErrorBody>(text).map(|body| body.error);
    let told = told.unwrap_or_else(|_| {
        let code = match status {
            StatusCode::UNAUTHORIZED => ErrorCode::Unauthorized,
            StatusCode::SERVICE_UNAVAILABLE => ErrorCode::Unavailable,
            _ => ErrorCode::Internal,
        };
        let told = format!("the hub's address answered {status}, but not like a hub");
        ApiError::new(code, told).hint("is this the right address and port?")
    });
    match told.code {
        ErrorCode::Unavailable => Trouble::Busy(told),
        _ => Trouble::Refused(told),
    }
}
