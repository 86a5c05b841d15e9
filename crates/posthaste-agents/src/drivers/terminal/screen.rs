//! The text of a screen, and how a typed text is found again on it.
//!
//! A program shows what was typed in its own way: it breaks lines, indents them and draws
//! a frame around them. Only letters and digits are compared.

use std::ops::Range;

/// Number of bytes of a screen that are kept; of a larger one the end is.
const SCREEN_BYTES: usize = 64 * 1024;

/// Number of letters and digits at the end of a text by which the text is found again.
const TAIL: usize = 24;

/// Returns rows as a text, without spaces at the ends of lines and without empty lines at
/// the end.
pub(super) fn text(rows: &[String]) -> String {
    let mut text = all(rows);
    let from = text.len().saturating_sub(SCREEN_BYTES);
    text.split_off(text.ceil_char_boundary(from))
}

/// Returns the same of a screen with its history, whole.
pub(super) fn all(rows: &[String]) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns the last letters and digits of a text.
pub(super) fn tail_of(text: &str) -> String {
    let mut last: Vec<char> = text.chars().rev().filter(|c| counts(*c)).take(TAIL).collect();
    last.reverse();
    last.into_iter().collect()
}

/// Returns whether a text ends with these letters and digits.
pub(super) fn ends_with(text: &str, tail: &str) -> bool {
    let mut shown = text.chars().rev().filter(|c| counts(*c));
    tail.chars().rev().all(|c| shown.next() == Some(c))
}

/// Returns where the lines end in which each place with these letters and digits ends.
/// Places do not overlap.
pub(super) fn places(text: &str, tail: &str) -> Vec<usize> {
    let shown: Vec<(usize, char)> = text.char_indices().filter(|(_, c)| counts(*c)).collect();
    let tail: Vec<char> = tail.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while !tail.is_empty() && at + tail.len() <= shown.len() {
        let here = &shown[at..at + tail.len()];
        if here.iter().map(|(_, c)| c).eq(&tail) {
            found.push(end_of_line(text, here[tail.len() - 1].0));
            at += tail.len();
        } else {
            at += 1;
        }
    }
    found
}

/// Returns where the line ends to which this byte belongs.
pub(super) fn end_of_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end)
}

/// Removes empty lines at both ends, and lines of a frame at the end.
pub(super) fn trimmed(answer: &str) -> &str {
    let mut kept = answer.trim_end();
    while let Some(last) = kept.lines().next_back()
        && last.chars().all(|c| c.is_whitespace() || is_frame(c))
    {
        kept = kept[..kept.len() - last.len()].trim_end();
    }
    let begin = kept.len() - kept.trim_start().len();
    // The first line keeps its indentation.
    let begin = kept[..begin].rfind('\n').map_or(0, |at| at + 1);
    &kept[begin..]
}

/// Returns a part of a text that begins within a line, behind a mark of the program: the
/// lines that follow are indented by the width of that mark.
pub(super) fn part(text: &str, range: Range<usize>) -> String {
    let line = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let mark = text[line..range.start].chars().count();
    let part = trimmed(&text[range]);
    let indent = |line: &str| line.chars().take(mark).take_while(|c| *c == ' ').count();
    let lines = part.lines().skip(1).filter(|line| !line.trim().is_empty());
    let indent = lines.map(indent).min().unwrap_or(0);
    let mut lines = part.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |all, line| all + "\n" + line.get(indent..).unwrap_or_default())
}

fn counts(c: char) -> bool {
    c.is_alphanumeric()
}

fn is_frame(c: char) -> bool {
    ('\u{2500}'..='\u{259f}').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<String> {
        text.split('\n').map(str::to_owned).collect()
    }

    #[test]
    fn a_screen_is_text_without_what_nobody_sees() {
        assert_eq!(text(&rows("> a  \n\n  b \n   \n")), "> a\n\n  b");
        assert_eq!(text(&[]), "");
        let huge = text(&[format!("{}end", "\u{e4}".repeat(SCREEN_BYTES))]);
        assert!(huge.len() <= SCREEN_BYTES && huge.ends_with("\u{e4}end"));
    }

    #[test]
    fn a_typed_text_is_found_in_a_frame_and_over_several_lines() {
        let tail = tail_of("Please count the words of README.md, and then \u{2026} stop!");
        assert_eq!(tail, "rdsofREADMEmdandthenstop");
        let tail = tail_of("count the words, then stop!");
        let box_ = "\u{256d}\u{2500}\u{2500}\u{256e}\n\u{2502} > count the   \u{2502}\n\u{2502}   words, then \u{2502}\n\u{2502}   stop!     \u{2502}\n\u{2570}\u{2500}\u{256f}";
        let found = places(box_, &tail);
        assert_eq!(found.len(), 1);
        assert_eq!(box_[found[0]..].trim(), "\u{2570}\u{2500}\u{256f}");
        assert!(ends_with(box_, &tail) && !ends_with("count the words, then stop! x", &tail));
        assert_eq!(places("hello\n> MOCK: hello\n>", "hello"), [5, 19]);
        assert_eq!(places("anything", ""), Vec::<usize>::new());
    }

    #[test]
    fn the_indentation_behind_a_mark_of_the_program_is_not_the_answers() {
        let text = "x\n* one\n\n  two\n    three\n";
        assert_eq!(part(text, 4..text.len()), "one\n\ntwo\n  three");
        assert_eq!(part(text, 2..text.len()), "* one\n\n  two\n    three");
        assert_eq!(part("* a\nb", 2..5), "a\nb");
        assert_eq!(part("", 0..0), "");
    }

    #[test]
    fn an_answer_loses_empty_lines_and_frames_around_it() {
        assert_eq!(trimmed("\n\n  one\n}\n\n\u{256d}\u{2500}\u{256e}\n\n"), "  one\n}");
        assert_eq!(trimmed("\n \n"), "");
        assert_eq!(trimmed("x"), "x");
    }
}
