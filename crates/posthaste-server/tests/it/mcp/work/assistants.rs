//! The registry of assistants as its own plan describes it: the usage example word for
//! word, and what the plan says of threads and of who shares a message box.

use posthaste_api::profiles::ProfileInput;
use posthaste_core::Limits;
use posthaste_core::limits::Write;
use posthaste_core::orchestration::AgentsConfig;
use serde_json::{Value, json};

use super::super::agent::{Agent, Era, Told};
use crate::house::{House, read, send, texts, until};
use crate::staff::{Staff, house, staffed};

/// A client of the registry's own tools.
async fn speaks(house: &House, token: &str) -> Agent {
    let mut agent = Agent::silent(house, token, Era::Old, "test");
    agent.url = format!("{}?dialect=assistant", agent.url);
    agent.hello().await;
    agent
}

const TASK: &str = "a task";

async fn spawn(by: &Agent, assistant: &str) -> Value {
    let task = json!({ "assistant_id": assistant, "query": TASK });
    let told = by.call("spawn_assistant", task).await;
    assert!(!told.is_error, "{told:?}");
    told.json()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text: {value}")).to_owned()
}

/// The spawned assistant as a client.
async fn runner(house: &House, staff: &Staff, spawned: &Value) -> Agent {
    let start = staff.works(&text(&spawned["process_id"])).await;
    speaks(house, &start.token.0).await
}

async fn write(by: &Agent, to: &str, thread: &Value, message: &str) -> Told {
    let message = json!({ "to_assistant_id": to, "thread_id": thread, "message": message });
    by.call("send_message", message).await
}

/// The texts of a thread that its reader has not read, besides its task.
async fn unread(by: &Agent, thread: &Value) -> Vec<String> {
    let told = by.call("recv_message", json!({ "thread_id": thread, "unread_only": true })).await;
    let messages = told.json()["messages"].as_array().expect("messages").clone();
    let texts = messages.iter().map(|message| text(&message["content"]));
    texts.filter(|text| text != TASK).collect()
}

#[track_caller]
fn refused(told: &Told) -> String {
    assert!(told.is_error && told.json()["success"] == false, "{told:?}");
    text(&told.json()["reason"])
}

#[tokio::test]
async fn the_usage_example_works_word_for_word() {
    let (house, staff) = house().await;
    let analyzer = ProfileInput {
        name: Some("analyzer".into()),
        description: "A python code analyzer".into(),
        driver: Some("command".into()),
        ..ProfileInput::default()
    };
    house.operator().create_profile(&analyzer).await.expect("a profile");
    let (boss, _) = house.agent("boss").await;
    // Another one of that name, who could take what is written to the name.
    let (_, as_other) = house.agent("analyzer").await;
    let me = speaks(&house, &boss.token).await;

    // 1. Discover available assistants
    let search = json!({ "query": "python code analyzer" });
    let assistants = me.call("builtin_assistant__search_assistant", search).await.json();

    // 2. Spawn specialist assistant
    let task = json!({
        "assistant_id": assistants[0]["id"],
        "query": "Analyze this Python code for bugs",
        "run_mode": "async",
    });
    let spawned = me.call("builtin_assistant__spawn_assistant", task).await.json();
    let (process_id, thread_id) = (&spawned["process_id"], &spawned["thread_id"]);
    let specialist = runner(&house, &staff, &spawned).await;
    write(&specialist, "boss", thread_id, "I begin with the imports").await;

    // 3. Lightweight status check (polling pattern)
    let poll = json!({ "process_id": process_id });
    let status = me.call("builtin_assistant__poll_assistant", poll).await.json();
    assert_eq!(status["process"]["status"], "running");
    assert_eq!(status["process"]["assistant_id"], assistants[0]["id"]);
    assert_eq!(status["message_summary"]["unread_messages"], 1, "{status}");

    // 4. Send coordination message
    let coordination = json!({
        "to_assistant_id": assistants[0]["id"],
        "thread_id": thread_id,
        "message": "Focus on security vulnerabilities",
    });
    let sent = me.call("builtin_assistant__send_message", coordination).await;
    assert_eq!(sent.json(), json!({ "success": true }));

    // 5. Fetch messages only when needed
    let fetch = json!({ "thread_id": thread_id, "unread_only": true, "mark_as_read": true });
    let messages = me.call("builtin_assistant__recv_message", fetch).await.json();
    let message = &messages["messages"][0];
    let said = format!("{}: {}", text(&message["from_assistant_id"]), text(&message["content"]));
    assert_eq!(said, "analyzer: I begin with the imports", "{messages}");

    // The one who was spawned has what was written to it, and the other one has nothing.
    assert!(read(&as_other).await.messages.is_empty(), "nobody else gets it");
    let waits = unread(&specialist, thread_id).await;
    assert_eq!(waits.last().map(String::as_str), Some("Focus on security vulnerabilities"));
    let its = house.client(&specialist.token);
    assert_eq!(texts(&read(&its).await), ["Focus on security vulnerabilities"]);
}

