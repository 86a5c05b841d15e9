//! A data folder that is moved or deleted under a running hub.

use std::path::Path;

use posthaste_api::client::ClientError;
use posthaste_api::messages::SendRequest;
use posthaste_api::{ApiError, Client, ErrorCode};

use crate::world::{Hub, World, eventually, until};

/// A client with the operator's token, which does not need the folder any more.
fn operator(world: &World, hub: &Hub) -> Client {
    let token = std::fs::read_to_string(world.file("operator.token")).expect("a token");
    Client::new(&hub.url).expect("a good address").with_token(token.trim())
}

async fn refusal(hub: &Client, to: &str) -> ApiError {
    match hub.send(&SendRequest::new(to, "refused")).await {
        Err(ClientError::Api(error)) => error,
        other => panic!("it was not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_hub_whose_folder_is_moved_refuses_mail_says_why_and_goes_on_when_it_is_back() {
    let world = World::new();
    let hub = world.hub();
    world.joined("bob");
    let operator = operator(&world, &hub);
    operator.send(&SendRequest::new("bob", "before")).await.expect("accepted");
    let away = world.scratch().join("away");
    std::fs::rename(world.data(), &away).expect("moved");

    let told = refusal(&operator, "bob").await;
    assert_eq!(told.code, ErrorCode::Unavailable);
    let folder = world.data().display().to_string();
    assert!(told.message.contains("moved") && told.message.contains(&folder), "{told:?}");
    assert!(told.hint.as_deref().is_some_and(|hint| hint.contains(&folder)), "{told:?}");
    let Err(ClientError::Api(ready)) = operator.ready().await else { panic!("it says ready") };
    assert_eq!(ready.message, told.message);
    assert_eq!(operator.health().await.expect("alive").status, "degraded");
    doctor_and_status_say(&world, &away, hub.port(), &told.message);

    std::fs::rename(&away, world.data()).expect("moved back");
    operator.send(&SendRequest::new("bob", "after")).await.expect("accepted again");
    operator.ready().await.expect("ready again");
    let ran = hub.stop();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let said = |text: &str| ran.err.lines().filter(|line| line.contains(text)).count();
    assert_eq!(said("ERROR"), 1, "one line says it: {}", ran.err);
    assert_eq!((said("is not in its place"), said("is back")), (1, 1), "{}", ran.err);

    let _hub = world.hub();
    let mail = world.json(&["inbox", "--as", "bob", "--timeout", "0"]);
    let texts: Vec<_> = mail["messages"].as_array().expect("mail").iter().collect();
    let texts: Vec<_> = texts.iter().map(|m| m["message"].as_str().expect("text")).collect();
    assert_eq!(texts, ["before", "after"]);
}

/// Whoever asks at the new place, or at the port, hears of it.
fn doctor_and_status_say(world: &World, away: &Path, port: &str, what: &str) {
    let away = away.to_str().expect("a plain path");
    let listen = format!("127.0.0.1:{port}");
    let ran = world.run(&["doctor", "--data", away, "--listen", &listen]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    let lines = ran.out.lines().filter(|line| line.contains(what));
    assert_eq!(lines.count(), 2, "the hub and its port: {}", ran.out);
    let ran = world.run(&["doctor", "--listen", &listen]);
    assert!(ran.out.lines().any(|l| l.contains("port") && l.contains(what)), "{}", ran.out);
    let ran = world.run(&["status", "--data", away]);
    assert!(ran.err.contains(what), "{ran:?}");
}

#[tokio::test]
async fn a_hub_whose_folder_was_deleted_notices_without_being_asked() {
    let world = World::new();
    let hub = world.hub();
    world.joined("bob");
    let token = std::fs::read_to_string(world.file("operator.token")).expect("a token");
    let operator = operator(&world, &hub);
    operator.send(&SendRequest::new("bob", "before")).await.expect("accepted");
    std::fs::remove_dir_all(world.data()).expect("deleted");
    until(async || operator.health().await.expect("alive").status == "degraded").await;
    let told = refusal(&operator, "bob").await;
    assert!(told.message.contains("deleted"), "{told:?}");
    let saved = world.say(&["export", "--hub", &hub.url, "--token", token.trim()]);
    assert!(saved.contains("before"), "{saved}");
    let ran = hub.stop();
    assert_eq!(ran.code, Some(1), "its stop could not be noted: {ran:?}");
}

#[test]
fn two_hubs_do_not_share_a_folder_whose_lock_file_was_removed() {
    let world = World::new();
    let first = world.hub();
    std::fs::remove_file(world.file("hub.lock")).expect("removed");
    eventually(|| world.file("hub.lock").exists());
    let ran = world.run(&["up", "--listen", "127.0.0.1:0"]);
    ran.failed(4, &first.process.pid().to_string(), "--data");
    assert_eq!(first.stop().code, Some(0));
}
