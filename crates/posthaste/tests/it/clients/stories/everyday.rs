//! Mail as an agent knows it when all is well.

use serde_json::json;

use super::{entry_of, is_from_alice, mail};
use crate::clients::stage::Stage;
use crate::world::eventually;

/// The hub's tools, as a model must find them in its first request.
const TOOLS: [&str; 9] = [
    "send_message",
    "check_inbox",
    "read_messages",
    "find_agents",
    "assign",
    "handoff",
    "agent_status",
    "stop_agent",
    "whoami",
];

/// The model knows from its first request on what the hub is for.
pub(crate) async fn the_model_is_offered_the_tools_and_told_the_etiquette(mut stage: Stage) {
    let agent = stage.start();
    let turn = stage.turn().await;
    let offered = turn.tools();
    for name in TOOLS {
        let tool = offered.iter().find(|tool| tool.name == name);
        let tool = tool.unwrap_or_else(|| panic!("{name} is not offered: {offered:?}"));
        assert!(!tool.description.is_empty(), "{tool:?}");
    }
    let etiquette = "Call check_inbox before you finish";
    assert!(turn.saw(etiquette), "{turn:?}");
    turn.say("ready");
    assert_eq!(agent.end().code, Some(0));
}

/// A user tells it to wait for mail and writes from the shell.
pub(crate) async fn mail_sent_while_it_waits_arrives_in_the_same_turn(mut stage: Stage) {
    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 60 }));
    stage.until_bob_waits(true);
    let seq = stage.send("the build is red");

    let turn = stage.turn().await;
    let entry = mail(&turn, "the build is red");
    is_from_alice(&entry);
    assert_eq!(entry["id"], seq);
    assert!(entry.get("redelivered").is_none(), "{entry}");
    assert_eq!(stage.record(seq).state, "leased", "nothing has proved it yet");

    // It goes on, and that is the proof.
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    stage.until_proved_by(seq, "next_call");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// A model that forgets to check still gets its mail.
pub(crate) async fn a_model_that_never_checks_gets_its_mail_with_another_result(mut stage: Stage) {
    let seq = stage.send("you forgot me");
    let agent = stage.start();
    stage.turn().await.call("whoami", json!({}));

    let turn = stage.turn().await;
    let entry = mail(&turn, "you forgot me");
    is_from_alice(&entry);
    assert!(turn.result().contains("_pending_messages"), "{turn:?}");
    assert!(turn.result().contains("bob."), "its own result is there: {turn:?}");

    turn.call("find_agents", json!({}));
    let turn = stage.turn().await;
    assert!(!turn.result().contains("you forgot me"), "not twice: {turn:?}");
    stage.until_proved_by(seq, "next_call");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// A program may run the calls of one turn at the same time, or one after the other.
pub(crate) async fn two_checks_in_one_turn_never_get_the_same_mail(mut stage: Stage) {
    let agent = stage.start();
    let check = ("check_inbox", json!({ "timeout": 60 }));
    stage.turn().await.call_all(&[check.clone(), check]);
    stage.until_bob_waits(true);
    let one = stage.send("the one");
    eventually(|| stage.record(one).state == "leased");
    stage.send("the other");

    let turn = stage.turn().await;
    let results = turn.results();
    let with = |text| results.iter().filter(|result| result.contains(text)).count();
    assert_eq!((results.len(), with("the one"), with("the other")), (2, 1, 1), "{turn:?}");
    assert_eq!(with("redelivered"), 0, "{turn:?}");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// An answer says more than any receipt.
pub(crate) async fn the_models_answer_reaches_the_sender_and_is_the_proof(mut stage: Stage) {
    let question = stage.send("is the build green?");
    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 1 }));
    let turn = stage.turn().await;
    mail(&turn, "is the build green?");

    let answer = json!({ "message": "it is", "in_reply_to": question });
    turn.call("send_message", answer);
    let turn = stage.turn().await;
    stage.until_proved_by(question, "reply");
    let got = stage.alice_reads();
    assert_eq!((&got["message"], &got["in_reply_to"]), (&json!("it is"), &json!(question)));
    assert!(got["from"].as_str().is_some_and(|from| from.starts_with("bob.")), "{got}");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// What a program would cut out of the middle, or put away in a file, comes in parts
/// that it leaves alone; in whatever script it is written.
pub(crate) async fn a_long_message_reaches_the_model_in_whole_parts(mut stage: Stage) {
    let agent = stage.start();
    let mut turn = stage.turn().await;
    for words in ["the quick brown fox; ", "いろはにほへと ", "🦊🐻 \"\\\n"] {
        let text = words.chars().cycle().take(45_001).collect::<String>();
        let seq = stage.send(&text);
        turn.call("check_inbox", json!({ "timeout": 1 }));
        turn = stage.turn().await;
        let mut part = entry_of(&turn, seq);
        let mut read = part["message"].as_str().expect("a text").to_owned();
        while let Some(next) = part.get("next_offset") {
            turn.call("read_messages", json!({ "id": seq, "offset": next }));
            turn = stage.turn().await;
            part = entry_of(&turn, seq);
            read.push_str(part["message"].as_str().expect("a text"));
        }
        assert!(read == text, "{words:?}: {} of {}", read.len(), text.len());
    }
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// It is told in one sentence what to do instead.
pub(crate) async fn a_wrong_argument_is_explained_and_takes_no_mail(mut stage: Stage) {
    let seq = stage.send("still here");
    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": -1 }));
    let turn = stage.turn().await;
    assert!(turn.result().contains("timeout"), "{turn:?}");
    assert_eq!(stage.record(seq).state, "queued");
    turn.call("check_inbox", json!({ "timeout": 1 }));
    let turn = stage.turn().await;
    assert!(mail(&turn, "still here").get("redelivered").is_none());
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}