#[tokio::test]
async fn within_a_thread_an_assistant_and_whoever_spawned_it_write_to_each_other_by_name() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let (_, as_other_boss) = house.agent("boss").await;
    let me = speaks(&house, &boss.token).await;
    let (first, second) = (spawn(&me, "worker").await, spawn(&me, "worker").await);
    let (one, two) = (runner(&house, &staff, &first).await, runner(&house, &staff, &second).await);

    for (spawned, message) in [(&first, "to the first"), (&second, "to the second")] {
        let told = write(&me, "worker", &spawned["thread_id"], message).await;
        assert_eq!(told.json(), json!({ "success": true }));
    }
    let team = write(&me, "worker@main", &second["thread_id"], "to the second, too").await;
    assert_eq!(team.json(), json!({ "success": true }));
    assert_eq!(texts(&read(&house.client(&one.token)).await), ["to the first"]);
    let to_second = ["to the second", "to the second, too"];
    assert_eq!(texts(&read(&house.client(&two.token)).await), to_second);

    let back = write(&one, "boss", &first["thread_id"], "to my parent").await;
    assert_eq!(back.json(), json!({ "success": true }));
    assert!(read(&as_other_boss).await.messages.is_empty(), "it has another one");
    assert_eq!(texts(&read(&as_boss).await), ["to my parent"]);

    // A worker whose own worker has the same name means the other one.
    let grandchild = spawn(&one, "worker").await;
    let below = runner(&house, &staff, &grandchild).await;
    let up = write(&below, "worker", &grandchild["thread_id"], "from below").await;
    assert_eq!(up.json(), json!({ "success": true }));
    assert_eq!(texts(&read(&house.client(&one.token)).await), ["from below"]);

    staff.answers(&text(&first["process_id"]), "done").await;
    let gone = refused(&write(&me, "worker", &first["thread_id"], "too late").await);
    assert!(gone.contains(&text(&first["process_id"])), "{gone}");
}

#[tokio::test]
async fn within_a_thread_siblings_answer_each_other_by_name() {
    let (house, staff) = house().await;
    let profile = ProfileInput {
        name: Some("helper".into()),
        driver: Some("command".into()),
        ..ProfileInput::default()
    };
    house.operator().create_profile(&profile).await.expect("a profile");
    let (boss, _) = house.agent("boss").await;
    let (_, as_other_helper) = house.agent("helper").await;
    let me = speaks(&house, &boss.token).await;
    let (first, second) = (spawn(&me, "worker").await, spawn(&me, "helper").await);
    let worker = runner(&house, &staff, &first).await;
    let helper = runner(&house, &staff, &second).await;
    let thread = &first["thread_id"];
    write(&helper, "worker", thread, "may I help?").await;

    let asked = worker.call("recv_message", json!({ "thread_id": thread })).await.json();
    let from = text(
        &asked["messages"].as_array().expect("messages").last().expect("one")["from_assistant_id"],
    );
    assert_eq!(from, "helper", "{asked}");
    assert_eq!(write(&worker, &from, thread, "please").await.json(), json!({ "success": true }));

    assert!(read(&as_other_helper).await.messages.is_empty(), "it is of no such family");
    assert_eq!(texts(&read(&house.client(&helper.token)).await), ["please"]);

    // Of two in the family none is meant: the name is what it is without a thread.
    let third = spawn(&me, "helper").await;
    let another = runner(&house, &staff, &third).await;
    write(&worker, "helper", thread, "whoever").await;
    assert_eq!(texts(&read(&as_other_helper).await), ["whoever"]);
    assert!(read(&house.client(&another.token)).await.messages.is_empty());
}

