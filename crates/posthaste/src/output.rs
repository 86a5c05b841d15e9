//! All output of the program: answers on stdout, notes and errors on stderr.
//!
//! Everything that a person sees is escaped here, so no command can forget it. An answer
//! counts as shown only after [`Output::flush`].

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};

use posthaste_api::error::ErrorBody;
use posthaste_api::{ApiError, ErrorCode};
use serde::Serialize;

use crate::cli::ColorWord;
use crate::failure::Failure;
use crate::paint::{self, Text, Tone};
use crate::table::{Cell, list, table};
use crate::terminal::{tame, tame_json};
use crate::words::spoken;

pub(crate) struct Output {
    json: bool,
    /// Stdout is a terminal, and no file or pipe.
    terminal: bool,
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    /// Use of colours on stdout and on stderr.
    colours: (bool, bool),
    /// The width of the terminal, if stdout is one.
    columns: Option<usize>,
}

impl Output {
    /// Writes to the stdout and stderr of this process.
    pub(crate) fn new(json: bool, color: ColorWord) -> Self {
        let colours = match json {
            true => (false, false),
            false => (paint::colours(color, &io::stdout()), paint::colours(color, &io::stderr())),
        };
        let terminal = io::stdout().is_terminal();
        let out = Box::new(BufWriter::new(io::stdout()));
        let columns = paint::columns(&io::stdout());
        Self { json, terminal, out, err: Box::new(io::stderr()), colours, columns }
    }

    /// Returns whether the caller is a program.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Writes one line (or a text of several) for people.
    pub(crate) fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.paint(&Text::from(text))
    }

    /// Writes the same in its tones.
    pub(crate) fn paint(&mut self, text: &Text) -> Result<(), Failure> {
        writeln!(self.out, "{}", text.render(self.colours.0)).map_err(Failure::from_stdout)
    }

    /// Writes rows under their heads; the column `whole` is never cut.
    pub(crate) fn table<const N: usize>(
        &mut self,
        head: [&str; N],
        whole: usize,
        rows: impl IntoIterator<Item = [Cell; N]>,
    ) -> Result<(), Failure> {
        self.paint(&table(head, whole, rows, self.columns))
    }

    /// Writes rows under their heads, with a text below each.
    pub(crate) fn list<const N: usize>(
        &mut self,
        head: [&str; N],
        whole: usize,
        rows: impl IntoIterator<Item = ([Cell; N], Text)>,
    ) -> Result<(), Failure> {
        self.paint(&list(head, whole, rows, self.columns))
    }

    /// Returns the width of the terminal, if stdout is one.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// Writes one answer for programs, on one line.
    pub(crate) fn answer(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        writeln!(self.out, "{}", one_line(value)).map_err(Failure::from_stdout)
    }

    /// Returns whether an agent's bytes are written unchanged: `--raw` asks for it, or
    /// stdout is no terminal. A terminal would obey the control characters in them.
    pub(crate) fn is_raw(&self, asked: bool) -> bool {
        !self.json && (asked || !self.terminal)
    }

    /// Writes an agent's text: unchanged where [`Self::is_raw`], else escaped and with a
    /// newline at its end, for the next prompt of the shell.
    pub(crate) fn agent_text(&mut self, text: &str, asked: bool) -> Result<(), Failure> {
        if self.is_raw(asked) {
            return self.raw(text.as_bytes());
        }
        let end = if text.ends_with('\n') { "" } else { "\n" };
        self.part(&format!("{text}{end}"))
    }

    /// Writes bytes for another program, unchanged.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(Failure::from_stdout)
    }

    /// Writes a note that is not part of the answer.
    pub(crate) fn note(&mut self, text: &str) {
        let told = match self.json {
            true => one_line(&serde_json::json!({ "note": text })),
            false => {
                let told = Text::new().add(Tone::Faint, "note:").plain(format!(" {text}"));
                told.render(self.colours.1)
            }
        };
        // Stderr may be closed, which is no failure.
        let _ = writeln!(self.err, "{told}");
    }

    /// Reports an error, and what to do next.
    pub(crate) fn fail(&mut self, error: &ApiError) {
        self.show_error(spoken(error));
    }

    /// Reports an error about one of several items, which `about` names in the caller's
    /// own words.
    pub(crate) fn fail_about(&mut self, about: &str, error: &ApiError) {
        let error = spoken(error);
        let message = format!("{about}: {}", error.message);
        self.show_error(ApiError { message, ..error });
    }

    fn show_error(&mut self, error: ApiError) {
        let told = if self.json {
            one_line(&ErrorBody { error })
        } else {
            let mut told =
                Text::new().add(Tone::Bad, "error:").plain(format!(" {}", error.message));
            if let Some(hint) = &error.hint {
                told = told.plain("\n").add(Tone::Good, "hint:").plain(format!(" {hint}"));
            }
            told.render(self.colours.1)
        };
        let _ = writeln!(self.err, "{told}");
    }

    /// Returns whether a person watches the progress on a terminal.
    pub(crate) fn is_watched(&self) -> bool {
        !self.json && io::stderr().is_terminal()
    }

    pub(crate) fn has_colours_on_stderr(&self) -> bool {
        self.colours.1
    }

    /// Writes a part of a text for people, without a newline at its end.
    pub(crate) fn part(&mut self, text: &str) -> Result<(), Failure> {
        write!(self.out, "{}", tame(text)).map_err(Failure::from_stdout)
    }

    /// Flushes stdout: after this, the output has left the program.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::from_stdout)
    }
}

