//! Dialects: the tools of other programs, as tables of names over the same calls.
//!
//! A dialect lists its own tools instead of the native ones, with the names,
//! parameters and answers that its users know. It has no rules of its own.

mod assistant;
mod cao;
mod chat;
mod herd;

use std::str::FromStr;

use posthaste_api::error::{ApiError, ErrorCode};

use super::tools::{NATIVE, Tool};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Native,
    Cao,
    Assistant,
    Herd,
    Chat,
}

impl Dialect {
    pub(crate) const ALL: [(Self, &'static str); 5] = [
        (Self::Native, "native"),
        (Self::Cao, "cao"),
        (Self::Assistant, "assistant"),
        (Self::Herd, "herd"),
        (Self::Chat, "chat"),
    ];

    pub(crate) fn tools(self) -> &'static [Tool] {
        match self {
            Self::Native => NATIVE,
            Self::Cao => cao::TOOLS,
            Self::Assistant => assistant::TOOLS,
            Self::Herd => herd::TOOLS,
            Self::Chat => chat::TOOLS,
        }
    }

    pub(crate) fn tool(self, name: &str) -> Option<&'static Tool> {
        let name = match self {
            Self::Assistant => name.strip_prefix(assistant::PREFIX).unwrap_or(name),
            _ => name,
        };
        self.tools().iter().find(|tool| tool.name == name)
    }
}

impl FromStr for Dialect {
    type Err = ApiError;

    fn from_str(word: &str) -> Result<Self, ApiError> {
        let found = Self::ALL.iter().find(|(_, known)| *known == word);
        found.map(|(dialect, _)| *dialect).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|(_, word)| *word).collect();
            let why = format!("dialect: it is one of {}", known.join(", "));
            ApiError::new(ErrorCode::InvalidArgument, why)
        })
    }
}
