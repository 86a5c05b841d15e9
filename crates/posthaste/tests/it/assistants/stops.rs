//! Hubs that are stopped while their assistants work.

use std::io::Write;
use std::path::Path;

use posthaste_api::chat::{ChatQuery, ChatStart};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_whose_giver_ended_with_the_hub_ends_too() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let profile = format!(
        "---\nname: boss\ndriver: command\ncommand: [sh, -c, '\"$POSTHASTE\" assign {NAME} \
         \"count\" && exec cat < /dev/zero > /dev/null']\n---\n"
    );
    std::fs::write(stage.world.scratch().join("profiles/boss.md"), profile).expect("written");
    stage.world.say(&[
        "profiles",
        "load",
        &stage.world.scratch().join("profiles").to_string_lossy(),
    ]);
    let boss = stage.assign_agent("boss", "let somebody count");
    let turn = stage.turn().await;
    let agents = stage.world.json(&["agents", "--tree", "--all"]);
    let all = agents["instances"].as_array().unwrap_or_else(|| panic!("{agents}"));
    let helper = all.iter().find(|agent| agent["agent"] == NAME).expect("an assistant");
    let id = helper["instance"].as_str().expect("an id").to_owned();
    let helper = Assistant { id, task: 0 };
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
    let chat =
        ChatStart { agent: NAME.into(), message: Some("count".into()), ..ChatStart::default() };
    let id = stage.operator().start_chat(&chat).await.expect("started").instance;
    let helper = Assistant { id, task: 0 };
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
    assert!(stage.is_quiet(), "the model is not asked again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_goes_on_after_its_machine_was_stopped() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let helper = stage.assign("count");
    let turn = stage.turn().await;
    let (talk, folder) = (turn.talk(), stage.folder(&helper));
    stage.kill_the_hub_and_start_it_again_after(|| crate::world::end_workers(&folder));
    drop(turn);
    let turn = stage.turn().await;
    assert_eq!(turn.talk(), talk);
    turn.say("One.");
    assert_eq!(stage.hears()["message"], "One.");
    stage.until_status(&helper, "finished");
}
