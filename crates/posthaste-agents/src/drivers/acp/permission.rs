//! The program's requests for permission, and the answers.
//!
//! The hub allows one call at a time, and never "always": the hub remembers, not the
//! program.

use agent_client_protocol_schema::{
    Error, PermissionOption, PermissionOptionKind, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome, ToolKind,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::launch::HUB;
use super::talk::{Talk, refuse};
use super::tools::{command, content, files, whole_name};
use super::turns::Sign;
use crate::conversation::{Heard, PermissionRequest, one_line};
use crate::drivers::subject;

/// Number of requests that may be open at once.
const OPEN: usize = 32;
/// The longest id of a request or an option.
const ID: usize = 500;
/// Number of characters of a request that a person is shown.
const SHOWN: usize = 2_000;
/// Number of characters of a call in a sentence.
const WHAT: usize = 200;

/// A request for permission that waits for its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Request {
    /// The options that stand for yes and for no.
    allow: Option<String>,
    reject: Option<String>,
    /// The call, in a few words.
    pub(super) what: String,
}

impl Request {
    fn new(options: &[PermissionOption], what: &str) -> Self {
        use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
        let of = |kind| options.iter().find(|option| option.kind == kind);
        let either = |one, other| of(one).or_else(|| of(other)).map(|o| o.option_id.to_string());
        Self {
            allow: either(AllowOnce, AllowAlways),
            reject: either(RejectOnce, RejectAlways),
            what: one_line(what, WHAT),
        }
    }

    pub(super) fn outcome(self, allow: bool) -> RequestPermissionOutcome {
        match if allow { self.allow } else { self.reject } {
            Some(option) => {
                RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option))
            }
            None => RequestPermissionOutcome::Cancelled,
        }
    }

    fn is_too_long(&self) -> bool {
        self.allow.iter().chain(&self.reject).any(|option| option.len() > ID)
    }
}

/// Returns the answer to a request of this id.
pub(super) fn answer(id: &str, outcome: RequestPermissionOutcome) -> Option<Value> {
    let id: Value = serde_json::from_str(id).ok()?;
    let result = RequestPermissionResponse::new(outcome);
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// Returns whether a request is about a tool of the hub, as Gemini CLI describes it: the
/// id begins with the full name of the tool, and the title ends with the server's.
pub(super) fn names_hub_as_gemini_does(request: &RequestPermissionRequest) -> bool {
    let (call, fields) = (&request.tool_call, &request.tool_call.fields);
    let title = fields.title.as_deref().unwrap_or_default();
    fields.kind == Some(ToolKind::Other)
        && call.tool_call_id.0.starts_with(&format!("mcp_{HUB}_"))
        && title.ends_with(&format!(" ({HUB} MCP Server)"))
}

impl Talk {
    /// Takes a request for permission; `None` if there is no way to answer it.
    pub(super) fn asks_permission(
        &mut self,
        id: &str,
        request: RequestPermissionRequest,
    ) -> Option<Vec<Heard>> {
        let call = self.calls.get(&request.tool_call.tool_call_id.0);
        let of_hub = (self.program().asks_for_hub)(&request, call);
        let known = call.map(|call| call.name.clone());
        let (subject, text) = describe(&request, known);
        let open = Request::new(&request.options, &text);
        let mut heard: Vec<Heard> = self.shown.rest().into_iter().collect();
        self.answer.end_message();
        heard.extend(self.sees(Sign::Act));
        heard.extend(self.calls.went_on(&request.tool_call));
        if self.cut || of_hub {
            let outcome = match self.cut {
                true => RequestPermissionOutcome::Cancelled,
                false => open.outcome(true),
            };
            heard.push(Heard::line(&answer(id, outcome)?));
        } else if self.open.len() == OPEN || id.len() > ID || open.is_too_long() {
            heard.push(refuse(id, &Error::invalid_request())?);
        } else {
            self.open.insert(id.to_owned(), open);
            let request = id.to_owned();
            heard.push(Heard::Asks(PermissionRequest { request, subject, text }));
        }
        Some(heard)
    }
}

/// Returns the subject of a request and its text for a person; `known` is the name under
/// which its call was shown.
fn describe(request: &RequestPermissionRequest, known: Option<String>) -> (String, String) {
    let (call, fields) = (&request.tool_call, &request.tool_call.fields);
    if let Some(command) = command(fields) {
        let text = format!("Bash: {command}");
        return (subject::of_command(command, None), shown(text, &content(fields)));
    }
    let name = whole_name(fields, call.meta.as_ref()).or(known).unwrap_or_default();
    let title = fields.title.as_deref().unwrap_or_default();
    let arguments = fields.raw_input.as_ref().map(Value::to_string).unwrap_or_default();
    let more = format!("{title} {arguments} {}", content(fields));
    (subject(request, &name), shown(format!("{name}:"), &more))
}

/// Returns the subject of a request that is about no command: the files, the address, or
/// all that is said of the call.
fn subject(request: &RequestPermissionRequest, name: &str) -> String {
    let (call, fields) = (&request.tool_call, &request.tool_call.fields);
    // A title that is no name (Qwen Code has the arguments there) is not to be remembered:
    // another tool may have the same.
    if !name.starts_with(|first: char| first.is_alphabetic()) {
        return subject::of("Tool", &call.tool_call_id.to_string());
    }
    let input = fields.raw_input.as_ref();
    match fields.kind {
        Some(ToolKind::Read | ToolKind::Edit | ToolKind::Delete) => {
            let files = files(fields);
            if !files.is_empty() {
                return subject::of_files(name, &files);
            }
        }
        Some(ToolKind::Fetch) => {
            if let Some(url) = input.and_then(|input| input["url"].as_str()) {
                return subject::of(name, url);
            }
        }
        _ => {}
    }
    let said = input.filter(|input| !input.as_object().map_or(input.is_null(), Map::is_empty));
    if let Some(input) = said {
        return subject::of_call(name, input);
    }
    let title = fields.title.as_deref().filter(|title| *title != name).unwrap_or_default();
    let content = content(fields);
    match (title, content.as_str()) {
        // A tool without arguments says so; nothing at all may mean any call.
        ("", "") if input.is_none() => subject::of(name, &call.tool_call_id.to_string()),
        ("", "") => subject::of_call(name, &Value::Null),
        ("", more) | (more, "") => subject::of(name, more),
        (title, content) => subject::of_call(name, &json!([title, content])),
    }
}

fn shown(start: String, more: &str) -> String {
    one_line(&format!("{start} {more}"), SHOWN)
}
