//! Workers that run as another user of the system.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use posthaste_core::messaging::message::Principal;
use posthaste_core::orchestration::{AgentsConfig, Assign, AssignError, AtShutdown};
use posthaste_core::ports::Launcher;
use posthaste_core::profiles::{Expect, PutProfile, Source, Template};
use posthaste_core::registry::{AgentKind, Status};
use serde_json::{Value, json};

use super::endings::pid;
use super::{Office, Scratch, exists, quick, until, wish};
use crate::world::{BINARY, Ran, Started, World, is_root, mode};

const NOBODY: u32 = 65534;

fn as_nobody() -> AgentsConfig {
    AgentsConfig { user: "nobody".to_owned(), ..quick() }
}

/// A hub in a folder that others may pass, with a secret of its own.
async fn office(agents: AgentsConfig) -> Office {
    let office = Office::open_in(Scratch::open_to_all(), agents).await;
    let data = office.scratch.path().join("data");
    fs::write(data.join("operator.token"), "the operator's token\n").expect("written");
    open(&data.join("operator.token"), 0o600);
    open(&data, 0o700);
    office
}

fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own");
}

#[tokio::test]
async fn workers_run_as_another_user_who_cannot_read_the_operators_token() {
    if !is_root("a worker as another user") {
        return;
    }
    let office = office(as_nobody()).await;
    let token = office.scratch.path().join("data/operator.token");
    let script = "id -u; id -G; echo $HOME $USER $LOGNAME; echo ${SOME_API_KEY-none}; \
                  cat /dev/stdin; echo; cat \"$POSTHASTE_PROMPT_FILE\"; echo; \
                  echo x > file && cat file; \
                  echo mine > \"$POSTHASTE_DATA/x\" && cat \"$POSTHASTE_DATA/x\"; \
                  cat \"$SECRET\" 2>&1 | grep -o denied; cat \"$SECRET\" > /dev/stderr; exit 0";
    let template = Template {
        driver: Some("command".into()),
        system_prompt: "be brief".into(),
        config: json!({"command": script, "env": {"SECRET": token.to_str()}}).to_string(),
        ..Template::new("worker".parse().expect("a name"), AgentKind::External)
    };
    let put = PutProfile { template, by: Source::Api, expect: Expect::Anything };
    office.hub.put_profile(put).await.expect("kept");
    let done = office.assign("worker", "the task").await.expect("assigned");
    let (kind, text) = office.told(&done).await;
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "65534",
        "65534",
        "/nonexistent nobody nobody",
        "none",
        "the task",
        "be brief",
        "x",
        "mine",
        "denied",
    ];
    assert_eq!((kind.as_str(), &*lines), ("result", &expected[..]));
    let said = fs::read_to_string(office.folder(&done).join("err")).expect("kept");
    assert!(said.contains("Permission denied"), "{said}");
    assert!(!text.contains("the operator's token") && !said.contains("the operator's token"));

    let home = office.scratch.path().join("data-workers").join(done.instance.id.to_string());
    let file = fs::metadata(home.join("work/file")).expect("it wrote there");
    assert_eq!(file.uid(), NOBODY);
    assert_eq!((mode(&home), mode(&home.join("work"))), (0o711, 0o700));
    office.launcher.forget_all_but(&[]).await;
    assert!(!home.exists() && !office.folder(&done).exists());
    office.close().await;
}

#[tokio::test]
async fn a_worker_of_another_user_is_stopped_with_all_that_it_started() {
    if !is_root("a worker as another user") {
        return;
    }
    let office = office(as_nobody()).await;
    let script = "trap '' TERM; setsid sleep 1000 & sleep 1000; sleep 1000";
    office.profile("worker", json!({ "command": script })).await;
    let done = office.assign("worker", "x").await.expect("assigned");
    let worker = pid(&office.started(&done).await["worker"]);
    let user = || fs::metadata(format!("/proc/{worker}")).map(|process| process.uid()).ok();
    until(|| user() == Some(NOBODY)).await;
    office.hub.stop(Principal::Operator, done.instance.id).await.expect("it runs");
    office.report(&done).await;
    assert_eq!(office.status(&done), Status::Stopped);
    assert!(!exists(worker));
    let id = [done.instance.id.to_string()];
    until(|| super::hostile::left(&id).is_empty()).await;
    office.close().await;
}

#[tokio::test]
async fn a_worker_of_another_user_outlives_the_hub_and_reports() {
    if !is_root("a worker as another user") {
        return;
    }
    let agents = AgentsConfig { shutdown: AtShutdown::Leave, ..as_nobody() };
    let office = office(agents.clone()).await;
    let go = office.scratch.path().join("go");
    let script = "while ! [ -e \"$GO\" ]; do sleep 0.02; done; id -un";
    office.profile("worker", json!({"command": script, "env": {"GO": go.to_str()}})).await;
    let done = office.assign("worker", "x").await.expect("assigned");
    office.started(&done).await;
    let scratch = office.close().await;
    fs::write(go, "").expect("written");
    let office = Office::open_in(scratch, agents).await;
    assert_eq!(office.told(&done).await, ("result".into(), "nobody".into()));
    office.close().await;
}

#[tokio::test]
async fn what_a_worker_of_another_user_left_goes_when_the_configuration_names_that_user_no_more() {
    if !is_root("a worker as another user") {
        return;
    }
    let office = office(as_nobody()).await;
    office.profile("worker", json!({"command": "echo x > file"})).await;
    let done = office.assign("worker", "x").await.expect("assigned");
    office.report(&done).await;
    let home = office.scratch.path().join("data-workers").join(done.instance.id.to_string());
    assert!(home.join("work/file").exists());
    let office = Office::open_in(office.close().await, quick()).await;
    office.launcher.forget_all_but(&[]).await;
    assert!(!home.exists() && !office.folder(&done).exists());
    office.close().await;
}

