//! `posthaste chat`.

use std::process::Stdio;

use posthaste_store::FolderLock;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::stage::{Stage, of_user};
use crate::world::{Started, until};

fn at_terminal(stage: &Stage, args: &[&str]) -> Started {
    let mut chat = stage.world.on_terminal(200, &[&["chat"], args].concat());
    chat.stdin(Stdio::piped()).env("NO_COLOR", "1");
    Started::new(chat)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_message_is_sent_and_its_answers_are_printed_as_they_come() {
    let mut stage = Stage::set().await;
    let mut asked = stage.world.start(&["chat", "helper", "count", "to", "two"]);
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn), ["count to two"]);
    turn.call("respondToUser", json!({ "message": "one" }));
    assert_eq!(asked.until("\n"), "one\n");
    stage.turn().await.say("two");
    let ran = asked.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "two\n"), "{ran:?}");
    assert!(ran.err.contains("started helper."), "{ran:?}");

    // The one that is here goes on.
    let mut piped = stage.world.command(&["chat", "helper"]);
    piped.stdin(Stdio::piped());
    let mut piped = Started::new(piped);
    piped.feed(b"and three?\n");
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn), ["count to two", "and three?"]);
    turn.say("three");
    let ran = piped.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "three\n"), "{ran:?}");
    assert!(!ran.err.contains("started"), "{ran:?}");
    stage.world.say(&["stop", "helper"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_ends_the_command_and_the_next_one_answers_it() {
    let mut stage = Stage::set().await;
    let asked = stage.world.start(&["chat", "helper", "deploy"]);
    stage.turn().await.call("askUser", json!({ "question": "where?", "options": ["a", "b"] }));
    let ran = asked.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(8), "where?\n"), "{ran:?}");
    assert!(ran.err.contains("it waits for you [a | b]: posthaste chat "), "{ran:?}");
    let answer = stage.world.start(&["chat", "helper", "b"]);
    let turn = stage.turn().await;
    assert_eq!(turn.result(), "b");
    turn.say("it is there");
    let ran = answer.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "it is there\n"), "{ran:?}");
    stage.world.say(&["stop", "helper"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_people_who_ask_at_once_get_an_answer_each() {
    let mut stage = Stage::set().await;
    let who = stage.starts(None).await;
    let one = stage.world.start(&["chat", &who, "one?"]);
    let turn = stage.turn().await;
    let two = stage.world.start(&["chat", &who, "two?"]);
    let asks = async || stage.look(&who).await.entries.iter().any(|entry| entry.text == "two?");
    until(asks).await;
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    turn.call("respondToUser", json!({ "message": "first", "inReplyTo": "one?" }));
    stage.turn().await.call("respondToUser", json!({ "message": "second", "inReplyTo": "two?" }));
    stage.turn().await.say("");
    stage.turn().await.say("");
    let told = [one.end(), two.end()];
    assert_eq!(told.each_ref().map(|ran| ran.code), [Some(0); 2], "{told:?}");
    let outs = told.each_ref().map(|ran| ran.out.as_str());
    assert!(outs[0].contains("first") && !outs[0].contains("second"), "{told:?}");
    assert!(outs[1].contains("second") && !outs[1].contains("first"), "{told:?}");
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_of_thanks_that_gets_no_answer_ends_the_command() {
    let mut stage = Stage::set().await;
    let asked = stage.world.start(&["chat", "helper", "count"]);
    stage.turn().await.call("askUser", json!({ "question": "to what?", "blocking": false }));
    stage.turn().await.say("counted");
    assert_eq!(asked.end().code, Some(0));
    for text in ["thanks!", "/answer two"] {
        let asked = stage.world.start(&["chat", "helper", text]);
        // The model is asked once more for a word.
        stage.turn().await.say("");
        stage.turn().await.say("");
        let ran = asked.end();
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{ran:?}");
        assert!(ran.err.contains("has ended its turn without an answer"), "{ran:?}");
        let who = stage.world.json(&["agents"])["instances"][0]["instance"].clone();
        let who = who.as_str().expect("an instance");
        assert_eq!(stage.look(who).await.open, Vec::<u64>::new());
    }
    stage.world.say(&["stop", "helper"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_json_each_line_is_an_entry_and_time_up_is_told() {
    let mut stage = Stage::set().await;
    let asked = stage.world.start(&["chat", "helper", "wait", "--json", "--timeout", "1"]);
    let turn = stage.turn().await;
    let ran = asked.end();
    assert_eq!(ran.code, Some(8), "{ran:?}");
    let lines: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["kind"], "user", "{ran:?}");
    assert!(ran.err.contains("the time is up"), "{ran:?}");
    turn.say("late");
    stage.world.say(&["stop", "helper"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_fails_is_told_with_its_exit_code() {
    let mut stage = Stage::set().await;
    let asked = stage.world.start(&["chat", "helper", "hello"]);
    let turn = stage.turn().await;
    let who = stage.world.json(&["agents"])["instances"][0]["instance"].clone();
    let who = who.as_str().expect("an instance").to_owned();
    stage.operator.cancel_turn(&who).await.expect("cancelled");
    let ran = asked.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(9), "(cancelled)\n"), "{ran:?}");
    drop(turn);
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_talks_to_an_agent_and_leaves_it_at_work() {
    let mut stage = Stage::set().await;
    let mut person = at_terminal(&stage, &["helper"]);
    person.until("you talk to helper.");
    person.types("fix the login\n");
    let turn = stage.turn().await;
    person.until("] fix the login");
    person.types("what time is it?\n");
    person.until("] what time is it?");
    person.types("and where?\n");
    person.until("] and where?");
    turn.call("whoami", json!({}));
    person.until("* whoami");
    let turn = stage.turn().await;
    turn.call("respondToUser", json!({ "message": "noon", "inReplyTo": "what time" }));
    let shown = person.until("noon");
    assert!(shown.contains("> [2] what time is it?"), "an older message is quoted: {shown}");
    let turn = stage.turn().await;
    turn.call("askUser", json!({ "question": "which branch?", "options": ["main", "next"] }));
    person.until("  2) next");
    person.types("2\n");
    let turn = stage.turn().await;
    assert_eq!(turn.result(), "next");
    turn.say("at home");
    // Two messages are open, of which it is reminded.
    let turn = stage.turn().await;
    turn.assert_saw("Before you finish");
    turn.say("at home, and the login works\u{1b}[2J\u{202e}");
    let shown = person.until("the login works\\u{1b}[2J");
    assert!(!shown.contains("\u{1b}[2J"), "{shown:?}");
    person.types("/help\n");
    person.until("/cancel");
    person.types("/answer none\n");
    person.until("waits for no answer");
    person.close_stdin();
    let ran = person.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("goes on"), "{ran:?}");
    assert_eq!(stage.world.json(&["poll", "helper"])["status"], "running");

    // Whoever comes back sees it all again.
    let mut person = at_terminal(&stage, &["helper"]);
    person.until("] fix the login (answered)");
    person.until("at home, and the login works");
    person.types("/quit\n");
    assert_eq!(person.end().code, Some(0));
    stage.world.say(&["stop", "helper"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_conversation_with_an_agent_that_has_ended_is_shown_before_its_end() {
    let mut stage = Stage::set().await;
    let who = stage.starts(Some("Count to one.")).await;
    stage.turn().await.say("One.");
    stage.hears(&who, "One.").await;
    stage.world.say(&["stop", &who]);
    until(async || stage.look(&who).await.status == "stopped").await;
    let mut person = at_terminal(&stage, &[&who]);
    let shown = person.until("has ended: stopped");
    assert!(shown.contains("| One."), "{shown}");
    assert_eq!(person.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_json_help_is_no_line_that_a_program_cannot_read() {
    let mut stage = Stage::set().await;
    let mut person = at_terminal(&stage, &["helper", "--json"]);
    person.types("/help\nhello\n");
    let turn = stage.turn().await;
    person.until("\"hello\"");
    turn.say("hi");
    let shown = person.until("\"hi\"");
    assert!(!shown.lines().any(|line| line.starts_with("Each line")), "{shown}");
    person.types("/quit\n");
    assert_eq!(person.end().code, Some(0));
    stage.world.say(&["stop", "helper"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_the_terminal_has_cut_is_not_sent() {
    let mut stage = Stage::set().await;
    let mut person = at_terminal(&stage, &["helper"]);
    person.until("you talk to helper.");
    person.types(&format!("{}\n", "x".repeat(5_000)));
    person.until("cuts lines at 4095 bytes");
    person.types("short\n");
    let turn = stage.turn().await;
    assert_eq!(of_user(&turn), ["short"]);
    turn.say("yes");
    person.until("| yes");
    person.types("/quit\n");
    assert_eq!(person.end().code, Some(0));
    stage.world.say(&["stop", "helper"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_cancels_the_turn_first_and_then_leaves() {
    let mut stage = Stage::set().await;
    let mut person = at_terminal(&stage, &["helper"]);
    person.until("you talk to helper.");
    person.types("think for ever\n");
    let turn = stage.turn().await;
    person.until(" works");
    person.types("\u{3}");
    person.until("its turn is cancelled");
    person.until("(cancelled)");
    drop(turn);
    person.types("still there?\n");
    stage.turn().await.say("yes");
    person.until("\n| yes");
    person.types("/quit\n");
    assert_eq!(person.end().code, Some(0));
    stage.world.say(&["stop", "helper"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_goes_on_over_a_kill_of_the_hub() {
    let mut stage = Stage::set().await;
    let mut person = at_terminal(&stage, &["helper"]);
    person.until("you talk to helper.");
    stage.kill_and_start_again();
    let who = stage.world.json(&["agents"])["instances"][0]["instance"].clone();
    let who = who.as_str().expect("an instance").to_owned();
    stage.sends(&who, "from elsewhere").await;
    person.until("] from elsewhere");
    stage.turn().await.say("here");
    person.until("here");
    person.types("/quit\n");
    assert_eq!(person.end().code, Some(0));
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_goes_on_when_the_next_hub_takes_long_to_start() {
    let mut stage = Stage::set().await;
    let mut person = at_terminal(&stage, &["helper"]);
    person.until("you talk to helper.");
    let data = stage.world.data();
    stage.kill_and_start_again_after(|| {
        let lock = FolderLock::take(&data).expect("nobody has it");
        person.until("trying again");
        person.types("/cancel\n");
        person.until("is starting or stopping");
        drop(lock);
    });
    let who = stage.world.json(&["agents"])["instances"][0]["instance"].clone();
    let who = who.as_str().expect("an instance").to_owned();
    stage.sends(&who, "from elsewhere").await;
    person.until("] from elsewhere");
    stage.turn().await.say("here");
    person.until("here");
    person.types("/quit\n");
    assert_eq!(person.end().code, Some(0));
    stage.world.say(&["stop", &who]);
}

/// A person who reaches the hub at this address alone, and begins with one message.
fn at_address(stage: &Stage, url: &str, who: &str) -> Started {
    let words = ["chat", who, "--last", "1"];
    let mut chat = stage.world.on_terminal(200, &words);
    chat.stdin(Stdio::piped()).env("NO_COLOR", "1").env("POSTHASTE_HUB", url);
    let token = std::fs::read_to_string(stage.world.file("operator.token")).expect("a token");
    chat.env("POSTHASTE_TOKEN", token.trim());
    Started::new(chat)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_between_two_looks_is_shown_whole_and_what_is_older_is_not() {
    let mut stage = Stage::set().await;
    let (full, empty) = (stage.world.joined("bob"), stage.world.joined("eve"));
    for text in ["one", "two"] {
        stage.sends(&full, text).await;
    }
    let url = stage.operator.url().to_owned();
    let mut people = [at_address(&stage, &url, &full), at_address(&stage, &url, &empty)];
    assert!(!people[0].until("] two (queued)").contains("] one"));
    people[1].until("you talk to eve.");
    // The hub is elsewhere meanwhile.
    stage.kill_and_start_at("127.0.0.1:0");
    let numbers: Vec<String> = (3..28).map(|number| format!("message {number}")).collect();
    for (text, who) in numbers.iter().flat_map(|text| [(text, &full), (text, &empty)]) {
        stage.sends(who, text).await;
    }
    stage.kill_and_start_at(url.trim_start_matches("http://").trim_end_matches('/'));
    for mut person in people {
        let shown = person.until("] message 27 (queued)");
        let all: Vec<&str> =
            shown.lines().filter_map(|line| Some(line.split_once("] ")?.1)).collect();
        let expected: Vec<String> = numbers.iter().map(|text| format!("{text} (queued)")).collect();
        assert_eq!(all, expected, "{shown}");
        person.types("/quit\n");
        let ran = person.end();
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaving_while_it_works_in_a_pipe_ends_nobody() {
    let mut stage = Stage::set().await;
    let asked = stage.world.start_interruptible(&["chat", "helper", "hello"]);
    let turn = stage.turn().await;
    asked.signal(Signal::INT);
    let ran = asked.end();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(ran.err.contains("goes on"), "{ran:?}");
    turn.say("hi");
    stage.world.say(&["stop", "helper"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_talked_to_is_refused_with_advice() {
    let stage = Stage::set().await;
    stage.world.run(&["chat", "nobody", "hello"]).failed(3, "no profile called nobody", "");
    let ran = stage.world.pipe(&["chat", "helper"], b"\n");
    ran.failed(2, "there is no message", "write it after");
    let ran = stage.world.run(&["chat", "a3f7b2c1", "hello", "--new"]);
    ran.failed(2, "--new starts an agent of a profile", "posthaste profiles");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tail_shows_what_an_agent_says_once_or_as_what_it_is_if_that_is_asked_for() {
    let mut stage = Stage::set().await;
    let who = stage.starts(None).await;
    let thread = stage.look(&who).await.thread_id;
    let work = stage.sends(&who, "Work.").await;
    stage.turn().await.say("Done.");
    stage.until_state(&who, work, "answered").await;
    stage.until_idle(&who).await;
    let tail = ["tail", "--thread", &thread, "--after", "0"];
    // The message, its proof, and the answer.
    let all = stage.world.say(&[&tail[..], &["--count", "3"]].concat());
    assert_eq!(all.matches("Done.").count(), 1, "{all}");
    assert!(!all.contains("response"), "{all}");
    let said = stage.world.say(&[&tail[..], &["--type", "response", "--count", "1"]].concat());
    assert!(said.contains(" response ") && said.contains(": Done."), "{said}");
    stage.world.say(&["stop", &who]);
}
