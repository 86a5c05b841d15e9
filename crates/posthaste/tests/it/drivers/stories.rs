//! What a user expects of an agent that the hub runs, whatever its program. What "the
//! model saw" is read from the requests of the program.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use super::stage::Stage;
use crate::world::{Started, eventually};

pub(super) async fn an_agent_does_its_task_and_its_answer_is_the_report(mut stage: Stage) {
    let worker = stage.assign("Lay the first brick.");
    let turn = stage.turn().await;
    turn.assert_saw_once("Lay the first brick.");
    turn.assert_saw("the word of the day is granite");
    turn.assert_saw(&worker.id);
    let tools: Vec<String> = turn.tools().into_iter().map(|tool| tool.name).collect();
    assert!(tools.iter().any(|name| name == "check_inbox"), "{tools:?}");
    assert_eq!(stage.look(&worker).activity, "busy");
    let seen = Stage::command_lines();
    assert!(!seen.iter().any(|words| words.contains(&worker.id)), "others see its id: {seen:?}");
    turn.say("The first brick is laid.");

    let report = stage.alice_reads();
    assert_eq!(report["type"], "result", "{report}");
    assert_eq!(report["message"], "The first brick is laid.", "{report}");
    stage.until_proved_by(worker.task, "turn");
    stage.until_activity(&worker, "idle");
    assert!(stage.is_quiet(), "one turn, no more");
}

pub(super) async fn two_agents_work_at_once_and_each_reports_for_itself(mut stage: Stage) {
    let walls = ["the left wall", "the right wall"];
    let (mut workers, mut turns) = (Vec::new(), Vec::new());
    for wall in walls {
        workers.push(stage.assign(&format!("Build {wall}.")));
        let turn = stage.turn().await;
        turn.assert_saw_once(wall);
        turns.push((turn, wall));
    }
    // Both models think, and the second answers first.
    for (turn, wall) in turns.into_iter().rev() {
        turn.say(&format!("There is {wall}."));
    }
    let gather = ["inbox", "--as", "alice", "--wait-for", "all", "--timeout", "60"];
    let gathered = stage.world.json(&gather);
    let mut reports = gathered["messages"].as_array().expect("mail").clone();
    assert_eq!(reports.len(), 2, "{gathered}");
    reports.sort_by_key(|report| report["message"].to_string());
    for ((report, wall), worker) in reports.iter().zip(walls).zip(&workers) {
        assert_eq!(report["message"], format!("There is {wall}."), "{report}");
        assert!(report["from"].as_str().is_some_and(|from| from.contains(&worker.id)), "{report}");
        stage.until_proved_by(worker.task, "turn");
    }
    assert!(stage.is_quiet(), "one turn each");
}

pub(super) async fn mail_for_an_idle_agent_is_one_prompt_and_is_proved_by_its_turn(
    mut stage: Stage,
) {
    let worker = stage.assign("Get ready.");
    stage.turn().await.say("I am ready.");
    stage.alice_reads();
    stage.until_activity(&worker, "idle");
    // Both are there before anybody could look: the hub reads them as one.
    stage.kill_the_hub();
    stage.start_the_hub_again();
    let both = stage.send(&worker, "the wall leans\nto the left", &[]);
    let turn = stage.turn().await;
    turn.assert_saw_once("the wall leans");
    assert_eq!(stage.record(both).state, "leased", "not before the model has spoken");
    let more = stage.send(&worker, "and the door is blue", &[]);
    turn.say("Noted.");
    stage.until_proved_by(both, "turn");
    let turn = stage.turn().await;
    turn.assert_saw_once("the door is blue");
    turn.assert_saw_once("the wall leans");
    turn.say("Noted as well.");
    stage.until_proved_by(more, "turn");
    stage.until_activity(&worker, "idle");
    assert!(stage.is_quiet(), "one prompt for each, no more");
}

pub(super) async fn mail_for_a_busy_agent_comes_with_its_next_result_and_once(mut stage: Stage) {
    let worker = stage.assign("Work for a while.");
    let turn = stage.turn().await;
    let seq = stage.send(&worker, "bring mortar", &[]);
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    turn.assert_saw_once("bring mortar");
    turn.say("Done, with mortar.");
    let report = stage.alice_reads();
    assert_eq!(report["message"], "Done, with mortar.", "{report}");
    stage.until_proved_by_its_turn(seq);
    stage.until_activity(&worker, "idle");
    assert!(stage.is_quiet(), "it is not told twice");
}

pub(super) async fn urgent_mail_joins_the_running_turn(mut stage: Stage) {
    assert!(stage.cast.steers, "its turn is cut instead");
    let worker = stage.assign("Work on.");
    let turn = stage.turn().await;
    // The first words of its model show that the turn runs.
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    stage.until_proved_by(worker.task, "turn");
    let seq = stage.send(&worker, "stop at once: the wall falls", &["--urgent"]);
    eventually(|| stage.record(seq).state == "leased");
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    turn.assert_saw_once("the wall falls");
    turn.say("I have stopped.");
    stage.until_proved_by(seq, "turn");
    let report = stage.alice_reads();
    assert_eq!(report["message"], "I have stopped.", "{report}");
    stage.until_activity(&worker, "idle");
    assert!(stage.is_quiet(), "it was one turn");
}

