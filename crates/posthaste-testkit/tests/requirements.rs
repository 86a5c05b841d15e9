//! Keeps `docs/requirements.md` honest.
//!
//! A row names its tests as `` `path/of/file.rs#name_of_the_test` ``, any number
//! of them. Each must exist: a function with a test attribute that is not
//! ignored, or a promise of a conformance suite (a `pub` function of this
//! crate) that is named at least once besides, for nobody else would run it. A
//! row without tests says `by review`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where the promises of the ports are written.
const SUITES: &str = "crates/posthaste-testkit/src/";

/// Rust files by their path from the root of the repository.
type Sources = BTreeMap<String, String>;

#[test]
fn every_requirement_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = fs::read_to_string(root.join("docs/requirements.md")).expect("the table exists");
    let mut sources = Sources::new();
    collect(&root, "crates", &mut sources);

    let faults = faults(&table, &sources);

    assert!(faults.is_empty(), "docs/requirements.md\n{}", faults.join("\n"));
}

fn collect(root: &Path, folder: &str, sources: &mut Sources) {
    for entry in fs::read_dir(root.join(folder)).expect("a readable folder") {
        let entry = entry.expect("a readable entry");
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().expect("a file type").is_dir() {
            collect(root, &path, sources);
        } else if path.ends_with(".rs") {
            let text = fs::read_to_string(entry.path()).expect("a readable source file");
            sources.insert(path, text);
        }
    }
}

/// What is wrong with the table, one line each.
fn faults(table: &str, sources: &Sources) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, line) in table.lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let id = cells[0];
        if id == "Id" || id.starts_with("---") {
            continue;
        }
        let mut fault = |what: String| faults.push(format!("  line {}, {id}: {what}", at + 1));
        if !is_id(id) {
            fault("not the id of a requirement".into());
        }
        if !seen.insert(id.to_owned()) {
            fault("listed twice".into());
        }
        let &[_, _, proof] = cells.as_slice() else {
            fault("a row has three cells: id, what, tests".into());
            continue;
        };
        // Every second piece stands between backticks.
        let tests: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() && proof != "by review" {
            fault("no test, and not `by review`".into());
        }
        for test in tests {
            if let Err(why) = check(test, sources) {
                fault(format!("{test}: {why}"));
            }
        }
    }
    if seen.is_empty() {
        faults.push("  no requirement at all".into());
    }
    faults
}

/// `S3-28`: the document, then the number; `R9`: a measure of reliability.
fn is_id(text: &str) -> bool {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if text.strip_prefix('R').is_some_and(digits) {
        return true;
    }
    text.strip_prefix('S')
        .and_then(|rest| rest.split_once('-'))
        .is_some_and(|(document, number)| digits(document) && digits(number))
}

fn check(test: &str, sources: &Sources) -> Result<(), &'static str> {
    let (path, name) = test.split_once('#').ok_or("write it as `path/of/file.rs#name`")?;
    let source = sources.get(path).ok_or("no such file")?;
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| declares(line, name)).ok_or("no such function")?;

    let attributes: Vec<&str> = lines[..at]
        .iter()
        .rev()
        .take_while(|l| l.starts_with("//") || !(l.is_empty() || l.ends_with(['{', '}', ';'])))
        .copied()
        .collect();
    let has = |attribute: &str| attributes.iter().any(|line| line.starts_with(attribute));
    if has("#[ignore") {
        return Err("an ignored test proves nothing");
    }
    if has("#[test]") || has("#[tokio::test") {
        return Ok(());
    }
    if !(path.starts_with(SUITES) && lines[at].starts_with("pub ")) {
        return Err("neither a test nor a promise of a suite");
    }
    if mentions(name, sources) < 2 { Err("a promise that no test runs") } else { Ok(()) }
}

fn declares(line: &str, name: &str) -> bool {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")
        .and_then(|rest| rest.strip_prefix(name))
        .is_some_and(|rest| rest.starts_with(['(', '<']))
}

fn mentions(name: &str, sources: &Sources) -> usize {
    sources
        .values()
        .flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || c == '_')))
        .filter(|word| *word == name)
        .count()
}

mod the_check_itself {
    use super::{Sources, faults};

    const PROMISES: &str = "crates/posthaste-testkit/src/store_suite.rs";

    fn sources() -> Sources {
        let rules = "
            #[test]
            fn mail_arrives() {}

            /// Told with a paused clock.
            #[tokio::test(start_paused = true)]
            async fn mail_waits() {}

            #[test]
            #[ignore]
            fn mail_flies() {}

            fn helper() {}
        ";
        let suite = "
            pub async fn a_lease_is_alone(store: &dyn Store) {}
            pub async fn a_forgotten_promise(store: &dyn Store) {}
        ";
        let runs = "suite!(a_lease_is_alone);";
        [("a.rs", rules), (PROMISES, suite), ("b.rs", runs)]
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into()
    }

    fn judge(proof: &str) -> String {
        let table = format!("| Id | What | Tests |\n| --- | --- | --- |\n| S0-4 | x | {proof} |\n");
        faults(&table, &sources()).join("\n")
    }

    #[test]
    fn accepts_tests_promises_and_reviews() {
        assert_eq!(judge("`a.rs#mail_arrives`"), "");
        assert_eq!(judge("`a.rs#mail_arrives`, `a.rs#mail_waits`"), "");
        assert_eq!(judge(&format!("`{PROMISES}#a_lease_is_alone`")), "");
        assert_eq!(judge("by review"), "");
    }

    #[test]
    fn refuses_what_proves_nothing() {
        let cases = [
            ("—", "no test"),
            ("", "no test"),
            ("mail_arrives", "no test"),
            ("`mail_arrives`", "write it as"),
            ("`c.rs#mail_arrives`", "no such file"),
            ("`a.rs#mail`", "no such function"),
            ("`a.rs#helper`", "neither a test"),
            ("`a.rs#mail_flies`", "ignored"),
            ("`a.rs#mail_arrives`, `a.rs#gone`", "no such function"),
            ("`a.rs#mail_arrives` | more", "three cells"),
        ];
        for (proof, why) in cases {
            assert!(judge(proof).contains(why), "{proof}: {}", judge(proof));
        }
        let forgotten = judge(&format!("`{PROMISES}#a_forgotten_promise`"));
        assert!(forgotten.contains("no test runs"), "{forgotten}");
    }

    #[test]
    fn refuses_a_table_with_doubled_or_foreign_ids_or_none() {
        let row = "| S0-4 | x | by review |\n";
        assert!(faults(&row.repeat(2), &sources())[0].contains("listed twice"));
        assert!(faults("| four | x | by review |", &sources())[0].contains("not the id"));
        assert!(faults("no table here", &sources())[0].contains("no requirement"));
    }
}
