//! Text in tones: a terminal shows colours, a pipe gets the text alone.
//!
//! A tone says what a word means, never which colour it has; the one table of colours
//! stands here. Text is escaped before it is painted, so no text of an agent can bring a
//! colour of its own.

use std::io;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use crate::cli::ColorWord;
use crate::terminal::tame;

/// The mark of a cut text.
const MORE: char = '…';

/// The meaning of a piece of text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    /// Heads, and the subject of a line.
    Strong,
    /// Details: times, numbers.
    Faint,
    /// Addresses of agents.
    Who,
    Good,
    Warn,
    Bad,
}

impl Tone {
    fn style(self) -> Style {
        let of = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
        match self {
            Self::Plain => Style::new(),
            Self::Strong => Style::new().bold(),
            Self::Faint => Style::new().dimmed(),
            Self::Who => of(AnsiColor::Cyan),
            Self::Good => of(AnsiColor::Green),
            Self::Warn => of(AnsiColor::Yellow),
            Self::Bad => of(AnsiColor::Red).bold(),
        }
    }

    /// Returns the tone of a delivery's, an instance's or a check's state.
    pub(crate) fn of_state(word: &str) -> Self {
        match word.split([',', ' ', '.']).next_back().unwrap_or(word) {
            "acked" | "running" | "finished" | "ok" | "joined" | "settled" => Self::Good,
            "queued" | "leased" | "starting" | "lost" | "warn" | "returned" => Self::Warn,
            "dead" | "failed" | "fail" => Self::Bad,
            "away" | "stopped" | "ended" => Self::Faint,
            _ => Self::Plain,
        }
    }
}

/// Pieces of text, each in its tone. Every piece is escaped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text(Vec<(Tone, String)>);

impl Text {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a piece at the end.
    pub(crate) fn add(mut self, tone: Tone, piece: impl AsRef<str>) -> Self {
        self.0.push((tone, tame(piece.as_ref()).into_owned()));
        self
    }

    pub(crate) fn plain(self, piece: impl AsRef<str>) -> Self {
        self.add(Tone::Plain, piece)
    }

    /// Adds another text at the end.
    pub(crate) fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns the width of the text on a terminal, if it is one line.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, piece)| piece.width()).sum()
    }

    /// Returns one line of at most so many columns.
    pub(crate) fn line(self, columns: Option<usize>) -> Self {
        let one = |(tone, piece): (Tone, String)| (tone, piece.replace(['\n', '\t'], " "));
        let line = Self(self.0.into_iter().map(one).collect());
        let Some(columns) = columns.filter(|columns| line.width() > *columns) else { return line };
        let mut left = columns.saturating_sub(1);
        let mut kept = Vec::new();
        for (tone, piece) in line.0 {
            let fits = clip_at(&piece, left);
            left = left.saturating_sub(piece[..fits].width());
            kept.push((tone, piece[..fits].to_owned()));
            if fits < piece.len() {
                kept.push((Tone::Faint, MORE.to_string()));
                break;
            }
        }
        Self(kept)
    }

    /// Returns the text with or without colours.
    pub(crate) fn render(&self, colours: bool) -> String {
        let painted = |(tone, piece): &(Tone, String)| {
            let style = tone.style();
            match colours && *tone != Tone::Plain && !piece.is_empty() {
                true => format!("{style}{piece}{style:#}"),
                false => piece.clone(),
            }
        };
        self.0.iter().map(painted).collect()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::new().plain(text)
    }
}

/// Returns how many bytes of a text fit into so many columns. A grapheme may have several
/// characters, so the width of a text is not the sum of theirs; and a text may have a
/// million characters without width, so the search is binary.
pub(crate) fn clip_at(text: &str, columns: usize) -> usize {
    if text.width() <= columns {
        return text.len();
    }
    let (mut fits, mut beyond) = (0_usize, text.len());
    loop {
        let middle = match text.floor_char_boundary(fits.midpoint(beyond)) {
            middle if middle > fits => middle,
            _ => text.ceil_char_boundary(fits + 1),
        };
        if middle == beyond {
            return fits;
        }
        match text[..middle].width() <= columns {
            true => fits = middle,
            false => beyond = middle,
        }
    }
}

/// Returns a text of at most so many columns, with a mark if it was cut.
pub(crate) fn clipped(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let kept = text[..clip_at(text, columns.saturating_sub(1))].trim_end();
    format!("{kept}{MORE}")
}

/// Returns the lines of a text, each of at most so many columns, broken at a space where
/// there is one. Nothing is left out.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let text = tame(text).replace('\t', "    ");
    let mut lines = Vec::new();
    for mut line in text.trim_end().split('\n') {
        while line.width() > columns && line.chars().nth(1).is_some() {
            let most = clip_at(line, columns).max(line.ceil_char_boundary(1));
            let at = match line[..most].rfind(' ') {
                Some(space) if space > most / 2 => space + 1,
                _ => most,
            };
            lines.push(line[..at].to_owned());
            line = &line[at..];
        }
        lines.push(line.to_owned());
    }
    lines
}

