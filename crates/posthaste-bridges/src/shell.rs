//! Command lines as a shell reads them.

/// Returns one line that a shell splits into exactly these words.
pub(crate) fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Seconds after which a hook is killed, on systems that have `timeout`.
const LIMIT_S: u32 = 3;

/// Returns a line that runs these words for a program that waits for it, and cannot harm
/// that program: even if the command is missing, killed or hanging, the line ends with 0,
/// writes nothing to stderr, and prints one whole JSON object or nothing. The program
/// never finds the pipe closed that it writes to.
pub(crate) fn harmless<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    format!(
        "{{ r() {{ if command -v timeout >/dev/null; then timeout -s KILL {LIMIT_S} \"$@\"; \
         else \"$@\"; fi; }}; o=$(r {}) && case $o in '{{\"'*'}}') printf '%s\\n' \"$o\";; esac; \
         read -r o && r cat >/dev/null; }} 2>/dev/null || :",
        line(words)
    )
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,=%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_word_stays_plain_and_any_other_is_quoted() {
        assert_eq!(line(["/bin/posthaste", "hook", "stop"]), "/bin/posthaste hook stop");
        assert_eq!(line(["/my bin/it's", "$HOME", ""]), r"'/my bin/it'\''s' '$HOME' ''");
    }
}
