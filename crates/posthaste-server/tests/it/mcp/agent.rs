//! An agent at the MCP door, in the words of either era.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use posthaste_api::instances::Joined;
use posthaste_testkit::excerpt::excerpt;
use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::house::{House, within};

/// Which words a client uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Old,
    New,
}

pub(crate) struct Agent {
    http: reqwest::Client,
    pub(crate) url: String,
    pub(crate) token: String,
    era: Era,
    client: String,
    pub(crate) session: Option<String>,
    /// Sent with every request.
    pub(crate) more: Vec<(&'static str, String)>,
    next: AtomicU64,
    /// Notifications that came before answers.
    notified: watch::Sender<usize>,
}

/// What a call of a tool came to.
pub(crate) struct Told {
    pub(crate) blocks: Vec<String>,
    pub(crate) is_error: bool,
    /// How often progress was told before.
    pub(crate) progress: usize,
    pub(crate) whole: Value,
}

/// For the messages of failing tests: an answer may be long.
impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} notifications, then {}", self.progress, excerpt(&self.whole.to_string()))
    }
}

impl Told {
    /// The tool's own answer.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.blocks[0]).expect("JSON in the first block")
    }

    /// The second block, if there is one.
    pub(crate) fn beside(&self) -> Value {
        let text = self.blocks.get(1);
        text.map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON beside"))
    }

    pub(crate) fn status(&self) -> String {
        self.json()["status"].as_str().expect("a status").to_owned()
    }

    /// Number, text and mark of each message.
    pub(crate) fn mail(&self) -> Vec<(u64, String, bool)> {
        entries(&self.json()["messages"])
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.mail().into_iter().map(|(_, text, _)| text).collect()
    }

    /// The same of what came beside.
    pub(crate) fn pending(&self) -> Vec<(u64, String, bool)> {
        entries(&self.beside()["_pending_messages"])
    }

    /// The code of a tool error.
    pub(crate) fn code(&self) -> String {
        assert!(self.is_error, "{self:?}");
        self.json()["error"]["code"].as_str().expect("a code").to_owned()
    }
}

fn entries(list: &Value) -> Vec<(u64, String, bool)> {
    let list = list.as_array().cloned().unwrap_or_default();
    let entry = |m: Value| {
        let text = m["message"].as_str().expect("a text").to_owned();
        (m["id"].as_u64().expect("a number"), text, m["redelivered"] == true)
    };
    list.into_iter().map(entry).collect()
}

impl Agent {
    /// A client that has begun: `initialize` in the old era, a probe in the new.
    pub(crate) async fn begin(house: &House, joined: &Joined, era: Era, client: &str) -> Self {
        let mut agent = Self::silent(house, &joined.token, era, client);
        agent.hello().await;
        agent
    }

    pub(crate) async fn old(house: &House, joined: &Joined) -> Self {
        Self::begin(house, joined, Era::Old, "test").await
    }

    /// A client that knows the hub by the tools of a dialect.
    pub(crate) async fn speaking(house: &House, joined: &Joined, dialect: &str) -> Self {
        let mut agent = Self::silent(house, &joined.token, Era::Old, "test");
        agent.url = format!("{}?dialect={dialect}", agent.url);
        agent.hello().await;
        agent
    }

    /// A client that has said nothing yet.
    pub(crate) fn silent(house: &House, token: &str, era: Era, client: &str) -> Self {
        Self {
            http: posthaste_api::http::plain().build().expect("a client"),
            url: format!("http://{}/mcp", house.address),
            token: token.to_owned(),
            era,
            client: client.to_owned(),
            session: None,
            more: Vec::new(),
            next: AtomicU64::new(0),
            notified: watch::Sender::default(),
        }
    }

