//! Hubs that are stopped while their assistants work.

use std::io::Write;
use std::path::Path;

use posthaste_api::chat::ChatQuery;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::stage::{Assistant, NAME, Runner, Stage};
use crate::world::eventually;

pub(super) async fn an_assistant_goes_on_after_its_hub_was_stopped_and_repeats_nothing(
    mut stage: Stage,
) {
    let helper = stage.assign("count");
    let place = stage.world.scratch().join("count");
    let count = json!({ "command": format!("echo one >> '{}'", place.display()) });
    stage.turn().await.call("builtin_shell__run", count);
    let turn = stage.turn().await;
    let talk = turn.talk();
    stage.stop_the_hub_and_start_it_again();
    drop(turn);
    let turn = stage.turn().await;
    assert_eq!(turn.talk(), talk, "the same request");
    // It is the same agent, and mail finds it.
    let also = stage.says(&helper, "and the weather?");
    turn.call("respondToUser", json!({ "message": "I have counted." }));
    let turn = stage.turn().await;
    assert_eq!(turn.talk().pop(), Some(("user".into(), "and the weather?".into())));
    stage.until_stored(also);
    stage.stop_the_hub_and_start_it_again();
    drop(turn);
    stage.turn().await.call("respondToUser", json!({ "message": "Sunny.", "inReplyTo": also }));
    stage.turn().await.say("One.");
    stage.until_status(&helper, "finished");

    assert_eq!(std::fs::read_to_string(&place).expect("written"), "one\n");
    let inbox = stage.world.json(&["inbox", "--timeout", "0"]);
    let texts: Vec<_> =
        inbox["messages"].as_array().expect("a list").iter().map(|m| &m["message"]).collect();
    assert_eq!(texts, ["I have counted.", "Sunny.", "One."]);
    let logs = stage.world.say(&["logs", &helper.id]);
    assert_eq!(logs.matches("it goes on where its hub was stopped").count(), 2, "{logs}");
    assert_eq!(logs.matches("> count").count(), 1, "{logs}");
}

pub(super) async fn a_tool_that_a_stopping_hub_cuts_is_told_to_the_model_and_not_used_again(
    mut stage: Stage,
) {
    let helper = stage.assign("look around");
    let place = stage.world.scratch().join("begun");
    let command = format!("echo one >> '{}'; cat < /dev/zero > /dev/null", place.display());
    stage.turn().await.call("builtin_shell__run", json!({ "command": command }));
    eventually(|| place.exists());
    stage.stop_the_hub_and_start_it_again();
    let turn = stage.turn().await;
    turn.assert_talk(&[
        ("user", "look around"),
        ("assistant", "<builtin_shell__run>"),
        ("tool", "(this call was interrupted*"),
    ]);
    let chat = stage.operator().chat(&helper.id, &ChatQuery::default()).await.expect("a view");
    let tool = chat.entries.iter().find(|entry| entry.kind == "tool").expect("a call");
    assert_eq!(tool.state.as_deref(), Some("failed"), "it does not run any more");
    turn.say("I was interrupted.");
    stage.until_status(&helper, "finished");
    assert_eq!(std::fs::read_to_string(&place).expect("written"), "one\n");
}

pub(super) async fn the_answer_to_a_question_of_before_the_stop_comes_as_a_message(
    mut stage: Stage,
) {
    let helper = stage.assign("set up auth");
    stage.turn().await.call("askUser", json!({ "question": "OAuth or JWT?" }));
    let asked = stage.hears()["id"].to_string();
    stage.stop_the_hub_and_start_it_again();
    eventually(|| stage.look(&helper)["activity"] == "waiting_user");
    let needs = stage.world.json(&["needs"]);
    assert_eq!(needs["open"], 1, "it is asked once: {needs}");
    assert_eq!(needs["needs"][0]["message"].to_string(), asked);
    assert!(stage.is_quiet(), "there is nothing to ask the model before the answer");
    let need = needs["needs"][0]["id"].to_string();
    let reply = stage.world.json(&["answer", &need, "JWT"]);
    let turn = stage.turn().await;
    turn.assert_talk(&[
        ("user", "set up auth"),
        ("assistant", "<askUser>"),
        ("tool", "(the question was sent; the answer comes*"),
        ("user", "JWT"),
    ]);
    stage.until_stored(reply["sent"]["seq"].as_u64().unwrap_or_else(|| panic!("{reply}")));
    turn.say("It is JWT.");
    stage.until_status(&helper, "finished");
    assert_eq!(stage.world.json(&["needs"])["open"], 0);
}

