//! A hub with its door open on a port of its own, and those who call there.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_api::client::{Client, ClientError};
use posthaste_api::error::ApiError;
use posthaste_api::inbox::{Inbox, InboxQuery, SettleRequest};
use posthaste_api::instances::{CreateInstance, InstanceView, JoinRequest, Joined};
use posthaste_api::messages::{
    DeliveryView, MessageRef, MessageView, ReadQuery, Receipt, SendRequest,
};
use posthaste_core::ports::Clock;
use posthaste_core::{Hub, Limits, SystemClock};
use posthaste_queue::LocalQueue;
use posthaste_server::{CompatConfig, KeyFiles, Keys, McpConfig, ServerConfig};
use posthaste_store::{Place, StoreConfig};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::documented::assert_documented;

pub(crate) const OPERATOR: &str = "the-operator-of-this-house";
pub(crate) const JOIN: &str = "whoever-may-come-in";
/// The secret of everybody who joins through [`House::join`].
pub(crate) const SECRET: &str = "what-only-the-owner-of-a-key-can-know";

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a test may turn before the door opens.
pub(crate) struct Plan {
    pub(crate) place: Place,
    pub(crate) limits: Limits,
    pub(crate) store: StoreConfig,
    pub(crate) server: ServerConfig,
    pub(crate) compat: CompatConfig,
    pub(crate) mcp: McpConfig,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            place: Place::Memory,
            limits: Limits::default(),
            // No pre-grown log: a test writes little.
            store: StoreConfig { wal_bytes: 0, ..StoreConfig::default() },
            server: ServerConfig::default(),
            compat: CompatConfig::default(),
            mcp: McpConfig::default(),
            clock: Arc::new(SystemClock::new()),
        }
    }
}

impl From<Limits> for Plan {
    fn from(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }
}

impl From<ServerConfig> for Plan {
    fn from(server: ServerConfig) -> Self {
        Self { server, ..Self::default() }
    }
}

impl From<McpConfig> for Plan {
    fn from(mcp: McpConfig) -> Self {
        Self { mcp, ..Self::default() }
    }
}

impl From<CompatConfig> for Plan {
    fn from(compat: CompatConfig) -> Self {
        Self { compat, ..Self::default() }
    }
}

pub(crate) struct House {
    pub(crate) hub: Arc<Hub>,
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) served: JoinHandle<std::io::Result<()>>,
    guests: AtomicU64,
}

impl House {
    pub(crate) async fn new() -> Self {
        Self::with(Plan::default()).await
    }

    pub(crate) async fn with(plan: impl Into<Plan>) -> Self {
        let keys = Keys { operator: hash(OPERATOR), join: hash(JOIN) };
        Self::with_keys(plan, keys).await
    }

