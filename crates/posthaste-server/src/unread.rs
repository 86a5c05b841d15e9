//! Discards the rest of bodies that are not read.
//!
//! An answer may come before its request was read: the request is too large, or its sender
//! is not known. Most clients write everything before they read, and would never see that
//! answer if the connection closed while they write. So the rest of a body is read and
//! discarded after the answer: at most `server.discard_bytes`, for no longer than
//! `server.body_timeout`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::accept::House;
use crate::config::ServerConfig;

/// The body of a request. If it is dropped before its end, the rest is discarded.
pub(crate) struct Inlet {
    /// `None` when nothing more comes.
    rest: Option<(Incoming, Arc<House>)>,
}

impl Inlet {
    pub(crate) fn new(body: Incoming, house: &Arc<House>) -> Self {
        Self { rest: (!body.is_end_stream()).then(|| (body, Arc::clone(house))) }
    }
}

impl Body for Inlet {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some((body, _)) = &mut self.rest else { return Poll::Ready(None) };
        let frame = std::task::ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.rest = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.rest.as_ref().is_none_or(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), |(body, _)| body.size_hint())
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        let Some((body, house)) = self.rest.take() else { return };
        if !body.is_end_stream() {
            let app = &house.app;
            app.unread.spawn(throw_away(body, Arc::clone(&app.config)));
        }
    }
}

async fn throw_away(mut body: Incoming, config: Arc<ServerConfig>) {
    let mut room = config.discard_bytes;
    let rest = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match room.checked_sub(length) {
                Some(left) => room = left,
                None => return,
            }
        }
    };
    // A client that sends more, or slower, loses the connection.
    let _ = tokio::time::timeout(config.body_timeout, rest).await;
}
