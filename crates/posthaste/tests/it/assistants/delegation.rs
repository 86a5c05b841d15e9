//! Assistants that give work to other assistants.

use serde_json::{Value, json};

use super::stage::{Runner, Stage};
use crate::world::eventually;

const BOSS: &str = "You mend logins.";
const MASON: &str = "You lay bricks.";

async fn stage() -> Stage {
    let stage = Stage::set(Runner::BuiltIn).await;
    stage.profile("mason", MASON, Runner::BuiltIn);
    stage
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_assigns_three_others_and_gathers_every_result() {
    let mut stage = stage().await;
    let helper = stage.assign("build a wall");
    let work = |n: u32| ("assign", json!({ "agent": "mason", "message": format!("brick {n}") }));
    stage.turn_of(BOSS).await.call_all(&[work(1), work(2), work(3)]);
    let turn = stage.turn_of(BOSS).await;
    turn.call("check_inbox", json!({ "wait_for": "all", "timeout": 60 }));
    for _ in 0..3 {
        let turn = stage.turn_of(MASON).await;
        let task = turn.last();
        assert!(turn.talk()[0].1.starts_with("[posthaste] "), "an agent's task is data");
        let brick = (1..=3).find(|n| task.contains(&format!("brick {n}"))).expect("a task");
        turn.say(&format!("laid {brick}"));
    }
    let turn = stage.turn_of(BOSS).await;
    let inbox = read(&turn.last());
    assert_eq!(inbox["status"], "complete", "{inbox}");
    let mut texts: Vec<_> = inbox["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|m| m["message"].clone())
        .collect();
    texts.sort_by_key(Value::to_string);
    assert_eq!(texts, ["laid 1", "laid 2", "laid 3"], "{inbox}");
    turn.say("The wall stands.");
    assert_eq!(stage.hears()["message"], "The wall stands.");
    stage.until_status(&helper, "finished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_assistants_are_spawned_polled_and_read_under_the_names_of_the_registry() {
    let mut stage = stage().await;
    stage.assign("analyze the code");
    let turn = stage.turn_of(BOSS).await;
    turn.call("builtin_assistant__search_assistant", json!({ "query": "helps", "limit": 5 }));
    let turn = stage.turn_of(BOSS).await;
    assert!(turn.last().contains("mason"), "{}", turn.last());
    let spawn = |n: u32| {
        let query = format!("part {n}");
        ("builtin_assistant__spawn_assistant", json!({ "assistant_id": "mason", "query": query }))
    };
    turn.call_all(&[spawn(1), spawn(2), spawn(3)]);
    let turn = stage.turn_of(BOSS).await;
    let talk = turn.talk();
    let spawned: Vec<Value> = talk[talk.len() - 3..].iter().map(|(_, text)| read(text)).collect();
    let poll = |process: &Value| {
        ("builtin_assistant__poll_assistant", json!({ "process_id": process["process_id"] }))
    };
    // Each of them asks its model, so each runs.
    let parts =
        [stage.turn_of(MASON).await, stage.turn_of(MASON).await, stage.turn_of(MASON).await];
    turn.call_all(&spawned.iter().map(poll).collect::<Vec<_>>());
    let turn = stage.turn_of(BOSS).await;
    let talk = turn.talk();
    for (_, text) in &talk[talk.len() - 3..] {
        let polled = read(text);
        assert_eq!(polled["process"]["status"], "running", "{polled}");
        assert!(polled.get("content").is_none(), "{polled}");
    }
    for part in parts {
        part.say("no bugs");
    }
    for process in &spawned {
        let id = process["process_id"].as_str().expect("an id");
        eventually(|| stage.world.json(&["poll", id])["status"] == "finished");
    }
    turn.call_all(&spawned.iter().map(poll).collect::<Vec<_>>());
    let turn = stage.turn_of(BOSS).await;
    let talk = turn.talk();
    let ended = talk.iter().filter(|(role, text)| role == "tool" && text.contains("\"finished\""));
    assert_eq!(ended.count(), 3, "{talk:#?}");
    // The results came by the inbox, as data, before the model was asked again.
    let results = talk.iter().filter(|(role, text)| role == "tool" && text.contains("no bugs"));
    assert_eq!(results.count(), 3, "{talk:#?}");
    turn.say("All parts are well.");
    assert_eq!(stage.hears()["message"], "All parts are well.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handoff_waits_for_its_answer_and_the_humans_words_end_the_wait_with_a_job() {
    let mut stage = stage().await;
    let helper = stage.assign("build a wall");
    let work = json!({ "agent": "mason", "message": "a brick" });
    stage.turn_of(BOSS).await.call("handoff", work.clone());
    stage.turn_of(MASON).await.say("laid");
    let turn = stage.turn_of(BOSS).await;
    assert!(turn.last().contains("laid"), "{}", turn.last());

    turn.call("handoff", work);
    let brick = stage.turn_of(MASON).await;
    let words = stage.says(&helper, "how is it going?");
    let turn = stage.turn_of(BOSS).await;
    let talk = turn.talk();
    assert_eq!(talk.last(), Some(&("user".to_owned(), "how is it going?".to_owned())));
    let job = &talk[talk.len() - 2].1;
    assert!(job.contains("job") && !job.contains("going"), "{job}");
    turn.call("respondToUser", json!({ "message": "one brick is laid", "inReplyTo": words }));
    let turn = stage.turn_of(BOSS).await;
    brick.say("laid, too");
    turn.call("check_inbox", json!({ "wait_for": "all", "timeout": 60 }));
    let turn = stage.turn_of(BOSS).await;
    assert!(turn.last().contains("laid, too"), "{}", turn.last());
    turn.say("Both are laid.");
    stage.until_status(&helper, "finished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_that_would_end_before_its_workers_is_reminded_of_them_once() {
    let mut stage = stage().await;
    let helper = stage.assign("build a wall");
    let work = json!({ "agent": "mason", "message": "a brick" });
    stage.turn_of(BOSS).await.call("assign", work);
    let brick = stage.turn_of(MASON).await;
    stage.turn_of(BOSS).await.say("Done.");
    let turn = stage.turn_of(BOSS).await;
    let reminder = turn.last();
    assert!(reminder.contains("have not reported") && reminder.contains("mason."), "{reminder}");
    brick.say("laid");
    turn.call("check_inbox", json!({ "wait_for": "all", "timeout": 60 }));
    let turn = stage.turn_of(BOSS).await;
    assert!(turn.last().contains("laid"), "{}", turn.last());
    turn.say("One brick is laid.");
    assert_eq!(stage.hears()["message"], "One brick is laid.");
    stage.until_status(&helper, "finished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_without_commands_lets_nobody_work_outside_of_its_folder() {
    let mut stage = stage().await;
    let folder = stage.world.scratch().join("profiles");
    let profile = "---\nname: clerk\ndriver: runner\nconfig: {model: play}\n\
                   allowed_builtin_service_aliases: [workspace]\n---\nYou file.\n";
    std::fs::write(folder.join("clerk.md"), profile).expect("written");
    stage.world.say(&["profiles", "load", folder.to_str().expect("a plain path")]);
    let clerk = stage.assign_agent("clerk", "read what is elsewhere");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let place = |folder: &std::path::Path| json!({ "agent": "clerk", "message": "look", "working_directory": folder });
    stage.turn().await.call("assign", place(elsewhere.path()));
    let turn = stage.turn().await;
    assert!(turn.last().contains("working_directory: "), "{}", turn.last());
    assert!(turn.last().contains("is outside of"), "{}", turn.last());
    // A folder below its own is.
    turn.call("handoff", place(&folder));
    stage.turn_of("You file.").await.say("Nothing.");
    let turn = stage.turn().await;
    assert!(turn.last().contains("Nothing."), "{}", turn.last());
    turn.say("Done.");
    stage.until_status(&clerk, "finished");
}
