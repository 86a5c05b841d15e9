//! The tools of an assistant: the hub's own, those of the loop, services and servers.

use std::fs;
use std::sync::Arc;

use posthaste_core::ports::{OwnAnswer, OwnCall, ToolSet, TranscriptEntry, TranscriptKind};
use posthaste_runner::protocol::{self, ToolReply, ToolRequest, ToolSpec};
use serde_json::{Map, Value};

use super::Assistant;
use super::calls::{Fault, value};
use super::record::Record;
use crate::conversation::one_line;

/// The service of seed 001: the hub's tools under the names of that design.
const ASSISTANT: &str = "assistant";
const PREFIX: &str = "builtin_assistant__";
/// The service with which an assistant is not confined to its folder.
const SHELL: &str = "shell";
/// The argument of tools that start workers.
const PLACE: &str = "working_directory";
/// Number of characters of a call that the transcript shows.
const DETAIL: usize = 400;

/// The result of a tool, with the mail that it hands over.
pub(super) struct Outcome {
    pub(super) reply: ToolReply,
    pub(super) own: Option<OwnAnswer>,
}

impl From<ToolReply> for Outcome {
    fn from(reply: ToolReply) -> Self {
        Self { reply, own: None }
    }
}

impl Assistant {
    /// Returns every tool that the model may call.
    pub(super) async fn tools(&self) -> Vec<ToolSpec> {
        let own = self.hub.own_tools().await;
        let of = |set: ToolSet, prefix: &str| {
            let spec = |tool: posthaste_core::ports::OwnTool| ToolSpec {
                name: format!("{prefix}{}", tool.name),
                description: tool.description,
                input_schema: tool.schema,
            };
            own.list(set).into_iter().map(spec).collect::<Vec<_>>()
        };
        let mut all = of(ToolSet::Native, "");
        if self.spec.services.iter().any(|service| service == ASSISTANT) {
            all.extend(of(ToolSet::Assistant, PREFIX));
        }
        all.extend(self.toolbox.list().await);
        self.tell_notes();
        let mut tools = super::loop_tools::specs();
        for tool in all {
            if self.is_listed(&tool.name).await {
                tools.push(tool);
            }
        }
        tools
    }

    /// Tells the operator what is wrong with the assistant's MCP servers.
    fn tell_notes(&self) {
        for note in self.toolbox.take_notes() {
            self.tell(TranscriptKind::Note, &note);
        }
    }

    /// Returns whether the profile's list of tools has this one. An entry `@files` stands
    /// for all tools of the MCP server `files`.
    async fn is_listed(&self, name: &str) -> bool {
        let Some(list) = &self.spec.tools else { return true };
        let server = self.toolbox.server_of(name).await;
        list.iter().any(|tool| {
            let of_server = tool.strip_prefix('@').is_some_and(|of| Some(of) == server.as_deref());
            tool == name || tool == "*" || of_server
        })
    }

    pub(super) async fn call_tool(
        self: &Arc<Self>,
        key: String,
        request: ToolRequest,
        again: bool,
    ) -> Result<Value, Fault> {
        let known = self.state.lock().await.dialogue.answer_to(&key).cloned();
        if let Some(known) = known {
            // An earlier hub may have been killed before it acked the mail of the result.
            self.stored(known.mail()).await;
            return reply(&known);
        }
        let cancel = self.cancel.lock().clone();
        let ToolRequest { tool_name, arguments, tool_call_id, .. } = request;
        let text = Value::Object(arguments.clone()).to_string();
        self.tell_tool(&tool_name, &tool_call_id, &text, "began");
        let work = self.work(&key, &tool_name, arguments.clone(), again);
        let outcome = tokio::select! {
            outcome = work => outcome,
            () = cancel.cancelled() => {
                self.tell_tool(&tool_name, &tool_call_id, "cancelled", "failed");
                return Err(Fault::new(protocol::CANCELLED, "the turn was cancelled"));
            }
        };
        let Outcome { reply: said, own } = outcome;
        // What the human has answered is a message, with a limit of its own.
        let mut text = match super::loop_tools::named(&tool_name) {
            Some(_) => said.text(),
            None => clipped(said.text(), self.limits.result_chars),
        };
        let mut state = self.state.lock().await;
        let repeats = state.dialogue.repeats(&tool_name, &arguments, &text) + 1;
        if repeats >= self.limits.repeats.max(2) {
            text.push_str(&format!(
                "\n[posthaste] You have made this very call {repeats} times in a row, with the \
                 same result. Do not poll: wait with check_inbox, do something else, or finish."
            ));
        }
        let handed = own.and_then(|own| own.handed);
        let mail = handed.as_ref().map(|handed| handed.mail()).unwrap_or_default();
        let ended = if said.is_error { "failed" } else { "done" };
        self.tell_tool(&tool_name, &tool_call_id, &text, ended);
        let record = Record::Tool {
            call: key,
            tool_call_id,
            name: tool_name,
            arguments,
            text,
            is_error: said.is_error,
            mail: mail.iter().map(|seq| seq.0).collect(),
        };
        let answer = reply(&record);
        state.keep(vec![record.clone()]).await;
        drop(state);
        if let Some(handed) = handed {
            handed.written();
        }
        self.stored(record.mail()).await;
        answer
    }

