//! Tells the hub when an answer has left.
//!
//! Three layers, each of which can say no. The [`Handed`] of an answer says "not
//! written" when it is dropped. The body hands it to the connection only once its
//! last frame was taken. The socket says "written" at the first flush after that:
//! hyper flushes the socket only when its own buffer is empty, so everything is in
//! the kernel's hands. A connection that closes first drops what it was handed.
//!
//! It is no proof that a reader read: a dead client's kernel takes a small answer
//! too. It is proof of the opposite, when the answer was *not* written.
//!
//! HTTP/1 only: in HTTP/2 a flush is not per answer.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use posthaste_core::messaging::receive::Handed;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::mcp::Events;

/// Answers whose last byte is in hyper's buffer and waits for the flush.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    waiting: Mutex<Vec<Handed>>,
    /// True once bytes came from the client.
    arrived: AtomicBool,
}

impl Outgoing {
    pub(crate) fn body_ended(&self, handed: Handed) {
        self.waiting.lock().push(handed);
    }

    pub(crate) fn has_arrived(&self) -> bool {
        self.arrived.load(Ordering::Relaxed)
    }

    pub(crate) fn forget_arrivals(&self) {
        self.arrived.store(false, Ordering::Relaxed);
    }

    fn is_waited_for(&self) -> bool {
        !self.waiting.lock().is_empty()
    }

    /// Drops the waiting answers because the client has gone: their mail goes back.
    fn not_read(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        drop(waiting);
    }

    fn flushed(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(Handed::written);
    }
}

/// The body of an answer.
pub(crate) enum Reply {
    /// In one piece, and watched until it is written.
    Whole { data: Option<Bytes>, watch: Option<(Handed, Arc<Outgoing>)> },
    /// Progress, then the result.
    Events(Box<Events>),
    /// From a route of the router.
    Routed(Body),
}

/// Makes a JSON answer.
pub(crate) fn json(status: StatusCode, json: Vec<u8>) -> Response<Reply> {
    reply(status, json, None)
}

/// Makes a JSON answer that is watched until it is written.
pub(crate) fn watched(json: Vec<u8>, handed: Handed, outgoing: Arc<Outgoing>) -> Response<Reply> {
    reply(StatusCode::OK, json, Some((handed, outgoing)))
}

fn reply(
    status: StatusCode,
    json: Vec<u8>,
    watch: Option<(Handed, Arc<Outgoing>)>,
) -> Response<Reply> {
    let mut response = Response::new(Reply::Whole { data: Some(Bytes::from(json)), watch });
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

impl HttpBody for Reply {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut *self {
            Self::Whole { data, watch } => {
                // The one frame is also the last: hyper does not poll again.
                if let Some((handed, outgoing)) = watch.take() {
                    outgoing.body_ended(handed);
                }
                Poll::Ready(data.take().map(|data| Ok(Frame::data(data))))
            }
            Self::Events(events) => {
                events.poll(cx).map(|data| data.map(|data| Ok(Frame::data(data))))
            }
            Self::Routed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole { data, .. } => data.is_none(),
            Self::Events(events) => events.has_ended(),
            Self::Routed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole { data, .. } => {
                SizeHint::with_exact(data.as_ref().map_or(0, |d| d.len() as u64))
            }
            Self::Events(_) => SizeHint::default(),
            Self::Routed(body) => body.size_hint(),
        }
    }
}

/// A body no longer than this is written in one piece: a list of pieces costs the
/// kernel more than the copy costs us.
const SMALL: usize = 1024;

/// A socket that tells when it has been flushed, and that does not wait for ever
/// for a client that does not read.
pub(crate) struct Wire {
    socket: TokioIo<TcpStream>,
    outgoing: Arc<Outgoing>,
    patience: Duration,
    /// Set while a write waits for the client.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl Wire {
    pub(crate) fn new(socket: TcpStream, outgoing: Arc<Outgoing>, patience: Duration) -> Self {
        Self { socket: TokioIo::new(socket), outgoing, patience, stuck: None }
    }

    /// Returns whether the client has closed the connection. hyper sees that only where no
    /// bytes follow the request; the kernel takes an answer all the same.
    fn is_left(&self, cx: &mut Context<'_>) -> bool {
        let ready = pin!(self.socket.inner().ready(Interest::READABLE));
        matches!(ready.poll(cx), Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }

    fn patiently<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stuck = None;
            return polled;
        }
        let patience = self.patience;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(patience)));
        match stuck.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.socket).poll_read(cx, buf);
        if read.is_ready() {
            self.outgoing.arrived.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.patiently(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) && self.outgoing.is_waited_for() {
            match self.is_left(cx) {
                true => self.outgoing.not_read(),
                false => self.outgoing.flushed(),
            }
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if bufs.iter().map(|buf| buf.len()).sum::<usize>() > SMALL {
            let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
            return self.patiently(cx, written);
        }
        let (mut piece, mut length) = ([0; SMALL], 0);
        for buf in bufs {
            piece[length..][..buf.len()].copy_from_slice(buf);
            length += buf.len();
        }
        self.poll_write(cx, &piece[..length])
    }
}

impl Drop for Wire {
    /// Drops the answers that were not written: their mail goes back.
    fn drop(&mut self) {
        self.outgoing.waiting.lock().clear();
    }
}