#[tokio::test]
async fn a_place_that_is_closed_to_the_workers_user_is_told_before_the_start() {
    if !is_root("a worker as another user") {
        return;
    }
    let office = office(as_nobody()).await;
    let closed = office.scratch.path().join("closed");
    fs::create_dir_all(closed.join("inner")).expect("made");
    open(&closed, 0o700);
    let tool = closed.join("tool");
    fs::write(&tool, "#!/bin/sh\n").expect("written");
    open(&tool, 0o755);
    let told = |what: &str| format!("{what} is closed for nobody");

    office.profile("worker", json!({"command": "echo never"})).await;
    let inner = closed.join("inner").to_str().expect("plain").to_owned();
    let assign = Assign { directory: Some(inner.clone()), ..wish("worker", "x") };
    let done = office.hub.assign(assign).await.expect("only the user itself can tell");
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains(&told(&inner)) && text.contains("agents.user"), "{text}");

    let program = tool.to_str().expect("plain");
    office.profile("worker", json!({"command": [program]})).await;
    let done = office.assign("worker", "x").await.expect("only the user itself can tell");
    let (_, text) = office.told(&done).await;
    assert!(text.contains(&told(&format!("the program {program}"))), "{text}");

    office.profile("worker", json!({"command": "true", "worktree": true})).await;
    let error = match office.hub.assign(wish("worker", "x")).await {
        Err(AssignError::Launch(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(error.why.contains("no worktrees"), "{error}");
    assert!(error.hint.expect("what to do").contains("checkout"));
    office.close().await;
}

/// A hub with this user for its workers, which does not start.
fn refused_start(world: &World, user: &str) -> Ran {
    let config = world.config(&format!("[agents]\nuser = \"{user}\"\n"));
    world.run(&["up", "--listen", "127.0.0.1:0", "--config", &config])
}

#[test]
fn a_hub_does_not_start_with_a_user_that_is_not_there() {
    let world = World::new();
    let ran = refused_start(&world, "no-such-user");
    ran.failed(2, "there is no user `no-such-user` (agents.user)", "useradd");
    // Nothing keeps the next start from the folder.
    world.hub().stop();
}

#[test]
fn a_hub_does_not_start_with_a_user_that_it_may_not_switch_to() {
    if !is_root("a worker as another user") {
        return;
    }
    let world = World::open_to_all();
    let (binary, nobody) = (world.scratch().join("posthaste"), NOBODY.to_string());
    fs::copy(BINARY, &binary).expect("a program that nobody can reach");
    std::os::unix::fs::chown(world.scratch(), Some(NOBODY), Some(NOBODY)).expect("root may");
    let config = world.config("[agents]\nuser = \"daemon\"\n");
    let (reuid, regid) = (format!("--reuid={nobody}"), format!("--regid={nobody}"));
    let program = binary.to_str().expect("plain");
    let words = [&*reuid, &regid, "--clear-groups", program, "up", "--listen", "127.0.0.1:0"];
    let words = [&words[..], &["--config", &config]].concat();
    let ran = Started::new(world.program("/usr/bin/setpriv", &words)).end();
    ran.failed(2, "workers cannot run as daemon (agents.user)", "start the hub as root");
    assert!(ran.err.contains("CAP_SETUID"), "{ran:?}");
}

#[test]
fn a_hub_does_not_start_where_its_workers_user_can_reach_no_folder() {
    if !is_root("a worker as another user") {
        return;
    }
    let world = World::new();
    open(world.scratch(), 0o700);
    let ran = refused_start(&world, "nobody");
    ran.failed(2, "is closed for nobody", "agents.folder to a folder that `nobody` can reach");

    let open_to_all = World::open_to_all();
    let root = open_to_all.scratch().join("data-workers");
    fs::create_dir(&root).expect("made");
    open(&root, 0o777);
    let ran = refused_start(&open_to_all, "nobody");
    ran.failed(2, "others may write to it", "agents.folder");
}

#[test]
fn a_real_hub_runs_its_workers_as_the_user_of_its_configuration() {
    if !is_root("a worker as another user") {
        return;
    }
    let world = World::open_to_all();
    fs::create_dir_all(world.file("profiles")).expect("made");
    open(&world.data(), 0o700);
    let script = Value::from("id -un; cat \"$SECRET\" 2>/dev/null || echo closed");
    let env = json!({"SECRET": world.file("operator.token").to_str()});
    let profile =
        format!("---\nname: worker\ndriver: command\ncommand: {script}\nenv: {env}\n---\n");
    fs::write(world.file("profiles/worker.md"), profile).expect("written");
    let config = world.config("[agents]\nuser = \"65534\"\n");
    let hub = world.hub_with(&["--config", &config]);
    let told = world.say(&["handoff", "worker", "x", "--dir", "/"]);
    assert_eq!(told.trim(), "nobody\nclosed");
    let ran = hub.stop();
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn the_workers_folder_stands_beside_a_data_folder_that_is_named_with_a_slash_at_its_end() {
    if !is_root("a worker as another user") {
        return;
    }
    let world = World::open_to_all();
    let config = world.config("[agents]\nuser = \"nobody\"\n");
    let data = format!("{}/", world.data().display());
    let hub = world.hub_with(&["--config", &config, "--data", &data]);
    assert!(world.scratch().join("data-workers").is_dir());
    assert_eq!(hub.stop().code, Some(0));
}
