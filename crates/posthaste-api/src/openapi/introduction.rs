//! What somebody who writes a client reads first: `introduction.md`, with the tables of
//! errors and of events made from the code.

use std::fmt::Write as _;

use posthaste_core::events::EventKind;

use crate::error::ErrorCode;
use crate::events::{CHAT, NOTICES, meaning};

const TEXT: &str = include_str!("introduction.md");

/// Markdown.
pub(super) fn text() -> String {
    TEXT.replace("{{errors}}\n", &errors()).replace("{{events}}\n", &events())
}

fn errors() -> String {
    let mut table =
        String::from("| Code | HTTP | What it means | What to do |\n| --- | --- | --- | --- |\n");
    for code in ErrorCode::ALL {
        let (word, status) = (code.as_str(), code.status());
        let (meaning, advice) = (code.meaning(), code.advice());
        let _ = writeln!(table, "| `{word}` | {status} | {meaning} | {advice} |");
    }
    table
}

fn events() -> String {
    let mut table = String::from("| `event:` | What it means |\n| --- | --- |\n");
    for (kind, _, word) in EventKind::ALL {
        let _ = writeln!(table, "| `{word}` | {} |", meaning(kind));
    }
    for (word, meaning) in CHAT.into_iter().chain(NOTICES) {
        let _ = writeln!(table, "| `{word}` | {meaning} |");
    }
    table
}
