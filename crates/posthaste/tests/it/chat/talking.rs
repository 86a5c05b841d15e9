//! Conversations with an assistant, through the calls that a window of the operator makes.

use std::io::Write;
use std::path::{Path, PathBuf};

use posthaste_api::chat::ChatQuery;
use posthaste_api::client::{ClientError, Following, Heard};
use posthaste_api::events::EventsQuery;
use posthaste_api::{ApiError, ErrorCode};
use posthaste_testkit::model_server::Asked;
use serde_json::json;

use super::stage::{Stage, of_user};
use crate::assistant_tools::python;
use crate::world::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_requests_get_two_answers_and_their_states_move() {
    let mut stage = Stage::set().await;
    let who = stage.starts(None).await;
    let first = stage.sends(&who, "Fix the login bug.").await;
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn), ["Fix the login bug."]);
    stage.until_state(&who, first, "working").await;
    let second = stage.sends(&who, "What is the weather?").await;
    stage.until_state(&who, second, "queued").await;
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn), ["Fix the login bug.", "What is the weather?"]);
    stage.until_state(&who, second, "working").await;
    assert_eq!(stage.look(&who).await.open, [first, second]);
    let answer = json!({ "message": "15 degrees.", "inReplyTo": second.to_string() });
    turn.call("respondToUser", answer);
    let turn = stage.turn().await;
    assert!(turn.result().starts_with("delivered"), "{turn:?}");
    stage.until_state(&who, second, "answered").await;
    stage.until_state(&who, first, "working").await;
    assert!(stage.look(&who).await.working, "until the final answer");
    turn.say("The login works.");
    stage.until_state(&who, first, "answered").await;
    stage.until_idle(&who).await;
    let view = stage.look(&who).await;
    let shown: Vec<_> = view.entries.iter().map(|e| (e.kind.as_str(), e.text.as_str())).collect();
    assert_eq!(shown[0], ("user", "Fix the login bug."));
    assert_eq!(shown[1], ("user", "What is the weather?"));
    assert_eq!(shown[2].0, "tool");
    assert_eq!(shown[3..], [("partial", "15 degrees."), ("answer", "The login works.")]);
    assert_eq!((view.entries[3].answers.clone(), view.open), (vec![second], vec![]));
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_the_same_after_the_hub_was_killed_and_after_the_agent_ended() {
    let mut stage = Stage::set().await;
    let who = stage.starts(Some("Count to one.")).await;
    let turn = stage.turn().await;
    turn.call("respondToUser", json!({ "message": "I begin." }));
    let turn = stage.turn().await;
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    turn.say("One.");
    stage.hears(&who, "One.").await;
    stage.until_idle(&who).await;
    let before = stage.look(&who).await;
    assert_eq!(stage.look(&who).await, before, "a reload shows the same");
    stage.kill_and_start_again();
    until(async || stage.look(&who).await == before).await;

    // It goes on where it was.
    let next = stage.sends(&who, "And two?").await;
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn), ["Count to one.", "And two?"]);
    turn.say("Two.");
    stage.until_state(&who, next, "answered").await;
    stage.until_idle(&who).await;
    let before = stage.look(&who).await;
    stage.world.say(&["stop", &who]);
    until(async || stage.look(&who).await.status == "stopped").await;
    assert_eq!(stage.look(&who).await.entries, before.entries);
}

/// A runner whose first answer is `Mended.`, which it gives when it is told to, and whose
/// second one is `Painted.`.
const TWO_ANSWERS: &str = r#"
import json, os, sys, time
def read(): return json.loads(sys.stdin.readline())
def write(**line): print(json.dumps({"jsonrpc": "2.0", **line}), flush=True)
def call(id, method, **params):
    write(id=id, method=method, params={"thread_id": thread, **params})
    while True:
        line = read()
        if line.get("id") == id: return line
start = read()
thread = start["params"]["thread_id"]
write(id=start["id"], result={})
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
call(1, "on_finish", result="Mended.")
for id in range(2, 2000):
    if call(id, "on_inbox_drain")["result"]["messages"]: break
    time.sleep(0.05)
call(3000, "on_finish", result="Painted.")
read()
"#;

