//! Programs that behave oddly: floods, rubbish, requests that nobody can answer.

use serde_json::{Value, json};

use super::{begin, resume, written};
use crate::conversation::{Activity, Conversation, Heard, TurnEnd};
use crate::supervisor::CLIPPED;

/// Returns a conversation with a program of this name in which the first prompt waits for
/// its answer, request 3.
fn busy(name: &str) -> Box<dyn Conversation> {
    let mut talk = begin("{}");
    talk.open();
    let hello = json!({ "protocolVersion": 1, "agentInfo": { "name": name, "version": "1" } });
    tell(&mut talk, json!({ "id": 1, "result": hello }));
    tell(&mut talk, json!({ "id": 2, "result": { "sessionId": "s" } }));
    talk.prompt(1, "Work.").expect("idle");
    talk
}

fn tell(talk: &mut Box<dyn Conversation>, message: Value) -> Vec<Heard> {
    talk.heard(message.to_string().as_bytes())
}

fn update(update: Value) -> Value {
    json!({ "method": "session/update", "params": { "sessionId": "s", "update": update } })
}

fn words(text: &str, id: &str) -> Value {
    update(json!({
        "sessionUpdate": "agent_message_chunk", "messageId": id,
        "content": { "type": "text", "text": text },
    }))
}

fn ended(reason: &str) -> Value {
    json!({ "id": 3, "result": { "stopReason": reason } })
}

fn asks(id: Value, options: Value) -> Value {
    let call = json!({ "toolCallId": "c", "title": "rm x", "kind": "execute" });
    let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
    json!({ "id": id, "method": "session/request_permission", "params": params })
}

fn option(kind: &str) -> Value {
    json!({ "optionId": format!("the-{kind}"), "name": kind, "kind": kind })
}

#[test]
fn a_flood_of_updates_leaves_a_small_state_and_a_clipped_answer() {
    let mut talk = busy("flood");
    let mut entries = 0;
    for n in 0..20_000 {
        let heard = match n % 4 {
            0 => tell(&mut talk, words("eighteen letters, ", "m")),
            1 => tell(&mut talk, words("and more\n", "m")),
            2 => tell(
                &mut talk,
                update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": format!("c{n}"),
                    "title": "x".repeat(100), "status": "in_progress" })),
            ),
            _ => tell(&mut talk, asks(json!(n), json!([option("allow_once")]))),
        };
        entries += heard.len();
        if n % 2_000 == 0 {
            assert!(talk.state().to_string().len() < 400_000);
        }
    }
    assert!(entries < 30_000, "{entries}");
    assert!(talk.state().to_string().len() < 400_000);
    for n in 0..12_000 {
        tell(&mut talk, words(&format!("line {n} of the last message\n"), "last"));
    }
    let heard = tell(&mut talk, ended("end_turn"));
    let Some(Heard::TurnEnded(TurnEnd::Answer(answer))) = heard.last() else { panic!("{heard:?}") };
    assert!(answer.starts_with("line 0 of"), "{}", &answer[..40]);
    let last = answer.lines().last().expect("a line");
    assert!(last.starts_with(CLIPPED), "{last}");
    assert!(answer.len() < 300_000, "{}", answer.len());
}

#[test]
fn lines_that_mean_nothing_are_shown_short_and_change_nothing() {
    let mut talk = busy("rubbish");
    let before = talk.state();
    let long = "x".repeat(1 << 20);
    for line in [
        "Debugger listening on ws://127.0.0.1:9229",
        "{\"jsonrpc\": \"2.0\"",
        "[]",
        "7",
        "{}",
        r#"{"method": "session/update", "params": {"sessionId": "s"}}"#,
        r#"{"method": "session/update", "params": {"sessionId": "other", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}}}"#,
        r#"{"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "brand_new"}}}"#,
        r#"{"method": "_auth/status_update", "params": {}}"#,
        r#"{"id": 99, "result": {}}"#,
        r#"{"id": "3", "result": {"stopReason": "end_turn"}}"#,
        &long,
    ] {
        let heard = talk.heard(line.as_bytes());
        let [Heard::Unknown(shown)] = heard.as_slice() else { panic!("{line}: {heard:?}") };
        assert!(shown.chars().count() <= 301, "{}", shown.len());
        assert_eq!(talk.state(), before, "{line}");
    }
    assert!(matches!(talk.heard(&[0xff, 0xfe, b'{']).as_slice(), [Heard::Unknown(_)]));
}

#[test]
fn files_and_terminals_are_refused_and_the_program_does_not_wait() {
    let mut talk = busy("editor");
    for method in ["fs/read_text_file", "terminal/create", "elicitation/create", "x/y"] {
        let heard = tell(&mut talk, json!({ "id": "q", "method": method, "params": {} }));
        let [refusal, Heard::Unknown(_)] = heard.as_slice() else { panic!("{heard:?}") };
        let refusal = &written(refusal.clone())[0];
        assert_eq!(refusal["error"]["code"], -32601, "{refusal}");
        assert_eq!(refusal["id"], "q");
    }
}

