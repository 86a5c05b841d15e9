//! MCP as a client speaks it over HTTP, in both of its eras.
//!
//! Requests are bytes here too, so that the load stays as cheap as that of REST.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::agents::Agent;
use crate::http::Conn;
use crate::requests::{KEY, Send, TO, text};

/// Before and after the handshake was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Old,
    New,
}

impl Era {
    fn version(self) -> &'static str {
        match self {
            Self::Old => "2025-06-18",
            Self::New => "2026-07-28",
        }
    }
}

/// A name from the hub's table of clients: it waits as long as for the real one.
const NAME: &str = "claude-code";

/// One agent's client, once it has introduced itself.
pub(crate) struct Client {
    name: &'static str,
    token: String,
    era: Era,
    /// The session that the hub named; there is none in the new era.
    label: Option<String>,
}

impl Client {
    /// Everything that a client says before its first call.
    pub(crate) async fn start(conn: &mut Conn, agent: &Agent, era: Era) -> anyhow::Result<Self> {
        Self::start_as(NAME, conn, agent, era).await
    }

    /// The same for a client of another name.
    pub(crate) async fn start_as(
        name: &'static str,
        conn: &mut Conn,
        agent: &Agent,
        era: Era,
    ) -> anyhow::Result<Self> {
        let mut client = Self { name, token: agent.token.clone(), era, label: None };
        if era == Era::New {
            client.ask(conn, "server/discover", json!({})).await?;
            return Ok(client);
        }
        let hello = json!({
            "protocolVersion": era.version(),
            "capabilities": {},
            "clientInfo": { "name": name, "version": "1" },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
        let answer = conn.call(&client.post("initialize", None, &body.to_string())).await?;
        ensure!(answer.status == 200, answer.unexpected());
        let told: Value = serde_json::from_slice(answer.body).context("an `initialize` answer")?;
        ensure!(told["result"]["protocolVersion"] == era.version(), "{told}");
        client.label = answer.header("mcp-session-id").map(str::to_owned);
        ensure!(client.label.is_some(), "the hub names no session");
        let body = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let request = client.post("notifications/initialized", None, &body.to_string());
        let answer = conn.call(&request).await?;
        ensure!(answer.status == 202, answer.unexpected());
        Ok(client)
    }

    /// One that introduced itself in another connection, which it closed.
    pub(crate) fn known(agent: &Agent) -> Self {
        let label = Some("earlier".to_owned());
        Self { name: NAME, token: agent.token.clone(), era: Era::Old, label }
    }

    /// A method with a result.
    async fn ask(&self, conn: &mut Conn, method: &str, params: Value) -> anyhow::Result<()> {
        let body = self.body(0, method, params).to_string();
        let answer = conn.call(&self.post(method, None, &body)).await?;
        ensure!(answer.status == 200, answer.unexpected());
        let told: Value = serde_json::from_slice(answer.body).context("an answer")?;
        ensure!(told["result"].is_object(), "{method}: {told}");
        Ok(())
    }

    /// Opens the stream that a client of this era keeps open.
    pub(crate) async fn listen(&self, conn: &mut Conn) -> anyhow::Result<()> {
        match self.era {
            Era::Old => {
                let request = self.head("GET", None) + "accept: text/event-stream\r\n\r\n";
                conn.follow(request.as_bytes(), ": ping\n").await?;
            }
            Era::New => {
                let method = "subscriptions/listen";
                let params = json!({ "notifications": { "toolsListChanged": true } });
                let body = self.body(1, method, params).to_string();
                conn.follow(&self.post(method, None, &body), "data:").await?;
            }
        }
        Ok(())
    }

    /// A wait for mail, as long as the hub lets this client wait.
    pub(crate) fn wait(&self) -> Vec<u8> {
        self.tool(2, "check_inbox", json!({ "timeout": 600 }))
    }

    /// A wait until each of `from` has sent. Call number `id` of this client: a number
    /// that was used would be a repeat.
    pub(crate) fn wait_for_all(&self, id: u64, from: &[String]) -> Vec<u8> {
        self.tool(id, "check_inbox", json!({ "timeout": 60, "wait_for": "all", "from": from }))
    }

    /// Call number `id` of this client.
    pub(crate) fn tool(&self, id: u64, name: &str, arguments: Value) -> Vec<u8> {
        let params = json!({ "name": name, "arguments": arguments });
        let body = self.body(id, "tools/call", params).to_string();
        self.post("tools/call", Some(name), &body)
    }

    /// Takes call number `id` back.
    pub(crate) fn cancel(&self, id: u64) -> Vec<u8> {
        let method = "notifications/cancelled";
        let params = json!({ "requestId": id, "reason": "soak" });
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.post(method, None, &body.to_string())
    }

    /// A send whose recipient and request id are filled in later. The client's name
    /// of a call keeps two sends apart: the session's request id, or what the new
    /// era's client says in its place.
    pub(crate) fn send(&self) -> Send {
        let message = text();
        let params = json!({
            "name": "send_message",
            "arguments": { "to": TO, "message": message },
        });
        let mut body = self.body(0, "tools/call", params);
        if self.era == Era::New {
            body["params"]["_meta"]["claudecode/toolUseId"] = format!("toolu_{KEY}").into();
        }
        // A number of a fixed length does not begin with a zero.
        let body = body.to_string().replacen(r#""id":0"#, &format!(r#""id":1{KEY}"#), 1);
        Send::template(self.post("tools/call", Some("send_message"), &body))
    }

    fn body(&self, id: u64, method: &str, mut params: Value) -> Value {
        if self.era == Era::New {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.era.version(),
                "io.modelcontextprotocol/clientInfo": { "name": self.name, "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    fn post(&self, method: &str, tool: Option<&str>, body: &str) -> Vec<u8> {
        let mut request = self.head("POST", Some((method, tool)));
        request += "accept: application/json, text/event-stream\r\n";
        request += "content-type: application/json\r\n";
        request += &format!("content-length: {}\r\n\r\n{body}", body.len());
        request.into_bytes()
    }

    fn head(&self, verb: &str, called: Option<(&str, Option<&str>)>) -> String {
        let token = &self.token;
        let mut head =
            format!("{verb} /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n");
        match (self.era, &self.label, called) {
            (Era::Old, None, _) => {}
            (Era::Old, Some(label), _) => head += &format!("mcp-session-id: {label}\r\n"),
            (Era::New, _, called) => {
                let (method, tool) = called.unwrap_or_default();
                head += &format!("mcp-method: {method}\r\n");
                if let Some(tool) = tool {
                    head += &format!("mcp-name: {tool}\r\n");
                }
            }
        }
        if self.era == Era::New || self.label.is_some() {
            head += &format!("mcp-protocol-version: {}\r\n", self.era.version());
        }
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::stamp_of;

    fn sent(era: Era) -> (String, Value) {
        let label = (era == Era::Old).then(|| "ph1-x".to_owned());
        let client = Client { name: NAME, token: "secret".to_owned(), era, label };
        let mut send = client.send();
        let bytes = send.to("a3f7b2c1").key(42).stamp(123_456).bytes().to_vec();
        let request = String::from_utf8(bytes).expect("text");
        let (head, body) = request.split_once("\r\n\r\n").expect("a body");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        (head.to_owned(), serde_json::from_str(body).expect("JSON"))
    }

    #[test]
    fn a_patched_send_is_a_call_in_either_era() {
        for era in [Era::Old, Era::New] {
            let (head, body) = sent(era);
            assert!(head.contains(era.version()), "{head}");
            assert_eq!(body["id"], 1_000_000_000_000_000_042_u64);
            assert_eq!(body["params"]["name"], "send_message");
            let told = &body["params"]["arguments"];
            assert_eq!(told["to"], "a3f7b2c1");
            assert_eq!(told["message"].as_str().and_then(stamp_of), Some(123_456));
        }
    }

    #[test]
    fn a_call_has_a_name_of_its_own_in_either_era() {
        let (head, body) = sent(Era::Old);
        assert!(head.contains("mcp-session-id: ph1-x"), "{head}");
        assert_eq!(body["params"]["_meta"], Value::Null);
        let (head, body) = sent(Era::New);
        assert!(head.contains("mcp-name: send_message"), "{head}");
        let used = &body["params"]["_meta"]["claudecode/toolUseId"];
        assert_eq!(used, "toolu_000000000000000042");
    }
}
