//! One request, from its first byte to its answer: its id, its line in the log, and its
//! metrics.
//!
//! A request has a number, which becomes text only where it is shown. Neither the path as
//! it was written nor the query is ever logged: CAO's form has the message in it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::extract::MatchedPath;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use compact_str::{CompactString, format_compact};
use posthaste_api::error::ErrorCode;
use posthaste_core::messaging::message::Principal;
use tracing::Level;

use crate::meters::Meters;
use crate::written::Reply;
use crate::{mcp, rest};

const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// The longest name that a client may give its request.
const LONGEST: usize = 64;

/// The name of a request in answers and logs: the client's own, or the hub's.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RequestId {
    Given(CompactString),
    /// The start of the hub, and a number.
    Made(u32, u64),
}

impl RequestId {
    /// Takes the client's own id if it is short and plain.
    fn given(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(HEADER)?.to_str().ok()?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
        let good = (1..=LONGEST).contains(&text.len()) && text.bytes().all(plain);
        good.then(|| Self::Given(text.into()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(text) => f.write_str(text),
            Self::Made(boot, number) => write!(f, "{boot:08x}-{number}"),
        }
    }
}

/// The route of a request, as far as it is known before the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Send,
    Receive,
    Mcp,
    /// The router knows the route.
    Routed,
}

/// The caller of a routed request, once its token was looked up.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownCaller(Arc<OnceLock<Principal>>);

impl KnownCaller {
    pub(crate) fn is(&self, principal: Principal) {
        let _ = self.0.set(principal);
    }
}

/// One request that is being served. If it is dropped without an answer, its client has
/// closed the connection.
pub(crate) struct ServedRequest {
    meters: Arc<Meters>,
    id: RequestId,
    began: Instant,
    method: &'static str,
    pub(crate) route: Route,
    pub(crate) who: Option<Principal>,
    answered: bool,
}

impl ServedRequest {
    pub(crate) fn begin(meters: &Arc<Meters>, method: &Method, headers: &HeaderMap) -> Self {
        let (boot, number) = meters.next_request();
        Self {
            meters: Arc::clone(meters),
            id: RequestId::given(headers).unwrap_or(RequestId::Made(boot, number)),
            began: Instant::now(),
            method: known(method),
            route: Route::Routed,
            who: None,
            answered: false,
        }
    }

    /// Counts and logs the request, and puts its id into the answer.
    pub(crate) fn end(
        mut self,
        mut response: Response<Reply>,
        who: Option<KnownCaller>,
    ) -> Response<Reply> {
        self.answered = true;
        let (meters, took) = (&self.meters, self.began.elapsed());
        let status = response.status().as_u16();
        let matched = response.extensions().get::<MatchedPath>();
        let route = match self.route {
            Route::Send => rest::SEND,
            Route::Receive => rest::RECEIVE,
            Route::Mcp => mcp::PATH,
            Route::Routed => matched.map_or("unmatched", MatchedPath::as_str),
        };
        meters.answered(self.route, self.method, route, status, took);
        if let Some(code) = response.extensions().get::<ErrorCode>() {
            meters.refused(*code);
        }

        let logged = tracing::enabled!(Level::DEBUG);
        if logged || status >= 500 {
            let who = self.who.or_else(|| who.and_then(|who| who.0.get().copied()));
            let principal = who.map_or(CompactString::const_new("-"), |p| format_compact!("{p}"));
            let (method, request_id) = (self.method, &self.id);
            let ms = took.as_secs_f64() * 1000.0;
            if status >= 500 {
                tracing::info!(method, route, status, ms, %request_id, %principal, "request failed");
            } else {
                tracing::debug!(method, route, status, ms, %request_id, %principal, "request");
            }
        }

        // A good answer with mail, to a client that gave no id, is in no log, so an id
        // would be of no use.
        let given = matches!(self.id, RequestId::Given(_));
        if given || logged || status >= 400 || self.route == Route::Routed {
            let text = format_compact!("{}", self.id);
            if let Ok(value) = HeaderValue::from_str(&text) {
                response.headers_mut().insert(HEADER, value);
            }
        }
        response
    }
}

impl Drop for ServedRequest {
    fn drop(&mut self) {
        if !self.answered {
            self.meters.cut();
            let (method, request_id, ms) =
                (self.method, &self.id, self.began.elapsed().as_millis());
            tracing::debug!(method, %request_id, ms, "request cut: its client has gone away");
        }
    }
}

/// Returns the name of a known method; a method that a client made up is `other`.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_waits_keeps_little() {
        assert!(size_of::<ServedRequest>() <= 96, "{}", size_of::<ServedRequest>());
    }

    #[test]
    fn only_a_short_and_plain_name_is_taken_from_a_client() {
        let given = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_str(text).expect("a header"));
            RequestId::given(&headers).map(|id| id.to_string())
        };
        for good in ["1", "5f1c-aa", "trace:7.2_x", &"a".repeat(64)] {
            assert_eq!(given(good).as_deref(), Some(good));
        }
        for bad in ["", "a b", "a\"b", "a\tb", "{x}", &"a".repeat(65)] {
            assert_eq!(given(bad), None, "{bad}");
        }
        assert_eq!(RequestId::Made(0xab, 7).to_string(), "000000ab-7");
    }
}
