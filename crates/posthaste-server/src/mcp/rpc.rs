//! JSON-RPC: read without copying, written once.

use std::borrow::Cow;

use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::written::{self, Reply};

const NEW_ERA: &str = "2026-07-28";
const OLD_ERA: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const PARSE_ERROR: i32 = -32700;
pub(crate) const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
pub(crate) const INVALID_PARAMS: i32 = -32602;
pub(crate) const INTERNAL_ERROR: i32 = -32603;

/// Longest name of a method: the protocol has none that is longer.
const LONGEST_METHOD: usize = 128;

/// One message, as far as the front has to know it.
#[derive(Debug, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    /// `null` is an id that is wrong, and not a missing one.
    #[serde(borrow, default, deserialize_with = "given")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    error: Option<&'a RawValue>,
}

/// Reads a value as it stands, also if it is `null`.
fn given<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Returns whether this is the id of a request: a text or a whole number, and short,
/// because it comes back in the answer and is kept as long as the call is known.
fn is_id(id: &RawValue, longest: usize) -> bool {
    let text = id.get();
    text.len() <= longest && (is_text(text) || text.parse::<i64>().is_ok())
}

/// Returns whether the JSON is a readable text. Half a character, in an escape, is JSON by
/// its form alone, and an answer with it could not be read.
fn is_text(json: &str) -> bool {
    let escapes = || json.contains('\\');
    json.starts_with('"') && (!escapes() || serde_json::from_str::<Cow<'_, str>>(json).is_ok())
}

pub(crate) enum Kind<'a> {
    Request { id: &'a RawValue, method: &'a str },
    Notification { method: &'a str },
    Response,
}

impl<'a> Envelope<'a> {
    pub(crate) fn kind(&self) -> Kind<'_> {
        match (self.id, self.method.as_deref()) {
            (Some(id), Some(method)) => Kind::Request { id, method },
            (None, Some(method)) => Kind::Notification { method },
            (_, None) => Kind::Response,
        }
    }

    /// Returns the parameters as raw JSON.
    pub(crate) fn raw_params(&self) -> &str {
        self.params.map_or("{}", RawValue::get)
    }

    /// Counts the bytes of the parameters beside the arguments of a tool, of which a
    /// waiting call keeps some. Parameters of at most `most` bytes are not parsed.
    pub(crate) fn beside_arguments(&self, most: usize) -> usize {
        #[derive(Deserialize)]
        struct Only<'a> {
            #[serde(borrow)]
            arguments: Option<&'a RawValue>,
        }
        let params = self.raw_params();
        if params.len() <= most {
            return params.len();
        }
        let only = serde_json::from_str::<Only<'_>>(params).ok();
        let arguments = only.and_then(|only| only.arguments).map_or(0, |text| text.get().len());
        params.len() - arguments
    }

    pub(crate) fn params(&self) -> Option<Params<'a>> {
        // A list would fit, too, field by field; but no method takes one.
        let params = self.params.filter(|params| is_object(params))?;
        serde_json::from_str(params.get()).ok()
    }
}

/// The parameters of all methods, as far as the front reads them.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Params<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<Meta<'a>>,
    /// Of `initialize`.
    #[serde(borrow, rename = "clientInfo")]
    client: Option<ClientInfo<'a>>,
    /// Of `subscriptions/listen`.
    #[serde(default)]
    pub(crate) notifications: Option<Wanted>,
    /// Of `notifications/cancelled`.
    #[serde(borrow, rename = "requestId")]
    pub(crate) request_id: Option<&'a RawValue>,
}

/// The notifications that a listener wants; only one kind can be granted.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wanted {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools_list_changed: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    pub(crate) progress: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
    client: Option<ClientInfo<'a>>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
    /// The id that Claude Code gives the call; the same again if it repeats the call.
    #[serde(borrow, rename = "claudecode/toolUseId")]
    tool_use: Option<Cow<'a, str>>,
    /// The id that Codex gives the call.
    #[serde(borrow, rename = "callId")]
    call: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
struct ClientInfo<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    version: Option<&'a RawValue>,
}

impl Meta<'_> {
    /// Returns the client's own id of the call, which its hooks name, too.
    pub(crate) fn call_id(&self) -> Option<&str> {
        self.tool_use.as_deref().or(self.call.as_deref())
    }
}