#[test]
fn the_nearest_option_is_chosen_and_always_only_if_there_is_no_once() {
    let all = ["allow_always", "allow_once", "reject_always", "reject_once"];
    for (kinds, allow, chosen) in [
        (&all[..], true, Some("the-allow_once")),
        (&all[..], false, Some("the-reject_once")),
        (&all[..1], true, Some("the-allow_always")),
        (&all[..1], false, None),
        (&all[2..3], true, None),
        (&all[2..3], false, Some("the-reject_always")),
    ] {
        let mut talk = busy("careful");
        let options: Vec<Value> = kinds.iter().map(|kind| option(kind)).collect();
        tell(&mut talk, asks(json!("r1"), json!(options)));
        let answer = talk.answer("\"r1\"", allow, "").expect("open");
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(answer["id"], "r1");
        let outcome = &answer["result"]["outcome"];
        assert_eq!(outcome["optionId"].as_str(), chosen, "{kinds:?} {allow}");
        assert_eq!(outcome["outcome"] == "cancelled", chosen.is_none());
        assert_eq!(talk.answer("\"r1\"", allow, ""), None, "it is answered once");
    }
}

#[test]
fn a_request_that_the_program_takes_back_is_withdrawn() {
    let mut talk = busy("fickle");
    tell(&mut talk, asks(json!(7), json!([option("allow_once")])));
    let back = json!({ "method": "$/cancel_request", "params": { "requestId": 7 } });
    let heard = tell(&mut talk, back);
    assert_eq!(heard[1], Heard::Withdrew("7".to_owned()));
    assert_eq!(written(heard[0].clone())[0]["error"]["code"], -32800);
    assert_eq!(talk.answer("7", true, ""), None);
}

#[test]
fn a_turn_that_the_program_gives_up_takes_its_requests_along() {
    let mut talk = busy("moody");
    tell(&mut talk, asks(json!(7), json!([option("allow_once")])));
    let heard = tell(&mut talk, json!({ "id": 3, "error": { "code": 1, "message": "no" } }));
    assert_eq!(heard[0], Heard::Withdrew("7".to_owned()));
    assert_eq!(heard[1], Heard::TurnEnded(TurnEnd::Failed("moody failed: no".to_owned())));
}

#[test]
fn permission_that_is_asked_for_after_a_cut_is_cancelled_at_once() {
    let mut talk = busy("slow");
    talk.interrupt().expect("busy");
    let heard = tell(&mut talk, asks(json!(7), json!([option("allow_once")])));
    assert!(!heard.iter().any(|heard| matches!(heard, Heard::Asks(_))), "{heard:?}");
    let answers: Vec<Value> = heard.into_iter().flat_map(written).collect();
    assert_eq!(answers[0]["result"]["outcome"], json!({ "outcome": "cancelled" }));
    // Whatever it calls its end, the hub cut it.
    let heard = tell(&mut talk, ended("end_turn"));
    assert_eq!(heard.last(), Some(&Heard::TurnEnded(TurnEnd::Interrupted)));
    assert_eq!(talk.activity(), Activity::Idle);
}

#[test]
fn each_reason_to_stop_without_an_answer_is_a_sentence() {
    for (reason, words) in [
        ("refusal", "refused"),
        ("max_tokens", "limit of its tokens"),
        ("max_turn_requests", "limit of requests"),
        ("boredom", "boredom"),
    ] {
        let mut talk = busy("stopper");
        let heard = tell(&mut talk, ended(reason));
        let Some(Heard::TurnEnded(TurnEnd::Failed(why))) = heard.last() else {
            panic!("{heard:?}")
        };
        assert!(why.contains("stopper") && why.contains(words), "{why}");
    }
}

#[test]
fn nobody_is_prompted_in_mid_turn_and_nothing_is_cut_between_turns() {
    let mut talk = busy("strict");
    assert_eq!(talk.prompt(2, "and this"), None);
    tell(&mut talk, ended("end_turn"));
    assert_eq!(talk.steer(2, "and this"), None);
    assert_eq!(talk.interrupt(), None);
    assert!(talk.prompt(2, "and this").is_some());
}

#[test]
fn words_of_a_model_that_nobody_prompted_prove_nothing_about_the_next_prompt() {
    let mut talk = busy("eager");
    tell(&mut talk, words("Done.", "m1"));
    tell(&mut talk, ended("end_turn"));
    tell(&mut talk, words("By the way, ", "m2"));
    talk.prompt(2, "More.").expect("idle");
    let heard = tell(&mut talk, words("there is news.", "m3"));
    assert!(!heard.contains(&Heard::Began(2)), "it may still speak by itself: {heard:?}");
    let heard = tell(&mut talk, json!({ "id": 4, "result": { "stopReason": "end_turn" } }));
    assert!(heard.contains(&Heard::Began(2)), "{heard:?}");
    // After that it is as before.
    talk.prompt(3, "Still more.").expect("idle");
    assert!(tell(&mut talk, words("Yes.", "m4")).contains(&Heard::Began(3)));
}

