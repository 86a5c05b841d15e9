//! Keeps `docs/requirements.md` honest and complete.
//!
//! The page has one row for every requirement, and the last cell of a row has one of
//! four forms:
//!
//! - tests, each written as `` `path/of/file.rs#name_of_the_test` ``. Each must exist: a
//!   function with a test attribute that is not ignored, or a promise of a conformance
//!   suite (a `pub` function of this crate) that is named at least once besides, for
//!   nobody else would run it;
//! - `by review`, for the few that no test can hold;
//! - `out of scope`, for what the documents themselves rule out;
//! - `not built`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where the promises of the ports are written.
const SUITES: &str = "crates/posthaste-testkit/src/";
/// What every agent program must do, played with each of them.
const STORIES: [&str; 6] = [
    "crates/posthaste/tests/it/drivers/stories.rs",
    "crates/posthaste/tests/it/assistants/flows.rs",
    "crates/posthaste/tests/it/assistants/gaps.rs",
    "crates/posthaste/tests/it/assistants/kills.rs",
    "crates/posthaste/tests/it/assistants/stops.rs",
    "crates/posthaste/tests/it/assistants/endings.rs",
];

/// Every requirement: each document numbers its own from 1 to this.
const REQUIREMENTS: [(&str, u32); 6] =
    [("S0-", 45), ("S1-", 52), ("S2-", 35), ("S3-", 39), ("S4-", 30), ("R", 10)];

/// Orders of work, principles and sizes: no test can hold these.
const BY_REVIEW: [&str; 8] = ["S0-45", "S2-8", "S2-9", "S2-23", "S2-33", "S3-39", "S4-26", "S4-28"];

/// What the documents rule out.
const OUT_OF_SCOPE: [&str; 3] = ["S0-34", "S3-38", "S4-27"];

/// What nothing builds yet. Whoever builds it takes it out.
const NOT_BUILT: [&str; 52] = [
    "S0-29", "S0-33", "S0-44", "S1-5", "S1-6", "S1-7", "S1-41", "S1-42", "S1-43", "S1-52", "S2-1",
    "S2-2", "S2-3", "S2-4", "S2-5", "S2-6", "S2-7", "S2-13", "S2-15", "S2-21", "S2-22", "S2-24",
    "S2-25", "S2-26", "S2-27", "S2-28", "S2-29", "S2-30", "S2-31", "S2-32", "S2-34", "S2-35",
    "S3-2", "S3-12", "S3-13", "S3-14", "S3-15", "S3-16", "S3-17", "S3-18", "S3-19", "S3-20",
    "S3-22", "S3-23", "S3-24", "S3-25", "S3-30", "S3-31", "S3-32", "S3-33", "S3-35", "R5",
];

/// Rust files by their path from the root of the repository.
type Sources = BTreeMap<String, String>;

#[test]
fn every_requirement_has_a_row_and_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = fs::read_to_string(root.join("docs/requirements.md")).expect("the table exists");
    let mut sources = Sources::new();
    collect(&root, "crates", &mut sources);

    let mut faults = faults(&table, &sources);
    faults.extend(missing(&table));

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

/// The rows of the page, each with the number of its line and its cells.
fn rows(table: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = table.lines().enumerate().filter(|(_, line)| line.starts_with('|'));
    lines
        .map(|(at, line)| {
            (at + 1, line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>())
        })
        .filter(|(_, cells)| cells[0] != "Id" && !cells[0].starts_with("---"))
}

fn required() -> impl Iterator<Item = String> {
    REQUIREMENTS
        .iter()
        .flat_map(|(document, last)| (1..=*last).map(move |n| format!("{document}{n}")))
}

/// Requirements without a row, one line each.
fn missing(table: &str) -> Vec<String> {
    let listed: BTreeSet<&str> = rows(table).map(|(_, cells)| cells[0]).collect();
    let absent = required().filter(|id| !listed.contains(&**id));
    absent.map(|id| format!("  {id}: it has no row")).collect()
}

/// What is wrong with the rows that are there, one line each.
fn faults(table: &str, sources: &Sources) -> Vec<String> {
    let known: BTreeSet<String> = required().collect();
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for (line, cells) in rows(table) {
        let id = cells[0];
        let mut fault = |what: String| faults.push(format!("  line {line}, {id}: {what}"));
        if !known.contains(id) {
            fault("not the id of a requirement".into());
        }
        if !seen.insert(id.to_owned()) {
            fault("listed twice".into());
        }
        let &[_, what, proof] = cells.as_slice() else {
            fault("a row has three cells: id, what, tests".into());
            continue;
        };
        if what.is_empty() {
            fault("it does not say what is required".into());
        }
        match proof {
            "by review" if !BY_REVIEW.contains(&id) => fault("a test could hold this".into()),
            "out of scope" if !OUT_OF_SCOPE.contains(&id) => fault("it is in scope".into()),
            "not built" if !NOT_BUILT.contains(&id) => fault("it was built".into()),
            "by review" | "out of scope" | "not built" => {}
            tests => tests_of(tests, sources).into_iter().for_each(fault),
        }
    }
    faults
}

