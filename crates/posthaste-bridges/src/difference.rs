//! A change, shown to a person.

use similar::TextDiff;

/// Number of unchanged lines shown before and after a change.
const AROUND: usize = 3;

/// The kind of one line of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A line about the file or the place in it.
    Head,
    Added,
    Removed,
    Same,
}

/// Returns the change in the form of `diff -u`; an empty text if nothing changes.
pub fn unified(name: &str, old: Option<&str>, new: Option<&str>) -> String {
    let from = if old.is_some() { name } else { "/dev/null" };
    let to = if new.is_some() { name } else { "/dev/null" };
    let texts = TextDiff::from_lines(old.unwrap_or_default(), new.unwrap_or_default());
    texts.unified_diff().context_radius(AROUND).header(from, to).to_string()
}

/// Returns the kind of a line of [`unified`].
pub fn kind(line: &str) -> Kind {
    match line.as_bytes() {
        [b'-', b'-', b'-', b' ', ..] | [b'+', b'+', b'+', b' ', ..] | [b'@', ..] => Kind::Head,
        [b'+', ..] => Kind::Added,
        [b'-', ..] => Kind::Removed,
        _ => Kind::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_the_file_and_marks_its_lines() {
        let told = unified("a.json", Some("one\ntwo\n"), Some("one\n2\n"));
        assert_eq!(told, "--- a.json\n+++ a.json\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
        let kinds: Vec<Kind> = told.lines().map(kind).collect();
        use Kind::{Added, Head, Removed, Same};
        assert_eq!(kinds, [Head, Head, Head, Same, Removed, Added]);
        assert!(unified("a.json", None, Some("x\n")).starts_with("--- /dev/null\n+++ a.json\n"));
        assert_eq!(unified("a.json", Some("x"), Some("x")), "");
    }
}