pub(super) async fn urgent_mail_cuts_the_running_turn(mut stage: Stage) {
    assert!(!stage.cast.steers, "it joins the turn instead");
    let worker = stage.assign("Work on.");
    stage.turn().await.call("whoami", json!({}));
    let cut = stage.turn().await;
    stage.until_proved_by(worker.task, "turn");
    let seq = stage.send(&worker, "stop at once: the wall falls", &["--urgent"]);
    let turn = stage.turn().await;
    turn.assert_saw_once("the wall falls");
    turn.assert_saw("Your turn was interrupted for this");
    cut.say("Nobody hears this.");
    turn.say("I have stopped.");
    stage.until_proved_by(seq, "turn");
    let report = stage.alice_reads();
    assert_eq!(report["message"], "I have stopped.", "{report}");
    stage.until_activity(&worker, "idle");
    assert!(stage.is_quiet(), "there is nothing to go on with");
}

pub(super) async fn a_hub_killed_in_mid_turn_goes_on_where_it_was(mut stage: Stage) {
    let worker = stage.assign("A long job.");
    let turn = stage.turn().await;
    stage.kill_the_hub();
    // The program goes on without the hub.
    turn.say("The long job is done.");
    stage.start_the_hub_again();
    let report = stage.alice_reads();
    assert_eq!(report["type"], "result", "{report}");
    assert_eq!(report["message"], "The long job is done.", "{report}");
    stage.until_proved_by(worker.task, "turn");
    let seq = stage.send(&worker, "one more thing", &[]);
    let turn = stage.turn().await;
    turn.assert_saw_once("one more thing");
    turn.say("Done, too.");
    stage.until_proved_by(seq, "turn");
    assert!(stage.is_quiet());
}

pub(super) async fn a_hub_killed_while_a_prompt_is_under_way_delivers_it_once(mut stage: Stage) {
    let worker = stage.assign("Get ready.");
    stage.turn().await.say("I am ready.");
    stage.alice_reads();
    stage.until_activity(&worker, "idle");
    let seq = stage.send(&worker, "paint the door", &[]);
    let turn = stage.turn().await;
    turn.assert_saw_once("paint the door");
    stage.kill_the_hub();
    stage.start_the_hub_again();
    turn.say("The door is painted.");
    stage.until_proved_by(seq, "turn");
    stage.until_activity(&worker, "idle");
    assert!(stage.is_quiet(), "the prompt is not written again");
}

pub(super) async fn mail_that_waits_while_the_hub_is_killed_is_prompted_as_one(mut stage: Stage) {
    let worker = stage.assign("A long job.");
    let turn = stage.turn().await;
    let door = stage.send(&worker, "paint the door", &[]);
    let window = stage.send(&worker, "and a window, please", &[]);
    stage.kill_the_hub();
    turn.say("The long job is done.");
    stage.start_the_hub_again();
    assert_eq!(stage.look(&worker).status, "running");
    assert_eq!(stage.alice_reads()["message"], "The long job is done.");
    let turn = stage.turn().await;
    turn.assert_saw_once("paint the door");
    turn.assert_saw_once("and a window, please");
    turn.say("It has both.");
    stage.until_proved_by(door, "turn");
    stage.until_proved_by(window, "turn");
    stage.until_activity(&worker, "idle");
    assert!(stage.is_quiet(), "one turn for both");
}

pub(super) async fn a_hub_that_stops_ends_its_agents_and_tells_their_givers(mut stage: Stage) {
    let worker = stage.assign("You will be stopped.");
    let turn = stage.turn().await;
    let idle = stage.assign("And you will be idle.");
    stage.turn().await.say("I am idle.");
    stage.alice_reads();
    stage.until_activity(&idle, "idle");
    stage.stop_the_hub();
    stage.start_the_hub_again();
    let report = stage.alice_reads();
    assert_eq!(report["type"], "system.agent_failed", "{report}");
    assert_eq!(stage.look(&worker).status, "stopped");
    assert_eq!(stage.look(&idle).status, "stopped");
    drop(turn);
}

pub(super) async fn an_agent_that_ends_in_mid_turn_fails_its_assignment(mut stage: Stage) {
    let worker = stage.assign("You will not finish this.");
    let turn = stage.turn().await;
    stage.kill_program(&worker);
    let report = stage.alice_reads();
    assert_eq!(report["type"], "system.agent_failed", "{report}");
    assert!(report["message"].as_str().is_some_and(|text| text.contains("KILL")), "{report}");
    assert_eq!(stage.look(&worker).status, "failed");
    drop(turn);
}

