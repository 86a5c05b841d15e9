//! The greeting of a hub: its address, and what to try next.

use std::path::Path;

use serde_json::json;

use crate::config;
use crate::failure::Failure;
use crate::identity::{DataFolder, Running};
use crate::output::Output;

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) struct Greeting<'a> {
    pub(super) hub: &'a Running,
    pub(super) folder: &'a DataFolder,
    pub(super) ephemeral: bool,
    /// The log of a hub in the background.
    pub(super) log: Option<&'a Path>,
}

impl Greeting<'_> {
    pub(super) fn say(&self, output: &mut Output) -> Result<(), Failure> {
        match output.json() {
            true => self.answer(output),
            false => output.say(&self.text()),
        }
    }

    fn answer(&self, output: &mut Output) -> Result<(), Failure> {
        let mut answer = json!({
            "status": "listening",
            "url": self.hub.url,
            "pid": self.hub.pid,
            "data": self.folder.path(),
            "durable": !self.ephemeral,
            "version": VERSION,
        });
        if let Some(log) = self.log {
            answer["log"] = json!(log);
        }
        output.answer(&answer)
    }

    fn text(&self) -> String {
        let Running { url, pid, .. } = self.hub;
        let data = self.folder.path();
        let mut text = format!("posthaste {VERSION} is listening at {url} (pid {pid})\n");
        if self.ephemeral {
            text.push_str("messages: in memory only, gone when the hub stops\n");
        }
        let folder = if self.ephemeral { "tokens:  " } else { "data:" };
        text.push_str(&format!("{folder} {}\n", data.display()));
        if let Some(log) = self.log {
            let word = if self.ephemeral { "log:     " } else { "log: " };
            text.push_str(&format!("{word} {}\n", log.display()));
        }
        let place = if self.log.is_some() { "try" } else { "try in another terminal" };
        text.push_str(&format!("\n{place}:\n"));
        if config::default_data_folder().is_ok_and(|usual| usual != data) {
            text.push_str(&format!(
                "  export POSTHASTE_DATA={}\n",
                quoted(&data.to_string_lossy())
            ));
        }
        text.push_str(
            "  posthaste join alice\n  posthaste join bob\n  \
             posthaste send bob \"the build is green\" --as alice\n  \
             posthaste inbox --as bob\n\n",
        );
        text.push_str(match self.log {
            Some(_) => "`posthaste down` stops the hub.",
            None => "Ctrl-C stops the hub.",
        });
        text
    }
}

/// Returns one word for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_spaces_is_still_one_word_for_a_shell() {
        assert_eq!(quoted("/home/me/.local/share"), "/home/me/.local/share");
        assert_eq!(quoted("/tmp/my data"), "'/tmp/my data'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