#[test]
fn an_answer_is_not_lost_to_a_prompt_that_came_too_late_and_failed() {
    let mut talk = busy("OpenCode");
    tell(&mut talk, words("All is done.", "m1"));
    talk.steer(2, "And this.").expect("it can");
    tell(&mut talk, ended("end_turn"));
    let failed = json!({ "id": 4, "error": { "code": 1, "message": "no" } });
    let heard = tell(&mut talk, failed);
    assert_eq!(heard, [Heard::TurnEnded(TurnEnd::Answer("All is done.".to_owned()))]);
}

#[test]
fn the_rest_of_the_message_before_proves_nothing_about_a_steered_prompt() {
    let mut talk = busy("OpenCode");
    tell(&mut talk, words("I work", "m1"));
    talk.steer(2, "And this.").expect("it can");
    // As claude-agent-acp does, the program hands over in the middle of a message.
    assert!(!tell(&mut talk, ended("end_turn")).contains(&Heard::Began(2)));
    assert!(!tell(&mut talk, words(" on.", "m1")).contains(&Heard::Began(2)));
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "look" });
    assert!(!tell(&mut talk, update(call)).contains(&Heard::Began(2)));
    assert!(tell(&mut talk, words("Both.", "m2")).contains(&Heard::Began(2)));
}

#[test]
fn the_state_of_another_driver_is_not_taken() {
    use crate::drivers::Driver;
    assert!(super::Acp.resume(&json!({})).is_none());
    assert!(super::Acp.resume(&Value::Null).is_none());
    let state = busy("x").state();
    assert_eq!(resume(&state).state(), state);
}

#[test]
fn a_remembered_verdict_covers_no_act_that_nobody_saw() {
    let subject = |call: Value| {
        let mut call = call;
        call["toolCallId"] = json!("c");
        let params =
            json!({ "sessionId": "s", "toolCall": call, "options": [option("allow_once")] });
        let asks = json!({ "id": 7, "method": "session/request_permission", "params": params });
        match tell(&mut busy("careful"), asks).pop() {
            Some(Heard::Asks(request)) => request.subject,
            other => panic!("{other:?}"),
        }
    };
    let run = |command: &str| {
        subject(json!({ "kind": "execute", "title": "x", "rawInput": { "command": command } }))
    };
    assert_eq!(run("npm test"), "Bash(npm test)");
    assert_eq!(run("npm test; rm -rf x"), "Bash(npm test; rm -rf x)");
    let remote =
        json!({ "kind": "other", "title": "run_remote", "rawInput": { "command": "npm test" } });
    assert_ne!(subject(remote), run("npm test"), "it is another tool");
    let edit = |path: &str| {
        let diff = json!({ "type": "diff", "path": path, "oldText": "a", "newText": "b" });
        subject(json!({ "kind": "edit", "title": "edit", "content": [diff] }))
    };
    assert_eq!(edit("/home/me/a"), "Edit(/home/me/a)");
    assert_ne!(edit("/home/me/a"), edit("/home/me/.bashrc"));
    let place = json!([{ "path": "/home/me/a" }]);
    let delete = json!({ "kind": "delete", "title": "x", "locations": place });
    assert_eq!(subject(delete), "Delete(/home/me/a)");
    let fetch = |url: &str| {
        subject(json!({ "kind": "fetch", "title": "Fetch", "rawInput": { "url": url } }))
    };
    assert_eq!(fetch("https://example.com/a"), "Fetch(https://example.com/a)");
    assert_ne!(fetch("https://example.com/a"), fetch("https://example.com/b"));
    // Gemini CLI says all in the content,
    let said = |text: &str| {
        let content = json!([{ "type": "content", "content": { "type": "text", "text": text } }]);
        subject(json!({ "kind": "fetch", "title": "Confirm Web Fetch", "content": content }))
    };
    assert_ne!(said("https://example.com/a"), said("https://example.com/b"));
    // and other programs in the arguments.
    let call =
        |input: Value| subject(json!({ "kind": "other", "title": "query", "rawInput": input }));
    assert_ne!(call(json!({ "sql": "select 1" })), call(json!({ "sql": "drop table users" })));
    assert_eq!(call(json!({})), "query");
    let silent = subject(json!({ "kind": "edit" }));
    assert_eq!(silent, "Edit(c)", "nothing is known but the call itself");
}

#[test]
fn a_text_that_was_cut_within_a_character_is_the_answer() {
    let mut talk = busy("javascript");
    let line = words("cut HALF here", "m1").to_string().replace("HALF", "\\ud83d");
    talk.heard(line.as_bytes());
    let heard = tell(&mut talk, ended("end_turn"));
    let answer = TurnEnd::Answer("cut \u{fffd} here".to_owned());
    assert_eq!(heard.last(), Some(&Heard::TurnEnded(answer)));
}
