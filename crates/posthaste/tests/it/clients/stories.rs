//! What must be true for whoever adds the hub to an agent program: told once, played
//! with every program over every transport.

mod everyday;
mod supervising;
mod trouble;

use posthaste_testkit::model_server::Asked;
use serde_json::Value;

pub(super) use everyday::*;
pub(super) use supervising::*;
pub(super) use trouble::*;

/// The mail in the last result: what a model reads, whatever stands around it.
#[track_caller]
pub(super) fn mail(turn: &Asked, text: &str) -> Value {
    find(turn, text).unwrap_or_else(|| panic!("no {text:?} in {turn:?}"))
}

#[track_caller]
fn find(turn: &Asked, text: &str) -> Option<Value> {
    documents(&turn.result()).iter().find_map(|document| entry(document, text))
}

/// Programs put words of their own around a result: only whole JSON objects count.
pub(super) fn documents(result: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut rest = result;
    while let Some(start) = rest.find('{') {
        rest = &rest[start..];
        let mut read = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match read.next() {
            Some(Ok(document)) => {
                rest = &rest[read.byte_offset()..];
                found.push(document);
            }
            _ => rest = &rest[1..],
        }
    }
    found
}

/// The entry with this text, under whatever name the list of mail has.
fn entry(value: &Value, text: &str) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.get("message").is_some_and(|m| m == text) => {
            Some(value.clone())
        }
        Value::Object(fields) => fields.values().find_map(|field| entry(field, text)),
        Value::Array(items) => items.iter().find_map(|item| entry(item, text)),
        _ => None,
    }
}

/// Every entry with this text, in all results of the conversation, in order.
pub(super) fn entries(turn: &Asked, text: &str) -> Vec<Value> {
    let documents = turn.results().iter().flat_map(|result| documents(result)).collect::<Vec<_>>();
    documents.iter().filter_map(|document| entry(document, text)).collect()
}

/// The entry of this message, alone or in a list.
#[track_caller]
pub(super) fn entry_of(turn: &Asked, seq: u64) -> Value {
    let documents = documents(&turn.result());
    let entries = documents.iter().flat_map(|document| match &document["messages"] {
        Value::Array(entries) => entries.clone(),
        _ => vec![document.clone()],
    });
    let mut found = entries.filter(|entry| entry["id"] == seq);
    found.next().unwrap_or_else(|| panic!("no message {seq} in {turn:?}"))
}

#[track_caller]
fn is_from_alice(entry: &Value) {
    let from = entry["from"].as_str().unwrap_or_default();
    assert!(from.starts_with("alice."), "{entry}");
}
