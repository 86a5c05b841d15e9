//! Tables, fitted to the terminal.

use unicode_width::UnicodeWidthStr;

use crate::paint::{Text, Tone, clipped};
use crate::terminal::tame;

/// Number of spaces between two columns.
const GAP: usize = 2;
/// A column that would have to be narrower than this is left out instead.
const NARROW: usize = 8;

/// One cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    tone: Tone,
    text: String,
}

impl Cell {
    pub(crate) fn new(tone: Tone, text: impl AsRef<str>) -> Self {
        // A cell is one line, also if a name contains line breaks.
        Self { tone, text: tame(text.as_ref()).replace(['\n', '\t'], " ") }
    }

    /// Makes a cell with the word of a state, in its tone.
    pub(crate) fn state(word: &str) -> Self {
        Self::new(Tone::of_state(word), word)
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(Tone::Plain, text)
    }
}

/// Returns a table that fits into so many columns of a terminal. Its column `whole` is
/// never cut; the others are, the widest first, and if that is not enough the last ones
/// are left out.
pub(crate) fn table<const N: usize>(
    head: [&str; N],
    whole: usize,
    rows: impl IntoIterator<Item = [Cell; N]>,
    columns: Option<usize>,
) -> Text {
    list(head, whole, rows.into_iter().map(|row| (row, Text::new())), columns)
}

/// Returns the same with a text below each row, which is not cut.
pub(crate) fn list<const N: usize>(
    head: [&str; N],
    whole: usize,
    rows: impl IntoIterator<Item = ([Cell; N], Text)>,
    columns: Option<usize>,
) -> Text {
    let head = head.map(|word| Cell::new(Tone::Strong, word));
    let rows: Vec<_> = std::iter::once((head, Text::new())).chain(rows).collect();
    let widest = |at: usize| rows.iter().map(|(row, _)| row[at].text.width()).max().unwrap_or(0);
    let mut widths: [usize; N] = std::array::from_fn(widest);
    if let Some(columns) = columns {
        fit(&mut widths, whole, columns);
    }
    let mut text = Text::new();
    for (n, (row, below)) in rows.into_iter().enumerate() {
        if n > 0 {
            text = text.plain("\n");
        }
        let shown = row.iter().zip(widths).filter(|(_, width)| *width > 0);
        let mut pad = 0;
        // No spaces follow the last word of a row.
        for (cell, width) in shown {
            let word = clipped(&cell.text, width);
            if !word.is_empty() {
                text = text.plain(" ".repeat(std::mem::take(&mut pad)));
            }
            pad += width.saturating_sub(word.width()) + GAP;
            text = text.add(cell.tone, word);
        }
        text = text.then(below);
    }
    text
}

/// Narrows columns; those that are left out get width 0.
fn fit(widths: &mut [usize], whole: usize, columns: usize) {
    let taken =
        |widths: &[usize]| widths.iter().filter(|w| **w > 0).map(|w| w + GAP).sum::<usize>();
    while taken(widths) > columns + GAP {
        let others = || (0..widths.len()).filter(|at| *at != whole && widths[*at] > 0);
        let widest = others().max_by_key(|at| widths[*at]);
        match (widest.filter(|at| widths[*at] > NARROW), others().next_back()) {
            (Some(widest), _) => widths[widest] -= 1,
            (None, Some(last)) => widths[last] = 0,
            (None, None) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(columns: Option<usize>) -> String {
        let row = |cells: [&str; 3]| cells.map(Cell::from);
        let rows =
            [row(["alice.a3f7b2c1@main", "reads what others write", "3"]), row(["日本", "", ""])];
        table(["ADDRESS", "WHAT", "UNREAD"], 0, rows, columns).render(false)
    }

    #[test]
    fn the_columns_stand_under_their_heads_whatever_the_letters() {
        assert_eq!(
            shown(None),
            "ADDRESS              WHAT                     UNREAD\n\
             alice.a3f7b2c1@main  reads what others write  3\n\
             日本"
        );
    }

    #[test]
    fn a_narrow_terminal_cuts_the_widest_column_and_never_the_important_one() {
        assert_eq!(
            shown(Some(40)),
            "ADDRESS              WHAT         UNREAD\n\
             alice.a3f7b2c1@main  reads what…  3\n\
             日本"
        );
        let narrower = "ADDRESS              WHAT\nalice.a3f7b2c1@main  reads w…\n日本";
        assert_eq!(shown(Some(30)), narrower, "a column is left out");
        assert_eq!(shown(Some(10)), "ADDRESS\nalice.a3f7b2c1@main\n日本");
    }

    #[test]
    fn a_cell_is_one_line_without_control_characters() {
        let rows = [[Cell::from("two\nlines\u{1b}[2J"), Cell::state("dead")]];
        let told = table(["A", "B"], 0, rows, None).render(false);
        assert_eq!(told.lines().nth(1), Some(r"two lines\u{1b}[2J  dead"));
    }
}
