//! Hooks: each client's names for the moments of its work, and the entries by which the
//! client runs `posthaste hook` at them.

use std::path::Path;

use serde_json::{Value, json};

use super::{Edit, HOOK_PATIENCE_S, OURS};
use crate::edit::{self, Entry, Form};
use crate::shell;

/// The names and forms that a client uses for hooks.
pub struct Hooks {
    /// The client's names of the events. A failed tool is a separate event in some
    /// clients.
    pub events: &'static [(Event, &'static str)],
    /// Events at which the client drops the text that a hook adds.
    pub unheard: &'static [Event],
    /// The place where the client looks for the text that a hook adds.
    pub context: Context,
    /// The decision by which a hook tells the client that its model may not finish yet.
    pub refuses: &'static str,
    pub(super) written: Written,
}

/// The place in a hook's output where a client looks for the text that the hook adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// In `hookSpecificOutput`, beside the event's name.
    Nested,
    /// At the top level.
    Top,
}

/// The form in which hooks are written down.
pub(super) enum Written {
    /// Lists of groups, as Claude Code has them.
    Groups { timeout: u64, title: Option<&'static str> },
    /// Lists of commands, as Copilot CLI has them.
    Commands,
    /// A plugin: a file of its own, and settings of npm beside it.
    Plugin { text: &'static str, npm: &'static [(&'static str, &'static str)] },
}

/// The moments of a client's work at which a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    SessionStart,
    Prompt,
    BeforeTool,
    Tool,
    Stop,
    Idle,
}

impl Event {
    /// Each event, with its name for `posthaste hook` and its description.
    pub const ALL: [(Self, &'static str, &'static str); 6] = [
        (Self::SessionStart, "session-start", "A conversation begins or is resumed"),
        (Self::Prompt, "prompt", "The user has written"),
        (Self::BeforeTool, "before-tool", "A tool is about to run"),
        (Self::Tool, "tool", "A tool has run or has failed"),
        (Self::Stop, "stop", "The model wants to finish its turn"),
        (Self::Idle, "idle", "The program waits for its user: wait for mail that begins a turn"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(event, ..)| *event == self).map_or("", |(_, word, _)| word)
    }

    pub fn by_name(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == word).map(|(event, ..)| *event)
    }
}

/// The command line of a hook, around its event and its client.
#[derive(Debug, Clone, Copy)]
pub struct HookLine<'a> {
    pub program: &'a str,
    pub flags: &'a [String],
}

impl Hooks {
    /// Returns the client's name of this event.
    pub fn called(&self, event: Event) -> &'static str {
        self.events.iter().find(|(known, _)| *known == event).map_or("", |(_, theirs)| theirs)
    }

    /// Returns the words that the client runs for an event, as they stand in its file.
    pub fn command(&self, client: &str, event: Event, text: &str) -> Option<Vec<String>> {
        if let Written::Plugin { .. } = self.written {
            let said = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name))?;
                serde_json::from_str::<Value>(line).ok()
            };
            let program = said("const PROGRAM = ")?.as_str()?.to_owned();
            let flags = said("const FLAGS = ")?;
            let flags = flags.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned);
            let ours = ["hook", event.as_str()].map(str::to_owned);
            return Some([program].into_iter().chain(ours).chain(flags).collect());
        }
        let file = edit::value(Form::Json, text).ok()?;
        let items = edit::at(&file, &["hooks", self.called(event)])?.as_array()?;
        let mut commands = items.iter().flat_map(edit::commands);
        let mark = mark(client, event);
        let line = commands.find(|command| command.contains(&mark))?;
        Some(["/bin/sh", "-c", line].map(str::to_owned).to_vec())
    }

    /// Returns the edits by which the client runs our hooks.
    pub(super) fn edits(&self, client: &str, file: &Path, line: HookLine<'_>) -> Vec<Edit> {
        let edit = |file: &Path, form, entries| Edit {
            files: vec![file.to_owned()],
            form,
            entries,
            unwanted: Vec::new(),
        };
        let item = |(event, theirs): &(Event, &str), value: &dyn Fn(String) -> Value| {
            let ours = ["hook", event.as_str(), "--client", client];
            let flags = line.flags.iter().map(String::as_str);
            let words = [line.program].into_iter().chain(ours).chain(flags);
            Entry::Item {
                list: vec!["hooks".to_owned(), (*theirs).to_owned()],
                mark: mark(client, *event),
                value: value(shell::harmless(words)),
            }
        };
        let items = |value: &dyn Fn(String) -> Value| -> Vec<Entry> {
            self.events.iter().map(|event| item(event, value)).collect()
        };
        match self.written {
            Written::Groups { timeout, title } => {
                let group = |command: String| {
                    let mut hook =
                        json!({ "type": "command", "command": command, "timeout": timeout });
                    if let Some(title) = title {
                        hook["name"] = json!(title);
                    }
                    json!({ "hooks": [hook] })
                };
                vec![edit(file, Form::Json, items(&group))]
            }
            Written::Commands => {
                let command = |command: String| json!({ "type": "command", "bash": command, "timeoutSec": HOOK_PATIENCE_S });
                let mut entries = vec![Entry::key(&["version"], json!(1))];
                entries.extend(items(&command));
                vec![edit(file, Form::Json, entries)]
            }
            Written::Plugin { text, npm } => {
                let flags = [&["--client".to_owned(), client.to_owned()], line.flags].concat();
                let text = text
                    .replace("\"@PROGRAM@\"", &json!(line.program).to_string())
                    .replace("[\"@FLAGS@\"]", &json!(flags).to_string());
                let mark = format!("// {OURS}: ");
                let settings = npm.iter().map(|(key, value)| Entry::key(&[key], json!(value)));
                let folder = file.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
                vec![
                    edit(file, Form::Text, vec![Entry::Whole { mark, text }]),
                    edit(&folder.join(".npmrc"), Form::Lines, settings.collect()),
                ]
            }
        }
    }
}

/// Returns text that every command line of ours contains, and no other command line does.
fn mark(client: &str, event: Event) -> String {
    format!(" {}", shell::line(["hook", event.as_str(), "--client", client]))
}