impl Params<'_> {
    /// Returns the name that the client gives itself.
    pub(crate) fn client(&self) -> Option<&str> {
        let said = self.meta.as_ref().and_then(|meta| meta.client.as_ref());
        said.or(self.client.as_ref()).map(|client| &*client.name)
    }

    pub(crate) fn era(&self) -> Era {
        let version = self.meta.as_ref().and_then(|meta| meta.version.as_deref());
        if version == Some(NEW_ERA) { Era::New } else { Era::Old }
    }
}

/// The protocol before and after the handshake was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Old,
    New,
}

/// Reads one message; any other body gets an error answer, with its id if it has one.
pub(crate) fn read(body: &[u8], longest_id: usize) -> Result<Envelope<'_>, Box<Response<Reply>>> {
    const BATCH: &str = "send one message at a time, not a batch";
    let invalid = |id, why| Err(refused(StatusCode::BAD_REQUEST, id, INVALID_REQUEST, why));
    let first = body.iter().find(|b| !b.is_ascii_whitespace());
    match serde_json::from_slice::<Envelope<'_>>(body) {
        Ok(message) if first == Some(&b'{') => message.judged(longest_id),
        Ok(_) => invalid(None, BATCH),
        Err(error) if error.is_syntax() || error.is_eof() => {
            Err(refused(StatusCode::BAD_REQUEST, None, PARSE_ERROR, "the body is not valid JSON"))
        }
        Err(_) if first == Some(&b'[') => invalid(None, BATCH),
        Err(_) if first == Some(&b'{') => {
            let named = serde_json::from_slice::<Named<'_>>(body).ok();
            let id = named.and_then(|named| named.id).filter(|id| is_id(id, longest_id));
            invalid(id, "this is no JSON-RPC message: `jsonrpc` and `method` are strings")
        }
        Err(_) => invalid(None, "this is no JSON-RPC message: send an object"),
    }
}

/// A message of which only the id can be read.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow, default, deserialize_with = "given")]
    id: Option<&'a RawValue>,
}

impl Envelope<'_> {
    fn judged(self, longest_id: usize) -> Result<Self, Box<Response<Reply>>> {
        let id = self.id.filter(|id| is_id(id, longest_id));
        let invalid =
            |id, why: &str| Err(refused(StatusCode::BAD_REQUEST, id, INVALID_REQUEST, why));
        if self.jsonrpc.as_deref() != Some("2.0") {
            return invalid(id, "`jsonrpc` is \"2.0\"");
        }
        // An error that answers an unreadable message has no id.
        let is_error = self.method.is_none() && self.error.is_some();
        if self.id.is_some() && id.is_none() && !is_error {
            let why = format!("`id` is a string or a whole number, of at most {longest_id} bytes");
            return invalid(None, &why);
        }
        let Some(method) = &self.method else {
            return match self.result.or(self.error) {
                Some(_) => Ok(self),
                None => invalid(id, "`method` is missing"),
            };
        };
        // A notification is never answered.
        let Some(id) = id else { return Ok(self) };
        if method.is_empty() || method.len() > LONGEST_METHOD {
            let why = "there is no method of such a name";
            return Err(refused(StatusCode::OK, Some(id), METHOD_NOT_FOUND, why));
        }
        if self.params.is_some_and(|params| !is_object(params)) {
            let why = "`params` is an object";
            return Err(refused(StatusCode::OK, Some(id), INVALID_PARAMS, why));
        }
        Ok(self)
    }
}

fn refused(
    status: StatusCode,
    id: Option<&RawValue>,
    code: i32,
    why: &str,
) -> Box<Response<Reply>> {
    let error = Refused { jsonrpc: "2.0", id, error: Fault { code, message: why } };
    let json = serde_json::to_vec(&error).unwrap_or_default();
    Box::new(written::json(status, json))
}

/// Returns the parameters of a call that is plainly right, in either era. rmcp answers
/// everything doubtful.
pub(crate) fn plain_call<'a>(headers: &HeaderMap, message: &Envelope<'a>) -> Option<Params<'a>> {
    let params = plain(headers, message, "tools/call")?;
    let arguments = params.arguments.is_none_or(is_object);
    (arguments && params.name.is_some()).then_some(params)
}

/// Like [`plain_call`], for a request to listen, which the older era does not have.
pub(crate) fn plain_listen<'a>(headers: &HeaderMap, message: &Envelope<'a>) -> Option<Params<'a>> {
    let params = plain(headers, message, "subscriptions/listen")?;
    (params.era() == Era::New && params.notifications.is_some()).then_some(params)
}

