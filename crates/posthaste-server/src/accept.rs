//! The loop that all sockets run on.
//!
//! An accept loop of our own instead of a framework's, for two reasons: small
//! buffers, so that ten thousand waiting readers fit into little memory, and a
//! socket that knows when it was flushed ([`written`](crate::written)).
//!
//! hyper begins with 8 KiB for reading and takes more only for a larger head.

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Method, Request, Response};
use axum::response::IntoResponse;
use futures_util::{FutureExt, TryFutureExt};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tower::Service;

use crate::auth::Peer;
use crate::bodies::Held;
use crate::failure::Failure;
use crate::request::{KnownCaller, Route, ServedRequest};
use crate::silence::Silence;
use crate::slots::{self, Slot, Slots, is_for_all_times, no_descriptors};
use crate::unread::Inlet;
use crate::written::{Outgoing, Reply, Wire};
use crate::{App, guard, mcp, rest};

/// The largest head of a request. A message in a query (CAO's form) is as long as
/// an address line can be, which is 64 KiB, and some headers stand beside it.
const HEAD: usize = 80 * 1024;
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn run(
    listener: TcpListener,
    app: App,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let house = Arc::new(House { router: rest::router(app.clone()), app: app.clone() });
    let mut slots = Slots::new(&app.config, &listener);
    let open = app.meters.connections.clone();
    let meters = Arc::clone(&app.meters);
    let pulse = tokio::spawn(async move { meters.feel_the_pulse().await });
    let _pulse = AbortOnDropHandle::new(pulse);
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, from)) => {
                let Some((socket, slot)) = slots.seat(socket, &app.meters) else { continue };
                let (house, shutdown) = (Arc::clone(&house), shutdown.clone());
                let to = socket.local_addr().unwrap_or(app.config.listen);
                let peer = Peer { from, to };
                open.spawn(connection(socket, peer, house, shutdown, slot));
            }
            Err(error) if no_descriptors(&error) => {
                if !slots.without_descriptors(&listener, &app.meters) {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    // The reserve descriptor among the slots holds the port, too.
    drop((listener, slots));
    app.hub.stop_waiting();
    open.close();
    // The leases of open connections go back before the store is closed.
    open.wait().await;
    app.steps.close();
    app.steps.wait().await;
    app.unread.close();
    app.unread.wait().await;
    Ok(())
}

async fn connection(
    socket: TcpStream,
    peer: Peer,
    house: Arc<House>,
    shutdown: CancellationToken,
    slot: Slot,
) {
    // A small answer must not wait for a second packet.
    let _ = socket.set_nodelay(true);
    let config = &house.app.config;
    let (idle_timeout, grace) = (config.idle_timeout, config.shutdown_grace);
    let outgoing = Arc::new(Outgoing::default());
    let wire = Wire::new(socket, Arc::clone(&outgoing), config.write_timeout);
    let spare = slot.spare;
    let head = if spare { config.spare_head_timeout } else { config.head_timeout };
    let silence = Silence::new(head, Arc::clone(&outgoing));
    let service = service_fn(move |request: Request<Incoming>| {
        let (house, outgoing) = (Arc::clone(&house), Arc::clone(&outgoing));
        match spare {
            false => answer(request, peer, house, outgoing),
            true => answer_on_a_spare_slot(request, peer, house, outgoing),
        }
    });
    let served = http1::Builder::new()
        .max_buf_size(HEAD)
        .timer(silence)
        .header_read_timeout(idle_timeout)
        .serve_connection(wire, service);
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = shutdown.cancelled() => {
            served.as_mut().graceful_shutdown();
            match tokio::time::timeout(grace, served).await {
                Ok(ended) => ended,
                Err(_) => return tracing::warn!("a connection did not end in time and is cut"),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// The state that all connections share.
pub(crate) struct House {
    pub(crate) app: App,
    router: Router,
}

/// A response that is being made. Boxed: a connection would keep room for the largest of
/// all, and thousands of connections only wait for mail.
type PendingResponse = Pin<Box<dyn Future<Output = Result<Response<Reply>, Infallible>> + Send>>;

/// The two calls that carry the mail go straight to their handlers: a router's
/// boxes and copies would cost more than the calls themselves. Everything else is
/// routed.
///
/// The query of a waiting reader is read here, before its wait begins: nothing of the
/// request is kept.
fn answer(
    request: Request<Incoming>,
    peer: Peer,
    house: Arc<House>,
    outgoing: Arc<Outgoing>,
) -> PendingResponse {
    let app = &house.app;
    let request = request.map(|body| Inlet::new(body, &house));
    let mut call = ServedRequest::begin(&app.meters, request.method(), request.headers());
    if let Err(refused) = guard::check(app, &request) {
        return refuse(call, refused);
    }
    match (request.method(), request.uri().path()) {
        (&Method::POST, rest::SEND) => {
            call.route = Route::Send;
            match rest::messages::author(app, request.headers()) {
                Ok(from) => {
                    call.who = Some(from.who);
                    let body = request.into_body();
                    Box::pin(async move {
                        let sent = rest::messages::send(&house.app, from, body).await;
                        finish(call, sent)
                    })
                }
                Err(refused) => refuse(call, refused),
            }
        }
        (&Method::GET, rest::RECEIVE) => {
            call.route = Route::Receive;
            match rest::inbox::asked(app, &request) {
                Ok(ask) => {
                    call.who = Some(ask.reader);
                    let received = rest::inbox::receive(&app.hub, ask, outgoing);
                    Box::pin(received.map(|received| finish(call, received)))
                }
                Err(refused) => refuse(call, refused),
            }
        }
        (_, mcp::PATH) => {
            call.route = Route::Mcp;
            Box::pin(async move {
                let told = mcp::answer(&house.app, request, &mut call.who, outgoing).await;
                finish(call, told)
            })
        }
        _ => {
            let (mut request, who) = (request.map(Body::new), KnownCaller::default());
            request.extensions_mut().insert(outgoing);
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(who.clone());
            let held = Held::default();
            request.extensions_mut().insert(held.clone());
            // A router is always ready.
            let routed = house.router.clone().call(request);
            Box::pin(async move {
                let response = routed.await?.map(Reply::Routed);
                drop(held);
                Ok(call.end(response, Some(who)))
            })
        }
    }
}

/// Answers while the hub is full: serves only some requests, and closes each connection
/// after its answer.
fn answer_on_a_spare_slot(
    request: Request<Incoming>,
    peer: Peer,
    house: Arc<House>,
    outgoing: Arc<Outgoing>,
) -> PendingResponse {
    let (method, headers) = (request.method(), request.headers());
    let served = is_for_all_times(&house.app, method, request.uri().path(), headers);
    let answered = match served {
        true => answer(request, peer, house, outgoing),
        false => {
            let call = ServedRequest::begin(&house.app.meters, method, headers);
            let _unread = Inlet::new(request.into_body(), &house);
            refuse(call, slots::full().into())
        }
    };
    Box::pin(answered.map_ok(|mut response| {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }))
}

/// Refuses a request at once.
fn refuse(call: ServedRequest, why: Failure) -> PendingResponse {
    Box::pin(ready(finish(call, Err(why))))
}

fn finish(
    call: ServedRequest,
    answered: Result<Response<Reply>, Failure>,
) -> Result<Response<Reply>, Infallible> {
    let response = answered.unwrap_or_else(|failure| failure.into_response().map(Reply::Routed));
    Ok(call.end(response, None))
}
