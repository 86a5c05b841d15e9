//! The fields of a message that the bridge needs: who asks, for what, in which era.
//!
//! The line itself goes to the hub unchanged. It is parsed here once, without copying its
//! content, and never serialized again.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One message of the client.
#[derive(Debug)]
pub(super) struct Message {
    /// The line as it came.
    pub(super) line: Bytes,
    /// The raw id, quotes included; `None` in notifications and in answers.
    pub(super) id: Option<Box<RawValue>>,
    /// Empty in an answer of the client.
    pub(super) method: String,
    /// The era's version, if the message names it itself.
    pub(super) version: Option<String>,
    /// The subject of the method: a tool, a resource, a prompt.
    pub(super) subject: Option<String>,
    /// The client's own name, if the message has it.
    pub(super) client: Option<String>,
    /// The conversation that a call belongs to, in clients that tell.
    pub(super) thread: Option<String>,
    /// The request that a cancel is about.
    pub(super) cancels: Option<Box<RawValue>>,
}

/// The reason why a line is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// Not JSON.
    Json,
    /// JSON, but not one message.
    Shape,
}

#[derive(Deserialize)]
struct Outer<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Raw fields: the hub refuses an unexpected form.
#[derive(Deserialize, Default)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, rename = "clientInfo")]
    client: Option<&'a RawValue>,
    #[serde(borrow, rename = "requestId")]
    request: Option<&'a RawValue>,
}

/// The fields that a client of the new era puts into every request, and one that Codex
/// adds.
#[derive(Deserialize, Default)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
    client: Option<&'a RawValue>,
    #[serde(borrow, rename = "threadId")]
    thread: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ClientInfo<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

impl Message {
    pub(super) fn read(line: Bytes) -> Result<Self, Broken> {
        let outer = outer(&line)?;
        let method = outer.method.unwrap_or_default().into_owned();
        let params: Params<'_> = part(outer.params).unwrap_or_default();
        let meta: Meta<'_> = part(params.meta).unwrap_or_default();
        let client: Option<ClientInfo<'_>> = match method.as_str() {
            "initialize" => part(params.client),
            _ => part(meta.client),
        };
        let subject = match method.as_str() {
            "tools/call" | "prompts/get" => text(params.name),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => text(params.uri),
            _ => None,
        };
        let cancels = params.request.filter(|_| method == "notifications/cancelled");
        Ok(Self {
            id: outer.id.filter(|_| !method.is_empty()).map(ToOwned::to_owned),
            version: text(meta.version),
            subject,
            client: client.map(|client| client.name.into_owned()),
            thread: text(meta.thread).filter(|thread| !thread.is_empty()),
            cancels: cancels.map(ToOwned::to_owned),
            method,
            line,
        })
    }

    pub(super) fn is(&self, method: &str) -> bool {
        self.method == method
    }

    /// Returns whether the client waits for an answer.
    pub(super) fn is_request(&self) -> bool {
        self.id.is_some()
    }

    /// Returns whether the message is of 2026-07-28 or later: no handshake, and every
    /// message has all that it needs.
    pub(super) fn is_new_era(&self) -> bool {
        self.version.is_some()
    }
}

/// Returns the id of a request that will not be passed on.
pub(super) fn id_of(line: &[u8]) -> Option<Box<RawValue>> {
    outer(line).ok()?.id.map(ToOwned::to_owned)
}

fn outer(line: &[u8]) -> Result<Outer<'_>, Broken> {
    let line = std::str::from_utf8(line).map_err(|_| Broken::Json)?;
    // Serde would read a list as the fields of a struct in their order.
    if line.starts_with('[') {
        let all: Result<&RawValue, _> = serde_json::from_str(line);
        return Err(all.map_or(Broken::Json, |_| Broken::Shape));
    }
    serde_json::from_str(line).map_err(|e| if e.is_data() { Broken::Shape } else { Broken::Json })
}

fn part<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

fn text(raw: Option<&RawValue>) -> Option<String> {
    part(raw)
}

/// Returns whether this line of the hub is the answer, and not a notification before it.
pub(super) fn is_answer(line: &str) -> bool {
    matches!(outer(line.as_bytes()), Ok(Outer { method: None, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Message, Broken> {
        Message::read(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn good(text: &str) -> Message {
        read(text).unwrap_or_else(|e| panic!("{text}: {e:?}"))
    }

    fn id(message: &Message) -> Option<&str> {
        message.id.as_deref().map(RawValue::get)
    }

    #[test]
    fn a_call_of_the_old_era_says_what_it_is_about() {
        let message = good(
            r#"{"jsonrpc":"2.0", "id":"7", "method":"tools/call",
                "params":{"name":"whoami","arguments":{"name":"no"},"_meta":{"threadId":"t1"}}}"#,
        );
        assert_eq!(id(&message), Some(r#""7""#));
        assert_eq!(message.subject.as_deref(), Some("whoami"));
        assert_eq!(message.thread.as_deref(), Some("t1"));
        assert!(message.is_request() && !message.is_new_era());
    }

    #[test]
    fn a_call_of_the_new_era_names_its_version_and_its_client() {
        let message = good(
            r#"{"id":1,"method":"server/discover","params":{"_meta":{
                "io.modelcontextprotocol/protocolVersion":"2026-07-28",
                "io.modelcontextprotocol/clientInfo":{"name":"claude-code","version":"2"}}}}"#,
        );
        assert_eq!(message.version.as_deref(), Some("2026-07-28"));
        assert_eq!(message.client.as_deref(), Some("claude-code"));
    }

    #[test]
    fn notifications_cancels_and_answers_of_the_client_are_no_requests() {
        let cancel = r#"{"method":"notifications/cancelled","params":{"requestId":"a\u0062"}}"#;
        let cancel = good(cancel);
        assert_eq!(cancel.cancels.as_deref().map(RawValue::get), Some(r#""a\u0062""#));
        assert!(!cancel.is_request());
        let answer = good(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
        assert!(!answer.is_request() && answer.method.is_empty());
    }

    #[test]
    fn fields_of_an_unexpected_form_are_left_to_the_hub() {
        for params in ["null", "[]", "7", r#"{"name":7,"_meta":[]}"#, r#"{"_meta":{"threadId":7}}"#]
        {
            let message = good(&format!(r#"{{"id":1,"method":"tools/call","params":{params}}}"#));
            assert!(message.subject.is_none() && message.thread.is_none(), "{params}");
        }
    }

    #[test]
    fn what_is_no_message_is_told_apart() {
        for text in ["{", "nonsense", "{} {}", "[1,", r#"{"id":1"#] {
            assert_eq!(read(text).expect_err(text), Broken::Json);
        }
        for text in ["[]", r#"[{"id":1,"method":"ping"}]"#, "7", "null", r#"{"method":7}"#] {
            assert_eq!(read(text).expect_err(text), Broken::Shape);
        }
        assert_eq!(Message::read(Bytes::from_static(b"\xff{}")).expect_err("text"), Broken::Json);
    }

    #[test]
    fn progress_is_not_yet_the_answer() {
        assert!(is_answer(r#"{"jsonrpc":"2.0","id":1,"result":{"method":"x"}}"#));
        assert!(!is_answer(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#));
    }
}
