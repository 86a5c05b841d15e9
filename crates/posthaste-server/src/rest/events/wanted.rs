//! The types that a follower asks for.

use posthaste_api::events::CHAT;
use posthaste_core::events::EventKind;

use crate::failure::{Failure, invalid};

/// The types that a follower asks for: whole types or families; none is all.
pub(super) struct Wanted(Vec<String>);

impl Wanted {
    pub(super) fn read<'a>(types: impl Iterator<Item = &'a str>) -> Result<Self, Failure> {
        types.map(kind).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn has(&self, word: &str) -> bool {
        let family = word.split('.').next();
        let fits = |asked: &String| asked == word || Some(asked.as_str()) == family;
        self.0.is_empty() || self.0.iter().any(fits)
    }

    /// Returns the types of the journal that are to be read. What the agent of a thread says
    /// is told with the event of its message.
    pub(super) fn of_journal(&self) -> Vec<String> {
        let of_chat = |kind: &&String| CHAT.iter().any(|(word, _)| word == kind);
        let mut kinds: Vec<String> = self.0.iter().filter(|k| !of_chat(k)).cloned().collect();
        if kinds.len() < self.0.len() {
            kinds.push(EventKind::Accepted.as_str().to_owned());
        }
        kinds
    }
}

fn kind(text: &str) -> Result<String, Failure> {
    let of_chat = CHAT.iter().map(|(word, _)| *word);
    let mut known = EventKind::ALL.iter().map(|(_, _, word)| *word).chain(of_chat);
    let fits = |word: &str| word == text || word.split('.').next() == Some(text);
    if known.clone().any(fits) {
        return Ok(text.to_owned());
    }
    let all: Vec<&str> = known.by_ref().collect();
    Err(invalid("types", format!("it is one of {}, or their first word", all.join(", "))))
}
