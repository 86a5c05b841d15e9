//! A request of a model in words that all formats share.

use hyper::HeaderMap;
use serde_json::Value;

use super::KEY;

/// A request that is as its provider wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    pub model: String,
    /// The request had a key, and it was the right one.
    pub has_key: bool,
    pub system: String,
    pub said: Vec<Said>,
    /// Name, description and schema.
    pub tools: Vec<(String, String, Value)>,
    pub max_tokens: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    User(String),
    /// What the model thought before it spoke: the provider's signature, or the text where
    /// there is none.
    Thought(String),
    Assistant {
        text: String,
        calls: Vec<(String, Value)>,
    },
    /// The result of the call of this tool.
    Result {
        tool: String,
        text: String,
    },
}

impl Said {
    pub fn user(text: &str) -> Self {
        Self::User(text.to_owned())
    }

    pub fn assistant(text: &str, calls: &[(&str, Value)]) -> Self {
        let calls = calls.iter().map(|(name, with)| ((*name).to_owned(), with.clone())).collect();
        Self::Assistant { text: text.to_owned(), calls }
    }

    pub fn result(tool: &str, text: &str) -> Self {
        Self::Result { tool: tool.to_owned(), text: text.to_owned() }
    }
}

pub(super) struct Asked<'a> {
    pub(super) path: &'a str,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a Value,
}

pub(super) type Read<T> = Result<T, String>;

impl Asked<'_> {
    pub(super) fn at(&self, path: &str) -> Read<()> {
        match self.path == path {
            true => Ok(()),
            false => Err(format!("the path is {}, not {path}", self.path)),
        }
    }

    /// Returns whether the header holds the key; another key is an error.
    pub(super) fn key(&self, header: &str, before: &str) -> Read<bool> {
        let Some(value) = self.headers.get(header) else { return Ok(false) };
        let value = value.to_str().map_err(|error| error.to_string())?;
        match value.trim_end() == format!("{before}{KEY}") {
            true => Ok(true),
            // An endpoint of one's own may need no key.
            false if value.trim() == before.trim() => Ok(false),
            false => Err(format!("{header} has another key")),
        }
    }
}

/// Returns the text of a field that must be there.
pub(super) fn text<'a>(of: &'a Value, key: &str) -> Read<&'a str> {
    of[key].as_str().ok_or_else(|| format!("{key} is no text: {of}"))
}

/// Returns the list of a field; empty if it is missing.
pub(super) fn list<'a>(of: &'a Value, key: &str) -> Read<&'a [Value]> {
    match &of[key] {
        Value::Null => Ok(&[]),
        Value::Array(all) => Ok(all),
        other => Err(format!("{key} is no list: {other}")),
    }
}

/// Returns a value that must be an object.
pub(super) fn object<'a>(of: &'a Value, key: &str) -> Read<&'a Value> {
    match &of[key] {
        found @ Value::Object(_) => Ok(found),
        other => Err(format!("{key} is no object: {other}")),
    }
}

/// The calls that have no result yet, each with the name of its tool.
#[derive(Default)]
pub(super) struct Open(Vec<(String, String)>);

impl Open {
    pub(super) fn call(&mut self, id: &str, name: &str) -> Read<()> {
        match self.0.iter().any(|(known, _)| known == id) {
            true => Err(format!("two calls have the id {id}")),
            false => {
                self.0.push((id.to_owned(), name.to_owned()));
                Ok(())
            }
        }
    }

    /// Takes the call with this id, and returns its tool.
    pub(super) fn result(&mut self, id: &str) -> Read<String> {
        let at = self.0.iter().position(|(known, _)| known == id);
        let at = at.ok_or_else(|| format!("no open call has the id {id}"))?;
        Ok(self.0.remove(at).1)
    }

    /// Checks that every call has its result, before anybody says something else.
    pub(super) fn none(&self) -> Read<()> {
        match self.0.first() {
            None => Ok(()),
            Some((id, name)) => Err(format!("the call {id} of {name} has no result")),
        }
    }
}
