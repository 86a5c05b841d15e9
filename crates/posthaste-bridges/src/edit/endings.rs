//! Line endings: old lines keep theirs, new lines get the more frequent one.

use similar::{ChangeTag, TextDiff};

/// Returns the new text, in which every line of the old text keeps its line ending.
pub(super) fn kept(old: &str, new: &str) -> String {
    let crlf = old.matches("\r\n").count();
    if crlf == 0 {
        return new.to_owned();
    }
    let end = if 2 * crlf >= old.matches('\n').count() { "\r\n" } else { "\n" };
    let old_lines = lines(old);
    let (old_plain, new_plain) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    let (old_plain, new_plain) = (lines(&old_plain), lines(&new_plain));
    let mut text = String::with_capacity(new.len() + 64);
    for change in TextDiff::from_slices(&old_plain, &new_plain).iter_all_changes() {
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

/// Splits by our own rule: the diff library would also end a line at a lone `\r`.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
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

    #[test]
    fn a_return_inside_a_line_ends_no_line() {
        assert_eq!(kept("a\r\nb\rc\rd", "a\nb\rc\rd\ne\n"), "a\r\nb\rc\rd\r\ne\r\n");
    }
}
