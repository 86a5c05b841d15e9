//! Answers that the bridge makes itself, because no hub could.

use posthaste_api::ApiError;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::Broken;

/// Codes of JSON-RPC, and the first of those that are free for a server.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INTERNAL: i32 = -32603;
const OURS: i32 = -32000;

#[derive(Serialize)]
struct Reply<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

fn line(id: Option<&RawValue>, result: Option<Value>, error: Option<Value>) -> Vec<u8> {
    let reply = Reply { jsonrpc: "2.0", id, result, error };
    serde_json::to_vec(&reply).expect("text and numbers are JSON")
}

fn error(id: Option<&RawValue>, code: i32, message: &str) -> Vec<u8> {
    line(id, None, Some(json!({ "code": code, "message": message })))
}

/// Answers a line that is no message.
pub(super) fn broken(why: Broken) -> Vec<u8> {
    match why {
        Broken::Json => error(None, PARSE_ERROR, "this line is not JSON"),
        Broken::Shape => error(
            None,
            INVALID_REQUEST,
            "a line is one JSON-RPC message: an object, and no list of several",
        ),
    }
}

/// Answers a line that is longer than any that is passed on.
pub(super) fn too_long(id: Option<&RawValue>, most: usize) -> Vec<u8> {
    let told = format!("this line is longer than {most} bytes: send less at a time");
    error(id, INVALID_REQUEST, &told)
}

/// Answers that the hub refused, or that there is none: with the error's text and its
/// hint.
pub(super) fn refused(id: Option<&RawValue>, why: &ApiError) -> Vec<u8> {
    let data = json!({ "code": why.code });
    line(id, None, Some(json!({ "code": OURS, "message": in_one_line(why), "data": data })))
}

/// Answers that the hub took the request and returned no message.
pub(super) fn unanswered(id: Option<&RawValue>, status: u16) -> Vec<u8> {
    let told = format!("the hub answered {status} without a message");
    error(id, INTERNAL, &told)
}

/// Answers that a tool failed, in the form of CAO's tools.
pub(super) fn failed_tool(id: Option<&RawValue>, why: &str, new_era: bool) -> Vec<u8> {
    let told = json!({ "success": false, "error": why }).to_string();
    let mut result = json!({ "content": [{ "type": "text", "text": told }], "isError": true });
    if new_era {
        result["resultType"] = "complete".into();
    }
    line(id, Some(result), None)
}

/// Returns the error and its hint in one line.
pub(super) fn in_one_line(why: &ApiError) -> String {
    match &why.hint {
        Some(hint) => format!("{} ({hint})", why.message),
        None => why.message.clone(),
    }
}