    async fn work(
        self: &Arc<Self>,
        key: &str,
        name: &str,
        arguments: Map<String, Value>,
        again: bool,
    ) -> Outcome {
        if let Some(tool) = super::loop_tools::named(name) {
            return self.call_loop_tool(tool, key, arguments).await.into();
        }
        if !self.is_listed(name).await {
            let why = format!("the profile {} does not allow the tool {name}", self.spec.profile);
            return ToolReply::of(format!("{why}; its list is `tools`"), true).into();
        }
        let (set, own_name) = match name.strip_prefix(PREFIX) {
            Some(_) if !self.spec.services.iter().any(|service| service == ASSISTANT) => {
                let why = format!(
                    "the service `{ASSISTANT}` is not allowed: its profile {} does not name it in \
                     `allowed_builtin_service_aliases`",
                    self.spec.profile
                );
                return ToolReply::of(why, true).into();
            }
            Some(rest) => (ToolSet::Assistant, rest),
            None => (ToolSet::Native, name),
        };
        let own = self.hub.own_tools().await;
        if own.list(set).iter().any(|tool| tool.name == own_name) {
            if let Err(why) = self.check_place(&arguments) {
                return ToolReply::of(why, true).into();
            }
            let answer = own
                .call(OwnCall {
                    who: self.who,
                    set,
                    name: own_name.to_owned(),
                    arguments: Value::Object(arguments).to_string(),
                    key: format!("runner:{}:{key}", self.who),
                    chars: self.limits.result_chars,
                })
                .await;
            let reply = ToolReply::of(answer.text.clone(), answer.is_error);
            return Outcome { reply, own: Some(answer) };
        }
        if again {
            let why = "the hub was restarted while this ran, and its outcome is unknown: look \
                       before you do it again";
            return ToolReply::of(why, true).into();
        }
        let reply = self.toolbox.call(name, arguments).await;
        self.tell_notes();
        reply.into()
    }

    /// Refuses to let a worker work where the assistant itself may not: a second assistant in
    /// another folder would be a way out of the service `workspace`.
    fn check_place(&self, arguments: &Map<String, Value>) -> Result<(), String> {
        let Some(Value::String(place)) = arguments.get(PLACE) else { return Ok(()) };
        if self.spec.services.iter().any(|service| service == SHELL) {
            return Ok(());
        }
        let own = &self.spec.directory;
        match (fs::canonicalize(place), fs::canonicalize(own)) {
            (Ok(place), Ok(own)) if place.starts_with(&own) => return Ok(()),
            // The hub says what is wrong with a folder that is none.
            (Err(_), _) => return Ok(()),
            _ => {}
        }
        Err(format!(
            "{PLACE}: {place} is outside of {}, where you work; without the service `{SHELL}` you \
             can let others work only there, or in a folder below it",
            own.display()
        ))
    }

    fn tell_tool(&self, name: &str, id: &str, detail: &str, state: &str) {
        self.add_entry(TranscriptEntry {
            no: 0,
            at: self.hub.now(),
            kind: TranscriptKind::Tool,
            text: one_line(detail, DETAIL),
            name: Some(name.to_owned()),
            id: Some(id.to_owned()),
            state: Some(state.to_owned()),
        });
    }
}

/// Returns a text of at most so many characters, with a note of what is missing.
fn clipped(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text,
        Some((end, _)) => {
            let left = text[end..].chars().count();
            format!("{}\n[posthaste] clipped: {left} more characters", &text[..end])
        }
    }
}

fn reply(record: &Record) -> Result<Value, Fault> {
    match record {
        Record::Tool { text, is_error, .. } => value(&ToolReply::of(text.clone(), *is_error)),
        _ => Err(Fault::new(protocol::WRONG_PARAMS, "this id was used by another call")),
    }
}
