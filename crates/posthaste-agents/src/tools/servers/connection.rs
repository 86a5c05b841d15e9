//! A running MCP server, and the way to it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientConfig, Implementation, PaginatedRequestParams,
    Tool,
};
use rmcp::service::{NotificationContext, Peer, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::secrets::Secrets;
use super::{Common, Launch};
use crate::conversation::one_line;
use crate::keeper::{TreeEnd, TreeStdin};
use crate::program;
use crate::tools::trees::Tree;

/// Number of tools of one server that an assistant gets.
const MOST_TOOLS: usize = 500;
/// Number of pages in which a server may list its tools.
const MOST_PAGES: usize = 100;
/// The longest line of a server's stdout that is read. The transport says nothing of a
/// longer one, so the call that it answers ends by its time-out.
const LINE: usize = 64 << 20;
/// Number of bytes of a server's stderr that are kept.
const STDERR: usize = 4 * 1024;
/// Number of characters of its stderr that a note shows.
const SHOWN: usize = 300;
/// The time that a server has to say goodbye.
const GOODBYE: Duration = Duration::from_secs(5);
/// The time that a caller waits for the reason of a server's end.
const REASON: Duration = Duration::from_secs(3);

/// Ends the news of a call that broke off.
const UNKNOWN: &str = "Whether the call had an effect is unknown: look before you repeat it";

/// The hub, as a client of a server: it hears that the list of tools has changed.
pub(super) struct Client {
    changed: Arc<Notify>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let me = Implementation::new("posthaste", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(Default::default(), me)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// The end of what a server wrote to stderr.
#[derive(Clone, Default)]
pub(super) struct Stderr(Arc<Mutex<Vec<u8>>>);

impl Stderr {
    async fn read(self, from: Option<ChildStderr>) {
        let Some(mut from) = from else { return };
        let mut part = [0; 1024];
        while let Ok(count @ 1..) = from.read(&mut part).await {
            let mut kept = self.0.lock();
            kept.extend_from_slice(&part[..count]);
            let over = kept.len().saturating_sub(STDERR);
            kept.drain(..over);
        }
    }

    /// Returns its last lines as the end of a sentence; empty if there are none.
    pub(super) fn told(&self) -> String {
        let text = String::from_utf8_lossy(&self.0.lock()).into_owned();
        let text = text.trim();
        let from = text.char_indices().rev().nth(SHOWN - 1).map_or(0, |(at, _)| at);
        match text.is_empty() {
            true => String::new(),
            false => format!("; its stderr ends with: {}", one_line(&text[from..], SHOWN)),
        }
    }
}

/// A server that answers.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    /// The hub started it, and speaks with it over stdin and stdout.
    is_process: bool,
    pub(super) began: Instant,
    uses: Mutex<Uses>,
    /// Wakes the task that minds the server.
    changed: Arc<Notify>,
    /// The server does not answer any more.
    broken: CancellationToken,
    /// Everything of the server has ended.
    over: CancellationToken,
    stderr: Stderr,
    end: Mutex<Option<TreeEnd>>,
    /// What its errors do not show.
    pub(super) secrets: Secrets,
}

struct Uses {
    calls: usize,
    last: Instant,
    closed: bool,
}

/// A call that is under way: the server is not ended for idleness.
pub(super) struct Use<'a>(&'a Connection);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        let mut uses = self.0.uses.lock();
        uses.calls -= 1;
        uses.last = Instant::now();
    }
}

/// The parts of a connection that the minding task owns.
pub(super) struct Minded {
    service: RunningService<RoleClient, Client>,
    tree: Option<Tree>,
}

/// The reason why a minded connection ended.
pub(super) enum Over {
    /// No assistant needed it, or the hub stops.
    Idle,
    /// It ended by itself.
    Died,
}

