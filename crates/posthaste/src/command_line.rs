//! Reads the command line, and reports its errors to programs.

use std::ffi::OsString;

use clap::{ColorChoice, CommandFactory, FromArgMatches};
use posthaste_api::ApiError;

use crate::cli::Cli;
use crate::failure::invalid;

/// Reads the command line. Help and errors use the colours that the line itself asks for.
pub(crate) fn read() -> Result<Cli, clap::Error> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let mut command = Cli::command().color(colours(&words));
    let mut matches = command.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|e| e.format(&mut command))
}

/// Returns the value of `--color`, also on a line that is wrong elsewhere.
fn colours(words: &[OsString]) -> ColorChoice {
    let value = |(at, word): (usize, &OsString)| match word.to_str()?.strip_prefix("--color")? {
        "" => words.get(at + 1)?.to_str()?.parse().ok(),
        rest => rest.strip_prefix('=')?.parse().ok(),
    };
    words.iter().enumerate().rev().find_map(value).unwrap_or_default()
}

/// Returns a usage error in the form of the hub's errors: clap's text on one line, and
/// the command whose help to read.
pub(crate) fn fault(error: &clap::Error) -> ApiError {
    let text = error.to_string();
    let is_advice =
        |part: &&str| part.starts_with("Usage:") || part.starts_with("For more information");
    let parts = text.split("\n\n").take_while(|part| !is_advice(part));
    let parts: Vec<String> = parts.map(one_line).filter(|part| !part.is_empty()).collect();
    let told = parts.join("; ");
    let told = told.strip_prefix("error: ").unwrap_or(&told);
    invalid(told).hint(format!("{} --help", meant(std::env::args_os())))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the command with which a wrong line begins: `posthaste profiles load`.
fn meant(words: impl Iterator<Item = OsString>) -> String {
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(words);
    let mut named = "posthaste".to_owned();
    let mut inner = matches.as_ref().ok();
    while let Some((name, below)) = inner.and_then(|matches| matches.subcommand()) {
        named = format!("{named} {name}");
        inner = Some(below);
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_colours_of_a_wrong_line_are_those_that_it_asks_for() {
        for (line, colour) in [
            ("posthaste agents --bogus", ColorChoice::Auto),
            ("posthaste agents --bogus --color never", ColorChoice::Never),
            ("posthaste --color=always agents --bogus", ColorChoice::Always),
            ("posthaste --color never agents --color always", ColorChoice::Always),
            ("posthaste agents --color", ColorChoice::Auto),
            ("posthaste agents --color red", ColorChoice::Auto),
            ("posthaste agents --colorful never", ColorChoice::Auto),
        ] {
            assert_eq!(colours(&words(line)), colour, "{line}");
        }
    }

    #[test]
    fn the_command_of_a_wrong_line_is_known() {
        for (line, command) in [
            ("posthaste sned", "posthaste"),
            ("posthaste --json send", "posthaste send"),
            ("posthaste --as inbox connect x", "posthaste connect"),
            ("posthaste profiles load", "posthaste profiles load"),
            ("posthaste agents --bogus", "posthaste agents"),
        ] {
            assert_eq!(meant(words(line).into_iter()), command, "{line}");
        }
    }
}