#[tokio::test]
async fn messages_are_from_and_to_the_ids_that_the_registry_lists() {
    let (house, staff) = house().await;
    let (boss, _) = house.agent("boss").await;
    let me = speaks(&house, &boss.token).await;
    let spawned = spawn(&me, "worker").await;
    let worker = runner(&house, &staff, &spawned).await;
    let (process, thread) = (text(&spawned["process_id"]), &spawned["thread_id"]);
    for to in ["worker", &process, &format!("worker.{process}@main")] {
        assert_eq!(write(&me, to, thread, "down").await.json(), json!({ "success": true }));
    }
    write(&worker, "boss", thread, "up").await;
    write(&worker, "human", thread, "to the top").await;
    send(&house.operator(), &process, "from the top").await;

    let listed = me.call("list_assistant", json!({})).await.json();
    let known: Vec<&Value> =
        listed["items"].as_array().expect("items").iter().map(|item| &item["id"]).collect();
    assert!(known.contains(&&json!("boss")) && known.contains(&&json!("worker")), "{listed}");
    let told = me.call("recv_message", json!({ "thread_id": thread })).await.json();
    let messages = told["messages"].as_array().expect("messages").clone();
    let who = |message: &Value| {
        ["from_assistant_id", "to_assistant_id", "from_process_id"].map(|key| message[key].clone())
    };
    let wanted = [
        // The task.
        [json!("boss"), json!("worker"), json!(boss.instance)],
        [json!("boss"), json!("worker"), json!(boss.instance)],
        [json!("boss"), json!("worker"), json!(boss.instance)],
        [json!("boss"), json!("worker"), json!(boss.instance)],
        [json!("worker"), json!("boss"), json!(process)],
        [json!("worker"), json!("human"), json!(process)],
        [json!("human"), json!("worker"), Value::Null],
    ];
    assert_eq!(messages.iter().map(who).collect::<Vec<_>>(), wanted, "{told}");
}

#[tokio::test]
async fn each_runner_has_a_unique_thread_id_and_messages_are_isolated_by_thread() {
    let (house, staff) = house().await;
    let (boss, _) = house.agent("boss").await;
    let me = speaks(&house, &boss.token).await;
    let (first, second) = (spawn(&me, "worker").await, spawn(&me, "worker").await);
    let (one, two) = (runner(&house, &staff, &first).await, runner(&house, &staff, &second).await);
    let threads = [&first["thread_id"], &second["thread_id"], &json!(boss.thread_id)];
    assert!(threads[0] != threads[1] && threads[0] != threads[2] && threads[1] != threads[2]);

    write(&me, "worker", threads[0], "for the first").await;
    write(&me, "worker", threads[1], "for the second").await;

    assert_eq!(unread(&one, threads[0]).await, ["for the first"]);
    assert_eq!(unread(&two, threads[1]).await, ["for the second"]);
    assert!(unread(&one, threads[1]).await.is_empty(), "it may look, and none of it is its own");
}

#[tokio::test]
async fn an_unknown_recipient_or_thread_or_a_pair_that_is_not_allowed_is_no_success() {
    let limits = Limits { write_policy: Write::Family, ..Limits::default() };
    let (house, staff) = staffed(limits, AgentsConfig::default()).await;
    let (boss, _) = house.agent("boss").await;
    let (stranger, _) = house.agent("stranger").await;
    let me = speaks(&house, &boss.token).await;
    let as_stranger = speaks(&house, &stranger.token).await;
    let spawned = spawn(&me, "worker").await;
    let (process, thread) = (text(&spawned["process_id"]), &spawned["thread_id"]);
    let worker = runner(&house, &staff, &spawned).await;

    for (to, thread, why) in [
        ("wroker", thread, "no agent is called `wroker`"),
        ("ffffffff", thread, "no instance has the id"),
        ("worker", &json!("t-0000dead"), "t-0000dead"),
        ("worker", &json!("somewhere"), "a thread is"),
    ] {
        let reason = refused(&write(&me, to, thread, "x").await);
        assert!(reason.contains(why), "{to} {thread}: {reason}");
    }
    for to in ["worker", &process] {
        let reason = refused(&write(&as_stranger, to, thread, "x").await);
        assert!(reason.contains("parent, children and siblings"), "{reason}");
    }
    let reason = refused(&write(&worker, "stranger", thread, "x").await);
    assert!(reason.contains("parent, children and siblings"), "{reason}");
    assert!(unread(&worker, thread).await.is_empty());
}

