//! An answer to a call that takes long: progress first, the result last.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Response};
use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::time::{Interval, interval};

use super::call::{Done, Job};
use super::rpc::{self, Era};
use crate::written::{Outgoing, Reply};

/// A call that still runs, reported as server-sent events.
pub(crate) struct Events {
    job: Option<Job>,
    id: Box<RawValue>,
    era: Era,
    token: Box<RawValue>,
    every: Interval,
    each: Duration,
    ticks: u32,
    outgoing: Arc<Outgoing>,
}

impl Events {
    pub(crate) fn answer(
        job: Job,
        id: Box<RawValue>,
        era: Era,
        token: Box<RawValue>,
        each: Duration,
        outgoing: Arc<Outgoing>,
    ) -> Response<Reply> {
        // The first tick is at once, because the call has waited for `each` already.
        let every = interval(each);
        let events = Self { job: Some(job), id, era, token, every, each, ticks: 0, outgoing };
        let mut response = Response::new(Reply::Events(Box::new(events)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(job) = &mut self.job else { return Poll::Ready(None) };
        if let Poll::Ready(done) = Pin::new(job).poll(cx) {
            self.job = None;
            let Done { blocks, is_error, handed } = done;
            let json = rpc::result(&self.id, self.era, &blocks, is_error);
            // This frame is the last one.
            if let Some(handed) = handed {
                self.outgoing.body_ended(handed);
            }
            return Poll::Ready(Some(event(&json)));
        }
        if self.every.poll_tick(cx).is_ready() {
            self.ticks += 1;
            let waited = self.each.saturating_mul(self.ticks).as_secs();
            return Poll::Ready(Some(event(&rpc::progress(&self.token, waited))));
        }
        Poll::Pending
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.job.is_none()
    }
}

pub(crate) fn event(json: &[u8]) -> Bytes {
    [b"event: message\ndata: ", json, b"\n\n"].concat().into()
}
