//! An example for each call: what was sent to a real hub, and what it answered.
//!
//! The server's test `docs::examples` plays the calls and compares; what differs from
//! run to run (ids, tokens, times) has a stand-in there. With `POSTHASTE_UPDATE=1` it
//! writes `examples.json` anew.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Call;

static KEPT: LazyLock<Vec<Example>> = LazyLock::new(|| {
    let kept = include_str!("examples.json");
    serde_json::from_str(kept).expect("a test of the server writes and reads this file")
});

/// Whose token an example is sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Token {
    None,
    Join,
    Agent,
    Operator,
}

/// One exchange.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// Method and path, as in the table of calls.
    pub call: String,
    pub token: Token,
    /// The variable part of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub query: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    pub status: u16,
    /// Absent where it is a whole page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

/// The examples of a call, the plainest first.
pub(super) fn of(call: &Call) -> impl Iterator<Item = &'static Example> {
    let name = format!("{} {}", call.method, call.path);
    KEPT.iter().filter(move |example| example.call == name)
}

impl Example {
    pub fn method(&self) -> &str {
        self.call.split(' ').next().unwrap_or_default()
    }

    /// Path and query.
    pub fn target(&self) -> String {
        let path = self.call.split(' ').nth(1).unwrap_or_default();
        let mut target = path.to_owned();
        let part = path.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        if let (Some((name, _)), Some(given)) = (part, &self.part) {
            target = target.replace(&format!("{{{name}}}"), &encoded(given));
        }
        let mut between = '?';
        for (name, value) in &self.query {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ = write!(target, "{between}{name}={}", encoded(&value));
            between = '&';
        }
        target
    }

    /// The same for a shell, with the variables of the introduction.
    pub(super) fn curl(&self) -> String {
        let stream = if self.call.ends_with("/events") { " -N" } else { "" };
        let mut line = format!("curl{stream} \"$HUB{}\"", self.target());
        let posts = self.body.is_some();
        match self.method() {
            "GET" => {}
            "POST" if posts => {}
            method => {
                let _ = write!(line, " -X {method}");
            }
        }
        let token = match self.token {
            Token::None => None,
            Token::Join => Some("JOIN"),
            Token::Agent => Some("TOKEN"),
            Token::Operator => Some("OPERATOR"),
        };
        if let Some(token) = token {
            let _ = write!(line, " \\\n  -H \"Authorization: Bearer ${token}\"");
        }
        if let Some(body) = &self.body {
            let _ = write!(line, " \\\n  --json '{}'", body.to_string().replace('\'', r"'\''"));
        }
        line
    }
}

/// What may stand in a path or a query stays, the rest becomes `%xx`.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b',' | b':' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}
