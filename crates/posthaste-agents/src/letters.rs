//! Messages as a worker reads them: one JSON object a line, with the field names of the
//! inbox.

use posthaste_core::messaging::message::Priority;
use posthaste_core::ports::{Letter, Start};
use serde_json::{Map, Value};

/// Returns the line of the task, which comes first.
pub(crate) fn task(start: &Start) -> String {
    let mut line = Map::new();
    line.insert("id".into(), start.id.0.into());
    line.insert("from".into(), start.parent.clone().into());
    line.insert("type".into(), "directive".into());
    line.insert("message".into(), start.task.clone().into());
    if let Some(label) = &start.worker.label {
        line.insert("label".into(), label.clone().into());
    }
    closed(line)
}

pub(crate) fn line(letter: &Letter) -> String {
    let message = &letter.message;
    let mut line = Map::new();
    line.insert("id".into(), message.seq.0.into());
    line.insert("from".into(), (*message.from.address).into());
    line.insert("type".into(), message.kind.as_str().into());
    line.insert("message".into(), message.body.as_str().into());
    if let Some(label) = &message.label {
        line.insert("label".into(), label.clone().into());
    }
    if let Some(seq) = message.in_reply_to {
        line.insert("in_reply_to".into(), seq.0.into());
    }
    if message.priority == Priority::Urgent {
        line.insert("priority".into(), "urgent".into());
    }
    if letter.redelivered {
        line.insert("redelivered".into(), true.into());
    }
    closed(line)
}

fn closed(line: Map<String, Value>) -> String {
    let mut text = Value::Object(line).to_string();
    text.push('\n');
    text
}
