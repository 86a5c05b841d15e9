//! Short runs of what is long elsewhere, against the hub of the same build.

#![expect(clippy::disallowed_methods, reason = "these tests start the real binaries")]

use std::path::Path;
use std::process::Command;

const BENCH: &str = env!("CARGO_BIN_EXE_posthaste-bench");

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Runs the program to its end, which must be good. It starts the hub that lies beside it
/// and ends it by itself. Where nobody has built one, a test that may skip does.
#[expect(clippy::print_stderr, reason = "a test that skips says so")]
fn is_good(args: &[&str]) {
    if !Path::new(BENCH).with_file_name("posthaste").is_file() {
        assert!(!is_set("POSTHASTE_REQUIRE"), "there is no hub: cargo build -p posthaste");
        eprintln!("skipped: there is no hub beside {BENCH}: cargo build -p posthaste");
        return;
    }
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
