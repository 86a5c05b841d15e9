//! What is typed into a terminal: texts, keys, and the commands of tmux that do it.
//!
//! A mail's text is data. Before it is typed, it loses every control character: a text
//! with the end mark of a paste in it could otherwise press keys. A text that begins with
//! a character which programs take for a command of their own (`/exit`, `!rm`) gets a
//! word before it.

use std::fmt::Write;

use crate::tmux;

/// The word before a text that a program could take for a command of its own.
const FIRST_WORD: &str = "Task: ";

/// Names of keys, beside characters, `C-x`, `M-x` and `F1` to `F12`.
const KEYS: [&str; 14] = [
    "BSpace", "BTab", "Delete", "Down", "End", "Enter", "Escape", "Home", "Left", "PageDown",
    "PageUp", "Right", "Space", "Tab",
];

/// The longest text that is typed as one line, in bytes. A program that reads whole lines
/// gets 4,095 bytes of a line from its terminal, and loses the rest.
pub(super) const LINE: usize = 4_000;

/// The end of a text that was too long for a line.
const CLIPPED: &str = " [posthaste: clipped here, read it again with read_messages]";

/// Returns a text that fits into one line.
pub(super) fn clipped(mut typed: String) -> String {
    if typed.len() > LINE {
        typed.truncate(typed.floor_char_boundary(LINE - CLIPPED.len()));
        typed.push_str(CLIPPED);
    }
    typed
}

/// Returns the text as it is typed: in one line, unless the program takes several.
pub(super) fn typed(text: &str, multiline: bool) -> String {
    let text = text.trim();
    let mut typed = String::with_capacity(text.len() + FIRST_WORD.len());
    if !text.starts_with(|c: char| c.is_alphanumeric() || c == '[') {
        typed.push_str(FIRST_WORD);
    }
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            '\n' if multiline => typed.push('\n'),
            '\n' | '\t' | '\r' => typed.push(' '),
            c if c.is_control() => typed.push('\u{fffd}'),
            c => typed.push(c),
        }
    }
    typed
}

/// Returns the commands that put a typed text into a pane: two, each with an answer.
pub(super) fn paste(pane: &str, typed: &str) -> String {
    // The place of the text inside tmux, which is the pane's own; the paste removes it.
    let buffer = pane.replace('%', "posthaste-");
    let typed = String::from_utf8_lossy(&tmux::quoted(typed.as_bytes())).into_owned();
    // -p: as one paste, if the program knows pastes; -r: line ends stay line ends.
    format!("set-buffer -b {buffer} {typed}\npaste-buffer -p -r -d -b {buffer} -t {pane}\n")
}

/// Returns the command that asks for the history and the screen of a pane, with wrapped
/// rows as one line.
pub(super) fn all(pane: &str) -> String {
    format!("capture-pane -p -J -S - -t {pane}\n")
}

/// Returns the command that presses keys.
pub(super) fn press(pane: &str, keys: &str) -> String {
    let mut line = format!("send-keys -t {pane} --");
    for key in keys.split_whitespace() {
        let _ = write!(line, " '{key}'");
    }
    line.push('\n');
    line
}

/// Returns whether these are names of keys, one or more.
pub(super) fn are_keys(keys: &str) -> bool {
    let is_key = |key: &str| {
        let plain = |key: &str| {
            let mut chars = key.chars();
            chars.next().is_some_and(|c| c.is_alphanumeric()) && chars.next().is_none()
        };
        let function = |key: &str| {
            let number = key.strip_prefix('F').and_then(|number| number.parse::<u8>().ok());
            number.is_some_and(|number| (1..=12).contains(&number))
        };
        let bare = key.strip_prefix("C-").or_else(|| key.strip_prefix("M-")).unwrap_or(key);
        plain(bare) || function(bare) || KEYS.contains(&bare)
    };
    !keys.trim().is_empty() && keys.split_whitespace().all(is_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_presses_no_keys() {
        let evil = "hi\u{1b}[201~\rrm -rf ~\u{7}\u{9b}x\tend\r\n";
        let expected = "hi\u{fffd}[201~ rm -rf ~\u{fffd}\u{fffd}x end";
        assert_eq!(typed(evil, false), expected);
        assert_eq!(typed("one\r\n\n\ttwo", true), "one\n\n two");
        assert_eq!(typed("one\r\n\n\ttwo", false), "one   two");
    }

    #[test]
    fn a_text_is_no_command_of_the_program() {
        for command in ["/exit", "!rm -rf ~", "#note", "@file", ":q", "", "  /clear"] {
            assert!(typed(command, true).starts_with("Task: "), "{command}");
        }
        for text in ["exit", "42", "\u{fc}ber", "[posthaste] You have mail."] {
            assert_eq!(typed(text, true), text);
        }
    }

    #[test]
    fn the_words_of_a_text_stay_words_of_the_text() {
        let line = paste("%3", "a \"b\" \\ $HOME\n'c'; kill-server #{pid} ~");
        let (set, paste) = line.trim_end().split_once('\n').expect("two commands");
        assert_eq!(
            set,
            r#"set-buffer -b posthaste-3 "a \"b\" \\ \$HOME\n'c'; kill-server #{pid} \~""#
        );
        assert_eq!(paste, "paste-buffer -p -r -d -b posthaste-3 -t %3");
        assert_eq!(press("%3", "C-c Enter"), "send-keys -t %3 -- 'C-c' 'Enter'\n");
    }

    #[test]
    fn keys_have_names() {
        for keys in ["C-c", "Escape", "Escape Escape", "1 Enter", "F10", "M-x", "y"] {
            assert!(are_keys(keys), "{keys}");
        }
        for keys in ["", " ", "Escpe", "C-", "'; kill-server", "F13", "ab", "$x", "\n"] {
            assert!(!are_keys(keys), "{keys}");
        }
    }
}
