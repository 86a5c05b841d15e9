//! Reads arguments. A wrong argument is refused in one sentence, before anything is
//! changed.

use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::messages::MessageRef;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::extract::plain;

pub(crate) fn arguments<T: DeserializeOwned>(given: Option<&RawValue>) -> Result<T, ApiError> {
    let text = given.map_or("{}", RawValue::get);
    serde_json::from_str(text).map_err(|error| {
        // A model writes values and no text, so the place in the text would not help it.
        let told = plain(&error.to_string());
        let why: String =
            told.split(" at line ").next().unwrap_or(&told).chars().take(300).collect();
        ApiError::new(ErrorCode::InvalidArgument, format!("the arguments do not fit: {why}"))
            .hint("call the tool again with the parameters that its schema names")
    })
}

/// Counts the last entries that fit into so many characters of JSON; at least one.
pub(crate) fn last_that_fit<T: Serialize>(list: &[T], chars: usize) -> usize {
    let mut left = chars;
    let fits = |entry: &&T| {
        let length = serde_json::to_string(entry).map_or(usize::MAX, |json| json.len());
        let room = length.saturating_add(1) <= left;
        left = left.saturating_sub(length.saturating_add(1));
        room
    };
    list.iter().rev().take_while(fits).count().max(1).min(list.len())
}

/// Reads a list, or one text with commas.
pub(crate) fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        One(String),
        Many(Vec<String>),
        None(()),
    }
    let given = Given::deserialize(from)?;
    let parts: Vec<String> = match given {
        Given::One(text) => text.split(',').map(str::to_owned).collect(),
        Given::Many(list) => list,
        Given::None(()) => Vec::new(),
    };
    let given = !parts.is_empty();
    let trimmed = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    let list: Vec<String> = trimmed.map(str::to_owned).collect();
    // An empty list would mean nobody, and a missing one means everybody.
    if given && list.is_empty() {
        return Err(serde::de::Error::custom("a list without a word in it; leave it out instead"));
    }
    Ok(list)
}

/// Reads a word, or a number that is meant as one.
pub(crate) fn word<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Number(u64),
        Word(String),
        None(()),
    }
    Ok(match Given::deserialize(from)? {
        Given::Number(number) => Some(number.to_string()),
        Given::Word(word) => Some(word),
        Given::None(()) => None,
    })
}

/// Returns the reference to a message that [`word`] has read.
pub(crate) fn message(word: Option<String>) -> Option<MessageRef> {
    word.filter(|word| !word.is_empty()).map(MessageRef::Text)
}