impl Connection {
    /// Starts a server and asks for its tools.
    pub(super) async fn open(
        common: &Common,
        launch: &Launch,
        stderr: Stderr,
    ) -> Result<(Arc<Self>, Minded, Vec<Tool>), String> {
        let changed = Arc::new(Notify::new());
        let client = Client { changed: Arc::clone(&changed) };
        let (service, tree, secrets) = match launch {
            Launch::Stdio { command, args, environment, directory, user } => {
                let path = environment.get("PATH");
                let program = program::find(command, Some(directory), path)
                    .map_err(|error| error.to_string())?;
                let mut words = vec![program.into_os_string()];
                words.extend(args.iter().map(Into::into));
                if let Some(user) = user {
                    words = user.runs(&words);
                }
                let started = common.trees.start(words, directory, environment, TreeStdin::Command);
                let mut tree = started
                    .map_err(|e| format!("cannot be started in {}: {e}", directory.display()))?;
                tokio::spawn(stderr.clone().read(tree.stderr.take()));
                let ways = tree.stdout.take().zip(tree.stdin.take());
                let ways = ways.ok_or_else(|| "has no stdin and stdout".to_owned())?;
                let ways = AsyncRwTransport::new_client(ways.0, ways.1);
                match client.serve(ways.with_max_line_length(LINE)).await {
                    Ok(service) => (service, Some(tree), Secrets::default()),
                    Err(_) => {
                        let stop = tree.stop();
                        let end = timeout(REASON, tree.end()).await.ok();
                        stop.cancel();
                        return Err(ended(end.as_ref()) + &stderr.told());
                    }
                }
            }
            Launch::Http { url, headers } => {
                let headers = headers.iter().filter_map(|(name, value)| {
                    let mut value = HeaderValue::try_from(value).ok()?;
                    value.set_sensitive(true);
                    Some((HeaderName::try_from(name).ok()?, value))
                });
                let headers: HashMap<_, _> = headers.collect();
                let http = common.http.get_or_init(http).clone();
                let request = http.post(url).headers(HeaderMap::from_iter(headers.clone())).build();
                let request = request.map_err(|_| "has a `url` that is none".to_owned())?;
                let secrets = Secrets::of(url, &request);
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(headers);
                let transport = StreamableHttpClientTransport::with_client(http, config);
                let service = client.serve(transport).await;
                let service = service
                    .map_err(|error| format!("cannot be reached: {}", said(&error, &secrets)))?;
                (service, None, secrets)
            }
        };
        let peer = service.peer().clone();
        let tools = tools_of(&peer)
            .await
            .map_err(|error| format!("does not list its tools: {}", said(&error, &secrets)))?;
        let now = Instant::now();
        let connection = Self {
            peer,
            is_process: tree.is_some(),
            began: now,
            uses: Mutex::new(Uses { calls: 0, last: now, closed: false }),
            changed,
            broken: CancellationToken::new(),
            over: CancellationToken::new(),
            stderr,
            end: Mutex::default(),
            secrets,
        };
        Ok((Arc::new(connection), Minded { service, tree }, tools))
    }

