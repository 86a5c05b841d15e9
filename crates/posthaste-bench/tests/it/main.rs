//! Short runs of what is long elsewhere, against the hub of the same build.

#![expect(clippy::disallowed_methods, reason = "these tests start the real binaries")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

const BENCH: &str = env!("CARGO_BIN_EXE_posthaste-bench");

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// The hub that lies beside the program. Where nobody has built one, a test that may skip
/// does.
#[expect(clippy::print_stderr, reason = "a test that skips says so")]
fn hub() -> Option<PathBuf> {
    let hub = Path::new(BENCH).with_file_name("posthaste");
    if hub.is_file() {
        return Some(hub);
    }
    assert!(!is_set("POSTHASTE_REQUIRE"), "there is no hub: cargo build -p posthaste");
    eprintln!("skipped: there is no hub beside {BENCH}: cargo build -p posthaste");
    None
}

/// Each run loads the whole machine, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Runs the program to its end, which must be good. It starts the hub that lies beside it
/// and ends it by itself.
fn is_good(args: &[&str]) {
    if hub().is_none() {
        return;
    }
    // A test that failed has had its turn.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let ran = Command::new(BENCH)
        .args(["--pin", "false", "--scratch"])
        .arg(scratch.path())
        .args(args)
        .output()
        .expect("the benchmark starts");
    let told = String::from_utf8_lossy(&ran.stdout);
    let noted = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{args:?}: {:?}\n{told}\n{noted}", ran.status);
}

#[test]
fn a_hub_under_mixed_load_does_not_grow_and_loses_nothing() {
    let minutes = if is_set("POSTHASTE_QUICK") { "0.17" } else { "1" };
    is_good(&["soak", "--minutes", minutes, "--rate", "20"]);
}

#[test]
fn a_hub_with_too_many_senders_refuses_some_and_keeps_what_it_accepted() {
    is_good(&["overload", "--seconds", "1"]);
}

#[test]
fn a_sustained_run_compares_two_hubs_and_ends_by_itself() {
    let Some(hub) = hub() else { return };
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let json = scratch.path().join("found.json");
    let [hub, json] = [&hub, &json].map(|path| path.to_str().expect("a path of text"));
    let small = ["--messages", "10000", "--rounds", "1", "--seconds", "0.2"];
    is_good(&[&["sustained", "--against", hub, "--json", json][..], &small].concat());

    let found = std::fs::read_to_string(json).expect("the figures");
    let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
    let compared = &found["against"]["measures"];
    for (id, what) in [
        ("T4s", "server CPU, second half / T4's"),
        ("T4s", "longest ack, second half, ms"),
        ("T17", "hub memory, after all / after 1,000"),
    ] {
        for measures in [&found["measures"], compared] {
            let has = measures.as_array().expect("a list").iter().any(|measure| {
                measure["id"] == id
                    && measure["measure"] == what
                    && measure["median"].as_f64().is_some_and(|median| median > 0.0)
            });
            assert!(has, "{id}, {what}: {measures}");
        }
    }
}
