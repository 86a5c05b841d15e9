//! Whose program it is that runs: the profile's, and never one of the place of work.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use posthaste_core::orchestration::Assign;
use posthaste_core::profiles::{Expect, PutProfile, Source, Template};
use posthaste_core::registry::AgentKind;
use serde_json::{Value, json};

use super::{Office, quick, wish};

/// A program that says whose it is.
fn tool(folder: &Path, whose: &str) -> PathBuf {
    fs::create_dir_all(folder).expect("made");
    let path = folder.join("tool");
    fs::write(&path, format!("#!/bin/sh\necho {whose}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    path
}

/// A profile that stands in this file.
async fn of_file(office: &Office, file: &Path, config: Value) {
    let template = Template {
        driver: Some("command".into()),
        config: config.to_string(),
        ..Template::new("worker".parse().expect("a name"), AgentKind::External)
    };
    let by = Source::File(file.to_str().expect("plain").into());
    let put = PutProfile { template, by, expect: Expect::Anything };
    office.hub.put_profile(put).await.expect("kept");
}

/// A worker in a folder that an agent chose, and filled.
fn in_their_folder(office: &Office) -> Assign {
    let theirs = office.scratch.path().join("theirs");
    tool(&theirs, "theirs");
    tool(&theirs.join("bin"), "theirs");
    Assign { directory: Some(theirs.to_str().expect("plain").into()), ..wish("worker", "x") }
}

#[tokio::test]
async fn a_relative_command_is_the_one_beside_the_profile_and_not_one_of_the_working_directory() {
    let office = Office::open(quick()).await;
    let file = office.scratch.path().join("profiles/worker.md");
    tool(&office.scratch.path().join("profiles/bin"), "ours");
    of_file(&office, &file, json!({"command": ["bin/tool"]})).await;
    let done = office.hub.assign(in_their_folder(&office)).await.expect("assigned");
    assert_eq!(office.told(&done).await, ("result".into(), "ours".into()));
    office.close().await;
}

#[tokio::test]
async fn a_relative_command_that_is_not_beside_its_profile_is_refused() {
    let office = Office::open(quick()).await;
    let file = office.scratch.path().join("profiles/worker.md");
    of_file(&office, &file, json!({"command": ["./tool"]})).await;
    let error = office.refused("worker", in_their_folder(&office)).await;
    assert!(error.why.contains("profiles/./tool"), "{error}");
    for tool in ["./tool", "../theirs/tool", "bin/tool"] {
        of_file(&office, &file, json!({"command": format!("{tool} --quick")})).await;
        let error = office.refused("worker", in_their_folder(&office)).await;
        assert!(error.why.contains(&format!("`{tool}` in the working directory")), "{error}");
    }

    // A profile of the API stands in no folder.
    let office = Office::open(quick()).await;
    office.profile("worker", json!({"command": ["./tool"]})).await;
    let error = office.refused("worker", in_their_folder(&office)).await;
    assert!(error.why.contains("`./tool`"), "{error}");
    assert!(error.hint.expect("what to do").contains("full path"));
}

#[tokio::test]
async fn a_search_path_with_relative_folders_does_not_find_the_agents_file() {
    let office = Office::open(quick()).await;
    for path in [".:bin::/usr/bin:/bin", "", ".", ":"] {
        for command in [json!("tool"), json!(["sh", "-c", "tool"])] {
            let config = json!({"command": command, "env": {"PATH": path}});
            office.profile("worker", config).await;
            let done = office.hub.assign(in_their_folder(&office)).await;
            let Ok(done) = done else { continue };
            let (kind, text) = office.told(&done).await;
            assert_eq!(kind, "system.agent_failed", "{path:?} {command}: {text}");
            assert!(text.contains("exit code 127"), "{path:?} {command}: {text}");
        }
    }
    office.close().await;
}