    /// Begins a call; `None` if the server is ending.
    pub(super) fn enter(&self) -> Option<Use<'_>> {
        let mut uses = self.uses.lock();
        if uses.closed || self.broken.is_cancelled() {
            return None;
        }
        uses.calls += 1;
        Some(Use(self))
    }

    pub(super) fn is_open(&self) -> bool {
        !self.uses.lock().closed && !self.broken.is_cancelled()
    }

    /// Calls a tool. An error of the connection ends it.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallToolResult, String> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let error = match self.peer.call_tool(params).await {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        let said = said(&error, &self.secrets);
        match error {
            ServiceError::TransportClosed => {}
            ServiceError::TransportSend(_) if self.is_process => {}
            // Each request over HTTP is sent by itself: the next one may arrive.
            ServiceError::TransportSend(_) => {
                return Err(format!("did not take the call: {said}. {UNKNOWN}"));
            }
            ServiceError::McpError(_) => return Err(format!("refused the call: {said}")),
            _ => return Err(format!("answered with no result of a call: {said}. {UNKNOWN}")),
        }
        self.broken.cancel();
        let _ = timeout(REASON, self.over.cancelled()).await;
        let end = self.end.lock().clone();
        let why = match end {
            Some(_) => ended(end.as_ref()) + &self.stderr.told(),
            None => format!("cannot be reached: {said}"),
        };
        Err(format!("{why}. {UNKNOWN}"))
    }

    /// Minds a server until it ends or nobody has needed it for so long. `took` takes each
    /// new list of its tools.
    pub(super) async fn mind(
        &self,
        Minded { service, mut tree }: Minded,
        idle: Duration,
        closing: &CancellationToken,
        took: impl Fn(Vec<Tool>),
    ) -> Over {
        let stop = service.cancellation_token();
        let waiting = service.waiting();
        tokio::pin!(waiting);
        let over = loop {
            let Some(left) = self.idle_in(idle) else { break Over::Idle };
            tokio::select! {
                _ = &mut waiting => break Over::Died,
                () = self.broken.cancelled() => break Over::Died,
                () = closing.cancelled() => break Over::Idle,
                () = tokio::time::sleep(left) => {}
                () = self.changed.notified() => {
                    // Without an answer the old list stays.
                    if let Ok(Ok(tools)) = timeout(REASON, tools_of(&self.peer)).await {
                        took(tools);
                    }
                }
            }
        };
        self.uses.lock().closed = true;
        stop.cancel();
        if !matches!(over, Over::Died) {
            let _ = timeout(GOODBYE, &mut waiting).await;
        }
        if let Some(mut tree) = tree.take() {
            tree.stop().cancel();
            let end = tree.end().await;
            *self.end.lock() = Some(end);
        }
        self.over.cancel();
        over
    }

    /// Returns the time until the server counts as idle; closes it when that time has come.
    fn idle_in(&self, idle: Duration) -> Option<Duration> {
        let mut uses = self.uses.lock();
        let left = match uses.calls {
            0 => idle.saturating_sub(uses.last.elapsed()),
            _ => idle,
        };
        uses.closed = left.is_zero();
        (!uses.closed).then_some(left)
    }

    /// Returns the reason why the server ended.
    pub(super) fn why(&self) -> String {
        match &*self.end.lock() {
            Some(end) => ended(Some(end)) + &self.stderr.told(),
            None => "cannot be reached any more".to_owned(),
        }
    }
}

/// Asks for all tools of a server, page by page.
async fn tools_of(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ServiceError> {
    let (mut all, mut cursor) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let params =
            cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let page = peer.list_tools(params).await?;
        all.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || all.len() >= MOST_TOOLS {
            break;
        }
    }
    all.truncate(MOST_TOOLS);
    Ok(all)
}

/// Describes the end of a server's process, as the rest of a sentence.
fn ended(end: Option<&TreeEnd>) -> String {
    match end {
        Some(TreeEnd { error: Some(why), .. }) => format!("ended: {why}"),
        Some(TreeEnd { code: Some(code), .. }) => format!("ended with exit code {code}"),
        Some(TreeEnd { signal: Some(signal), .. }) => format!("was ended by signal {signal}"),
        Some(_) => "ended".to_owned(),
        None => "does not speak MCP on its stdout".to_owned(),
    }
}

fn said(error: &dyn std::error::Error, secrets: &Secrets) -> String {
    one_line(&secrets.hide(&with_causes(error)), SHOWN)
}

/// Returns an error with its causes that it does not name itself.
fn with_causes(error: &dyn std::error::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(next) = cause {
        let why = next.to_string();
        if !text.contains(&why) {
            text.push_str(": ");
            text.push_str(&why);
        }
        cause = next.source();
    }
    text
}

/// Makes the client of servers over HTTP: TLS by rustls with ring. It follows redirects to
/// the same origin only, because the headers of a server may hold its key.
fn http() -> reqwest::Client {
    // Another part of the program may have installed one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let same_origin = Policy::custom(|attempt| {
        let origin = attempt.previous().first().map(Url::origin);
        let is_near = origin == Some(attempt.url().origin()) && attempt.previous().len() < 5;
        // Any other redirect would turn a call into a request for a page.
        match is_near && matches!(attempt.status().as_u16(), 307 | 308) {
            true => attempt.follow(),
            false => attempt.stop(),
        }
    });
    let built = reqwest::Client::builder().redirect(same_origin).build();
    built.unwrap_or_default()
}

/// The one client of servers over HTTP, made for the first of them.
pub(super) type Http = OnceLock<reqwest::Client>;
