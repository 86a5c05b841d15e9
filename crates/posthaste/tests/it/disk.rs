//! A disk that fills up, and one that cannot be written: on a file system of its
//! own, in a mount namespace of its own.

use std::process::Stdio;

use posthaste_api::chat::{ChatQuery, ChatStart};
use posthaste_api::client::ClientError;
use posthaste_api::inbox::InboxQuery;
use posthaste_api::instances::CreateInstance;
use posthaste_api::messages::{ReadQuery, SendRequest};
use posthaste_api::profiles::ProfileInput;
use posthaste_api::work::AssignRequest;
use posthaste_api::{Client, ErrorCode};
use posthaste_testkit::model_server::ModelServer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::agents::talking::WORDS;
use crate::world::{BINARY, Started, World, eventually, is_root, lacks, until};

const TOKEN: &str = "the-operators-token";

/// Whether this machine lets us mount. Root always may; others on some systems.
pub(crate) fn can_mount(world: &World) -> bool {
    let mut try_it =
        world.program("/usr/bin/unshare", &["-rm", "/bin/mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
    let can = try_it.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !can && is_root("a disk of a test's own") {
        lacks("does not let root mount a disk (Debian: the packages `util-linux` and `mount`)");
    }
    can
}

/// Runs `script` in a namespace where `$DATA` is a small disk. What it starts in the
/// background looks whether the script, or the hub that took its place, is still there.
fn on_a_small_disk(world: &World, script: &str) -> Started {
    std::fs::create_dir_all(world.data()).expect("a folder");
    let mut command = world.program("/usr/bin/unshare", &["-rm", "/bin/sh", "-ec", script, BINARY]);
    command
        .env("PATH", "/usr/bin:/bin")
        .env("DATA", world.data())
        .env("SCRATCH", world.scratch())
        .env("POSTHASTE_STORE__WAL_BYTES", "0");
    Started::new(command)
}

/// A hub on a disk of 12 MiB of which so many are taken, until `make-room` is there.
fn crowded(world: &World, taken: u32) -> (Started, Client) {
    let script = format!(
        "mount -t tmpfs -o size=12m tmpfs \"$DATA\"\n\
         printf {TOKEN} > \"$DATA/operator.token\"\n\
         dd if=/dev/zero of=\"$DATA/filler\" bs=1M count={taken} 2>/dev/null\n\
         (while kill -0 $$ && [ ! -e \"$SCRATCH/make-room\" ]; do sleep 0.05; done; rm \"$DATA/filler\") &\n\
         [ ! -e \"$SCRATCH/config.toml\" ] || export POSTHASTE_CONFIG=\"$SCRATCH/config.toml\"\n\
         exec \"$0\" up --json --listen 127.0.0.1:0"
    );
    let mut hub = on_a_small_disk(world, &script);
    let (operator, _) = greeted(&mut hub);
    (hub, operator)
}

/// The hub of the next greeting, and its process.
fn greeted(hub: &mut Started) -> (Client, Pid) {
    let line = hub.line().expect("the hub starts");
    let greeting: Value = serde_json::from_str(&line).expect("a line of JSON");
    let url = greeting["url"].as_str().expect("an address");
    let pid = greeting["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
    let operator = Client::new(url).expect("a good address").with_token(TOKEN);
    (operator, pid.expect("a process"))
}

/// Reads and proves all that waits.
async fn read_all(url: &str, token: String) -> Vec<u64> {
    let reader = Client::new(url).expect("a good address").with_token(token);
    let mut query = InboxQuery { timeout: Some(0.0), ..InboxQuery::default() };
    let mut read = Vec::new();
    loop {
        let inbox = reader.inbox(&query).await.expect("an answer");
        read.extend(inbox.messages.iter().map(|m| m.id));
        query.receipt = inbox.receipt.map(Into::into);
        if inbox.total == 0 {
            return read;
        }
    }
}

#[tokio::test]
async fn a_full_disk_refuses_mail_keeps_what_it_took_and_recovers() {
    let world = World::new();
    if !can_mount(&world) {
        return;
    }
    let (_hub, operator) = crowded(&world, 6);
    let bob = CreateInstance { agent: "bob".into(), ..CreateInstance::default() };
    let bob = operator.create_instance(&bob).await.expect("created");

    let body = "x".repeat(100_000);
    let send = |n: usize| SendRequest {
        idempotency_key: Some(n.to_string()),
        ..SendRequest::new(bob.address.clone(), body.clone())
    };
    let mut accepted = Vec::new();
    let refusal = loop {
        match operator.send(&send(accepted.len())).await {
            Ok(receipt) => accepted.push(receipt.seq),
            Err(error) => break error,
        }
        assert!(accepted.len() < 500, "the disk never filled up");
    };
    let ClientError::Api(refusal) = refusal else { panic!("no answer: {refusal}") };
    assert_eq!(refusal.code, ErrorCode::Unavailable);
    assert!(refusal.hint.as_deref().is_some_and(|h| h.contains("disk")), "{refusal:?}");
    assert_eq!(operator.health().await.expect("alive").status, "degraded");
    assert!(!accepted.is_empty());

    std::fs::write(world.scratch().join("make-room"), "").expect("written");
    let mut again = None;
    until(async || {
        match operator.send(&send(accepted.len())).await {
            Ok(receipt) => again = Some(receipt),
            Err(ClientError::Api(error)) if error.code == ErrorCode::Unavailable => (),
            Err(other) => panic!("the hub did not recover: {other}"),
        }
        again.is_some()
    })
    .await;
    let again = again.expect("just accepted");
    assert!(!again.duplicate, "the refused send left nothing behind");
    accepted.push(again.seq);
    assert_eq!(operator.health().await.expect("alive").status, "ok");

    assert_eq!(read_all(operator.url(), bob.token).await, accepted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_waits_for_room_on_a_full_disk_and_loses_no_word() {
    let (world, mut model) = (World::new(), ModelServer::start().await);
    if !can_mount(&world) {
        return;
    }
    world.config(&format!(
        "[models.play]\nprovider = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"scripted\"\n",
        model.url()
    ));
    let (hub, operator) = crowded(&world, 6);
    let helper = ProfileInput {
        name: Some("helper".to_owned()),
        driver: Some("runner".to_owned()),
        ..ProfileInput::default()
    };
    operator.create_profile(&helper).await.expect("a profile");
    let message = Some("Tell me a long story.".to_owned());
    let chat = ChatStart { agent: "helper".to_owned(), message, ..ChatStart::default() };
    let who = operator.start_chat(&chat).await.expect("started").instance;
    let turn = model.asked().await;
    let body = "x".repeat(100_000);
    let mut sent = 0;
    let mail = SendRequest::new("human".to_owned(), body);
    let bob = CreateInstance { agent: "bob".into(), ..CreateInstance::default() };
    let bob = operator.create_instance(&bob).await.expect("created");
    let bob = Client::new(operator.url()).expect("a good address").with_token(bob.token);
    while bob.send(&mail).await.is_ok() {
        sent += 1;
        assert!(sent < 60, "the disk never filled up");
    }
    // Longer than the room that is left.
    let story = "Once upon a time. ".repeat(20_000);
    turn.say(&story);
    until(async || hub.complained().contains("conversation of an assistant was not stored")).await;
    std::fs::write(world.scratch().join("make-room"), "").expect("written");
    let told = async || {
        let view = operator.chat(&who, &ChatQuery::default()).await.expect("a view");
        let is_it = |text: &str| text.trim_end() == story.trim_end();
        view.entries.iter().any(|entry| entry.kind == "answer" && is_it(&entry.text))
    };
    until(told).await;
    assert_eq!(operator.instance(&who).await.expect("there").status, "running");
    operator.stop_all().await.expect("stopped");
    until(async || operator.instance(&who).await.is_ok_and(|it| it.status == "stopped")).await;
}

/// A line of the log that could not be written once ended the writer of the store.
#[tokio::test]
async fn a_full_disk_that_also_holds_the_log_is_survived() {
    let world = World::new();
    if !can_mount(&world) {
        return;
    }
    let script = format!(
        "mount -t tmpfs -o size=12m tmpfs \"$DATA\"\n\
         export POSTHASTE_DATA=\"$DATA/hub\"; mkdir \"$DATA/hub\"\n\
         printf {TOKEN} > \"$DATA/hub/operator.token\"\n\
         dd if=/dev/zero of=\"$DATA/filler\" bs=1M count=10 2>/dev/null\n\
         (while kill -0 $$ && [ ! -e \"$SCRATCH/make-room\" ]; do sleep 0.05; done; rm \"$DATA/filler\") &\n\
         setpriv --pdeathsig KILL \"$0\" up --json --listen 127.0.0.1:0 2> \"$DATA/log\"\n\
         cp \"$DATA/log\" \"$SCRATCH/log\""
    );
    let mut hub = on_a_small_disk(&world, &script);
    let (operator, process) = greeted(&mut hub);
    let bob = CreateInstance { agent: "bob".into(), ..CreateInstance::default() };
    let bob = operator.create_instance(&bob).await.expect("created");
    let send = |size: usize| SendRequest::new(bob.address.clone(), "x".repeat(size));

    let mut accepted = Vec::new();
    let mut tries = 0;
    while lost_lines(&operator).await.is_none_or(|lost| lost <= 5) {
        // Large ones first, then down to the last page. Each refusal is a line of the log.
        match operator.send(&send(if tries < 50 { 100_000 } else { 100 })).await {
            Ok(receipt) => accepted.push(receipt.seq),
            Err(ClientError::Api(told)) => {
                assert_eq!(told.code, ErrorCode::Unavailable);
                assert!(told.message.contains("full"), "{told:?}");
            }
            Err(other) => panic!("no answer: {other}"),
        }
        tries += 1;
        assert!(tries < 20_000, "the log always has room");
    }
    std::fs::write(world.scratch().join("make-room"), "").expect("written");
    // A large one: a small one may fit before there is room.
    let room = accepted.len();
    until(async || {
        match operator.send(&send(100_000)).await {
            Ok(receipt) => accepted.push(receipt.seq),
            Err(ClientError::Api(told)) if told.message.contains("full") => (),
            Err(other) => panic!("the hub did not recover: {other}"),
        }
        accepted.len() > room
    })
    .await;
    assert_eq!(read_all(operator.url(), bob.token.clone()).await, accepted);

    // Whatever it says next comes after the note.
    kill_process(process, Signal::TERM).expect("our own hub");
    let ran = hub.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = std::fs::read_to_string(world.scratch().join("log")).expect("the log");
    let note = log.lines().find(|line| line.contains("lines of the log were lost"));
    assert!(note.is_some_and(|note| note.contains("WARN")), "{log}");
}

/// How many lines of its log a hub has lost.
async fn lost_lines(hub: &Client) -> Option<u64> {
    let page = hub.metrics().await.expect("figures");
    let line = page.lines().find_map(|l| l.strip_prefix("posthaste_log_lines_lost_total "));
    line?.parse().ok()
}

#[tokio::test]
async fn a_hub_on_a_full_disk_is_not_ready_until_there_is_room() {
    let world = World::new();
    if !can_mount(&world) {
        return;
    }
    let (_hub, operator) = crowded(&world, 10);
    operator.ready().await.expect("there is room");
    let bob = CreateInstance { agent: "bob".into(), ..CreateInstance::default() };
    let bob = operator.create_instance(&bob).await.expect("created");
    // Down to the last page.
    for size in [100_000, 1_000] {
        let body = "x".repeat(size);
        let mut sent = 0;
        while operator.send(&SendRequest::new(bob.address.clone(), body.clone())).await.is_ok() {
            sent += 1;
            assert!(sent < 5_000, "the disk never filled up");
        }
    }
    // A checkpoint may make a little room in the log: that, too, is used up.
    let small = SendRequest::new(bob.address.clone(), "x".repeat(1_000));
    let mut tries = 0;
    let told = loop {
        match operator.ready().await {
            Err(told) => break told,
            Ok(_) => drop(operator.send(&small).await),
        }
        tries += 1;
        assert!(tries < 5_000, "it is always ready");
    };
    let ClientError::Api(told) = told else { panic!("no answer: {told}") };
    assert_eq!(told.code, ErrorCode::Unavailable);
    assert!(told.message.starts_with("the disk cannot be written: "), "{told:?}");

    // Nobody sends any more; whoever asks finds out by itself.
    std::fs::write(world.scratch().join("make-room"), "").expect("written");
    until(async || operator.ready().await.is_ok()).await;
    assert_eq!(operator.health().await.expect("alive").status, "ok");
}

/// The log has room, its index has not: SQLite writes a whole transaction down before
/// it fails, and would find it there at the next start.
#[tokio::test]
async fn what_a_full_disk_refused_is_not_delivered_after_a_kill() {
    let world = World::new();
    if !can_mount(&world) {
        return;
    }
    let script = format!(
        "mount -t tmpfs -o size=40m tmpfs \"$DATA\"\n\
         printf {TOKEN} > \"$DATA/operator.token\"\n\
         export POSTHASTE_STORE__WAL_BYTES={}\n\
         (while kill -0 $$ && [ ! -e \"$SCRATCH/fill\" ]; do sleep 0.05; done\n\
          dd if=/dev/zero of=\"$DATA/filler\" bs=4k 2>/dev/null || : > \"$SCRATCH/filled\") &\n\
         setpriv --pdeathsig KILL \"$0\" up --json --listen 127.0.0.1:0 || rm \"$DATA/filler\"\n\
         exec \"$0\" up --json --listen 127.0.0.1:0",
        34 << 20
    );
    let mut hub = on_a_small_disk(&world, &script);
    let (operator, process) = greeted(&mut hub);
    let bob = CreateInstance { agent: "bob".into(), ..CreateInstance::default() };
    let bob = operator.create_instance(&bob).await.expect("created");
    std::fs::write(world.scratch().join("fill"), "").expect("written");
    eventually(|| world.scratch().join("filled").exists());

    let body = "x".repeat(500_000);
    let mut accepted = Vec::new();
    while let Ok(receipt) =
        operator.send(&SendRequest::new(bob.address.clone(), body.clone())).await
    {
        accepted.push(receipt.seq);
        assert!(accepted.len() < 100, "the disk never filled up");
    }
    assert!(accepted.len() > 50, "only {}: the log has no room", accepted.len());
    kill_process(process, Signal::KILL).expect("our own hub");

    let (operator, _) = greeted(&mut hub);
    assert_eq!(read_all(operator.url(), bob.token).await, accepted);
}

#[tokio::test]
async fn a_disk_without_room_for_a_long_log_is_room_enough_for_a_hub() {
    let world = World::new();
    if !can_mount(&world) {
        return;
    }
    // The log would take all of it, or all but a little.
    for size in [20 << 10, (32 << 10) + 200] {
        let script = format!(
            "mount -t tmpfs -o size={size}k tmpfs \"$DATA\"\n\
             printf {TOKEN} > \"$DATA/operator.token\"\n\
             unset POSTHASTE_STORE__WAL_BYTES\n\
             exec \"$0\" up --json --listen 127.0.0.1:0"
        );
        let mut hub = on_a_small_disk(&world, &script);
        let (operator, _) = greeted(&mut hub);
        let bob = CreateInstance { agent: "bob".into(), ..CreateInstance::default() };
        operator.create_instance(&bob).await.expect("created");
        let mail = SendRequest::new("bob", "x".repeat(100_000));
        operator.send(&mail).await.expect("accepted");
    }
}

#[test]
fn a_folder_that_cannot_be_written_stops_the_start_with_advice() {
    let world = World::new();
    if !can_mount(&world) {
        return;
    }
    let script = "mount -t tmpfs -o ro tmpfs \"$DATA\"\n\
                  exec \"$0\" up --listen 127.0.0.1:0";
    let ran = on_a_small_disk(&world, script).end();
    ran.failed(1, "data", "writable");
    let script = "mount -t tmpfs -o ro tmpfs \"$DATA\"\n\
                  exec \"$0\" token --new operator";
    let ran = on_a_small_disk(&world, script).end();
    ran.failed(1, "operator.token", "writable");
}

/// A program of a worker that waits for a file before it says a word.
const WAITS: &str = "next; waits \"$SCRATCH/go\"; begins; ends done; exit 3";

/// Starts a worker with this program, and gives the number of its task.
async fn start_worker(world: &World, operator: &Client, program: &str) -> u64 {
    let path = world.scratch().join("program");
    std::fs::write(&path, format!("SCRATCH={:?}\n{WORDS}\n{program}\n", world.scratch()))
        .expect("written");
    let config = json!({ "command": ["/bin/sh", path] });
    let profile = ProfileInput {
        name: Some("talker".to_owned()),
        driver: Some("claude".to_owned()),
        config: config.as_object().cloned().expect("an object"),
        ..ProfileInput::default()
    };
    operator.create_profile(&profile).await.expect("a profile");
    let assign = AssignRequest {
        agent: "talker".to_owned(),
        message: "the task".to_owned(),
        ..AssignRequest::default()
    };
    let given = operator.assign(&assign).await.expect("assigned");
    until(async || {
        operator.instance(&given.instance).await.is_ok_and(|worker| worker.status == "running")
    })
    .await;
    given.task
}

/// Sends to nobody in particular until the disk is full.
async fn fill(operator: &Client) {
    let bob = CreateInstance { agent: "bob".into(), ..CreateInstance::default() };
    let bob = operator.create_instance(&bob).await.expect("created");
    for size in [100_000, 1_000, 10] {
        let mail = SendRequest::new(bob.address.clone(), "x".repeat(size));
        let mut sent = 0;
        while operator.send(&mail).await.is_ok() {
            sent += 1;
            assert!(sent < 5_000, "the disk never filled up");
        }
    }
}

/// The report of a worker was its answer, and its task was proved by its turn.
async fn until_answered(operator: &Client, task: u64) {
    let query = InboxQuery { timeout: Some(60.0), ..InboxQuery::default() };
    let inbox = operator.inbox(&query).await.expect("an answer");
    let report = inbox.messages.first().expect("a report");
    assert_eq!((report.kind.as_ref(), report.message.as_ref()), ("result", "done"));
    let task = operator.read(&task.to_string(), &ReadQuery::default()).await.expect("kept");
    assert_eq!(task.deliveries[0].proof.as_deref(), Some("turn"), "{task:?}");
}

/// On one disk the state of the conversation cannot be written either; with a disk for
/// the database alone the program ends while its words cannot be acted on.
#[tokio::test]
async fn a_conversation_on_a_full_disk_waits_and_goes_on() {
    for (own_disk, program) in [
        ("true", "next; waits \"$SCRATCH/go\"; begins; ends done; next"),
        ("mount -t tmpfs tmpfs \"$DATA/agents\"", WAITS),
    ] {
        let world = World::new();
        if !can_mount(&world) {
            return;
        }
        let script = format!(
            "mount -t tmpfs -o size=12m tmpfs \"$DATA\"; mkdir \"$DATA/agents\"; {own_disk}\n\
             printf {TOKEN} > \"$DATA/operator.token\"\n\
             dd if=/dev/zero of=\"$DATA/filler\" bs=1M count=6 2>/dev/null\n\
             (while kill -0 $$ && [ ! -e \"$SCRATCH/make-room\" ]; do sleep 0.05; done; rm \"$DATA/filler\") &\n\
             (while kill -0 $$ && [ ! -e \"$DATA\"/agents/*/exit.json ]; do sleep 0.05; done; : > \"$SCRATCH/ended\") &\n\
             exec \"$0\" up --json --listen 127.0.0.1:0"
        );
        let mut hub = on_a_small_disk(&world, &script);
        let (operator, _) = greeted(&mut hub);
        let task = start_worker(&world, &operator, program).await;
        fill(&operator).await;
        std::fs::write(world.scratch().join("go"), "").expect("written");
        if program == WAITS {
            eventually(|| world.scratch().join("ended").exists());
        }
        std::fs::write(world.scratch().join("make-room"), "").expect("written");
        until_answered(&operator, task).await;
        // Nobody else sees the disk with the notes of its keeper.
        operator.stop_all().await.expect("stopped");
    }
}
