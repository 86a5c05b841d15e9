//! What other users of the machine see of workers: the process list.

use std::fs;
use std::path::PathBuf;

use posthaste_core::messaging::message::Principal;
use posthaste_core::orchestration::Assign;
use serde_json::{Value, json};

use super::worktrees::repository;
use super::{Office, quick, until, wish};

/// A process as `/proc` tells of it.
struct Seen {
    arguments: String,
    environment: Vec<(String, String)>,
}

/// Every process that carries this worker's id in its environment.
fn processes_of(id: &str) -> Vec<Seen> {
    let read = |path: PathBuf| -> Option<Vec<String>> {
        let text = fs::read(path).ok()?;
        let words = text.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
    };
    let seen = |folder: PathBuf| -> Option<Seen> {
        let environment = read(folder.join("environ"))?;
        let pair = |line: &String| {
            let (name, value) = line.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        let environment: Vec<_> = environment.iter().filter_map(pair).collect();
        let marked = environment.iter().any(|(n, v)| n == "POSTHASTE_INSTANCE" && v == id);
        let arguments = read(folder.join("cmdline"))?.join(" ");
        marked.then_some(Seen { arguments, environment })
    };
    let all = fs::read_dir("/proc").expect("Linux has it").flatten();
    all.filter_map(|folder| seen(folder.path())).collect()
}

#[tokio::test]
async fn the_process_list_shows_no_id_no_token_and_no_task() {
    let office = Office::open(quick()).await;
    office.profile("worker", json!({"command": "cat >/dev/null; sleep 1000; true"})).await;
    let done = office.assign("worker", "geheim-geheim").await.expect("assigned");
    let id = done.instance.id.to_string();
    // The keeper, the shell and what the shell runs.
    let mut found = Vec::new();
    until(|| {
        found = processes_of(&id);
        found.iter().any(|p| p.arguments.starts_with("sleep"))
    })
    .await;
    assert!(found.len() >= 3, "{:?}", found.iter().map(|p| &p.arguments).collect::<Vec<_>>());
    assert!(found.iter().any(|p| p.arguments.starts_with("posthaste keep")));
    for process in &found {
        let token = process.environment.iter().find(|(name, _)| name == "POSTHASTE_TOKEN");
        let (_, token) = token.expect("its own token");
        for secret in [&id, token, "geheim-geheim"] {
            assert!(!process.arguments.contains(secret), "{secret} in {}", process.arguments);
        }
    }
    office.hub.stop(Principal::Operator, done.instance.id).await.expect("it runs");
    office.report(&done).await;
    office.close().await;
}

/// The arguments of every git that ran, as git itself traced them.
fn traced(path: &PathBuf) -> Vec<String> {
    let text = fs::read_to_string(path).expect("git wrote it");
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let arguments = events.filter_map(|event| event["argv"].as_array().cloned());
    arguments.map(|words| Value::from(words).to_string()).collect()
}

#[tokio::test]
async fn git_is_not_told_the_id_of_a_worker_in_words_that_others_see() {
    let office = Office::open(quick()).await;
    let project = repository(&office);
    let trace = office.scratch.path().join("trace");
    let config = format!("[trace2]\n\teventTarget = {}\n", trace.display());
    fs::write(office.scratch.path().join(".gitconfig"), config).expect("written");
    let mut ids = Vec::new();
    for script in ["echo two > inner/file", "true"] {
        office.profile("worker", json!({"command": script, "worktree": true})).await;
        let directory = Some(project.to_str().expect("plain").to_owned());
        let assign = Assign { directory, ..wish("worker", "x") };
        let done = office.hub.assign(assign).await.expect("assigned");
        let (kind, text) = office.told(&done).await;
        assert_eq!(kind, "result", "{text}");
        ids.push(done.instance.id.to_string());
    }
    let seen = traced(&trace);
    assert!(seen.iter().any(|words| words.contains("\"worktree\",\"add\"")), "{seen:?}");
    assert!(seen.iter().any(|words| words.contains("\"worktree\",\"remove\"")), "{seen:?}");
    for words in &seen {
        assert!(!ids.iter().any(|id| words.contains(id)), "{words}");
    }
    office.close().await;
}
