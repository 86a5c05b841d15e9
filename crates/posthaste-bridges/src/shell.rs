//! Command lines as a shell reads them.

/// One line that a shell splits into exactly these words.
pub(crate) fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
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
