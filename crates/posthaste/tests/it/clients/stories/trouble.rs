//! Programs that lose patience or die, and hubs that die: nothing is lost, and nothing
//! comes twice unmarked.

use std::time::Duration;

use serde_json::json;

use super::{documents, find, mail};
use crate::clients::stage::Stage;

/// The program loses patience before the hub does.
pub(crate) async fn mail_after_its_own_time_out_waits_for_the_next_check(mut stage: Stage) {
    let agent = stage.start_impatient(3);
    stage.turn().await.call("check_inbox", json!({ "timeout": 60 }));
    stage.until_bob_waits(true);

    // The program has given up, the model is told so, and nobody waits any more.
    let turn = stage.turn().await;
    assert!(documents(&turn.result()).is_empty(), "no answer of the hub: {turn:?}");
    stage.until_bob_waits(false);
    let seq = stage.send("too late for the first call");
    assert_eq!(stage.record(seq).state, "queued");

    turn.call("check_inbox", json!({ "timeout": 1 }));
    let turn = stage.turn().await;
    let entry = mail(&turn, "too late for the first call");
    assert!(entry.get("redelivered").is_none(), "nobody had it before: {entry}");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// Accepted, perhaps handed out, never proved: the hub dies at the worst moment.
pub(crate) async fn a_hub_killed_in_mid_wait_gives_the_mail_again_marked(mut stage: Stage) {
    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 60 }));
    stage.until_bob_waits(true);
    let seq = stage.send("survive this");
    stage.kill_the_hub_and_start_it_again();

    // The model has the mail, or an error; or its program has asked again by itself.
    let mut turn = stage.turn().await;
    if find(&turn, "survive this").is_none_or(|entry| entry["redelivered"] != true) {
        turn.call("check_inbox", json!({ "timeout": 1 }));
        turn = stage.turn().await;
    }
    let entry = mail(&turn, "survive this");
    assert_eq!((&entry["id"], &entry["redelivered"]), (&json!(seq), &json!(true)));

    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    stage.until_proved_by(seq, "next_call");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// The hub goes away while nothing is there yet, and the program goes on with the next.
pub(crate) async fn a_wait_that_the_hub_broke_off_loses_nothing_that_comes_later(mut stage: Stage) {
    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 60 }));
    stage.until_bob_waits(true);
    stage.kill_the_hub_and_start_it_again();
    stage.send("after the storm");

    let mut turn = stage.turn().await;
    if find(&turn, "after the storm").is_none() {
        turn.call("check_inbox", json!({ "timeout": 60 }));
        turn = stage.turn().await;
    }
    let entry = mail(&turn, "after the storm");
    assert!(entry.get("redelivered").is_none(), "{entry}");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// The model had the mail and died with it.
pub(crate) async fn mail_of_an_agent_killed_after_the_answer_comes_again_marked(mut stage: Stage) {
    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 60 }));
    stage.until_bob_waits(true);
    let seq = stage.send("remember this");
    let turn = stage.turn().await;
    mail(&turn, "remember this");
    agent.kill();

    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 1 }));
    let turn = stage.turn().await;
    let entry = mail(&turn, "remember this");
    assert_eq!((&entry["id"], &entry["redelivered"]), (&json!(seq), &json!(true)));
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// It died while it waited: nobody had the mail that comes then.
pub(crate) async fn mail_for_an_agent_killed_while_it_waited_is_new_to_the_next(mut stage: Stage) {
    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 60 }));
    stage.until_bob_waits(true);
    agent.kill();
    stage.until_bob_waits(false);
    let seq = stage.send("for whoever comes");
    assert_eq!(stage.record(seq).state, "queued");

    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 1 }));
    let turn = stage.turn().await;
    let entry = mail(&turn, "for whoever comes");
    assert!(entry.get("redelivered").is_none(), "{entry}");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// It dies a little before the answer, in the middle of it, or with its first words.
pub(crate) async fn an_agent_killed_at_any_moment_misses_nothing(mut stage: Stage) {
    let mut agent = stage.start();
    let mut turn = stage.turn().await;
    for round in 0..4 {
        let text = format!("mail {round}");
        turn.call("check_inbox", json!({ "timeout": 60 }));
        stage.until_bob_waits(true);
        let moment = Duration::from_micros(rand::random_range(30_000..110_000));
        std::thread::scope(|both| {
            both.spawn(|| stage.send(&text));
            std::thread::sleep(moment);
            agent.kill();
        });

        agent = stage.start();
        turn = stage.turn().await;
        // What the dead one's model was asked at last is no word of the new one.
        let mut seen = false;
        while !turn.results().is_empty() {
            seen |= find(&turn, &text).is_some();
            turn = stage.turn().await;
        }
        turn.call("check_inbox", json!({ "timeout": 1 }));
        turn = stage.turn().await;
        let entry = mail(&turn, &text);
        assert!(!seen || entry["redelivered"] == true, "seen twice unmarked: {entry}");
    }
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}
