//! A proxy between a client and a hub: everything goes through unchanged, and the test can
//! read the requests.
//!
//! The proxy also adds a token for agent programs that cannot send one.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::listening::{Listening, listen};

/// A second address of a hub, which records the requests.
pub struct Tap {
    listening: Listening,
    heard: Arc<Mutex<Vec<Heard>>>,
}

/// One request, as it came.
#[derive(Debug, Clone)]
pub struct Heard {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    /// `Null` if the request had no body.
    pub body: Value,
}

impl Tap {
    /// Listens in front of the hub at `url`, and adds `token` to requests without one.
    pub async fn before(url: &str, token: Option<&str>) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hub = Arc::new(Hub {
            address: url.trim_start_matches("http://").to_owned(),
            token: token.map(|token| format!("Bearer {token}")),
            heard: Arc::clone(&heard),
        });
        let listening = listen(move |request| Arc::clone(&hub).pass(request)).await;
        Self { listening, heard }
    }

    pub fn url(&self) -> &str {
        &self.listening.url
    }

    /// Returns all requests so far, in order.
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().clone()
    }
}

impl Heard {
    /// Returns the JSON-RPC method, or the HTTP method of a request without one.
    pub fn what(&self) -> &str {
        self.body["method"].as_str().unwrap_or(self.method.as_str())
    }
}

struct Hub {
    address: String,
    token: Option<String>,
    heard: Arc<Mutex<Vec<Heard>>>,
}

type Passed = Response<Either<Incoming, Full<Bytes>>>;

impl Hub {
    async fn pass(self: Arc<Self>, request: Request<Incoming>) -> Passed {
        let (mut head, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return away("the request broke off") };
        let body = body.to_bytes();
        self.heard.lock().push(Heard {
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            headers: head.headers.clone(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        });
        if let Some(token) = &self.token
            && !head.headers.contains_key(AUTHORIZATION)
        {
            let token = HeaderValue::from_str(token).expect("a token is plain");
            head.headers.insert(AUTHORIZATION, token);
        }
        match self.ask(Request::from_parts(head, Full::new(body))).await {
            Ok(response) => response.map(Either::Left),
            Err(error) => away(&error.to_string()),
        }
    }

    /// Opens a connection for each request: it closes when the client's connection closes.
    async fn ask(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Box<dyn std::error::Error + Send + Sync>> {
        let socket = TcpStream::connect(&self.address).await?;
        let (mut hub, connection) = http1::handshake(TokioIo::new(socket)).await?;
        // The connection ends with the answer, or when the client no longer waits.
        tokio::spawn(connection);
        Ok(hub.send_request(request).await?)
    }
}

fn away(why: &str) -> Passed {
    let body = Either::Right(Full::from(why.to_owned()));
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}