fn plain<'a>(headers: &HeaderMap, message: &Envelope<'a>, method: &str) -> Option<Params<'a>> {
    let text = |name: &str| match headers.get(name) {
        None => Some(None),
        Some(value) => value.to_str().ok().map(Some),
    };
    let accept = text("accept")??;
    let plain = accept.contains("application/json")
        && accept.contains("text/event-stream")
        && text("content-type")??.starts_with("application/json")
        && headers.keys().all(|name| !name.as_str().starts_with("mcp-param-"));
    let params: Params<'a> = plain.then(|| message.params())??;
    let version = text("mcp-protocol-version")?;
    let meta = params.meta.as_ref();
    let right = match meta.and_then(|meta| meta.version.as_deref()) {
        None => version.is_none_or(|v| OLD_ERA.contains(&v)),
        Some(said) => {
            said == NEW_ERA
                && version == Some(NEW_ERA)
                && text("mcp-method")? == Some(method)
                && text("mcp-name")? == params.name.as_deref()
                && meta.and_then(|meta| meta.capabilities).is_some_and(is_object)
                && meta.and_then(|meta| meta.client.as_ref()).is_none_or(|c| c.version.is_some())
        }
    };
    right.then_some(params)
}

fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

#[derive(Serialize)]
struct Refused<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RawValue>,
    error: Fault<'a>,
}

#[derive(Serialize)]
struct Fault<'a> {
    code: i32,
    message: &'a str,
}

/// Returns the code and the message of an error answer.
pub(crate) fn fault_of(answer: &[u8]) -> Option<(i32, Cow<'_, str>)> {
    #[derive(Deserialize)]
    struct Failed<'a> {
        #[serde(borrow)]
        error: FaultText<'a>,
    }
    #[derive(Deserialize)]
    struct FaultText<'a> {
        code: i32,
        #[serde(borrow)]
        message: Cow<'a, str>,
    }
    let failed: Failed<'_> = serde_json::from_slice(answer).ok()?;
    Some((failed.error.code, failed.error.message))
}

/// Writes an error of the protocol.
pub(crate) fn fault(id: &RawValue, code: i32, message: &str) -> Vec<u8> {
    let error = Refused { jsonrpc: "2.0", id: Some(id), error: Fault { code, message } };
    serde_json::to_vec(&error).unwrap_or_default()
}

#[derive(Serialize)]
struct ToolResponse<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: ToolResult<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    content: &'a [Block],
    is_error: bool,
}

/// A block of text, the only content that models see in all clients.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Block {
    #[serde(rename = "type")]
    kind: &'static str,
    pub(crate) text: String,
}

impl From<String> for Block {
    fn from(text: String) -> Self {
        Self { kind: "text", text }
    }
}

/// Writes the result of a tool.
pub(crate) fn result(id: &RawValue, era: Era, content: &[Block], is_error: bool) -> Vec<u8> {
    let result_type = (era == Era::New).then_some("complete");
    let result = ToolResult { result_type, content, is_error };
    let room = content.iter().map(|block| block.text.len() * 5 / 4).sum::<usize>() + 160;
    let mut json = Vec::with_capacity(room);
    // Strings and numbers always have a JSON form.
    let _ = serde_json::to_writer(&mut json, &ToolResponse { jsonrpc: "2.0", id, result });
    json
}

#[derive(Serialize)]
struct Notification<'a> {
    jsonrpc: &'static str,
    method: &'static str,
    params: Progress<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Progress<'a> {
    progress_token: &'a RawValue,
    progress: u64,
    message: &'static str,
}

/// Writes a report of the seconds waited so far.
pub(crate) fn progress(token: &RawValue, seconds: u64) -> Vec<u8> {
    let params = Progress { progress_token: token, progress: seconds, message: "waiting for mail" };
    let told = Notification { jsonrpc: "2.0", method: "notifications/progress", params };
    serde_json::to_vec(&told).unwrap_or_default()
}

#[derive(Serialize)]
struct Granted<'a> {
    #[serde(rename = "_meta")]
    meta: Subscription<'a>,
    notifications: Wanted,
}

#[derive(Serialize)]
struct Subscription<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    id: &'a RawValue,
}

/// Writes the first message of a subscription, which names the granted notifications.
pub(crate) fn listening(id: &RawValue, to: Wanted) -> Vec<u8> {
    #[derive(Serialize)]
    struct Acknowledged<'a> {
        jsonrpc: &'static str,
        method: &'static str,
        params: Granted<'a>,
    }
    let params = Granted { meta: Subscription { id }, notifications: to };
    let method = "notifications/subscriptions/acknowledged";
    serde_json::to_vec(&Acknowledged { jsonrpc: "2.0", method, params }).unwrap_or_default()
}
