//! The program gives a call up at the very moment when mail arrives: because its user
//! breaks in, or because its own time is up.
//!
//! It cancels a call that is not answered, or one that is, or has the answer and drops
//! it. Where it gives a sign, the mail comes again with the mark. An answer that it
//! dropped without a sign cannot be told from one that it read: then the hub tells the
//! model which ids it takes as read, and the model can still read them. Nothing is seen
//! twice without the mark.

use std::time::Duration;

use posthaste_testkit::model_server::Asked;
use serde_json::json;

use super::claude::said;
use super::program::{Line, Program};
use super::stage::Stage;
use super::stories::{documents, entries, entry_of};

/// Looks until a read counts as proved, which takes two seconds.
const LOOKS: usize = 20;

async fn the_user_breaks_in(line: Line) {
    let Some(mut stage) = Stage::set(Program::ClaudeCode, line).await else { return };
    let mut agent = stage.start_talking();
    agent.tell(&said("Read your mail.", false));
    let mut turn = stage.turn().await;
    let mut sent = Vec::new();
    for round in 0..8 {
        let (text, stop) = (format!("mail {round}"), format!("stop {round}"));
        turn.call("check_inbox", json!({ "timeout": 60 }));
        stage.until_bob_waits(true);
        // A little before the mail is there, or a little after.
        let moment = Duration::from_micros(rand::random_range(30_000..110_000));
        let seq = std::thread::scope(|both| {
            let sending = both.spawn(|| stage.send(&text));
            std::thread::sleep(moment);
            agent.tell(&said(&stop, true));
            sending.join().expect("no panic")
        });
        sent.push((seq, text));
        // A turn that was broken off may come before the one that knows of it.
        turn = stage.turn().await;
        while !turn.saw(&stop) {
            turn = stage.turn().await;
        }
        turn.call("check_inbox", json!({ "timeout": 0 }));
        turn = stage.turn().await;
    }
    every_one_can_be_read(&mut stage, turn, &sent).await.say("done");
    agent.hang_up();
    assert_eq!(agent.end().code, Some(0));
}

async fn its_time_is_up(program: Program, line: Line) {
    let Some(mut stage) = Stage::set(program, line).await else { return };
    let agent = stage.start_impatient(2);
    let mut turn = stage.turn().await;
    let mut sent = Vec::new();
    for round in 0..3 {
        let text = format!("mail {round}");
        turn.call("check_inbox", json!({ "timeout": 60 }));
        stage.until_bob_waits(true);
        let moment = Duration::from_micros(rand::random_range(1_850_000..2_000_000));
        std::thread::sleep(moment);
        sent.push((stage.send(&text), text));
        stage.turn().await.call("check_inbox", json!({ "timeout": 0 }));
        turn = stage.turn().await;
    }
    every_one_can_be_read(&mut stage, turn, &sent).await.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// The model has seen each, or is told that it counts as read, and reads it then.
async fn every_one_can_be_read(stage: &mut Stage, turn: Asked, sent: &[(u64, String)]) -> Asked {
    let (mut turn, mut looks) = (turn, 0);
    while sent.iter().any(|(seq, text)| !is_seen(&turn, text) && !is_settled(&turn, *seq)) {
        assert!(looks < LOOKS, "of {sent:?} some are lost: {turn:?}");
        looks += 1;
        turn.call("check_inbox", json!({ "timeout": 1 }));
        turn = stage.turn().await;
    }
    for (seq, text) in sent {
        if !is_seen(&turn, text) {
            turn.call("read_messages", json!({ "id": seq }));
            turn = stage.turn().await;
            assert_eq!(entry_of(&turn, *seq)["message"], *text);
        }
        let mut again = entries(&turn, text).into_iter().skip(1);
        assert!(again.all(|entry| entry["redelivered"] == true), "{turn:?}");
    }
    turn
}

fn is_seen(turn: &Asked, text: &str) -> bool {
    !entries(turn, text).is_empty()
}

/// Whether the model was told that this counts as read.
fn is_settled(turn: &Asked, seq: u64) -> bool {
    let answers = turn.results();
    let mut documents = answers.iter().flat_map(|answer| documents(answer));
    documents.any(|document| {
        document["settled"].as_array().is_some_and(|ids| ids.iter().any(|id| *id == seq))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_of_claude_code_breaks_in_over_http() {
    the_user_breaks_in(Line::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_of_claude_code_breaks_in_over_stdio() {
    the_user_breaks_in(Line::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_claude_code_is_up_over_http() {
    its_time_is_up(Program::ClaudeCode, Line::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_claude_code_is_up_over_stdio() {
    its_time_is_up(Program::ClaudeCode, Line::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_codex_is_up_over_http() {
    its_time_is_up(Program::Codex, Line::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_codex_is_up_over_stdio() {
    its_time_is_up(Program::Codex, Line::Stdio).await;
}