    /// The listener is bound before the test gets its address.
    pub(crate) async fn with_keys(plan: impl Into<Plan>, keys: impl KeyFiles + 'static) -> Self {
        let Plan { place, limits, store, server, compat, mcp, clock } = plan.into();
        let queue = Arc::new(LocalQueue::new());
        let engine = posthaste_store::open(&place, store, limits, queue, clock).await;
        let hub = Hub::start(engine.expect("a store"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener");
        let shutdown = CancellationToken::new();
        let serving = posthaste_server::serve(
            listener,
            Arc::clone(&hub),
            server,
            compat,
            mcp,
            keys,
            shutdown.clone(),
        );
        let served = tokio::spawn(serving);
        Self { hub, address, shutdown, served, guests: AtomicU64::new(0) }
    }

    pub(crate) fn client(&self, token: &str) -> Client {
        self.stranger().with_token(token)
    }

    /// A caller without a token.
    pub(crate) fn stranger(&self) -> Client {
        Client::new(&format!("http://{}", self.address)).expect("a good address")
    }

    pub(crate) fn operator(&self) -> Client {
        self.client(OPERATOR)
    }

    /// A new instance of `name`, in the default team.
    pub(crate) async fn agent(&self, name: &str) -> (Joined, Client) {
        let guest = self.guests.fetch_add(1, Ordering::Relaxed);
        self.join(name, None, &format!("guest {guest}")).await
    }

    pub(crate) async fn join(&self, name: &str, team: Option<&str>, key: &str) -> (Joined, Client) {
        let team = team.map(str::to_owned);
        let secret = Some(SECRET.to_owned());
        let request = JoinRequest { agent: name.into(), team, key: key.into(), secret };
        let joined = self.client(JOIN).join(&request).await.expect("joined");
        let client = self.client(&joined.token);
        (joined, client)
    }

    /// An instance that the operator makes.
    pub(crate) async fn create(&self, request: CreateInstance) -> (Joined, Client) {
        let joined = self.operator().create_instance(&request).await.expect("created");
        let client = self.client(&joined.token);
        (joined, client)
    }

    /// A connection of one's own, to be rude on.
    pub(crate) async fn dial(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the door is open")
    }

    /// Bytes in, status and JSON out, on a connection of its own. What is no JSON
    /// is null.
    pub(crate) async fn raw(&self, request: impl AsRef<[u8]>) -> (u16, Value) {
        let mut socket = self.dial().await;
        socket.write_all(request.as_ref()).await.expect("sent");
        let reply = read_reply(&mut socket).await.expect("an answer");
        (reply.status, reply.json())
    }

    /// `call` is a method and a target, like `GET /health`.
    /// The document must know the answer.
    pub(crate) async fn call(&self, call: &str, token: Option<&str>, body: &str) -> (u16, Value) {
        let (status, answer) = self.raw(request(call, token, &[], body)).await;
        assert_documented(call, status, &answer);
        (status, answer)
    }

    pub(crate) async fn instance(&self, id: &str) -> InstanceView {
        self.operator().instance(id).await.expect("a known instance")
    }

    /// Until a call of this instance waits for mail.
    pub(crate) async fn waits(&self, id: &str) {
        let operator = self.operator();
        until("it waits for mail", async || {
            operator.instance(id).await.expect("known").activity == "waiting_inbox"
        })
        .await;
    }

    /// Until no call of this instance waits for mail.
    pub(crate) async fn waits_no_more(&self, id: &str) {
        let operator = self.operator();
        until("it no longer waits", async || {
            operator.instance(id).await.expect("known").activity != "waiting_inbox"
        })
        .await;
    }

    /// The message as the operator sees it.
    pub(crate) async fn record(&self, seq: u64) -> MessageView {
        let read = self.operator().read(&seq.to_string(), &ReadQuery::default()).await;
        read.expect("a kept message")
    }

    /// Where the only delivery of a message stands.
    pub(crate) async fn standing(&self, seq: u64) -> DeliveryView {
        let mut deliveries = self.record(seq).await.deliveries;
        assert_eq!(deliveries.len(), 1, "one mailbox");
        deliveries.remove(0)
    }

    /// Until the only delivery of a message is in this state.
    pub(crate) async fn becomes(&self, seq: u64, state: &str) -> DeliveryView {
        until(state, async || self.standing(seq).await.state == state).await;
        self.standing(seq).await
    }
}

pub(crate) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Asks again until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < patience, "it never came true: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits, but not for ever.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(done) => done,
        Err(_) => panic!("it took too long: {what}"),
    }
}

/// One request as text.
pub(crate) fn request(
    call: &str,
    token: Option<&str>,
    headers: &[(&str, &str)],
    body: &str,
) -> String {
    let mut text = format!("{call} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text.push_str("Host: localhost\r\n");
    }
    if let Some(token) = token {
        text.push_str(&format!("Authorization: Bearer {token}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The lines of the head, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// The next answer on a connection; `None` when it ends or breaks first.
pub(crate) async fn read_reply(socket: &mut TcpStream) -> Option<Reply> {
    within("an answer", async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).expect("a head in ASCII").to_ascii_lowercase();
        let status = head.split(' ').nth(1)?.parse().expect("a status");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |n| n.trim().parse().expect("a length"));
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.ok()?;
        Some(Reply { status, head, body })
    })
    .await
}

/// What is there at once.
pub(crate) fn now() -> InboxQuery {
    InboxQuery { timeout: Some(0.0), ..InboxQuery::default() }
}

/// The first that comes within so many seconds.
pub(crate) fn wait(seconds: f64) -> InboxQuery {
    InboxQuery { timeout: Some(seconds), batch_window: Some(0.0), ..InboxQuery::default() }
}

pub(crate) async fn send(by: &Client, to: &str, text: &str) -> Receipt {
    by.send(&SendRequest::new(to, text)).await.expect("accepted")
}

pub(crate) async fn read(by: &Client) -> Inbox<'static> {
    by.inbox(&now()).await.expect("an answer")
}

pub(crate) fn texts<'a>(inbox: &'a Inbox<'_>) -> Vec<&'a str> {
    inbox.messages.iter().map(|m| &*m.message).collect()
}

pub(crate) fn ids(inbox: &Inbox<'_>) -> Vec<u64> {
    inbox.messages.iter().map(|m| m.id).collect()
}

/// The receipt of an answer, as it is given back.
pub(crate) fn receipt_of(inbox: &Inbox<'_>) -> SettleRequest {
    let receipt = inbox.receipt.as_deref().expect("an answer with mail has a receipt");
    SettleRequest { receipt: Some(receipt.to_owned()), ids: None }
}

pub(crate) fn by_ids(seqs: &[u64]) -> SettleRequest {
    let ids = seqs.iter().map(|seq| MessageRef::Seq(*seq)).collect();
    SettleRequest { receipt: None, ids: Some(ids) }
}

/// What the hub said when it said no.
pub(crate) fn refusal<T: Debug>(result: Result<T, ClientError>) -> ApiError {
    match result {
        Err(ClientError::Api(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}
