//! The whole: the real hub as a process, which may be killed.

use std::fs;
use std::path::PathBuf;

use posthaste_api::Client;
use posthaste_api::inbox::{Inbox, InboxQuery};
use posthaste_api::work::AssignRequest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::endings::pid;
use super::{exists, until};
use crate::world::{PATIENCE, World};

/// A hub's folder with profiles as people write them.
struct House(World);

impl House {
    fn new(profiles: &[(&str, &str)]) -> Self {
        let world = World::new();
        fs::create_dir_all(world.file("profiles")).expect("made");
        for (name, front) in profiles {
            let text = format!("---\nname: {name}\ndriver: command\n{front}\n---\n");
            fs::write(world.file(&format!("profiles/{name}.md")), text).expect("written");
        }
        Self(world)
    }

    fn folder(&self, instance: &str) -> PathBuf {
        self.0.file("agents").join(instance)
    }

    async fn started(&self, instance: &str) -> Value {
        let path = self.folder(instance).join("started");
        let read = || serde_json::from_slice::<Value>(&fs::read(&path).unwrap_or_default()).ok();
        until(|| read().is_some_and(|note| note["worker"].is_i64())).await;
        read().expect("just seen")
    }

    /// Somebody who gives out work.
    fn boss(&self, url: &str) -> Client {
        let token = self.0.say(&["join", "boss", "--print-token"]);
        Client::new(url).expect("an address").with_token(token.trim())
    }
}

async fn assign(boss: &Client, agent: &str, label: &str) -> String {
    let request = AssignRequest {
        agent: agent.into(),
        message: format!("task {label}"),
        label: Some(label.into()),
        ..AssignRequest::default()
    };
    boss.assign(&request).await.expect("assigned").instance
}

async fn gather(boss: &Client) -> Inbox<'static> {
    let query = InboxQuery {
        timeout: Some(PATIENCE.as_secs_f64()),
        wait_for: Some("all".into()),
        ..InboxQuery::default()
    };
    boss.inbox(&query).await.expect("an answer")
}

