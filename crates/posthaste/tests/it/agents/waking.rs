//! Waking agents that come by themselves.

use std::fs;
use std::time::Duration;

use posthaste_core::address::InstanceId;
use posthaste_core::ports::{Launcher, WakeRequest};
use posthaste_core::registry::{JoinKey, NewInstance, Origin};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Office, quick, until};
use crate::world::PATIENCE;

async fn request(office: &Office, wake: serde_json::Value) -> WakeRequest {
    office.profile_of("sleeper", None, wake).await;
    let new = NewInstance {
        agent: "sleeper".parse().expect("a name"),
        team: None,
        label: None,
        parent: None,
        kind: None,
        key: Some(JoinKey { key: "session-1".into(), secret: [7; 32] }),
        origin: Origin::Join,
        token: [7; 32],
    };
    let who = office.hub.join(new).await.expect("joined").instance;
    let profile = office.hub.profile(&who.agent).await.expect("readable").expect("there");
    WakeRequest { who, profile, unread: 2 }
}

fn folder(office: &Office, id: InstanceId) -> std::path::PathBuf {
    office.agents().join(id.to_string()).join("wake")
}

#[tokio::test]
async fn the_wake_command_knows_whom_it_wakes_and_has_no_token() {
    let office = Office::open(quick()).await;
    let request = request(&office, json!({"wake": "env"})).await;
    let folder = folder(&office, request.who.id);
    assert!(office.launcher.wake(&office.hub, request.clone()).await.expect("it can run"));
    until(|| folder.join("exit.json").exists()).await;
    let said = fs::read_to_string(folder.join("out")).expect("kept");
    let data = office.scratch.path().join("data");
    for line in [
        format!("POSTHASTE_INSTANCE={}", request.who.id),
        format!("POSTHASTE_ADDRESS={}", request.who.address),
        "POSTHASTE_UNREAD=2".to_owned(),
        "POSTHASTE_KEY=session-1".to_owned(),
        format!("POSTHASTE_DATA={}", data.display()),
    ] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    assert!(!said.contains("POSTHASTE_TOKEN"), "{said}");
    office.close().await;
}

#[tokio::test]
async fn an_agent_is_woken_by_one_command_at_a_time() {
    let office = Office::open(quick()).await;
    let wake = "echo x >> count; while ! [ -e go ]; do sleep 0.02; done";
    let request = request(&office, json!({"wake": wake})).await;
    let folder = folder(&office, request.who.id);
    for _ in 0..3 {
        assert!(office.launcher.wake(&office.hub, request.clone()).await.expect("it can run"));
    }
    until(|| folder.join("count").exists()).await;
    fs::write(folder.join("go"), "").expect("written");
    until(|| folder.join("exit.json").exists()).await;
    assert_eq!(fs::read_to_string(folder.join("count")).expect("kept"), "x\n");
    // And afterwards once more, as soon as the first is reaped.
    let end = Instant::now() + PATIENCE;
    while fs::read_to_string(folder.join("count")).expect("kept") == "x\n" {
        assert!(Instant::now() < end, "it is never woken again");
        assert!(office.launcher.wake(&office.hub, request.clone()).await.expect("it can run"));
        sleep(Duration::from_millis(5)).await;
    }
    office.close().await;
}

#[tokio::test]
async fn a_profile_that_says_nothing_of_waking_wakes_nobody() {
    let office = Office::open(quick()).await;
    let request = request(&office, json!({})).await;
    assert!(!office.launcher.wake(&office.hub, request).await.expect("no error"));
    assert!(!office.agents().exists());
    office.close().await;
}

#[tokio::test]
async fn a_wake_command_that_hangs_is_ended_with_the_hub() {
    let office = Office::open(quick()).await;
    let request = request(&office, json!({"wake": ["sleep", "1000"]})).await;
    let folder = folder(&office, request.who.id);
    assert!(office.launcher.wake(&office.hub, request).await.expect("it can run"));
    until(|| folder.join("started").exists()).await;
    let _scratch = office.close().await;
    let exit = fs::read_to_string(folder.join("exit.json")).expect("it ended");
    assert!(exit.contains(r#""asked":true"#), "{exit}");
}
