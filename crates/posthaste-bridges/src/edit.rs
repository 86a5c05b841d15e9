//! Putting our entries into somebody's file, and taking them out again.
//!
//! Everything else in the file stays as it is: comments, order, white space, the
//! mark at its beginning and the ends of its lines. A file that cannot be read as
//! what it should be is refused with its line, and never guessed at.

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
    /// With comments and trailing commas, if its owner likes them.
    Json,
    Toml,
    /// A line `key=value` each, as npm has them.
    Lines,
    /// Anything: the whole file is ours.
    Text,
}

/// Something of ours in somebody's file.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// This key is ours.
    Key { path: Vec<String>, value: Value },
    /// Of this list, the items whose every command contains the mark are ours.
    Item { list: Vec<String>, mark: String, value: Value },
    /// The whole file is ours, if it begins with the mark.
    Whole { mark: String, text: String },
}

/// Why a file was not touched.
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

/// The file with our entries as they should be. What is right already stays as it
/// is written, so doing it twice changes nothing.
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

/// The file without our entries. Where one had the place of something that was in
/// the file before us, that comes back, and what was made only to hold one goes.
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

/// What the whole file says; an empty file says nothing.
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

/// Whether the file says what our entries would.
pub fn holds(form: Form, text: &str, entries: &[Entry]) -> Result<bool, Broken> {
    put(form, text, entries).map(|new| new == text)
}

/// What stands at this path.
pub fn at<'a>(value: &'a Value, path: &[impl AsRef<str>]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, part| value.get(part.as_ref()))
}

/// The commands of an item.
pub(crate) fn commands(item: &Value) -> Vec<&str> {
    let mut commands = Vec::new();
    gather(item, &mut commands);
    commands
}

/// The items of ours in a list.
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

/// Where this word first stands between quotes or at all, for a person to look.
fn line_of(text: &str, word: &str) -> usize {
    let place = text.find(&format!("\"{word}\"")).or_else(|| text.find(word)).unwrap_or(0);
    1 + text[..place].matches('\n').count()
}