    pub(crate) async fn hello(&mut self) -> Value {
        let info = json!({ "name": self.client, "version": "1" });
        if self.era == Era::New {
            return self.ask("server/discover", json!({})).await;
        }
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info,
        });
        let response = self.post(json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params,
        }));
        let response = within("initialize", response).await;
        let session = response.headers().get("mcp-session-id").expect("a label");
        self.session = Some(session.to_str().expect("plain").to_owned());
        let answer: Value = response.json().await.expect("JSON");
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(ready).await.status(), StatusCode::ACCEPTED);
        answer
    }

    /// Any request; the answer.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let id = self.next_id();
        let response = self.request(id, method, params).await;
        let (answer, _) = within(method, self.read(response)).await;
        answer
    }

    fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) async fn request(&self, id: u64, method: &str, mut params: Value) -> Response {
        if self.era == Era::New {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientInfo"] =
                json!({ "name": self.client, "version": "1" });
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.post(message).await
    }

    pub(crate) async fn post(&self, message: Value) -> Response {
        let mut headers = HeaderMap::new();
        let mut put = |name: &'static str, value: &str| {
            headers.insert(name, value.parse().expect("a header"));
        };
        put("accept", "application/json, text/event-stream");
        if let Some(session) = &self.session {
            put("mcp-session-id", session);
        }
        if self.era == Era::New {
            put("mcp-protocol-version", "2026-07-28");
            put("mcp-method", message["method"].as_str().expect("a method"));
            if let Some(name) = message["params"]["name"].as_str() {
                put("mcp-name", name);
            }
        }
        for (name, value) in &self.more {
            put(name, value);
        }
        let request = self.http.post(&self.url).bearer_auth(&self.token).headers(headers);
        request.json(&message).send().await.expect("an answer")
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Told {
        self.call_as(self.next_id(), tool, arguments).await
    }

    pub(crate) async fn call_as(&self, id: u64, tool: &str, arguments: Value) -> Told {
        let params = json!({ "name": tool, "arguments": arguments });
        self.call_with(id, params).await
    }

    /// With whatever else the parameters say.
    pub(crate) async fn call_with(&self, id: u64, params: Value) -> Told {
        let response = self.request(id, "tools/call", params).await;
        let (whole, progress) = within("a tool's answer", self.read(response)).await;
        let result = &whole["result"];
        let content = result["content"].as_array().unwrap_or_else(|| panic!("a result: {whole}"));
        let text = |block: &Value| block["text"].as_str().expect("text only").to_owned();
        Told {
            blocks: content.iter().map(text).collect(),
            is_error: result["isError"] == true,
            progress,
            whole,
        }
    }

    /// Until a call of this agent, which is still open, has told of progress.
    pub(crate) async fn hears_progress(&self) {
        let mut notified = self.notified.subscribe();
        within("progress", notified.wait_for(|count| *count > 0)).await.expect("it lives");
    }

    pub(crate) async fn check(&self, timeout: f64) -> Told {
        self.call("check_inbox", json!({ "timeout": timeout })).await
    }

    pub(crate) async fn cancel(&self, id: u64) {
        let params = json!({ "requestId": id, "reason": "test" });
        let message =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        assert_eq!(self.post(message).await.status(), StatusCode::ACCEPTED);
    }

    /// The stream for news; open as long as the answer is kept.
    pub(crate) async fn listen(&self) -> Response {
        let mut request = self.http.get(&self.url).bearer_auth(&self.token);
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        for (name, value) in &self.more {
            request = request.header(*name, value);
        }
        let mut response =
            request.header("accept", "text/event-stream").send().await.expect("an answer");
        if response.status() == StatusCode::OK {
            // The first line says that the hub knows of it.
            response.chunk().await.expect("a line").expect("a line");
        }
        response
    }

    /// The answer itself, and how many notifications came before it.
    async fn read(&self, mut response: Response) -> (Value, usize) {
        let kind = response.headers().get("content-type");
        let events = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if !events {
            let text = response.text().await.expect("a whole answer");
            return (serde_json::from_str(&text).unwrap_or(Value::String(text)), 0);
        }
        let (mut text, mut all) = (Vec::new(), Vec::new());
        while let Some(chunk) = response.chunk().await.expect("a whole answer") {
            text.extend_from_slice(&chunk);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let Some(data) = line.strip_prefix(b"data: ") else { continue };
                let said: Value = serde_json::from_slice(data).expect("JSON");
                let is_notice = said["method"].is_string();
                all.push(said);
                self.notified.send_modify(|count| *count += usize::from(is_notice));
            }
        }
        let answer = all.last().cloned().expect("an event");
        (answer, all.len() - 1)
    }
}