fn count(inbox: &Inbox<'_>, kind: &str) -> usize {
    inbox.messages.iter().filter(|message| message.kind == kind).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_killed_in_the_middle_still_gathers_all_five_in_one_call() {
    let waits = "command: 'cat; while ! [ -e go ]; do sleep 0.02; done; echo , done'";
    let house = House::new(&[("worker", waits)]);
    let hub = house.0.hub();
    let (url, boss) = (hub.url.clone(), house.boss(&hub.url));
    let mut workers = Vec::new();
    for n in 0..5 {
        workers.push(assign(&boss, "worker", &format!("part-{n}")).await);
    }
    let mut processes = Vec::new();
    for worker in &workers {
        processes.push(pid(&house.started(worker).await["worker"]));
    }
    kill_process(processes[2], Signal::KILL).expect("it runs");
    hub.kill();
    assert!(exists(processes[0]), "a killed hub takes nobody along");
    // Two end while nobody is there, two when the hub is back.
    for worker in &workers[..2] {
        fs::write(house.folder(worker).join("work/go"), "").expect("written");
    }
    until(|| workers[..3].iter().all(|w| house.folder(w).join("exit.json").exists())).await;
    let listen = url.trim_start_matches("http://").to_owned();
    let hub = house.0.hub_with(&["--listen", &listen]);
    for worker in &workers[3..] {
        fs::write(house.folder(worker).join("work/go"), "").expect("written");
    }

    let all = gather(&boss).await;
    assert_eq!((all.status.as_ref(), all.total), ("complete", 5), "{all:?}");
    assert_eq!((count(&all, "result"), count(&all, "system.agent_failed")), (4, 1));
    assert!(all.missing.is_empty(), "{:?}", all.missing);
    let failed = all.messages.iter().find(|m| m.kind == "system.agent_failed").expect("one");
    assert_eq!(failed.label.as_deref(), Some("part-2"));
    assert!(failed.message.contains("killed by signal 9"), "{}", failed.message);
    let mut answers: Vec<&str> =
        all.messages.iter().filter(|m| m.kind == "result").map(|m| m.message.as_ref()).collect();
    answers.sort_unstable();
    let parts = [0, 1, 3, 4].map(|n| format!("task part-{n}, done"));
    assert_eq!(answers, parts);
    assert!(processes.iter().all(|process| !exists(*process)));
    assert_eq!(hub.stop().code, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_workers_are_gathered_by_one_call() {
    let house = House::new(&[("worker", "command: [/bin/cat]")]);
    let hub = house.0.hub();
    let boss = house.boss(&hub.url);
    for n in 0..50 {
        assign(&boss, "worker", &n.to_string()).await;
    }
    let all = gather(&boss).await;
    assert_eq!((all.status.as_ref(), count(&all, "result")), ("complete", 50), "{all:?}");
    assert_eq!(hub.stop().code, Some(0));
    let left = fs::read_dir(house.0.file("agents")).expect("a folder").count();
    assert_eq!(left, 50, "what they wrote can be read while they are remembered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_in_a_worker_speaks_as_the_worker() {
    let script = "command: '\"$POSTHASTE\" send human \"I am $POSTHASTE_ADDRESS\" >&2; umask'";
    let house = House::new(&[("worker", script)]);
    let hub = house.0.hub();
    let boss = house.boss(&hub.url);
    let worker = assign(&boss, "worker", "one").await;
    let all = gather(&boss).await;
    assert_eq!(count(&all, "result"), 1, "{all:?}");
    let said = house.0.json(&["history", "--mailbox", "human"]);
    let message = &said["messages"][0];
    let address = format!("worker.{worker}@main");
    assert_eq!(message["message"], format!("I am {address}"), "{said}");
    assert_eq!(message["from"], address, "{said}");
    let mask = all.messages[0].message.trim();
    assert_ne!(mask, "0077", "files of a worker are not the hub's secrets");
    assert_eq!(hub.stop().code, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_stops_ends_its_workers_and_says_so_when_it_is_back() {
    let house = House::new(&[("worker", "command: exec sleep 1000")]);
    let hub = house.0.hub();
    let (url, boss) = (hub.url.clone(), house.boss(&hub.url));
    let worker = assign(&boss, "worker", "one").await;
    let process = pid(&house.started(&worker).await["worker"]);
    assert_eq!(hub.stop().code, Some(0));
    assert!(!exists(process));
    let hub = house.0.hub_with(&["--listen", url.trim_start_matches("http://")]);
    let all = gather(&boss).await;
    assert_eq!(all.total, 1, "{all:?}");
    assert!(all.messages[0].message.contains("the hub was stopped"), "{all:?}");
    assert_eq!(hub.stop().code, Some(0));
}

/// What a vandal does: it runs, and leaves nothing of its folder, where its keeper may just
/// be writing.
const VANDAL: &str = "top=\"${POSTHASTE_DATA%/data/agents/*}\"; echo $$ >> \"$top/runs\"; \
                      until rm -rf \"${POSTHASTE_DATA%/data}\"; do :; done; \
                      cd /; echo $$ > \"$top/gone\"; exec sleep 1000";

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_does_not_run_twice_when_its_worker_removes_its_folder_and_the_hub_is_killed() {
    let house = House::new(&[("vandal", &format!("command: {}", Value::from(VANDAL)))]);
    let hub = house.0.hub();
    let (url, boss) = (hub.url.clone(), house.boss(&hub.url));
    let id = assign(&boss, "vandal", "once").await;
    let (runs, gone) = (house.0.scratch().join("runs"), house.0.scratch().join("gone"));
    let number = || fs::read_to_string(&gone).unwrap_or_default();
    until(|| number().ends_with('\n')).await;
    let worker = number().trim().parse().ok().and_then(Pid::from_raw).expect("a process");
    let _mortal = crate::keeper::Mortal(worker);
    hub.kill();
    assert!(!house.folder(&id).exists() && exists(worker));

    let listen = url.trim_start_matches("http://").to_owned();
    let hub = house.0.hub_with(&["--listen", &listen]);
    let gathered = gather(&boss).await;
    assert_eq!(count(&gathered, "system.agent_failed"), 1, "{gathered:?}");
    let [report] = gathered.messages.as_slice() else { panic!("{gathered:?}") };
    assert!(report.message.contains("its folder"), "{}", report.message);
    assert_eq!(boss.instance(&id).await.expect("known").status, "failed");
    assert_eq!(fs::read_to_string(&runs).expect("it ran").lines().count(), 1);
    until(|| super::hostile::left(std::slice::from_ref(&id)).is_empty()).await;
    hub.stop();
}
