//! The ends of lines: old ones stay, new ones are like most.

use similar::{ChangeTag, TextDiff};

/// The new text, with every line that was there before as it was.
pub(super) fn kept(old: &str, new: &str) -> String {
    let crlf = old.matches("\r\n").count();
    if crlf == 0 {
        return new.to_owned();
    }
    let end = if 2 * crlf >= old.matches('\n').count() { "\r\n" } else { "\n" };
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let (old_plain, new_plain) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    let mut text = String::with_capacity(new.len() + 64);
    for change in TextDiff::from_lines(&old_plain, &new_plain).iter_all_changes() {
        match (change.tag(), change.old_index()) {
            (ChangeTag::Equal, Some(line)) => text.push_str(old_lines[line]),
            (ChangeTag::Insert, _) => match change.value().strip_suffix('\n') {
                Some(line) => text.extend([line, end]),
                None => text.push_str(change.value()),
            },
            _ => (),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_lines_keep_their_ends_and_new_ones_follow_the_many() {
        assert_eq!(kept("a\r\nb\nc\r\n", "a\nb\nx\nc\n"), "a\r\nb\nx\r\nc\r\n");
        assert_eq!(kept("a\nb\n", "a\nb\nc\n"), "a\nb\nc\n");
        assert_eq!(kept("a\r\nb", "a\nb\nc"), "a\r\nb\r\nc");
    }
}
