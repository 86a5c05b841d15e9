//! How the hub knows that an answer left the house.
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

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use posthaste_core::messaging::receive::Handed;
use tokio::net::TcpStream;

/// Answers whose last byte is in hyper's buffer and waits for the flush.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    waiting: Mutex<Vec<Handed>>,
}

impl Outgoing {
    fn body_ended(&self, handed: Handed) {
        self.waiting.lock().push(handed);
    }

    fn flushed(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(Handed::written);
    }
}

/// A JSON answer that is watched until it is written.
pub(crate) fn watched(json: Vec<u8>, handed: Handed, outgoing: &Arc<Outgoing>) -> Response {
    let body =
        Watched { data: Some(Bytes::from(json)), watch: Some((handed, Arc::clone(outgoing))) };
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = StatusCode::OK;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

struct Watched {
    data: Option<Bytes>,
    watch: Option<(Handed, Arc<Outgoing>)>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // The one frame is also the last: hyper does not poll again.
        if let Some((handed, outgoing)) = self.watch.take() {
            outgoing.body_ended(handed);
        }
        Poll::Ready(self.data.take().map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |d| d.len() as u64))
    }
}

/// A socket that tells when it has been flushed.
pub(crate) struct Wire {
    socket: TokioIo<TcpStream>,
    outgoing: Arc<Outgoing>,
}

impl Wire {
    pub(crate) fn new(socket: TcpStream, outgoing: Arc<Outgoing>) -> Self {
        Self { socket: TokioIo::new(socket), outgoing }
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.outgoing.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }
}

impl Drop for Wire {
    /// Not written: what was handed over goes back.
    fn drop(&mut self) {
        self.outgoing.waiting.lock().clear();
    }
}
