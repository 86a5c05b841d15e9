//! The HTTP headers of a message, besides its line.
//!
//! In the old era the hub returns a label and a version with its answer to `initialize`,
//! and every message carries both. In the new era there is no handshake: the headers
//! repeat the version, the method and its subject.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use super::message::Message;
use super::who::Bearer;
use crate::identity::Token;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The marks around a value that a header cannot hold as it is.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// The result of the last handshake of the old era.
#[derive(Default)]
pub(super) struct Handshake(Mutex<Agreed>);

#[derive(Default, Clone)]
struct Agreed {
    label: Option<HeaderValue>,
    /// The token of the label's owner: the hub accepts the label from no other caller.
    /// `None`: the label was made before the agent was known, and serves every agent.
    owner: Option<Token>,
    version: Option<HeaderValue>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: Option<Negotiated<'a>>,
}

#[derive(Deserialize)]
struct Negotiated<'a> {
    #[serde(borrow, rename = "protocolVersion")]
    version: std::borrow::Cow<'a, str>,
}

impl Handshake {
    /// Stores the version and the label of the answer to `initialize`.
    pub(super) fn agreed(&self, head: &HeaderMap, answer: &str, bearer: &Bearer) {
        let answer: Option<Answer<'_>> = serde_json::from_str(answer).ok();
        let Some(result) = answer.and_then(|answer| answer.result) else { return };
        *self.0.lock() = Agreed {
            label: head.get(SESSION).cloned(),
            owner: bearer.identity.is_some().then(|| bearer.token.clone()),
            version: HeaderValue::from_str(&result.version).ok(),
        };
    }

    /// Returns the headers of this message.
    pub(super) fn head(&self, message: &Message, bearer: &Bearer) -> HeaderMap {
        match message.version.as_deref() {
            Some(version) => of_new_era(message, version),
            // A new handshake is independent of the last.
            None if message.is("initialize") => HeaderMap::new(),
            None => self.of_old_era(bearer),
        }
    }

    /// Returns the headers of a stream of notifications.
    pub(super) fn of_old_era(&self, bearer: &Bearer) -> HeaderMap {
        let Agreed { label, owner, version } = self.0.lock().clone();
        let label = label.filter(|_| owner.is_none_or(|owner| owner == bearer.token));
        let known = [(SESSION, label), (VERSION, version)];
        known.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

fn of_new_era(message: &Message, version: &str) -> HeaderMap {
    let subject = message.subject.as_deref().map(encoded);
    let said = [
        (VERSION, Some(version)),
        (METHOD, Some(message.method.as_str())),
        (NAME, subject.as_deref()),
    ];
    // A value that no header can hold is left out, and the hub reports it as missing.
    said.into_iter()
        .filter_map(|(name, value)| Some((name, HeaderValue::from_str(value?).ok()?)))
        .collect()
}

/// Returns visible text as it is, and everything else in the era's encoding.
fn encoded(text: &str) -> String {
    let (open, close) = ENCODED;
    let plain = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e))
        && text.trim_ascii().len() == text.len()
        && !(text.starts_with(open) && text.ends_with(close));
    match plain {
        true => text.to_owned(),
        false => format!("{open}{}{close}", STANDARD.encode(text)),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(text: &str) -> Message {
        Message::read(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
    }

    fn bearer(token: &str) -> Bearer {
        let token = token.to_owned().into();
        Bearer { token, instance: None, identity: Some("key".into()), conversation: "c".into() }
    }

    fn head(handshake: &Handshake, text: &str) -> Vec<(String, String)> {
        head_for(&bearer("bob"), handshake, text)
    }

    fn head_for(bearer: &Bearer, handshake: &Handshake, text: &str) -> Vec<(String, String)> {
        let head = handshake.head(&message(text), bearer);
        let mut said: Vec<_> = head
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().expect("ASCII").to_owned()))
            .collect();
        said.sort();
        said
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_old_era_repeats_what_was_agreed() {
        let handshake = Handshake::default();
        let call = r#"{"id":2,"method":"tools/call","params":{"name":"whoami"}}"#;
        assert!(head(&handshake, call).is_empty());
        let label = HeaderMap::from_iter([(SESSION, HeaderValue::from_static("ph1-x"))]);
        let answer = r#"{"id":1,"result":{"protocolVersion":"2025-06-18"}}"#;
        handshake.agreed(&label, answer, &bearer("bob"));
        let agreed = pairs(&[("mcp-protocol-version", "2025-06-18"), ("mcp-session-id", "ph1-x")]);
        assert_eq!(head(&handshake, call), agreed);
        assert!(head(&handshake, r#"{"id":1,"method":"initialize"}"#).is_empty());
        // A refusal does not change the agreement.
        let refusal = r#"{"id":1,"error":{"code":-32602,"message":"no"}}"#;
        handshake.agreed(&HeaderMap::new(), refusal, &bearer("bob"));
        assert_eq!(head(&handshake, call), agreed);
    }

    #[test]
    fn a_label_goes_to_the_hub_with_its_owner_or_with_everybody() {
        let call = r#"{"id":2,"method":"tools/call","params":{"name":"whoami"}}"#;
        let answer = r#"{"id":1,"result":{"protocolVersion":"2025-06-18"}}"#;
        let label = HeaderMap::from_iter([(SESSION, HeaderValue::from_static("ph1-x"))]);
        let handshake = Handshake::default();
        handshake.agreed(&label, answer, &bearer("bob"));
        assert_eq!(head_for(&bearer("bob, joined again"), &handshake, call).len(), 1);
        handshake.agreed(&label, answer, &Bearer { identity: None, ..bearer("join") });
        assert_eq!(head_for(&bearer("bob"), &handshake, call).len(), 2);
    }

    #[test]
    fn the_new_era_says_version_method_and_subject() {
        let call = |subject: &str| {
            format!(
                r#"{{"id":2,"method":"tools/call","params":{{"name":"{subject}","_meta":{{
                   "io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}}}}"#
            )
        };
        let expected = |name: &str| {
            pairs(&[
                ("mcp-method", "tools/call"),
                ("mcp-name", name),
                ("mcp-protocol-version", "2026-07-28"),
            ])
        };
        let handshake = Handshake::default();
        assert_eq!(head(&handshake, &call("who am i")), expected("who am i"));
        assert_eq!(head(&handshake, &call("größe")), expected("=?base64?Z3LDtsOfZQ==?="));
        assert_eq!(head(&handshake, &call(" x")), expected("=?base64?IHg=?="));
        let nested = "=?base64?IHg=?=";
        assert_eq!(
            head(&handshake, &call(nested)),
            expected(&format!("=?base64?{}?=", STANDARD.encode(nested)))
        );
    }
}
