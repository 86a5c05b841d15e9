//! The user breaks in at the very moment when mail arrives.
//!
//! The program cancels a call that is not answered, or one that is, or has the answer
//! and drops it. Over stdio it says so, and the mail comes again with the mark. Over
//! HTTP an answer that it dropped leaves no sign: then the hub tells the model which
//! ids it takes as read, and the model can still read them. Nothing is seen twice
//! without the mark.

use std::time::Duration;

use posthaste_testkit::model_server::Asked;
use serde_json::json;

use super::claude::said;
use super::program::{Line, Program};
use super::stage::Stage;
use super::stories::{documents, entries, entry_of};

const ROUNDS: usize = 8;
/// Looks until a read counts as proved, which takes two seconds.
const LOOKS: usize = 20;

async fn mail_at_the_moment_of_an_interrupt_can_be_read(line: Line) {
    let Some(mut stage) = Stage::set(Program::ClaudeCode, line).await else { return };
    let mut agent = stage.start_talking();
    agent.tell(&said("Read your mail.", false));
    let mut turn = stage.turn().await;
    let mut sent = Vec::new();
    for round in 0..ROUNDS {
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

    let mut looks = 0;
    while sent.iter().any(|(seq, text)| !is_seen(&turn, text) && !is_settled(&turn, *seq)) {
        assert!(looks < LOOKS, "of {sent:?} some are lost: {:?}", turn.results());
        looks += 1;
        turn.call("check_inbox", json!({ "timeout": 1 }));
        turn = stage.turn().await;
    }
    for (seq, text) in &sent {
        if !is_seen(&turn, text) {
            turn.call("read_messages", json!({ "id": seq }));
            turn = stage.turn().await;
            assert_eq!(entry_of(&turn, *seq)["message"], *text);
        }
        let again = entries(&turn, text).into_iter().skip(1);
        assert!(again.clone().all(|entry| entry["redelivered"] == true), "{:?}", turn.results());
    }
    turn.say("done");
    agent.hang_up();
    assert_eq!(agent.end().code, Some(0));
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
async fn claude_over_http() {
    mail_at_the_moment_of_an_interrupt_can_be_read(Line::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_over_stdio() {
    mail_at_the_moment_of_an_interrupt_can_be_read(Line::Stdio).await;
}
