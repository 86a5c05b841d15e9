//! Codex's requests for permission, and the answers.
//!
//! The hub allows one call at a time, and never "for the session": the hub remembers, not
//! Codex.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::item::{changes, command, mcp_name, text};
use crate::drivers::subject;

/// Number of characters of a change of files that a person is shown.
const SHOWN: usize = 2_000;

/// A request for permission that waits for its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Request {
    form: Form,
    /// The turn that waits.
    pub(super) turn: Option<String>,
}

/// The form of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Form {
    Decision,
    Elicitation,
    /// The permissions that an answer may grant.
    Permissions(Value),
}

/// A call that runs, as far as a request about it needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Call {
    /// Changes of files.
    Edit {
        /// Each file, and what becomes of it.
        files: Vec<String>,
        /// The changes as a person is shown them.
        shown: String,
    },
    Mcp {
        server: String,
        tool: String,
        arguments: Value,
    },
}

impl Call {
    pub(super) fn of(item: &Value) -> Option<Self> {
        match item["type"].as_str()? {
            "fileChange" => Some(Self::Edit { files: changes(item), shown: shown(item) }),
            "mcpToolCall" => Some(Self::Mcp {
                server: text(&item["server"]),
                tool: text(&item["tool"]),
                arguments: item["arguments"].clone(),
            }),
            _ => None,
        }
    }
}

/// Reads a request: how it is answered, its subject, and its text for a person. `None`: it
/// is no request for permission.
pub(super) fn read(
    method: &str,
    params: &Value,
    calls: &BTreeMap<String, Call>,
) -> Option<(Request, String, String)> {
    let (form, subject, what) = match method {
        "item/commandExecution/requestApproval" => {
            let (subject, what) = of_command(params);
            (Form::Decision, subject, what)
        }
        "item/fileChange/requestApproval" => {
            let id = text(&params["itemId"]);
            let (subject, mut what) = match calls.get(&id) {
                Some(Call::Edit { files, shown }) => {
                    (subject::of_files("Edit", files), shown.clone())
                }
                _ => (subject::of("Edit", &id), "change files".to_owned()),
            };
            let subject = match params["grantRoot"].as_str() {
                Some(root) => {
                    what = format!("{what}, and from now on any file below {root}");
                    subject::of("Edit below", root)
                }
                None => subject,
            };
            (Form::Decision, subject, what)
        }
        "mcpServer/elicitation/request" => {
            // Other questions of MCP servers are for a person at Codex's own screen.
            let meta = &params["_meta"];
            (meta["codex_approval_kind"] == "mcp_tool_call").then_some(())?;
            let (server, arguments) = (text(&params["serverName"]), &meta["tool_params"]);
            let name = match tool(calls, &server, arguments) {
                Some(tool) => mcp_name(&server, tool),
                None => text(&params["message"]),
            };
            (Form::Elicitation, subject::of_call(&name, arguments), format!("{name} {arguments}"))
        }
        "item/permissions/requestApproval" => {
            let asked = params["permissions"].as_object()?;
            let granted = asked.iter().filter(|(_, value)| !value.is_null());
            let granted = Value::Object(granted.map(|(k, v)| (k.clone(), v.clone())).collect());
            let what = granted.to_string();
            (Form::Permissions(granted), format!("Permissions({what})"), what)
        }
        _ => return None,
    };
    let mut whole = what;
    for (before, more) in [(" in ", &params["cwd"]), (": ", &params["reason"])] {
        if let Some(more) = more.as_str() {
            whole = format!("{whole}{before}{more}");
        }
    }
    let turn = params["turnId"].as_str().map(str::to_owned);
    Some((Request { form, turn }, subject, whole))
}

impl Request {
    /// Returns the result that answers the request.
    pub(super) fn result(&self, allow: bool) -> Value {
        match (&self.form, allow) {
            (Form::Decision, true) => json!({ "decision": "accept" }),
            // The turn goes on: "cancel" would end it.
            (Form::Decision, false) => json!({ "decision": "decline" }),
            (Form::Elicitation, true) => json!({ "action": "accept", "content": {} }),
            (Form::Elicitation, false) => json!({ "action": "decline", "content": null }),
            (Form::Permissions(all), true) => json!({ "permissions": all, "scope": "turn" }),
            (Form::Permissions(_), false) => json!({ "permissions": {}, "scope": "turn" }),
        }
    }
}

/// Returns the subject and the text of a request to run a command, to write to a running
/// one, or to reach a host.
fn of_command(params: &Value) -> (String, String) {
    if let Some(host) = params["networkApprovalContext"]["host"].as_str() {
        let protocol = text(&params["networkApprovalContext"]["protocol"]);
        let subject = subject::of("Network", &format!("{protocol} {host}"));
        return (subject, format!("reach {host} by {protocol}"));
    }
    let command = command(params);
    if params["kind"] == "writeStdin" {
        // The same command takes other input the next time.
        let subject = subject::of("Stdin", &text(&params["itemId"]));
        return (subject, format!("Stdin: {command}"));
    }
    let (more, what) = (&params["additionalPermissions"], format!("Bash: {command}"));
    if !more.is_null() {
        let subject = subject::of_call("Bash", &json!({ "command": command, "with": more }));
        return (subject, format!("{what} with {more}"));
    }
    let beginning = beginning(&params["proposedExecpolicyAmendment"]);
    (subject::of_command(&command, beginning.as_deref()), what)
}

/// Returns the first words of a command by which Codex would remember it. The model may
/// have chosen them.
fn beginning(proposed: &Value) -> Option<String> {
    let words: Option<Vec<&str>> = proposed.as_array()?.iter().map(Value::as_str).collect();
    words.map(|words| words.join(" "))
}

/// Returns the tool of the running call that asks; `None` if calls of several tools could.
fn tool<'a>(calls: &'a BTreeMap<String, Call>, of: &str, with: &Value) -> Option<&'a str> {
    let mut found = calls.values().filter_map(|call| match call {
        Call::Mcp { server, tool, arguments } if server == of && same(arguments, with) => {
            Some(tool.as_str())
        }
        _ => None,
    });
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// Compares arguments; none at all are the same as an empty object.
fn same(one: &Value, other: &Value) -> bool {
    let empty = |value: &Value| value.as_object().map_or(value.is_null(), Map::is_empty);
    one == other || (empty(one) && empty(other))
}

/// Returns the changes of files, each with its difference.
fn shown(item: &Value) -> String {
    let changed = item["changes"].as_array().into_iter().flatten();
    let differences: String =
        changed.map(|change| format!("\n{}", text(&change["diff"]))).collect();
    let whole = format!("Edit: {}{}", changes(item).join(", "), differences.trim_end());
    match whole.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}
