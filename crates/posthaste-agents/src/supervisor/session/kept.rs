//! The state of a conversation that outlives the hub.
//!
//! The hub writes it before it acts on it: bytes for the worker stand here until the
//! keeper has accepted them, and the worker's output is confirmed only after the state
//! that came of it is written. So the next hub writes again what the keeper may not have,
//! which leaves out what it has, and hears again what was not confirmed.

use std::io;

use posthaste_core::messaging::message::Seq;
use posthaste_core::ports::Token;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::{HubCall, PermissionRequest, PromptNo, TOKEN};
use crate::folder::{self, Folder};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Kept {
    /// The name of the driver.
    pub(super) driver: String,
    /// The worker has a terminal, and its conversation goes through tmux.
    pub(super) terminal: bool,
    /// The driver's own state.
    pub(super) state: Value,
    /// Number of bytes of the worker's output that this state came of.
    pub(super) heard: u64,
    /// The rest of an over-long line is being skipped.
    pub(super) skips: bool,
    /// Number of bytes that the keeper had accepted before `unsent`.
    pub(super) accepted: u64,
    /// Input that the keeper may not have accepted yet.
    pub(super) unsent: Vec<Piece>,
    /// The task, until it was written as the first prompt.
    pub(super) task: Option<Task>,
    /// The number of the last prompt.
    pub(super) last_prompt: PromptNo,
    /// Prompts whose turn has not ended.
    pub(super) prompts: Vec<Prompt>,
    /// Requests for permission that wait for a verdict.
    pub(super) asked: Vec<Asked>,
    /// Calls of the program that are not answered.
    pub(super) calls: Vec<HubCall>,
    /// The hub cut the last turn for urgent mail.
    pub(super) cut: bool,
    /// Number of turns that have failed since the last one that did not.
    pub(super) failures: u32,
    /// Number of requests for permission so far.
    pub(super) requests: u64,
    pub(super) last_answer: Option<String>,
    /// The program's own id of the conversation.
    pub(super) conversation: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) seq: u64,
    pub(super) text: String,
}

/// Input for the worker. The token is put in when it is written, and kept nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    pub(super) text: String,
    /// Its length with the token, if it has one: the next hub has no token, and must count
    /// as the keeper does.
    #[serde(default)]
    pub(super) with_token: Option<u64>,
}

/// A prompt with the mail that it carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Prompt {
    pub(super) no: PromptNo,
    pub(super) mail: Vec<u64>,
    /// The worker's output showed that its model was given the prompt.
    pub(super) began: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// The program's own id of the request, which it may use again.
    pub(super) request: String,
    /// The number of the request within the conversation.
    #[serde(default)]
    pub(super) no: u64,
    pub(super) subject: String,
    pub(super) text: String,
}

impl Asked {
    pub(super) fn new(no: u64, asked: PermissionRequest) -> Self {
        let PermissionRequest { request, subject, text } = asked;
        Self { request, no, subject, text }
    }

    /// Returns the name of the request, which no other request of the worker has.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.no, self.request)
    }
}

impl Prompt {
    pub(super) fn seqs(&self) -> Vec<Seq> {
        self.mail.iter().copied().map(Seq).collect()
    }
}

impl Piece {
    pub(super) fn plain(text: String) -> Self {
        Self { text, with_token: None }
    }

    /// Makes input in which each [`TOKEN`] stands for this token.
    pub(super) fn with_token(text: String, token: &Token) -> Self {
        let length = text.replace(TOKEN, &token.0).len();
        Self { text, with_token: Some(length as u64) }
    }

    /// Returns the bytes for the worker; `None` if they have a token that is not known.
    pub(super) fn bytes(&self, token: Option<&Token>) -> Option<Vec<u8>> {
        match (self.with_token, token) {
            (None, _) => Some(self.text.clone().into_bytes()),
            (Some(_), Some(token)) => Some(self.text.replace(TOKEN, &token.0).into_bytes()),
            (Some(_), None) => None,
        }
    }

    /// Returns the number of its bytes, as the keeper counts them.
    pub(super) fn length(&self) -> u64 {
        self.with_token.unwrap_or(self.text.len() as u64)
    }
}

impl Kept {
    pub(super) fn read(folder: &Folder) -> Option<Self> {
        let text = std::fs::read(folder.session_state()).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(super) fn write(&self, folder: &Folder) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        folder::replace(&folder.session_state(), &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_with_a_token_has_its_length_also_for_a_hub_that_has_no_token() {
        let token = Token("geheim".to_owned());
        let piece = Piece::with_token(format!("{{\"a\":\"{TOKEN}\"}}\n"), &token);
        let bytes = piece.bytes(Some(&token)).expect("the token is known");
        assert_eq!(bytes, b"{\"a\":\"geheim\"}\n");
        let kept = serde_json::to_string(&piece).expect("JSON");
        assert!(!kept.contains("geheim"), "{kept}");
        let again: Piece = serde_json::from_str(&kept).expect("JSON");
        assert_eq!((again.length(), again.bytes(None)), (bytes.len() as u64, None));
        assert_eq!(Piece::plain("ä\n".to_owned()).length(), 3);
    }
}
