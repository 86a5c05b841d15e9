//! JSON-RPC 2.0: the lines of the hub, and those of the runner.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::protocol::{NO_JSON, NO_REQUEST};

/// An error as JSON-RPC has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// One line of the hub.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// The answer to the call with this number.
    Answer { id: u64, outcome: Result<Value, RpcError> },
    /// An answer to nothing that the runner can have asked. It gets no error, for two sides
    /// that answer errors with errors never end.
    Stray,
    /// A request, or without `id` a notification.
    Asked { id: Option<Value>, method: String, params: Value },
    /// No JSON-RPC.
    Refused { id: Value, error: RpcError },
}

impl Incoming {
    pub(crate) fn read(line: &[u8]) -> Self {
        let refused = |id: Option<Value>, code, message: &str| Self::Refused {
            id: id.unwrap_or(Value::Null),
            error: RpcError::new(code, message),
        };
        let mut fields = match serde_json::from_slice(line) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return refused(None, NO_REQUEST, "a line is one JSON object"),
            Err(e) => return refused(None, NO_JSON, &format!("a line is one JSON object: {e}")),
        };
        let id = fields.remove("id").filter(is_id);
        let method = match fields.remove("method") {
            Some(Value::String(method)) => method,
            Some(_) => return refused(id, NO_REQUEST, "`method` is a string"),
            None if fields.contains_key("result") || fields.contains_key("error") => {
                return answer(id, fields);
            }
            None => return refused(id, NO_REQUEST, "there is neither a method nor an answer"),
        };
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return refused(id, NO_REQUEST, "`jsonrpc` must be \"2.0\"");
        }
        let params = fields.remove("params").unwrap_or(Value::Null);
        Self::Asked { id, method, params }
    }
}

fn is_id(value: &Value) -> bool {
    matches!(value, Value::Number(_) | Value::String(_))
}

/// Reads an answer, whatever it lacks: else the runner would wait for it for ever.
fn answer(id: Option<Value>, mut fields: Map<String, Value>) -> Incoming {
    let Some(id) = id.as_ref().and_then(Value::as_u64) else { return Incoming::Stray };
    let outcome = match fields.remove("error") {
        None | Some(Value::Null) => Ok(fields.remove("result").unwrap_or(Value::Null)),
        Some(error) => {
            let message = error["message"].as_str().unwrap_or("the hub does not say why");
            Err(RpcError::new(error["code"].as_i64().unwrap_or(NO_REQUEST), message))
        }
    };
    Incoming::Answer { id, outcome }
}

/// A request of the runner.
#[derive(Debug, Serialize)]
pub(crate) struct Request<'a, P> {
    pub(crate) jsonrpc: &'static str,
    pub(crate) id: u64,
    pub(crate) method: &'a str,
    pub(crate) params: P,
}

pub(crate) fn result(id: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": {} })
}

pub(crate) fn error(id: Value, error: &RpcError) -> Value {
    let error = json!({ "code": error.code, "message": error.message });
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(line: &str) -> i64 {
        match Incoming::read(line.as_bytes()) {
            Incoming::Refused { error, .. } => error.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_broken_form_has_its_code() {
        assert_eq!(code_of("nonsense"), NO_JSON);
        assert_eq!(code_of("{\"a\": "), NO_JSON);
        assert_eq!(code_of(&"[".repeat(1_000)), NO_JSON);
        assert_eq!(code_of("[]"), NO_REQUEST);
        assert_eq!(code_of("{}"), NO_REQUEST);
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","method":1}"#), NO_REQUEST);
        assert_eq!(code_of(r#"{"method":"inbox"}"#), NO_REQUEST);
    }

    #[test]
    fn an_answer_is_read_whatever_it_lacks() {
        let read = |line: &str| Incoming::read(line.as_bytes());
        let failed = |code, message: &str| Incoming::Answer {
            id: 7,
            outcome: Err(RpcError::new(code, message)),
        };
        assert_eq!(read(r#"{"id":7,"error":{"code":-1,"message":"no"}}"#), failed(-1, "no"));
        assert_eq!(
            read(r#"{"id":7,"error":"odd"}"#),
            failed(NO_REQUEST, "the hub does not say why")
        );
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#),
            Incoming::Answer { id: 7, outcome: Ok(json!({ "a": 1 })) }
        );
        assert_eq!(read(r#"{"id":null,"error":{}}"#), Incoming::Stray);
        assert_eq!(read(r#"{"id":"x","result":{}}"#), Incoming::Stray);
    }
}