#[tokio::test]
async fn only_parent_child_and_siblings_share_a_message_box() {
    let (house, staff) = house().await;
    let (boss, _) = house.agent("boss").await;
    let (stranger, _) = house.agent("stranger").await;
    let me = speaks(&house, &boss.token).await;
    let (first, second) = (spawn(&me, "worker").await, spawn(&me, "builder").await);
    let (one, two) = (runner(&house, &staff, &first).await, runner(&house, &staff, &second).await);
    let thread = &first["thread_id"];
    let told = write(&two, "worker", thread, "from your sibling").await;
    assert_eq!(told.json(), json!({ "success": true }));
    let all = json!({ "thread_id": thread });
    for family in [&me, &one, &two] {
        let told = family.call("recv_message", all.clone()).await.json();
        assert_eq!(told["summary"]["total_fetched"], 2, "{told}");
    }

    let outside = speaks(&house, &stranger.token).await;
    let mark = json!({ "thread_id": thread, "mark_as_read": true });
    for stranger in [all, mark] {
        let told = outside.call("recv_message", stranger).await.json();
        assert_eq!(told["messages"], json!([]), "{told}");
        assert_eq!(told["summary"], json!({ "total_fetched": 0, "marked_as_read": 0 }));
    }
    assert_eq!(unread(&one, thread).await, ["from your sibling"], "nobody took it");
}

#[tokio::test]
async fn a_runner_acts_under_its_own_thread_and_never_under_a_strangers() {
    let (house, staff) = house().await;
    let (boss, _) = house.agent("boss").await;
    let (stranger, as_stranger) = house.agent("stranger").await;
    let me = speaks(&house, &boss.token).await;
    let spawned = spawn(&me, "worker").await;
    let worker = runner(&house, &staff, &spawned).await;
    let foreign = json!(stranger.thread_id);
    for to in ["boss", "human", "@anyone"] {
        let reason = refused(&write(&worker, to, &foreign, "forged").await);
        assert!(reason.contains(&stranger.thread_id), "{to}: {reason}");
    }
    send(&house.operator(), &stranger.instance, "not for the worker").await;
    let told = worker.call("recv_message", json!({ "thread_id": foreign })).await.json();
    assert_eq!(told["messages"], json!([]), "{told}");
    assert_eq!(texts(&read(&as_stranger).await), ["not for the worker"]);
    let own = write(&worker, "boss", &spawned["thread_id"], "under my own").await;
    assert_eq!(own.json(), json!({ "success": true }));
}

#[tokio::test]
async fn giving_out_work_carries_waiting_mail_and_leaves_reports_for_the_gather() {
    for (dialect, tool, arguments) in [
        ("", "assign", json!({ "agent": "worker", "message": "a task" })),
        ("?dialect=cao", "assign", json!({ "agent_profile": "worker", "message": "a task" })),
        (
            "?dialect=assistant",
            "builtin_assistant__spawn_assistant",
            json!({ "assistant_id": "worker", "query": "a task", "run_mode": "async" }),
        ),
    ] {
        let (house, staff) = house().await;
        let (boss, _) = house.agent("boss").await;
        let (_, as_peer) = house.agent("peer").await;
        let mut me = Agent::silent(&house, &boss.token, Era::Old, "test");
        me.url.push_str(dialect);
        me.hello().await;
        let first = me.call(tool, arguments.clone()).await;
        assert_eq!(first.blocks.len(), 1, "nothing waits: {first:?}");
        let worker = ["instance", "terminal_id", "process_id"];
        let worker = worker.iter().find_map(|key| first.json()[key].as_str().map(str::to_owned));
        staff.answers(&worker.expect("a worker"), "the report").await;
        until("the report is here", async || house.instance(&boss.instance).await.unread == 1)
            .await;
        send(&as_peer, &boss.instance, "an ordinary message").await;

        let told = me.call(tool, arguments).await;

        assert!(!told.is_error, "{dialect}: {told:?}");
        let along: Vec<String> = told.pending().into_iter().map(|(_, text, _)| text).collect();
        assert_eq!(along, ["an ordinary message"], "{dialect}: {told:?}");
    }
}