/// Returns whether output to this stream has colours. `NO_COLOR`, `CLICOLOR_FORCE` and a
/// terminal without colours count unless the caller decides.
pub(crate) fn colours(word: ColorWord, stream: &impl anstream::stream::RawStream) -> bool {
    match word {
        ColorWord::Always => true,
        ColorWord::Never => false,
        ColorWord::Auto => anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never,
    }
}

/// Returns the width of the terminal, if this stream is one.
pub(crate) fn columns(stream: &(impl io::IsTerminal + std::os::fd::AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    // A terminal that does not know its size gets the usual width.
    Some(if size.ws_col == 0 { 80 } else { usize::from(size.ws_col) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pipe_gets_the_text_and_a_terminal_its_colours() {
        let text = Text::new().add(Tone::Bad, "dead").plain(" letter");
        assert_eq!(text.render(false), "dead letter");
        let painted = text.render(true);
        assert!(painted.starts_with("\u{1b}[") && painted.ends_with(" letter"), "{painted:?}");
        assert!(painted.contains("\u{1b}[0m"), "the colour ends: {painted:?}");
    }

    #[test]
    fn no_text_of_an_agent_brings_a_colour_of_its_own() {
        let text = Text::new().add(Tone::Who, "\u{1b}[31mred").plain("\u{1b}[2J");
        assert_eq!(text.render(false), r"\u{1b}[31mred\u{1b}[2J");
        assert_eq!(text.render(true).matches('\u{1b}').count(), 2, "only ours");
    }

    #[test]
    fn a_line_is_cut_at_the_columns_that_it_takes() {
        let text = || Text::new().add(Tone::Who, "日本語").plain(": two\nlines");
        assert_eq!(text().line(None).render(false), "日本語: two lines");
        assert_eq!(text().line(Some(17)).render(false), "日本語: two lines", "it fits");
        assert_eq!(text().line(Some(10)).render(false), "日本語: t…");
        assert_eq!(text().line(Some(4)).render(false), "日…", "half a letter is none");
        assert_eq!(clipped("größer", 6), "größer");
        assert_eq!(clipped("größer", 4), "grö…");
        assert_eq!(clipped("日本語", 5), "日本…");
    }

    #[test]
    fn a_wrapped_text_has_every_letter_and_no_line_that_is_too_wide() {
        assert_eq!(wrapped("find . -name core", 8), ["find . ", "-name ", "core"]);
        assert_eq!(wrapped("one\n\ttwo\n", 80), ["one", "    two"]);
        let text = "日本語 and /a/very/long/path/without/any/space, \u{1b}[2J";
        for columns in 2..60 {
            let lines = wrapped(text, columns);
            assert!(lines.iter().all(|line| line.width() <= columns), "{columns}: {lines:?}");
            assert_eq!(lines.concat(), tame(text), "{columns}");
        }
        assert_eq!(wrapped("日本", 1), ["日", "本"], "a letter is not cut");
    }

    /// Graphemes of several code points, and letters whose width depends on their
    /// neighbours.
    const SIGNS: [&str; 12] =
        ["⚠️", "❤️", "1️⃣", "👩‍👩‍👧", "🇩🇪", "⌚\u{fe0e}", "é", "e\u{301}", "لا", "日", "\u{200d}", "x "];

    fn text() -> impl Strategy<Value = String> {
        let sign = prop::sample::select(SIGNS.as_slice()).prop_map(str::to_owned);
        let piece = prop_oneof![sign, any::<char>().prop_map(String::from)];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn whatever_the_letters_a_line_and_a_cell_stay_within_their_columns(
            texts in prop::collection::vec(text(), 1..4), columns in 1..80_usize,
        ) {
            let line = texts.iter().fold(Text::new(), |line, text| line.plain(text));
            prop_assert!(line.line(Some(columns)).width() <= columns);
            for text in &texts {
                prop_assert!(clipped(text, columns).width() <= columns);
                let fits = clip_at(text, columns);
                prop_assert!(text[..fits].width() <= columns);
                prop_assert!(fits < text.len() || text.width() <= columns, "it is marked as cut");
            }
        }
    }

    #[test]
    fn an_emoji_of_two_code_points_is_as_wide_as_it_is_shown() {
        assert_eq!(clipped("⚠️⚠️⚠️", 6), "⚠️⚠️⚠️");
        assert_eq!(clipped("⚠️⚠️⚠️", 5), "⚠️⚠️…");
        assert_eq!(clipped("👩‍👩‍👧👩‍👩‍👧", 3), "👩‍👩‍👧…");
    }

    #[test]
    fn a_state_has_the_tone_of_its_word() {
        assert_eq!(Tone::of_state("acked"), Tone::Good);
        assert_eq!(Tone::of_state("delivery.dead"), Tone::Bad);
        assert_eq!(Tone::of_state("message.accepted"), Tone::Plain);
    }
}