/// Starts that runner with a first message, which it has; gives its id and the file of its
/// conversation. It goes on when there is a file `go`.
async fn two_answers(stage: &Stage, python: &Path) -> (String, PathBuf) {
    let place = stage.world.scratch();
    std::fs::write(place.join("runner.py"), TWO_ANSWERS).expect("written");
    let command = json!([python, place.join("runner.py"), place.join("go")]);
    stage.profile("mend", &format!("config: {{model: play}}\ncommand: {command}")).await;
    let who = stage.starts_agent("mend", Some("Mend the door.")).await;
    let file = stage.world.file("agents").join(&who).join("conversation");
    until(async || std::fs::read_to_string(&file).is_ok_and(|it| it.contains("the door"))).await;
    (who, file)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_words_that_a_killed_hub_may_have_sent_are_sent_once() {
    let mut stage = Stage::set().await;
    let Some(python) = python() else { return };
    let (who, conversation) = two_answers(&stage, &python).await;
    let door = stage.look(&who).await.entries[0].seq.expect("a message");
    // The hub is killed when it has written down what it is about to send.
    let saying = json!({
        "kind": "saying", "text": "Mended.", "in_reply_to": door,
        "metadata": { "final": true, "answers": [door] },
    });
    stage.kill_and_start_again_after(|| {
        let file = std::fs::OpenOptions::new().append(true).open(&conversation);
        writeln!(file.expect("a conversation"), "{saying}").expect("written");
    });
    // Mail that has come since does not make a partial answer of it.
    let wall = stage.sends(&who, "Paint the wall.").await;
    std::fs::write(stage.world.scratch().join("go"), "").expect("written");
    stage.until_state(&who, wall, "answered").await;
    stage.until_idle(&who).await;
    let view = stage.look(&who).await;
    let shown: Vec<_> = view.entries.iter().map(|e| (e.kind.as_str(), e.text.as_str())).collect();
    assert_eq!(
        shown,
        [
            ("user", "Mend the door."),
            ("user", "Paint the wall."),
            ("answer", "Mended."),
            ("answer", "Painted."),
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_of_a_turn_that_a_report_began_reaches_the_operator() {
    let mut stage = Stage::set().await;
    stage.profile("mason", "config: {model: play}").await;
    let who = stage.starts(Some("Build a wall.")).await;
    let turn = stage.turn().await;
    turn.call("assign", json!({ "agent": "mason", "message": "a brick" }));
    let (one, two) = (stage.turn().await, stage.turn().await);
    let is_mason = |turn: &Asked| turn.request().to_string().contains("You mason.");
    let (mason, turn) = if is_mason(&one) { (one, two) } else { (two, one) };
    turn.say("I will report.");
    // It is reminded of its worker once.
    stage.turn().await.say("I will report.");
    stage.hears(&who, "I will report.").await;
    stage.until_idle(&who).await;
    mason.say("laid");
    stage.turn().await.say("The wall stands.");
    let entry = stage.hears(&who, "The wall stands.").await;
    assert_eq!((entry.kind.as_str(), entry.in_reply_to), ("answer", None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_says_nothing_leaves_no_message_without_an_answer() {
    let mut stage = Stage::set().await;
    let who = stage.starts(Some("Mend the door.")).await;
    stage.turn().await.say("");
    stage.turn().await.say("");
    let entry = stage.hears(&who, "(it finished without a word)").await;
    assert_eq!(entry.kind, "answer");
    stage.until_idle(&who).await;
    assert_eq!(stage.look(&who).await.open, Vec::<u64>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_a_reminder_held_back_is_not_lost_if_nothing_follows() {
    let mut stage = Stage::set().await;
    let who = stage.starts(None).await;
    stage.sends(&who, "Mend the door.").await;
    let turn = stage.turn().await;
    stage.sends(&who, "Paint the wall.").await;
    turn.call("whoami", json!({}));
    let answer = "The door is mended, and the wall is white.";
    stage.turn().await.say(answer);
    let reminded = stage.turn().await;
    assert!(of_user(&reminded).last().is_some_and(|last| last.contains("Before you finish")));
    reminded.say("");
    // A model that says nothing is asked once more.
    stage.turn().await.say("");
    assert_eq!(stage.hears(&who, answer).await.kind, "answer");
    stage.until_idle(&who).await;
    assert_eq!(stage.look(&who).await.open, Vec::<u64>::new());
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_that_talks_more_than_the_limits_allow_is_slowed_and_nothing_is_lost() {
    let mut stage = Stage::set().await;
    let who = stage.starts(Some("Count.")).await;
    let turn = stage.turn().await;
    // `limits.pair_per_minute` is 60.
    let said: Vec<_> =
        (1..=61).map(|n| ("respondToUser", json!({ "message": format!("number {n}") }))).collect();
    turn.call_all(&said);
    stage.turn().await.say("That is all.");
    stage.hears(&who, "That is all.").await;
    stage.until_idle(&who).await;
    let all = ChatQuery { last_n: Some(200), ..ChatQuery::default() };
    let view = stage.operator.chat(&who, &all).await.expect("a view");
    let shown = view.entries.iter().filter(|entry| entry.kind == "partial").count();
    assert_eq!((shown, view.status.as_str()), (61, "running"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_task_reaches_the_model_whole() {
    let mut stage = Stage::set().await;
    let task = format!("{} the end", "long ".repeat(20_000));
    stage.world.say(&["assign", "helper", &task]);
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn), [task]);
    turn.say("Read.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_messages_to_an_idle_agent_and_a_long_answer_reach_the_model_whole() {
    let mut stage = Stage::set().await;
    let long = |end: &str| format!("{} {end}", "long ".repeat(10_000));
    let who = stage.starts(Some(&long("first"))).await;
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn), [long("first")]);
    turn.say("Read.");
    stage.until_idle(&who).await;
    stage.sends(&who, &long("second")).await;
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn)[1], long("second"));
    turn.call("askUser", json!({ "question": "And then?" }));
    stage.hears(&who, "And then?").await;
    stage.say(&who, &long("answer")).await;
    let turn = stage.turn().await;
    assert_eq!(turn.result(), long("answer"));
    turn.say("Read.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_message_that_fits_no_request_the_model_reads_the_rest_by_a_tool() {
    let mut stage = Stage::set().await;
    let who = stage.starts(None).await;
    // `runner.message_chars` is 120,000.
    let text = format!("{}{}", "a".repeat(120_000), "the end");
    let seq = stage.sends(&who, &text).await;
    let turn = stage.turn().await;
    let shown = of_user(&turn).remove(0);
    let (begin, note) = shown.split_at(120_000);
    assert_eq!(begin, "a".repeat(120_000));
    let how = format!("read_messages(id={seq}, offset=120000)");
    assert!(note.contains("120007 characters") && note.contains(&how), "{note}");
    turn.call("read_messages", json!({ "id": seq, "offset": 120_000 }));
    let turn = stage.turn().await;
    assert!(turn.result().contains("the end"), "{}", turn.result());
    turn.say("Read.");
    // The window shows it whole.
    stage.hears(&who, &text).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_mail_than_one_request_takes_comes_in_several_and_ends_no_assistant() {
    let mut stage = Stage::set().await;
    let who = stage.starts(Some("Wait.")).await;
    let turn = stage.turn().await;
    for n in 0..6 {
        stage.sends(&who, &format!("{n} {}", "x".repeat(1_000_000))).await;
    }
    turn.call("whoami", json!({}));
    for n in 0..6 {
        let turn = stage.turn().await;
        let last = of_user(&turn).pop().expect("a message");
        assert!(last.starts_with(&format!("{n} xxx")), "{}", &last[..10]);
        match n {
            5 => turn.say("I have read."),
            _ => turn.call("whoami", json!({})),
        }
    }
    // It is reminded of them once.
    stage.turn().await.say("I have read all.");
    stage.hears(&who, "I have read all.").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_that_a_killed_hub_had_stored_at_the_last_look_is_read() {
    let mut stage = Stage::set().await;
    let Some(python) = python() else { return };
    let (_, conversation) = two_answers(&stage, &python).await;
    // The hub is killed when it has stored the mail that came before `on_finish`.
    let mail = json!({ "kind": "mail", "seq": 1000, "from": "human", "type": "text",
        "text": "Paint the wall.", "human": true });
    stage.kill_and_start_again_after(|| {
        let file = std::fs::OpenOptions::new().append(true).open(&conversation);
        writeln!(file.expect("a conversation"), "{mail}").expect("written");
    });
    std::fs::write(stage.world.scratch().join("go"), "").expect("written");
    // The runner is told of it instead of being at its end.
    until(async || {
        let records = std::fs::read_to_string(&conversation).expect("a conversation");
        records.lines().any(|line| line.contains(r#""kind":"given""#))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_was_sent_to_a_killed_hub_is_answered_by_the_next() {
    let mut stage = Stage::set().await;
    let who = stage.starts(Some("Count to one.")).await;
    let turn = stage.turn().await;
    let waits = stage.sends(&who, "And two?").await;
    stage.kill_and_start_again();
    drop(turn);
    // The call to the model broke off, and is made again.
    let turn = stage.turn().await;
    stage.until_state(&who, waits, "queued").await;
    turn.say("One.");
    stage.hears(&who, "One.").await;
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn), ["Count to one.", "And two?"]);
    turn.say("Two.");
    stage.until_state(&who, waits, "answered").await;
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_question_takes_the_next_text_and_the_work_goes_on() {
    let mut stage = Stage::set().await;
    let who = stage.starts(Some("Deploy it.")).await;
    let turn = stage.turn().await;
    turn.call("askUser", json!({ "question": "Where to?", "options": ["test", "live"] }));
    let asked = stage.hears(&who, "Where to?").await;
    assert_eq!((asked.state.as_deref(), asked.blocking), (Some("open"), Some(true)));
    assert_eq!(asked.options, ["test", "live"]);
    let said = stage.say(&who, "test").await;
    assert_eq!(said.need.and_then(|need| need.message), asked.seq);
    let turn = stage.turn().await;
    assert_eq!(turn.result(), "test");
    turn.say("It is on test.");
    let end = stage.hears(&who, "It is on test.").await;
    assert_eq!(end.kind, "answer");
    stage.until_idle(&who).await;
    assert!(stage.look(&who).await.open.is_empty(), "an answer is no request");
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_was_answered_by_a_plain_send_takes_no_later_message() {
    let mut stage = Stage::set().await;
    let who = stage.starts(Some("Paint it.")).await;
    stage.turn().await.call("askUser", json!({ "question": "Which colour?" }));
    let asked = stage.hears(&who, "Which colour?").await;
    stage.world.say(&["send", &who, "red"]);
    let turn = stage.turn().await;
    assert_eq!(turn.result(), "red");
    let said = stage.say(&who, "And the door?").await;
    assert!(said.need.is_none(), "it is a message");
    let need = stage.world.json(&["needs", "--all"])["needs"][0].clone();
    assert_eq!((&need["message"], &need["outcome"]), (&json!(asked.seq), &json!("answered")));
    assert_eq!(need["answer"], "red");
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn), ["Paint it.", "And the door?"]);
    turn.say("Red as well.");
    // Two messages are open, of which it is reminded once.
    stage.turn().await.say("Red as well.");
    stage.hears(&who, "Red as well.").await;
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_open_questions_the_blocking_one_is_answered_first() {
    let mut stage = Stage::set().await;
    let who = stage.starts(Some("Set up auth.")).await;
    let turn = stage.turn().await;
    turn.call("askUser", json!({ "question": "OAuth or JWT?", "blocking": false }));
    let turn = stage.turn().await;
    assert_eq!(turn.result(), "question sent, continuing");
    turn.call("askUser", json!({ "question": "Which database?" }));
    let side = stage.hears(&who, "OAuth or JWT?").await;
    let waits = stage.hears(&who, "Which database?").await;
    let said = stage.say(&who, "the small one").await;
    assert_eq!(said.need.and_then(|need| need.message), waits.seq);
    let turn = stage.turn().await;
    assert_eq!(turn.result(), "the small one");
    // The other one is answered by a plain `/answer`, and comes by the inbox.
    let said = stage.say(&who, "/answer JWT").await;
    assert_eq!(said.need.and_then(|need| need.message), side.seq);
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    let link = "[posthaste] The next message of the user answers your question: OAuth or JWT?";
    assert_eq!(of_user(&turn), ["Set up auth.", link, "JWT"]);
    turn.say("Done.");
    stage.hears(&who, "Done.").await;
    stage.until_idle(&who).await;
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_comes_while_the_last_answer_is_written_is_not_lost() {
    let mut stage = Stage::set().await;
    let who = stage.starts(None).await;
    let first = stage.sends(&who, "Count to one.").await;
    let turn = stage.turn().await;
    let second = stage.sends(&who, "And two?").await;
    // The model knows nothing of it.
    turn.say("One.");
    let kept = stage.hears(&who, "One.").await;
    assert_eq!((kept.kind.as_str(), kept.answers), ("partial", vec![first]));
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn), ["Count to one.", "And two?"]);
    turn.assert_saw("One.");
    turn.say("Two.");
    let last = stage.hears(&who, "Two.").await;
    assert_eq!((last.kind.as_str(), last.answers), ("answer", vec![second]));
    stage.until_idle(&who).await;
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_answer_covers_a_request_and_its_amendment() {
    let mut stage = Stage::set().await;
    let who = stage.starts(None).await;
    let first = stage.sends(&who, "Fix the login bug.").await;
    let turn = stage.turn().await;
    let second = stage.sends(&who, "Actually use OAuth.").await;
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn), ["Fix the login bug.", "Actually use OAuth."]);
    turn.say("It uses OAuth now.");
    // Two messages are open, of which it is reminded once.
    let turn = stage.turn().await;
    turn.assert_saw("Before you finish");
    turn.say("It uses OAuth now.");
    let end = stage.hears(&who, "It uses OAuth now.").await;
    assert_eq!((end.kind.as_str(), end.answers), ("answer", vec![first, second]));
    stage.until_idle(&who).await;
    let view = stage.look(&who).await;
    assert!(view.open.is_empty());
    assert_eq!(view.entries.iter().filter(|entry| entry.kind != "tool").count(), 3);
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_turn_ends_and_the_agent_takes_the_next_message() {
    let mut stage = Stage::set().await;
    let who = stage.starts(None).await;
    until(async || stage.operator.instance(&who).await.is_ok_and(|i| i.activity == "idle")).await;
    let refused = stage.operator.cancel_turn(&who).await.expect_err("it is idle");
    let ClientError::Api(ApiError { code: ErrorCode::Conflict, .. }) = refused else {
        panic!("{refused:?}")
    };
    let first = stage.sends(&who, "Think for ever.").await;
    let turn = stage.turn().await;
    stage.operator.cancel_turn(&who).await.expect("cancelled");
    let end = stage.hears(&who, "(cancelled)").await;
    assert_eq!((end.state.as_deref(), end.answers), (Some("cancelled"), vec![first]));
    drop(turn);
    stage.until_idle(&who).await;
    let next = stage.sends(&who, "Are you there?").await;
    stage.turn().await.say("Yes.");
    stage.until_state(&who, next, "answered").await;
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_with_two_living_agents_is_refused_with_both() {
    let stage = Stage::set().await;
    let (one, two) = (stage.starts(None).await, stage.starts(None).await);
    let refused = stage.world.run(&["chat", "helper", "hello"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains(&one) && refused.err.contains(&two), "{refused:?}");
    for who in [one, two] {
        stage.world.say(&["stop", &who]);
    }
}

/// What is heard next, in a word.
async fn next(following: &mut Following) -> String {
    match following.next().await.expect("a line") {
        Some(Heard::Event(event)) => {
            let text = event.message.as_ref().map_or("", |message| message.message.as_str());
            format!("{} {text}", event.kind)
        }
        Some(Heard::Tool(news)) => {
            let entry = news.entry;
            format!("{} {}", entry.name.unwrap_or_default(), entry.state.unwrap_or_default())
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_hears_answers_questions_and_tools_in_order() {
    let mut stage = Stage::set().await;
    let who = stage.starts(None).await;
    let query = EventsQuery {
        topics: Some(format!(
            "thread:t-{}",
            stage.look(&who).await.thread_id.trim_start_matches("t-")
        )),
        types: Some("partial_response,question,response,tool".into()),
        ..EventsQuery::default()
    };
    let mut following = stage.operator.events(&query).await.expect("a stream");
    stage.sends(&who, "Work.").await;
    stage.turn().await.call("whoami", json!({}));
    assert_eq!(next(&mut following).await, "whoami running");
    assert_eq!(next(&mut following).await, "whoami done");
    stage.turn().await.call("respondToUser", json!({ "message": "Half." }));
    assert_eq!(next(&mut following).await, "partial_response Half.");
    let turn = stage.turn().await;
    turn.call("askUser", json!({ "question": "More?", "blocking": false }));
    assert_eq!(next(&mut following).await, "question More?");
    stage.turn().await.say("All.");
    assert_eq!(next(&mut following).await, "response All.");
    // What was said is stored before it is told.
    assert!(stage.look(&who).await.entries.iter().any(|entry| entry.text == "All."));
    stage.world.say(&["stop", &who]);
}