impl Failure {
    fn from_stdout(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self::Unheard,
            _ => Self::Told(ApiError::new(
                ErrorCode::Internal,
                format!("the output cannot be written: {error}"),
            )),
        }
    }
}

fn one_line(value: &impl Serialize) -> String {
    tame_json(serde_json::to_string(value).expect("an answer of the hub has only text keys"))
}

/// Returns whether output to stdout is lost for certain, because it was closed at the
/// start of the program. The standard library has opened `/dev/null` in its place, for
/// reading and writing; a shell's `> /dev/null` is for writing only.
pub(crate) fn stdout_is_closed() -> bool {
    use rustix::fs::{OFlags, fcntl_getfl, fstat, stat};
    let stdout = io::stdout();
    let (Ok(flags), Ok(here), Ok(nowhere)) =
        (fcntl_getfl(&stdout), fstat(&stdout), stat("/dev/null"))
    else {
        return false;
    };
    flags.contains(OFlags::RDWR) && here.st_rdev == nowhere.st_rdev && here.st_ino == nowhere.st_ino
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Collects the output, for a test to read.
    #[derive(Clone, Default)]
    pub(crate) struct Heard(Arc<Mutex<Vec<u8>>>);

    impl Heard {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
        }
    }

    impl Write for Heard {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    pub(crate) fn overheard(json: bool) -> (Output, Heard, Heard) {
        let (out, err) = (Heard::default(), Heard::default());
        let (colours, columns) = ((false, false), None);
        let output = Output {
            json,
            terminal: true,
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            colours,
            columns,
        };
        (output, out, err)
    }

    #[test]
    fn the_bytes_of_an_agent_are_unchanged_in_a_pipe_and_tamed_on_a_terminal() {
        let text = "\x1b[2Jred\r\nno end";
        let shown = |terminal, raw| {
            let (output, out, _) = overheard(false);
            let mut output = Output { terminal, ..output };
            assert!(output.agent_text(text, raw).is_ok());
            out.text()
        };
        assert_eq!(shown(false, false), text);
        assert_eq!(shown(true, true), text, "whoever says --raw means it");
        assert_eq!(shown(true, false), "\\u{1b}[2Jred\nno end\n");
        let (output, ..) = overheard(true);
        assert!(!Output { terminal: false, ..output }.is_raw(true), "JSON stays JSON");
    }

    #[test]
    fn an_error_comes_with_its_hint_and_without_control_characters() {
        let error = ApiError::new(ErrorCode::NoRecipient, "nobody is called \x1b[2J").hint("bob?");
        let (mut output, out, err) = overheard(false);
        output.fail(&error);
        assert_eq!(err.text(), "error: nobody is called \\u{1b}[2J\nhint: bob?\n");
        assert_eq!(out.text(), "");
    }

    #[test]
    fn with_json_every_line_of_stderr_is_json() {
        let (mut output, _, err) = overheard(true);
        output.note("no mail");
        assert_eq!(err.text(), "{\"note\":\"no mail\"}\n");
    }

    #[test]
    fn with_json_an_error_is_one_line_of_the_same_form_as_the_hubs() {
        let error = ApiError::new(ErrorCode::NoRecipient, "two\nlines");
        let (mut output, _, err) = overheard(true);
        output.fail(&error);
        assert_eq!(err.text().lines().count(), 1);
        let read: ErrorBody = serde_json::from_str(&err.text()).expect("an error body");
        assert_eq!(read.error, error);
    }
}
