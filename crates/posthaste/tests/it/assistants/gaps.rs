//! Messages that come at the wrong moment: each is seen by the model, once and in order.

use serde_json::json;

use super::stage::{NAME, Stage};
use crate::world::eventually;

const LIST: &str = "builtin_workspace__list_files";

pub(super) async fn a_message_before_the_first_look_is_in_the_first_request(mut stage: Stage) {
    // Nobody of that name is there yet.
    let early = stage.world.json(&["send", NAME, "and the logout"])["seq"].as_u64();
    stage.assign("fix the login bug");
    let turn = stage.turn().await;
    turn.assert_talk(&[("user", "fix the login bug"), ("user", "and the logout")]);
    turn.say("Both are fixed.");
    stage.until_stored(early.expect("a number"));
    stage.turn().await.say("Both are fixed now.");
    assert_eq!(stage.hears()["message"], "Both are fixed now.");
}

pub(super) async fn messages_during_a_call_of_the_model_come_after_its_tools_each_in_order(
    mut stage: Stage,
) {
    let helper = stage.assign("fix the login bug");
    let turn = stage.turn().await;
    for text in ["  one, with spaces  ", "[two] <b>&amp;</b>", "three\nlines\n"] {
        stage.says(&helper, text);
    }
    turn.call_all(&[(LIST, json!({})), (LIST, json!({ "depth": 1 }))]);
    let turn = stage.turn().await;
    turn.assert_talk(&[
        ("user", "fix the login bug"),
        ("assistant", "<builtin_workspace__list_files><builtin_workspace__list_files>"),
        ("tool", ""),
        ("tool", ""),
        ("user", "  one, with spaces  "),
        ("user", "[two] <b>&amp;</b>"),
        ("user", "three\nlines\n"),
    ]);
    turn.say("Done.");
    stage.turn().await.say("All four are done.");
    assert_eq!(stage.hears()["message"], "All four are done.");
}

pub(super) async fn a_message_during_the_final_answer_makes_it_a_partial_one(mut stage: Stage) {
    let helper = stage.assign("fix the login bug");
    let turn = stage.turn().await;
    let late = stage.says(&helper, "what is the weather?");
    turn.say("The login bug is fixed.");
    // The finished answer reaches the user at once, and answers what it was for.
    let partial = stage.hears();
    assert_eq!(partial["message"], "The login bug is fixed.", "{partial}");
    assert_eq!(
        (&partial["type"], &partial["in_reply_to"]),
        (&json!("answer"), &json!(helper.task))
    );
    assert_eq!(partial["metadata"], json!({ "partial": true, "answers": [helper.task] }));
    let turn = stage.turn().await;
    turn.assert_talk(&[
        ("user", "fix the login bug"),
        ("assistant", "The login bug is fixed."),
        ("user", "what is the weather?"),
    ]);
    stage.until_stored(late);
    turn.say("Sunny.");
    let last = stage.hears();
    assert_eq!(last["message"], "Sunny.", "{last}");
    stage.until_status(&helper, "finished");
    assert!(stage.has_said_all() && stage.is_quiet(), "nobody is asked again");
}

pub(super) async fn what_is_left_open_is_reminded_of_once_and_never_twice(mut stage: Stage) {
    let helper = stage.assign("fix the login bug");
    let turn = stage.turn().await;
    stage.says(&helper, "what is the weather?");
    stage.says(&helper, "thanks!");
    turn.call(LIST, json!({}));
    stage.turn().await.say("ok");
    let turn = stage.turn().await;
    let reminder = turn.last();
    assert!(reminder.contains("what is the weather?"), "{reminder}");
    assert!(!reminder.contains("thanks"), "small talk wants no answer: {reminder}");
    turn.say("ok");
    assert_eq!(stage.hears()["message"], "ok");
    stage.until_status(&helper, "finished");
    assert!(stage.is_quiet(), "the guard ends");
}

pub(super) async fn the_humans_words_end_a_wait_for_mail_and_come_as_the_users(mut stage: Stage) {
    let helper = stage.assign("fix the login bug");
    stage.turn().await.call("check_inbox", json!({ "timeout": 600 }));
    eventually(|| stage.look(&helper)["activity"] == "waiting_inbox");
    let words = stage.says(&helper, "what is the weather?");
    let turn = stage.turn().await;
    turn.assert_talk(&[
        ("user", "fix the login bug"),
        ("assistant", "<check_inbox>"),
        ("tool", "{\"messages\":[]*"),
        ("user", "what is the weather?"),
    ]);
    stage.until_stored(words);
    turn.call("respondToUser", json!({ "message": "Sunny.", "inReplyTo": words }));
    assert_eq!(stage.hears()["in_reply_to"], words);
    stage.turn().await.say("Fixed.");
    assert_eq!(stage.hears()["message"], "Fixed.");
}
