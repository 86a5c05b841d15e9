//! Fuzzes the arguments of tools: each call ends in a result or in a clear error, and
//! nothing outside the working directory changes.

use std::path::Path;

use posthaste_testkit::fuzz;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::HubFiles;
use super::workspace::Workspace;

/// Returns all files below a folder with what they hold.
fn files(folder: &Path) -> Vec<(std::path::PathBuf, String)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        (path, text)
    };
    let mut all: Vec<_> = entries.map(|entry| read(entry.path())).collect();
    all.sort();
    all
}

#[test]
fn no_arguments_break_the_workspace_or_leave_it() {
    let scratch = tempfile::tempdir().expect("a folder");
    let desk = scratch.path().join("desk");
    std::fs::create_dir(&desk).expect("made");
    std::fs::write(scratch.path().join("secret"), "a secret").expect("written");
    std::os::unix::fs::symlink("../secret", desk.join("link")).expect("linked");
    std::fs::write(desk.join("file"), "one\ntwo\n").expect("written");
    let before = files(scratch.path());
    let workspace = Workspace::new(desk, HubFiles::default(), 0o022, 1_000);
    let stop = CancellationToken::new();
    let calls = [
        ("read_file", json!({ "path": "file", "offset": 1, "limit": 2 })),
        ("read_file", json!({ "path": "../secret" })),
        ("write_file", json!({ "path": "../desk/link", "content": "two" })),
        ("edit_file", json!({ "path": "file", "old": "one", "new": "1" })),
        ("list_files", json!({ "path": "..", "depth": 2 })),
        ("search", json!({ "query": "o.e", "path": "link", "regex": true })),
    ];
    for mut case in fuzz::cases::<&str>(1_000, &[]) {
        for (tool, arguments) in &calls {
            let Value::Object(arguments) = case.odd_json(arguments) else { continue };
            match workspace.call(tool, arguments, &stop) {
                Ok(text) => assert!(!text.contains("a secret"), "{tool}"),
                Err(why) => assert!(!why.is_empty(), "{tool}"),
            }
        }
    }
    assert_eq!(files(scratch.path()), before, "nothing changed outside");
}
