//! What a worker gets, and where it works.

use std::fs;
use std::path::Path;
use std::time::Duration;

use posthaste_core::orchestration::{AgentsConfig, Assign, Assigned};
use posthaste_core::ports::{Launcher, Stream};
use posthaste_core::registry::Status;
use serde_json::json;

use super::{Office, quick, until, wish};
use crate::world::mode;

#[tokio::test]
async fn a_worker_reads_its_task_and_what_it_prints_is_its_report() {
    let office = Office::open(quick()).await;
    let done = office.script("tr a-z A-Z").await;
    assert_eq!(office.told(&done).await, ("result".into(), "THE TASK".into()));
    assert_eq!(office.status(&done), Status::Finished);
    let folder = office.folder(&done);
    assert_eq!((mode(&folder), mode(&folder.join("task"))), (0o700, 0o600));
    office.close().await;
}

#[tokio::test]
async fn a_worker_that_neither_writes_nor_calls_is_quiet() {
    let short = AgentsConfig { quiet: Duration::from_millis(50), output_bytes: 1_000, ..quick() };
    let office = Office::open(short).await;
    let is_quiet = |done: &Assigned| {
        office.hub.is_quiet(&office.hub.instance(done.instance.id).expect("it is known"))
    };
    let silent = office.script("exec sleep 1000").await;
    until(|| is_quiet(&silent)).await;

    // Of one who wrote more than is kept nobody can tell.
    let flood = office.script("head -c 2000 /dev/zero; touch done; exec sleep 1000").await;
    until(|| office.folder(&flood).join("work/done").exists()).await;
    until(|| fs::metadata(office.folder(&flood).join("out")).is_ok_and(|out| out.len() >= 500))
        .await;
    assert!(!is_quiet(&flood));
    office.close().await;
}

#[tokio::test]
async fn a_worker_knows_who_it_is_and_cannot_take_itself_for_the_operator() {
    let office = Office::open(quick()).await;
    let config = json!({
        "command": ["sh", "-c", "env; pwd"], "model": "small", "env": {"GREETING": "hi", "POSTHASTE_TEAM": "no"},
        "mcp_config": {"mcpServers": {}},
    });
    office.profile("counter", config).await;
    let assign = Assign { label: Some("first".into()), ..wish("counter", "x") };
    let done = office.hub.assign(assign).await.expect("assigned");
    let (_, said) = office.told(&done).await;
    let id = done.instance.id.to_string();
    let folder = office.folder(&done);
    let servers = folder.join("mcp.json");
    let expected = [
        ("POSTHASTE_INSTANCE", id.as_str()),
        ("CAO_TERMINAL_ID", &id),
        ("POSTHASTE_ADDRESS", &done.instance.address),
        ("POSTHASTE_AGENT", "counter"),
        ("POSTHASTE_TEAM", "main"),
        ("POSTHASTE_PARENT", "human"),
        ("POSTHASTE_LABEL", "first"),
        ("POSTHASTE_MODEL", "small"),
        ("POSTHASTE_HUB", "http://127.0.0.1:9889"),
        ("POSTHASTE", crate::world::BINARY),
        ("GREETING", "hi"),
        ("POSTHASTE_MCP_CONFIG", servers.to_str().expect("plain")),
    ];
    for (name, value) in expected {
        assert!(said.lines().any(|line| line == format!("{name}={value}")), "{name}: {said}");
    }
    assert!(!said.contains("the operator's own"), "{said}");
    let token = said.lines().find_map(|line| line.strip_prefix("POSTHASTE_TOKEN="));
    let token = token.expect("its own token");
    for file in fs::read_dir(&folder).expect("a folder").flatten() {
        let text = fs::read(file.path()).unwrap_or_default();
        let has = text.windows(token.len()).any(|part| part == token.as_bytes());
        assert!(!has || file.file_name() == "out", "{:?} has the token", file.path());
    }
    let data = said.lines().find_map(|line| line.strip_prefix("POSTHASTE_DATA="));
    assert!(!Path::new(data.expect("set")).join("operator.token").exists());
    office.close().await;
}

