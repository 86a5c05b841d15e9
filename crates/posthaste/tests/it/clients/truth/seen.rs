//! What the models of one test were given, over all starts of the program.

use std::collections::BTreeMap;

use posthaste_testkit::model_server::Asked;
use serde_json::Value;

use crate::clients::stories::documents;

/// One message in a request to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: u64,
    /// It says `redelivered`: it may have been seen before.
    pub(super) marked: bool,
    /// It is a part of a longer one.
    pub(super) cut: bool,
}

/// Every message that any model has been given, by the start of the program.
#[derive(Debug, Default)]
pub(super) struct Seen {
    starts: Vec<Start>,
}

#[derive(Debug, Default)]
struct Start {
    /// It went on with the conversation of an earlier start, whose mail it shows again.
    continues: bool,
    /// Times that a message stood in one request, and of those the unmarked.
    messages: BTreeMap<u64, (usize, usize)>,
}

impl Seen {
    /// The program starts again; gives the number of the start.
    pub(super) fn start(&mut self, continues: bool) -> usize {
        self.starts.push(Start { continues, messages: BTreeMap::new() });
        self.starts.len() - 1
    }

    /// A model was asked. No message may stand there twice without the mark, and none
    /// that another conversation has seen.
    #[track_caller]
    pub(super) fn note(&mut self, start: usize, turn: &Asked) {
        let mut now = BTreeMap::<u64, (usize, usize)>::new();
        for entry in entries(turn) {
            let (all, unmarked) = now.entry(entry.id).or_default();
            *all += 1;
            *unmarked += usize::from(!entry.marked);
        }
        for (id, (all, unmarked)) in now {
            assert!(unmarked <= 1, "message {id} came {all} times, {unmarked} times unmarked");
            let before = self.starts[..start].iter().any(|s| s.messages.contains_key(&id));
            assert!(
                !before || self.starts[start].continues || unmarked == 0,
                "message {id} came unmarked to a second conversation"
            );
            self.starts[start].messages.insert(id, (all, unmarked));
        }
    }

    /// Whether any model was given this message.
    pub(super) fn has(&self, id: u64) -> bool {
        self.starts.iter().any(|start| start.messages.contains_key(&id))
    }
}

/// All mail in a request, in order, whoever put it there: a tool's result, a hook, or
/// the history of the conversation.
pub(super) fn entries(turn: &Asked) -> Vec<Entry> {
    let mut found = Vec::new();
    walk(turn.request(), &mut found);
    found
}

/// The entries of one message.
pub(super) fn entries_of(turn: &Asked, id: u64) -> Vec<Entry> {
    entries(turn).into_iter().filter(|entry| entry.id == id).collect()
}

/// The message stands there once, and is new: nobody had it before.
#[track_caller]
pub(super) fn is_there_once_and_new(turn: &Asked, id: u64) {
    let found = entries_of(turn, id);
    assert_eq!(found.len(), 1, "times that message {id} stands there; {turn:?}");
    assert!(!found[0].marked, "nobody had message {id} before; {turn:?}");
}

/// The message has come again, and says so.
#[track_caller]
pub(super) fn is_marked(turn: &Asked, id: u64) {
    let found = entries_of(turn, id);
    assert!(found.first().is_some_and(|entry| entry.marked), "{id}: {found:?}; {turn:?}");
}

fn walk(value: &Value, found: &mut Vec<Entry>) {
    match value {
        // Long prompts are full of braces; mail has these words.
        Value::String(text) if text.contains("message") && text.contains("from") => {
            documents(text).iter().for_each(|document| walk(document, found));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
        Value::Object(fields) => match (&value["id"], &value["message"], &value["from"]) {
            (Value::Number(id), Value::String(_), Value::String(_)) => found.push(Entry {
                id: id.as_u64().unwrap_or_default(),
                marked: value["redelivered"] == true,
                cut: value["truncated"] == true,
            }),
            _ => fields.values().for_each(|field| walk(field, found)),
        },
        _ => (),
    }
}
