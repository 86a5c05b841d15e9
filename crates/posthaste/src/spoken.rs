//! Checks commands that the pages name within their sentences. `tests/it/pages.rs` runs
//! blocks of commands.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::Cli;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn pages() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let guides = fs::read_dir(root.join("docs/guide")).expect("guides").flatten();
    let others = ["README.md", "CONTRIBUTING.md", "docs/operating.md", "docs/security.md"];
    guides.map(|entry| entry.path()).chain(others.map(|name| root.join(name))).collect()
}

/// Returns our commands that stand in a text as code.
fn commands(text: &str) -> Vec<&str> {
    let spans = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| span.starts_with("posthaste ") && !span.contains('…')).collect()
}

/// Returns the words of our command in a line; quotes keep several together, and
/// redirections of the shell are left out.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let line = ["|| ", "| ", "> ", "< "]
        .iter()
        .fold(line, |line, end| line.split_once(&format!(" {end}")).map_or(line, |(ours, _)| ours));
    for (at, part) in line.split('"').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// Returns the fault of a command. A sentence may leave out arguments that a command
/// needs, and write a word in place of a value.
fn fault(command: &str) -> Option<String> {
    let error = Cli::try_parse_from(words(command)).err()?;
    let fine = [
        ErrorKind::MissingRequiredArgument,
        ErrorKind::MissingSubcommand,
        ErrorKind::DisplayHelp,
        ErrorKind::DisplayVersion,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
        ErrorKind::InvalidValue,
        ErrorKind::ValueValidation,
    ];
    let first = || error.to_string().lines().next().unwrap_or_default().to_owned();
    (!fine.contains(&error.kind())).then(first)
}

#[test]
fn every_command_that_a_page_names_exists_with_its_flags() {
    let mut faults = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let place = page.file_name().expect("a name").to_string_lossy().into_owned();
        let wrong = commands(&text)
            .into_iter()
            .filter_map(|command| Some(format!("{place}: `{command}`: {}", fault(command)?)));
        faults.extend(wrong);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_command_that_does_not_exist_is_found_in_a_sentence() {
    let text = "Say `posthaste token join`, or `posthaste send bob \"two words\" --urgent`.\n\
                Not `posthaste-bench` and not `posthaste … --as NAME`.";
    assert_eq!(
        commands(text),
        ["posthaste token join", "posthaste send bob \"two words\" --urgent"]
    );
    assert!(fault("posthaste token join").is_some());
    assert!(fault("posthaste inbox --nonsense").is_some());
    assert_eq!(fault("posthaste send bob \"two words\" --urgent"), None);
    assert_eq!(fault("posthaste assign"), None);
    assert_eq!(fault("posthaste hook tool --client gemini || true"), None);
    assert_eq!(fault("posthaste completions bash|zsh"), None);
}
