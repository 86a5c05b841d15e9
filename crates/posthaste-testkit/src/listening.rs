//! An HTTP server on loopback, for [`model_server`](crate::model_server) and
//! [`tap`](crate::tap).

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// A server that listens until this value is dropped; then its connections are cut.
pub(crate) struct Listening {
    /// `http://127.0.0.1:PORT`
    pub(crate) url: String,
    _task: AbortOnDropHandle<()>,
}

/// Answers every request with `answer`. The port is bound when this returns.
pub(crate) async fn listen<A, F, B>(answer: A) -> Listening
where
    A: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>, Data: Send> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let answer = Arc::new(answer);
    let task = tokio::spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            while open.try_join_next().is_some() {}
            let answer = Arc::clone(&answer);
            let service = service_fn(move |request| {
                let answered = answer(request);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            // A stream in small pieces would wait for its reader's acknowledgements.
            let _ = socket.set_nodelay(true);
            let io = TokioIo::new(socket);
            // A client that closes its connection is no failure of the server.
            open.spawn(async move {
                let _ = http1::Builder::new().serve_connection(io, service).await;
            });
        }
    });
    Listening { url, _task: AbortOnDropHandle::new(task) }
}
