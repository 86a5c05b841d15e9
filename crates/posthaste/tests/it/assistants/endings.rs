//! Models that misbehave: each is told, bounded, and reported in one sentence.

use serde_json::json;

use super::stage::Stage;

pub(super) async fn a_broken_call_and_an_unknown_tool_are_told_to_the_model(mut stage: Stage) {
    let helper = stage.assign("fix the login bug");
    let turn = stage.turn().await;
    assert!(turn.tools().iter().any(|name| name == "respondToUser"), "{:?}", turn.tools());
    turn.call_all(&[
        ("builtin_workspace__read_file", json!({ "path": "../../etc/passwd" })),
        ("builtin_workspace__read_file", json!({ "file": "a" })),
        ("respondToUser", json!({ "message": "  " })),
        ("assign", json!({ "agent": "nobody", "message": "work" })),
    ]);
    let turn = stage.turn().await;
    let talk = turn.talk();
    let results: Vec<_> = talk.iter().filter(|(role, _)| role == "tool").collect();
    for (result, words) in results.iter().zip([
        "outside the working directory",
        "unknown field `file`",
        "the message is empty",
        "nobody",
    ]) {
        assert!(result.1.contains(words), "{words}: {result:?}");
    }
    turn.say("I cannot.");
    assert_eq!(stage.hears()["message"], "I cannot.");
    stage.until_status(&helper, "finished");
}

pub(super) async fn a_model_that_refuses_ends_the_turn_with_one_sentence(mut stage: Stage) {
    let helper = stage.assign("fix the login bug");
    // The server answers a request that nobody plays with an error 500.
    for _ in 0..4 {
        drop(stage.turn().await);
    }
    stage.until_status(&helper, "failed");
    let report = stage.hears();
    let text = report["message"].as_str().expect("a text");
    assert!(text.contains("the model play cannot answer now (500)"), "{text}");
    assert!(text.contains("(4 tries)"), "{text}");
    let told = stage.world.say(&["logs", &helper.id]);
    assert!(told.contains("trying again"), "{told}");
}

pub(super) async fn a_loop_of_the_same_call_is_advised_to_wait_and_bounded(mut stage: Stage) {
    let helper = stage.assign("poll");
    for round in 1..=8 {
        let turn = stage.turn().await;
        if round > 3 {
            assert!(turn.last().contains("Do not poll"), "round {round}: {}", turn.last());
        }
        if round == 8 {
            stage.says(&helper, "what is the weather?");
        }
        turn.call("builtin_workspace__list_files", json!({ "path": "profiles" }));
    }
    // `runner.iterations` of this hub.
    stage.until_status(&helper, "failed");
    let report = stage.hears();
    let text = report["message"].as_str().expect("a text");
    assert!(text.contains("a budget is reached") && text.contains("runner.iterations"), "{text}");
    // What came and was not dealt with is reported, and not dropped.
    let (_, left) = text.split_once("Not answered:").unwrap_or_else(|| panic!("{text}"));
    assert!(left.contains("what is the weather?"), "{text}");
    assert!(stage.is_quiet());
}

pub(super) async fn a_model_that_says_nothing_is_asked_once_more_and_reported(mut stage: Stage) {
    let helper = stage.assign("fix the login bug");
    stage.turn().await.say("");
    stage.turn().await.say("");
    let report = stage.hears();
    assert_eq!(report["message"], "(it finished without a word)", "{report}");
    stage.until_status(&helper, "finished");
}

pub(super) async fn a_long_conversation_leaves_out_its_oldest_results_first(mut stage: Stage) {
    let helper = stage.assign("read everything");
    // Each result has 15,000 characters, and `runner.context_chars` of this hub is 60,000.
    for book in ["a", "b", "c", "d", "e"] {
        let turn = stage.turn().await;
        let read = format!("printf '%015000d' 0 | tr 0 {book}");
        turn.call("builtin_shell__run", json!({ "command": read }));
    }
    let turn = stage.turn().await;
    let results: Vec<String> =
        turn.talk().into_iter().filter(|(role, _)| role == "tool").map(|(_, text)| text).collect();
    assert_eq!(results.len(), 5, "every call keeps a result");
    assert!(results[0].contains("was left out") && results[0].len() < 100, "{}", results[0]);
    assert!(results[4].contains(&"e".repeat(15_000)), "the last one is whole");
    let length: usize = turn.messages().iter().map(|(_, text)| text.chars().count()).sum();
    assert!(length <= 60_000, "{length} characters");
    assert_eq!(turn.talk()[0].1, "read everything", "the request stays");
    turn.say("I have read five books.");
    assert_eq!(stage.hears()["message"], "I have read five books.");
    stage.until_status(&helper, "finished");
}