/// Writes a record into the conversation of an assistant.
fn record(folder: &Path, record: &Value) {
    let file = std::fs::OpenOptions::new().append(true).open(folder.join("conversation"));
    writeln!(file.expect("a conversation"), "{record}").expect("written");
}

pub(super) async fn an_answer_that_a_stopping_hub_had_stored_reaches_the_model(mut stage: Stage) {
    let helper = stage.assign("set up auth");
    stage.turn().await.call("askUser", json!({ "question": "OAuth or JWT?" }));
    let asked = stage.hears()["id"].clone();
    // The hub is stopped after it has stored the answer, and before it hands it over.
    let answered = json!({ "kind": "answered", "question": asked, "text": "JWT", "mail": [] });
    let folder = stage.folder(&helper);
    stage.stop_the_hub_and_start_it_again_after(|| record(&folder, &answered));
    let turn = stage.turn().await;
    turn.assert_talk(&[("user", "set up auth"), ("assistant", "<askUser>"), ("tool", "JWT")]);
    turn.say("It is JWT.");
    stage.until_status(&helper, "finished");
}

pub(super) async fn a_turn_that_ended_as_its_hub_was_stopped_is_reported_once(mut stage: Stage) {
    stage.world.say(&["join", "alice"]);
    let helper = stage.assign_as("alice", "count");
    let turn = stage.turn().await;
    // The hub is stopped after it has stored the end of the turn, and before it reports.
    let finish = json!({ "kind": "finish", "call": "1:9", "result": "One." });
    let folder = stage.folder(&helper);
    stage.stop_the_hub_and_start_it_again_after(|| record(&folder, &finish));
    drop(turn);
    stage.until_status(&helper, "finished");
    let inbox = stage.world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
    let [report] = inbox["messages"].as_array().expect("a list").as_slice() else {
        panic!("one report: {inbox}")
    };
    assert_eq!((&report["type"], &report["message"]), (&json!("result"), &json!("One.")));
    assert!(stage.is_quiet(), "the model is not asked again");
}

