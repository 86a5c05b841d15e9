//! A span, and its form in OTLP's JSON.

use std::time::SystemTime;

use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::{MessageId, Principal, Seq};
use serde_json::{Value, json};

/// One step of one message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) trace: u128,
    pub(super) span: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) began: SystemTime,
    pub(super) ended: SystemTime,
    pub(super) seq: Seq,
    pub(super) id: Option<MessageId>,
    pub(super) by: Principal,
    pub(super) proof: Option<Proof>,
}

/// The kind of a span, with OTLP's numbers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Internal = 1,
    Producer = 4,
    Consumer = 5,
}

impl Span {
    fn json(&self) -> Value {
        let mut attributes = vec![
            text("messaging.system", "posthaste"),
            text("messaging.operation.name", self.name),
            text("posthaste.seq", &self.seq.to_string()),
            text("posthaste.principal", &self.by.to_string()),
        ];
        attributes.extend(self.id.map(|id| text("messaging.message.id", &id.to_string())));
        attributes.extend(self.proof.map(|proof| text("posthaste.proof", proof.as_str())));
        json!({
            "traceId": format!("{:032x}", self.trace),
            "spanId": format!("{:016x}", self.span),
            "parentSpanId": self.parent.map(|p| format!("{p:016x}")).unwrap_or_default(),
            "name": self.name,
            "kind": self.kind as u8,
            "startTimeUnixNano": nanos(self.began),
            "endTimeUnixNano": nanos(self.ended),
            "attributes": attributes,
        })
    }
}

/// Returns the body of one request to a collector.
pub(super) fn request(spans: &[Span]) -> Value {
    let resource =
        [text("service.name", "posthaste"), text("service.version", env!("CARGO_PKG_VERSION"))];
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{
            "scope": { "name": "posthaste" },
            "spans": spans.iter().map(Span::json).collect::<Vec<_>>(),
        }],
    }]})
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn nanos(at: SystemTime) -> String {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