/// What is wrong with a cell that names tests.
fn tests_of(cell: &str, sources: &Sources) -> Vec<String> {
    // Every second piece stands between backticks; between the tests stand commas.
    let pieces: Vec<&str> = cell.split('`').collect();
    let (tests, between): (Vec<_>, Vec<_>) =
        pieces.iter().enumerate().partition(|(at, _)| at % 2 == 1);
    let last = between.len() - 1;
    let commas = between.iter().enumerate().all(|(n, (_, text))| match n {
        0 => text.is_empty(),
        n if n == last => text.is_empty(),
        _ => **text == ", ",
    });
    if tests.is_empty() || !commas {
        return vec!["neither tests nor `by review`, `out of scope` or `not built`".into()];
    }
    let faulty =
        |(_, test): (usize, &&str)| check(test, sources).err().map(|why| format!("{test}: {why}"));
    tests.into_iter().filter_map(faulty).collect()
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
    let suite = path.starts_with(SUITES) || STORIES.contains(&path);
    if !(suite && lines[at].starts_with("pub")) {
        return Err("neither a test nor a promise of a suite");
    }
    if mentions(name, sources) < 2 { Err("a promise that no test runs") } else { Ok(()) }
}

fn declares(line: &str, name: &str) -> bool {
    let line = line.strip_prefix("pub ").or(line.strip_prefix("pub(super) ")).unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")
        .and_then(|rest| rest.strip_prefix(name))
        .is_some_and(|rest| rest.starts_with(['(', '<']))
}

fn mentions(name: &str, sources: &Sources) -> usize {
    sources
        .values()
        .filter(|text| text.contains(name))
        .flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || c == '_')))
        .filter(|word| *word == name)
        .count()
}

mod the_check_itself {
    use super::{Sources, faults, missing, required};

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

    fn judge_row(id: &str, proof: &str) -> String {
        let table = format!("| Id | What | Tests |\n| --- | --- | --- |\n| {id} | x | {proof} |\n");
        faults(&table, &sources()).join("\n")
    }

    fn judge(proof: &str) -> String {
        judge_row("S0-4", proof)
    }

    #[test]
    fn accepts_the_four_forms() {
        assert_eq!(judge("`a.rs#mail_arrives`"), "");
        assert_eq!(judge("`a.rs#mail_arrives`, `a.rs#mail_waits`"), "");
        assert_eq!(judge(&format!("`{PROMISES}#a_lease_is_alone`")), "");
        assert_eq!(judge_row("S0-33", "not built"), "");
        assert_eq!(judge_row("S0-45", "by review"), "");
        assert_eq!(judge_row("S0-34", "out of scope"), "");
    }

    #[test]
    fn refuses_what_proves_nothing() {
        let cases = [
            ("—", "neither tests"),
            ("", "neither tests"),
            ("mail_arrives", "neither tests"),
            ("`a.rs#mail_arrives` and more", "neither tests"),
            ("`a.rs#mail_arrives`, not built", "neither tests"),
            ("see `a.rs#mail_arrives`", "neither tests"),
            ("by review", "a test could hold this"),
            ("out of scope", "in scope"),
            ("not built", "it was built"),
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
    fn refuses_a_table_with_doubled_or_foreign_ids() {
        let row = "| S0-33 | x | not built |\n";
        assert!(faults(&row.repeat(2), &sources())[0].contains("listed twice"));
        for foreign in ["four", "S0-46", "S0-0", "S5-1", "R11"] {
            let told = faults(&format!("| {foreign} | x | not built |"), &sources());
            assert!(told[0].contains("not the id"), "{foreign}: {told:?}");
        }
        assert!(faults("| S0-33 |  | not built |", &sources())[0].contains("what is required"));
    }

    #[test]
    fn refuses_a_table_that_leaves_a_requirement_out() {
        let all: String = required().map(|id| format!("| {id} | x | not built |\n")).collect();
        assert_eq!(missing(&all), Vec::<String>::new());
        assert_eq!(required().count(), 201 + 10);
        let without = all.replace("| S3-39 |", "| S3-3 |");
        assert_eq!(missing(&without), ["  S3-39: it has no row"]);
        assert_eq!(missing("no table here").len(), 211);
    }
}