/// A program that gives an assistant work and then goes on with this, and the assistant.
fn boss_and_helper(stage: &Stage, then: &str) -> (Assistant, Assistant) {
    let command = format!("\"$POSTHASTE\" assign {NAME} count && {then}");
    let profile = format!(
        "---\nname: boss\ndriver: command\ncommand: {}\n---\n",
        json!(["sh", "-c", command])
    );
    let folder = stage.world.scratch().join("profiles");
    std::fs::write(folder.join("boss.md"), profile).expect("written");
    stage.world.say(&["profiles", "load", folder.to_str().expect("a plain path")]);
    let boss = stage.assign_agent("boss", "let somebody count");
    let mut found = None;
    eventually(|| {
        let agents = stage.world.json(&["agents", "--tree", "--all"]);
        let all = agents["instances"].as_array().unwrap_or_else(|| panic!("{agents}")).clone();
        found = all.into_iter().find(|agent| agent["agent"] == NAME);
        found.is_some()
    });
    let id = found.expect("an assistant")["instance"].as_str().expect("an id").to_owned();
    (boss, Assistant { id, task: 0 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_whose_giver_ended_with_the_hub_ends_too() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let (boss, helper) = boss_and_helper(&stage, "exec cat < /dev/zero > /dev/null");
    let turn = stage.turn().await;
    stage.stop_the_hub_and_start_it_again();
    drop(turn);
    stage.until_status(&boss, "stopped");
    stage.until_status(&helper, "stopped");
    assert!(stage.is_quiet(), "nobody waits for its answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_before_the_stop_can_be_cancelled() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let helper = stage.assign("set up auth");
    stage.turn().await.call("askUser", json!({ "question": "OAuth or JWT?" }));
    stage.hears();
    stage.stop_the_hub_and_start_it_again();
    eventually(|| stage.look(&helper)["activity"] == "waiting_user");
    stage.operator().cancel_turn(&helper.id).await.expect("cancelled");
    stage.until_status(&helper, "failed");
    assert_eq!(stage.look(&helper)["why"], "its turn was cancelled");
    assert!(stage.is_quiet(), "the model is not asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_that_a_stopping_hub_may_have_said_end_their_turn_and_new_mail_gets_its_own_answer() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let helper = stage.chat("count").await;
    let turn = stage.turn().await;
    let saying = json!({
        "kind": "saying", "text": "One.", "in_reply_to": 1,
        "metadata": { "final": true, "answers": [1] },
    });
    let folder = stage.folder(&helper);
    stage.stop_the_hub_and_start_it_again_after(|| record(&folder, &saying));
    drop(turn);
    assert_eq!(stage.hears()["message"], "One.");
    stage.says(&helper, "and the weather?");
    let turn = stage.turn().await;
    assert_eq!(turn.last(), "and the weather?");
    turn.say("Sunny.");
    assert_eq!(stage.hears()["message"], "Sunny.");
    stage.world.say(&["stop", &helper.id]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_that_a_stopping_hub_may_have_said_are_reported_to_the_giver_too() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    stage.world.say(&["join", "alice"]);
    let helper = stage.assign_as("alice", "count");
    let turn = stage.turn().await;
    let saying = json!({ "kind": "saying", "text": "One.", "metadata": { "final": true } });
    let folder = stage.folder(&helper);
    stage.stop_the_hub_and_start_it_again_after(|| record(&folder, &saying));
    drop(turn);
    assert_eq!(stage.hears()["message"], "One.");
    let inbox = stage.world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
    assert_eq!(inbox["messages"][0]["message"], "One.", "{inbox}");
    stage.until_status(&helper, "finished");
    assert!(stage.is_quiet(), "the model is not asked again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_goes_on_after_its_machine_was_stopped() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let helper = stage.assign("count");
    let mut turn = stage.turn().await;
    let talk = turn.talk();
    // The power fails: nobody ends in order.
    let end = stage.ending(&helper);
    stage.kill_the_hub_and_start_it_again_after(|| end(Signal::KILL));
    drop(turn);
    turn = stage.turn().await;
    assert_eq!(turn.talk(), talk);
    // The machine is shut down: all get the same signal, and the assistant ends first.
    stage.ending(&helper)(Signal::TERM);
    stage.stop_the_hub_and_start_it_again();
    drop(turn);
    turn = stage.turn().await;
    assert_eq!(turn.talk(), talk);
    // The hub ends first.
    let end = stage.ending(&helper);
    stage.kill_the_hub_and_start_it_again_after(|| end(Signal::TERM));
    drop(turn);
    turn = stage.turn().await;
    assert_eq!(turn.talk(), talk);
    turn.say("One.");
    assert_eq!(stage.hears()["message"], "One.");
    stage.until_status(&helper, "finished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_that_is_stopped_for_good_does_not_come_back() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let helper = stage.assign("count");
    let turn = stage.turn().await;
    stage.world.say(&["stop", &helper.id]);
    stage.until_status(&helper, "stopped");
    drop(turn);
    stage.kill_the_hub_and_start_it_again();
    stage.until_status(&helper, "stopped");
    assert!(stage.is_quiet());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_whose_hub_was_killed_while_it_ended_it_is_ended_by_the_next_one() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let helper = stage.assign("count");
    let turn = stage.turn().await;
    let note = stage.folder(&helper).join("dismissed");
    stage.kill_the_hub_and_start_it_again_after(|| std::fs::write(note, "").expect("written"));
    drop(turn);
    stage.until_status(&helper, "stopped");
    assert!(stage.is_quiet());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_that_waits_for_its_folder_can_be_stopped() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let desk = stage.world.scratch().join("desk");
    std::fs::create_dir(&desk).expect("made");
    let helper = stage.assign_in(&desk, "count");
    let turn = stage.turn().await;
    stage.stop_the_hub_and_start_it_again_after(|| {
        std::fs::remove_dir(&desk).expect("removed");
    });
    drop(turn);
    eventually(|| stage.warnings().contains("a worker cannot go on yet"));
    stage.world.say(&["stop", &helper.id]);
    stage.until_status(&helper, "stopped");
    assert!(stage.is_quiet());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_mail_does_not_answer_a_question_of_before_the_stop() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    stage.world.say(&["join", "bob"]);
    let helper = stage.assign("set up auth");
    stage.turn().await.call("askUser", json!({ "question": "OAuth or JWT?" }));
    stage.hears();
    stage.stop_the_hub_and_start_it_again();
    eventually(|| stage.look(&helper)["activity"] == "waiting_user");
    let sent = stage.world.json(&["send", &helper.id, "the bricks are here", "--as", "bob"]);
    stage.until_stored(sent["seq"].as_u64().expect("a number"));
    assert_eq!(stage.look(&helper)["activity"], "waiting_user");
    assert!(stage.is_quiet(), "the model is not asked before the answer");
    let need = stage.world.json(&["needs"])["needs"][0]["id"].to_string();
    stage.world.say(&["answer", &need, "JWT"]);
    let turn = stage.turn().await;
    turn.assert_talk(&[
        ("user", "set up auth"),
        ("assistant", "<askUser>"),
        ("tool", "(the question was sent; the answer comes*"),
        ("assistant", "<check_inbox>"),
        ("tool", ""),
        ("user", "JWT"),
    ]);
    turn.say("It is JWT.");
    stage.until_status(&helper, "finished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_whose_giver_had_finished_goes_on_and_the_human_gets_its_report() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let (boss, helper) = boss_and_helper(&stage, "true");
    stage.until_status(&boss, "finished");
    let _report_of_boss = stage.hears();
    stage.stop_the_hub_and_start_it_again();
    stage.turn().await.say("One.");
    stage.until_status(&helper, "finished");
    assert_eq!(stage.hears()["message"], "One.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_waits_for_a_folder_that_comes_back_later() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let desk = stage.world.scratch().join("desk");
    let away = stage.world.scratch().join("away");
    std::fs::create_dir(&desk).expect("made");
    let helper = stage.assign_in(&desk, "count");
    let turn = stage.turn().await;
    stage.stop_the_hub_and_start_it_again_after(|| {
        std::fs::rename(&desk, &away).expect("moved");
    });
    drop(turn);
    assert_eq!(stage.look(&helper)["status"], "running");
    // The disk with the folder is mounted after the hub has begun to look for it.
    eventually(|| stage.warnings().contains("a worker cannot go on yet"));
    std::fs::rename(&away, &desk).expect("moved back");
    stage.turn().await.say("One.");
    stage.until_status(&helper, "finished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_that_an_ended_turn_had_leaves_an_assistant_open_for_further_mail() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let helper = stage.chat("count").await;
    stage.turn().await.say("One.");
    let said = stage.hears();
    eventually(|| stage.look(&helper)["activity"] == "idle");
    // A turn that ended before the hub acked its mail: the next message has this number.
    let next = said["id"].as_u64().expect("a number") + 1;
    let mail = json!({
        "kind": "mail", "seq": next, "from": "human", "type": "text", "text": "again", "human": true,
    });
    let folder = stage.folder(&helper);
    stage.stop_the_hub_and_start_it_again_after(|| {
        record(&folder, &mail);
        record(&folder, &json!({ "kind": "finish", "call": "1:99", "failed": "it broke" }));
    });
    eventually(|| stage.look(&helper)["activity"] == "idle");
    assert_eq!(stage.says(&helper, "again"), next);
    stage.until_stored(next);
    stage.says(&helper, "and two?");
    let turn = stage.turn().await;
    assert_eq!(turn.last(), "and two?");
    turn.say("Two.");
    assert_eq!(stage.hears()["message"], "Two.");
    stage.world.say(&["stop", &helper.id]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_mail_overtook_as_the_hub_was_stopped_is_shown() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let helper = stage.assign("fix the login bug");
    let turn = stage.turn().await;
    let folder = stage.folder(&helper);
    let answer = json!({ "kind": "model", "call": "1:99", "content": "The bug is fixed." });
    let mail = json!({
        "kind": "mail", "seq": 99, "from": "human", "type": "text", "text": "and the weather?",
        "human": true,
    });
    stage.stop_the_hub_and_start_it_again_after(|| {
        record(&folder, &answer);
        record(&folder, &mail);
    });
    drop(turn);
    let shown = stage.hears();
    assert_eq!(
        (&shown["message"], &shown["in_reply_to"]),
        (&json!("The bug is fixed."), &json!(helper.task))
    );
    let turn = stage.turn().await;
    turn.assert_talk(&[
        ("user", "fix the login bug"),
        ("assistant", "The bug is fixed."),
        ("user", "and the weather?"),
    ]);
    turn.say("Sunny.");
    stage.until_status(&helper, "finished");
}