#[tokio::test]
async fn a_worker_works_where_it_is_told_or_where_its_profile_says_or_in_a_folder_of_its_own() {
    let office = Office::open(quick()).await;
    let (here, there) = (office.scratch.path().join("here"), office.scratch.path().join("there"));
    fs::create_dir(&here).expect("made");
    fs::create_dir(&there).expect("made");
    let text = |path: &Path| path.to_str().expect("plain").to_owned();

    office.profile("scratch", json!({"command": "pwd"})).await;
    let done = office.assign("scratch", "x").await.expect("assigned");
    assert_eq!(office.told(&done).await.1, text(&office.folder(&done).join("work")));

    office.profile("homely", json!({"command": "pwd", "working_directory": "~/here"})).await;
    let done = office.assign("homely", "x").await.expect("assigned");
    assert_eq!(office.told(&done).await.1, text(&here));

    let assign = Assign { directory: Some(text(&there)), ..wish("homely", "x") };
    let done = office.hub.assign(assign).await.expect("assigned");
    assert_eq!(office.told(&done).await.1, text(&there));
    office.close().await;
}

#[tokio::test]
async fn what_cannot_start_is_refused_before_anything_is_made() {
    let office = Office::open(quick()).await;
    let cases = [
        (Some("command"), json!({"command": ["frobnicate"]}), "`frobnicate`"),
        (Some("command"), json!({"command": ["/no/such/program"]}), "/no/such/program"),
        (Some("command"), json!({}), "`command`"),
        (Some("command"), json!({"command": 7}), "`command`"),
        (Some("command"), json!({"command": "true", "env": 7}), "`env`"),
        (Some("command"), json!({"command": "true", "working_directory": "/no/such"}), "/no/such"),
        (
            Some("command"),
            json!({"command": "true", "working_directory": "/etc/passwd"}),
            "no folder",
        ),
        (Some("telepathy"), json!({}), "`telepathy`"),
        (None, json!({"command": "true"}), "no driver"),
    ];
    for (n, (driver, config, says)) in cases.into_iter().enumerate() {
        let name = format!("bad{n}");
        office.profile_of(&name, driver, config).await;
        let error = office.refused(&name, wish(&name, "x")).await;
        assert!(error.why.contains(says), "{error}");
    }
    office.profile("good", json!({"command": "true"})).await;
    for directory in ["relative", "/no/such"] {
        let assign = Assign { directory: Some(directory.into()), ..wish("good", "x") };
        let error = office.refused("good", assign).await;
        assert!(error.why.contains(directory), "{error}");
    }
    office.close().await;
}

#[tokio::test]
async fn a_flood_is_clipped_in_the_report_and_read_in_pieces() {
    let office = Office::open(quick()).await;
    let done = office.script("echo first; yes | head -c 20000000; echo last").await;
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "result");
    assert!(text.starts_with("first\n") && text.len() <= office.hub.limits().body_bytes);
    let clipped = format!("posthaste logs {}", done.instance.id);
    assert!(text.lines().last().expect("a line").contains(&clipped));

    let id = done.instance.id;
    let read = |from, most| office.launcher.output(id, Stream::Stdout, from, most);
    let first = read(0, 6).await.expect("readable").expect("kept");
    assert_eq!((first.bytes.as_slice(), first.next), (b"first\n".as_slice(), 6));
    assert_eq!(first.dropped, 20_000_000 + 11 - 8 * 1024 * 1024);
    let last = read(first.total - 5, 100).await.expect("readable").expect("kept");
    assert_eq!((last.bytes.as_slice(), last.next), (b"last\n".as_slice(), last.total));
    let beyond = read(u64::MAX, 100).await.expect("readable").expect("kept");
    assert_eq!((beyond.bytes.len(), beyond.next), (0, last.total));
    let nobody = posthaste_core::address::InstanceId(1);
    let nothing = office.launcher.output(nobody, Stream::Stderr, 0, 100).await.expect("no error");
    assert!(nothing.is_none());
    office.close().await;
}