pub(super) async fn a_permission_is_asked_of_the_operator_and_the_verdict_reaches_the_model(
    mut stage: Stage,
) {
    let worker = stage.assign_in(stage.world.scratch(), "Make a file.");
    let (tool, arguments) = (stage.cast.dangerous)();
    stage.turn().await.call(tool, arguments.clone());
    stage.until_activity(&worker, "waiting_user");
    let need = stage.need();
    assert_eq!(need["kind"], "permission", "{need}");
    assert!(need["text"].as_str().is_some_and(|text| text.contains("made")), "{need}");
    stage.world.say(&["answer", &need["id"].to_string(), "--deny"]);

    let turn = stage.turn().await;
    turn.assert_saw(stage.cast.denied);
    turn.call(tool, arguments);
    stage.until_activity(&worker, "waiting_user");
    let id = stage.need()["id"].to_string();
    // It waits for the operator also across a restart of the hub.
    stage.kill_the_hub();
    stage.start_the_hub_again();
    stage.until_activity(&worker, "waiting_user");
    stage.world.say(&["answer", &id, "--allow"]);
    let turn = stage.turn().await;
    let made =
        stage.look(&worker).working_directory.map(|path| std::path::Path::new(&path).join("made"));
    assert!(made.is_some_and(|made| made.exists()), "the tool has run");
    turn.say("The file is there.");
    assert_eq!(stage.alice_reads()["message"], "The file is there.");
}

pub(super) async fn urgent_mail_reaches_an_agent_that_waits_for_a_permission(mut stage: Stage) {
    let worker = stage.assign("Make a file.");
    let (tool, arguments) = (stage.cast.dangerous)();
    stage.turn().await.call(tool, arguments);
    assert_eq!(stage.need()["kind"], "permission");
    let seq = stage.send(&worker, "stop at once: the wall falls", &["--urgent"]);
    let mut turn = stage.turn().await;
    let mut cut = None;
    if !turn.saw("the wall falls") {
        // The turn that is cut may have asked its model once more.
        cut = Some(std::mem::replace(&mut turn, stage.turn().await));
    }
    turn.assert_saw_once("the wall falls");
    drop(cut);
    turn.say("I have stopped.");
    stage.until_proved_by(seq, "turn");
    assert_eq!(stage.alice_reads()["message"], "I have stopped.");
    assert_eq!(stage.world.say(&["needs"]), "nothing needs you\n");
    stage.until_activity(&worker, "idle");
    assert!(stage.is_quiet(), "there is nothing to go on with");
}

pub(super) async fn the_transcript_shows_the_work_live_and_after_the_end(mut stage: Stage) {
    let worker = stage.assign("Say what you do.");
    let turn = stage.turn().await;
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    let shown = stage.world.say(&["logs", &worker.id]);
    assert!(shown.contains("Say what you do.") && shown.contains("whoami"), "{shown}");
    turn.say("I have said it.");
    stage.alice_reads();
    stage.world.say(&["stop", &worker.id]);
    eventually(|| stage.look(&worker).status == "stopped");
    let shown = stage.world.say(&["logs", &worker.id]);
    assert!(shown.contains("I have said it."), "{shown}");
}

pub(super) async fn a_person_who_attaches_sees_the_work_and_talks_to_the_agent(mut stage: Stage) {
    let worker = stage.assign("Get ready.");
    stage.turn().await.say("I am ready.");
    stage.alice_reads();
    stage.until_activity(&worker, "idle");
    let mut attach = stage.world.on_terminal(200, &["attach", &worker.id]);
    attach.stdin(Stdio::piped()).env("NO_COLOR", "1");
    let mut person = Started::new(attach);
    person.until("> Get ready.");
    person.until("I am ready.");

    person.types("paint the door\n");
    let turn = stage.turn().await;
    turn.assert_saw_once("paint the door");
    turn.assert_saw("directive");
    person.until("> human: paint the door");
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    person.until("whoami");
    person.types("! in blue\n");
    person.until("> human (urgent): in blue");
    // The program takes it at the end of a tool, and may read it a little later.
    let mut turn = turn;
    while !turn.saw("in blue") {
        turn.call("whoami", json!({}));
        turn = stage.turn().await;
    }
    turn.say("The door is blue.");
    person.until("The door is blue.");
    person.close_stdin();
    let ran = person.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("goes on"), "{ran:?}");
    stage.until_activity(&worker, "idle");
    assert_eq!(stage.look(&worker).status, "running");
}

pub(super) async fn in_a_pipe_attach_only_shows_and_leaving_it_ends_nobody(mut stage: Stage) {
    let worker = stage.assign("Say what you do.");
    let turn = stage.turn().await;
    let mut watcher = stage.world.start(&["attach", &worker.id]);
    watcher.until("> Say what you do.");
    let mut other = stage.world.start_interruptible(&["attach", &worker.id]);
    other.until("> Say what you do.");
    other.signal(Signal::INT);
    let left = other.end();
    assert_eq!(left.code, Some(130), "{left:?}");
    assert!(left.err.contains("goes on"), "{left:?}");

    turn.say("I have said it.");
    watcher.until("I have said it.");
    stage.alice_reads();
    stage.world.say(&["stop", &worker.id]);
    let ran = watcher.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("has ended: stopped"), "{ran:?}");
    // Afterwards there is still something to see.
    let shown = stage.world.say(&["attach", &worker.id, "--tail", "100"]);
    assert!(shown.contains("I have said it."), "{shown}");
}
