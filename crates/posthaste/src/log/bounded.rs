//! Bounds the length of lines in the log, also those of libraries.
//!
//! A cut line says how many bytes are missing. A line in JSON stays JSON: its longest
//! texts are cut, and not its end.

use std::io::{self, Write};

use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;

use crate::cli::LogFormat;
use crate::config::LogConfig;

/// Room for the note at the end of a cut text.
const NOTE: usize = 48;
/// Texts are not cut below this length.
const SHORTEST: usize = 16;

/// Makes writers that shorten their lines.
pub(super) struct Bounded<M> {
    to: M,
    most: usize,
    format: LogFormat,
}

impl<M> Bounded<M> {
    pub(super) fn new(to: M, config: &LogConfig) -> Self {
        Self { to, most: config.line_bytes, format: config.format }
    }
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Bounded<M> {
    type Writer = Lines<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Lines { to: self.to.make_writer(), most: self.most, format: self.format }
    }
}

pub(super) struct Lines<W> {
    to: W,
    most: usize,
    format: LogFormat,
}

impl<W: Write> Write for Lines<W> {
    /// Writes one line of the log.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if line.len() <= self.most {
            return self.to.write(line);
        }
        let short = match self.format {
            LogFormat::Human => cut(&String::from_utf8_lossy(line), self.most - NOTE),
            LogFormat::Json => shorter(line, self.most).to_string(),
        };
        // In one piece, so that a line is lost as a whole or not at all.
        self.to.write_all(format!("{}\n", short.trim_end()).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Returns as many bytes of a text as fit, and a note of how many are missing.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    // Ends colours with the line.
    let plain = if text[..end].contains('\x1b') { "\x1b[0m" } else { "" };
    format!("{}{plain}… ({} bytes more)", &text[..end], text.len() - end)
}

/// Returns the line with its texts cut until it fits.
fn shorter(line: &[u8], most: usize) -> Value {
    let Ok(mut line) = serde_json::from_slice::<Value>(line) else {
        return json!({ "fields": { "message": "a line was too long" } });
    };
    let mut longest = most / 2;
    while longest >= SHORTEST {
        cut_texts(&mut line, longest);
        if line.to_string().len() <= most {
            return line;
        }
        longest /= 2;
    }
    let what = |key: &str| line[key].clone();
    json!({
        "timestamp": what("timestamp"), "level": what("level"), "target": what("target"),
        "fields": { "message": "a line was too long" },
    })
}

fn cut_texts(value: &mut Value, most: usize) {
    match value {
        Value::String(text) => *text = cut(text, most),
        Value::Array(list) => list.iter_mut().for_each(|value| cut_texts(value, most)),
        Value::Object(object) => object.values_mut().for_each(|value| cut_texts(value, most)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is written of a line.
    fn written(format: LogFormat, line: &str) -> String {
        let mut lines = Lines { to: Vec::new(), most: 512, format };
        lines.write_all(line.as_bytes()).expect("a vector takes everything");
        String::from_utf8(lines.to).expect("text")
    }

    #[test]
    fn a_line_that_fits_stays_as_it_is() {
        assert_eq!(written(LogFormat::Human, "all is well\n"), "all is well\n");
        assert_eq!(written(LogFormat::Json, "{\"a\":1}\n"), "{\"a\":1}\n");
    }

    #[test]
    fn a_long_line_is_cut_between_characters_and_says_how_much_is_missing() {
        let line = format!("x{}\n", "é".repeat(1 << 20));
        let written = written(LogFormat::Human, &line);
        assert!(written.len() <= 512, "{written}");
        assert!(written.ends_with("… (2096691 bytes more)\n"), "{written}");
        assert_eq!(written.lines().count(), 1);
    }

    #[test]
    fn a_long_line_in_json_is_still_json() {
        let long = "é".repeat(1 << 20);
        let line = json!({
            "timestamp": "now", "level": "WARN", "target": "posthaste",
            "fields": { "message": "it failed", "why": long, "also": [long] },
        });
        let written = written(LogFormat::Json, &format!("{line}\n"));
        assert!(written.len() <= 512, "{written}");
        let read: Value = serde_json::from_str(&written).expect("JSON");
        assert_eq!(
            (&read["level"], &read["fields"]["message"]),
            (&line["level"], &json!("it failed"))
        );
        assert!(read["fields"]["why"].as_str().expect("text").ends_with("bytes more)"), "{read}");
    }

    #[test]
    fn a_line_of_very_many_fields_says_at_least_where_it_came_from() {
        let fields: serde_json::Map<String, Value> =
            (0..1_000).map(|n| (n.to_string(), json!(n))).collect();
        let line = json!({ "timestamp": "now", "level": "INFO", "target": "x", "fields": fields });
        let written = written(LogFormat::Json, &format!("{line}\n"));
        let read: Value = serde_json::from_str(&written).expect("JSON");
        assert_eq!(
            (&read["level"], &read["fields"]["message"]),
            (&json!("INFO"), &json!("a line was too long"))
        );
    }
}
