//! Puts our entries into a file of another program, and takes them out again.
//!
//! Everything else in the file stays as it is: comments, order, white space, the byte
//! order mark and the line endings. A file that cannot be parsed in its form is refused
//! with a line number; the edit never guesses.

mod endings;
#[cfg(test)]
mod fuzz;
mod json;
mod lines;
#[cfg(test)]
mod tests;
mod toml;

use serde_json::Value;

const MARK: char = '\u{feff}';

/// The form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON that may have comments and trailing commas.
    Json,
    Toml,
    /// Lines of `key=value`, as in npm's settings.
    Lines,
    /// Any text: the whole file is ours.
    Text,
}

/// An entry of ours in a file of another program.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// This key is ours.
    Key { path: Vec<String>, value: Value },
    /// Of this list, the items whose every command contains the mark are ours.
    Item { list: Vec<String>, mark: String, value: Value },
    /// The whole file is ours, if it begins with the mark.
    Whole { mark: String, text: String },
}

/// The reason why a file was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Broken {
    pub line: usize,
    pub why: String,
}

impl Entry {
    pub fn key(path: &[&str], value: Value) -> Self {
        Self::Key { path: path.iter().map(|&part| part.to_owned()).collect(), value }
    }

    fn path(&self) -> &[String] {
        match self {
            Self::Key { path, .. } => path,
            Self::Item { list, .. } => list,
            Self::Whole { .. } => &[],
        }
    }
}

/// Returns the text with our entries. An entry that is right already stays as it is
/// written, so a second call changes nothing.
pub fn put(form: Form, text: &str, entries: &[Entry]) -> Result<String, Broken> {
    edited(text, |text| match form {
        Form::Json => json::put(text, entries),
        Form::Toml => toml::put(text, entries),
        Form::Lines => Ok(lines::put(text, entries)),
        Form::Text => Ok(entries.iter().find_map(|entry| match entry {
            Entry::Whole { text: ours, .. } if ours != text => Some(ours.clone()),
            _ => None,
        })),
    })
}

/// Returns the text without our entries. A value that our entry replaced is restored from
/// `before`, and a parent that was made only to hold an entry is removed.
pub fn take(form: Form, text: &str, before: &str, entries: &[Entry]) -> Result<String, Broken> {
    let said = value(form, before).unwrap_or_default();
    edited(text, |text| match form {
        Form::Json => json::take(text, &said, entries),
        Form::Toml => toml::take(text, &said, entries),
        Form::Lines => Ok(lines::take(text, &said, entries)),
        Form::Text => Ok(entries.iter().find_map(|entry| match entry {
            Entry::Whole { mark, .. } if text.starts_with(mark) => Some(before.to_owned()),
            _ => None,
        })),
    })
}

/// Parses the whole file; an empty file is an empty value.
pub fn value(form: Form, text: &str) -> Result<Value, Broken> {
    let text = text.trim_start_matches(MARK);
    match form {
        Form::Json => json::value(text),
        Form::Toml => toml::value(text),
        Form::Lines => Ok(lines::value(text)),
        Form::Text if text.trim().is_empty() => Ok(Value::Object(serde_json::Map::new())),
        Form::Text => Ok(Value::String(text.to_owned())),
    }
}

/// Returns whether the file holds our entries already.
pub fn holds(form: Form, text: &str, entries: &[Entry]) -> Result<bool, Broken> {
    put(form, text, entries).map(|new| new == text)
}

/// Returns the value at this path.
pub fn at<'a>(value: &'a Value, path: &[impl AsRef<str>]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, part| value.get(part.as_ref()))
}

/// Returns every command within an item.
pub(crate) fn commands(item: &Value) -> Vec<&str> {
    let mut commands = Vec::new();
    gather(item, &mut commands);
    commands
}

/// Returns whether an item of a list is ours.
fn is_ours(item: &Value, mark: &str) -> bool {
    let commands = commands(item);
    !commands.is_empty() && commands.iter().all(|command| command.contains(mark))
}

fn gather<'a>(value: &'a Value, commands: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            let named = ["command", "bash"].iter().filter_map(|name| fields.get(*name));
            commands.extend(named.filter_map(Value::as_str));
            fields.values().for_each(|field| gather(field, commands));
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, commands)),
        _ => (),
    }
}

fn edited(
    text: &str,
    edit: impl FnOnce(&str) -> Result<Option<String>, Broken>,
) -> Result<String, Broken> {
    let bare = text.trim_start_matches(MARK);
    let mark = &text[..text.len() - bare.len()];
    Ok(match edit(bare)? {
        Some(new) => format!("{mark}{}", endings::kept(bare, &new)),
        None => text.to_owned(),
    })
}

/// Returns the line in which this word first stands, preferably in quotes, for a person
/// to look at.
fn line_of(text: &str, word: &str) -> usize {
    let place = text.find(&format!("\"{word}\"")).or_else(|| text.find(word)).unwrap_or(0);
    1 + text[..place].matches('\n').count()
}
