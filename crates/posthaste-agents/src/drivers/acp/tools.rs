//! The calls of tools, as the hub shows them.

use std::collections::{BTreeSet, VecDeque};

use agent_client_protocol_schema::{
    ContentBlock, Meta, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::launch::HUB;
use crate::conversation::{Heard, ToolState, ToolUse, one_line};

/// Number of calls that are remembered.
const CALLS: usize = 32;
/// Number of characters of a name, an id, or a line about a tool.
const LINE: usize = 200;

/// The calls that run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Calls(VecDeque<Call>);

/// A call that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Call {
    id: String,
    pub(super) name: String,
    detail: String,
    /// It is a call of a tool of the hub.
    pub(super) of_hub: bool,
}

impl Calls {
    pub(super) fn get(&self, id: &str) -> Option<&Call> {
        self.0.iter().find(|call| call.id == id)
    }

    pub(super) fn began(&mut self, call: ToolCall) -> Option<Heard> {
        let of_hub = is_of_hub(&call);
        let update: ToolCallUpdate = call.into();
        let heard = self.went_on(&update);
        let own = self.0.iter_mut().find(|own| own.id == *update.tool_call_id.0);
        own.into_iter().for_each(|own| own.of_hub = of_hub);
        heard
    }

    /// Takes news of a call; `None` if there is nothing new to show.
    pub(super) fn went_on(&mut self, update: &ToolCallUpdate) -> Option<Heard> {
        let (id, fields) = (&*update.tool_call_id.0, &update.fields);
        let known = self.0.iter().position(|call| call.id == id);
        let name = name(fields, update.meta.as_ref());
        let state = match fields.status {
            Some(ToolCallStatus::Completed) => ToolState::Done,
            Some(ToolCallStatus::Failed) => ToolState::Failed,
            _ => ToolState::Began,
        };
        if state != ToolState::Began {
            let call = known.and_then(|at| self.0.remove(at));
            let name = call.as_ref().map_or(name, |call| Some(call.name.clone()));
            let detail = result(fields).or(call.map(|call| call.detail)).unwrap_or_default();
            let name = name.unwrap_or_default();
            return Some(Heard::Tool(ToolUse { id: id.to_owned(), name, detail, state }));
        }
        let at = known.unwrap_or_else(|| self.add(id));
        let call = &mut self.0[at];
        let detail = detail(fields);
        let same_name = name.as_ref().is_none_or(|name| *name == call.name);
        let same_detail = detail.as_ref().is_none_or(|detail| *detail == call.detail);
        if known.is_some() && same_name && same_detail {
            return None;
        }
        call.name = name.unwrap_or_else(|| call.name.clone());
        call.detail = detail.unwrap_or_else(|| call.detail.clone());
        let (name, detail) = (call.name.clone(), call.detail.clone());
        Some(Heard::Tool(ToolUse { id: id.to_owned(), name, detail, state }))
    }

    /// Adds a call, and forgets the oldest of too many; returns its place.
    fn add(&mut self, id: &str) -> usize {
        if self.0.len() == CALLS {
            self.0.pop_front();
        }
        let (name, detail) = (String::new(), String::new());
        self.0.push_back(Call { id: id.to_owned(), name, detail, of_hub: false });
        self.0.len() - 1
    }
}

/// Returns whether a call is one of a tool of the hub, as codex-acp describes it.
fn is_of_hub(call: &ToolCall) -> bool {
    let of_server = call.meta.as_ref().and_then(|meta| meta.get("is_mcp_tool_call"));
    let server = call.raw_input.as_ref().map(|input| &input["server"]);
    of_server == Some(&Value::Bool(true)) && server.and_then(Value::as_str) == Some(HUB)
}

/// Returns the name of a tool on one line, if the fields have it.
fn name(fields: &ToolCallUpdateFields, meta: Option<&Meta>) -> Option<String> {
    whole_name(fields, meta).map(|name| one_line(&name, LINE))
}

/// Returns the name of a tool, if the fields have it. The title of a tool with a kind is
/// about the call; that of any other tool is its name.
pub(super) fn whole_name(fields: &ToolCallUpdateFields, meta: Option<&Meta>) -> Option<String> {
    let said = meta.and_then(|meta| meta.get("claudeCode")).map(|claude| &claude["toolName"]);
    if let Some(name) = said.and_then(Value::as_str) {
        return Some(name.to_owned());
    }
    let name = match fields.kind? {
        ToolKind::Read => "Read",
        ToolKind::Edit => "Edit",
        ToolKind::Delete => "Delete",
        ToolKind::Move => "Move",
        ToolKind::Search => "Search",
        ToolKind::Execute if command(fields).is_some() => "Bash",
        ToolKind::Think => "Think",
        ToolKind::Fetch => "Fetch",
        ToolKind::SwitchMode => "Mode",
        _ => return fields.title.clone(),
    };
    Some(name.to_owned())
}

/// Returns the command that a call runs. Gemini CLI has it in the title alone. A tool of
/// another kind may have an argument of that name.
pub(super) fn command(fields: &ToolCallUpdateFields) -> Option<&str> {
    match (fields.kind, &fields.raw_input) {
        (Some(ToolKind::Execute), Some(input)) => input["command"].as_str(),
        (Some(ToolKind::Execute), None) => fields.title.as_deref(),
        _ => None,
    }
}

/// Returns the files that a call is about.
pub(super) fn files(fields: &ToolCallUpdateFields) -> Vec<String> {
    let changed = fields.content.iter().flatten().filter_map(|piece| match piece {
        ToolCallContent::Diff(diff) => Some(&diff.path),
        _ => None,
    });
    let places = fields.locations.iter().flatten().map(|place| &place.path);
    let files: BTreeSet<String> =
        changed.chain(places).map(|path| path.to_string_lossy().into_owned()).collect();
    files.into_iter().collect()
}

/// Returns a line about the arguments of a call.
fn detail(fields: &ToolCallUpdateFields) -> Option<String> {
    let input = fields.raw_input.as_ref().filter(|input| match input {
        Value::Object(fields) => !fields.is_empty(),
        other => !other.is_null(),
    });
    let detail = match (command(fields), input) {
        (Some(command), _) => one_line(command, LINE),
        (None, Some(input)) => one_line(&input.to_string(), LINE),
        // The title of any other tool is its name.
        (None, None) if fields.kind.is_none_or(|kind| kind == ToolKind::Other) => return None,
        (None, None) => one_line(fields.title.as_ref()?, LINE),
    };
    Some(detail)
}

/// Returns a line about the result of a call.
fn result(fields: &ToolCallUpdateFields) -> Option<String> {
    let told = content(fields);
    let told = if told.trim().is_empty() {
        match fields.raw_output.as_ref()? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    } else {
        told
    };
    Some(one_line(&told, LINE))
}

/// Returns the content of a call, for a person.
pub(super) fn content(fields: &ToolCallUpdateFields) -> String {
    let pieces = fields.content.iter().flatten().filter_map(|piece| match piece {
        ToolCallContent::Content(content) => match &content.content {
            ContentBlock::Text(text) => Some(text.text.clone()),
            _ => None,
        },
        ToolCallContent::Diff(diff) => Some(format!("{}: {}", diff.path.display(), diff.new_text)),
        _ => None,
    });
    pieces.collect::<Vec<_>>().join("\n")
}
