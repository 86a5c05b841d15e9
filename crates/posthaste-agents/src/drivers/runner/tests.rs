//! The lines of runners, without a hub.

use serde_json::{Value, json};

use super::Runner;
use super::talk::Talk;
use crate::assistant::{Fault, START, Served};
use crate::conversation::tests::older_states;
use crate::conversation::{Activity, Conversation, Heard, HubCall, TurnEnd};
use crate::drivers::Driver;

const THREAD: &str = "t-0000000a";

pub(super) fn resume(state: &Value) -> Box<dyn Conversation> {
    Runner.resume(state).expect("a state of this driver")
}

fn begun(start: &Value) -> Box<dyn Conversation> {
    let mut talk: Box<dyn Conversation> = Box::new(Talk::new(THREAD));
    let opens = talk.open();
    let [Heard::Calls(HubCall { method, .. })] = opens.as_slice() else { panic!("{opens:?}") };
    assert_eq!(method, START);
    let heard = talk.served(START, Ok(start.clone()).into());
    assert_eq!(sent(&heard)[0]["params"], *start);
    talk
}

/// Returns a conversation whose runner has taken `start` and has a turn.
pub(super) fn busy(stays: bool) -> Box<dyn Conversation> {
    let mut talk = begun(&json!({ "turn_open": true, "stay": stays }));
    assert_eq!(hear(&mut talk, json!({ "id": START, "result": {} })), []);
    assert_eq!(talk.activity(), Activity::Busy);
    talk
}

fn hear(talk: &mut Box<dyn Conversation>, line: Value) -> Vec<Heard> {
    talk.heard(line.to_string().as_bytes())
}

/// Returns the lines that are to be written.
fn sent(heard: &[Heard]) -> Vec<Value> {
    let line = |heard: &Heard| match heard {
        Heard::Send(bytes) => Some(serde_json::from_slice(bytes).expect("a line of JSON")),
        _ => None,
    };
    heard.iter().filter_map(line).collect()
}

fn request(id: Value, method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "thread_id": THREAD } })
}

/// Returns the code of the error with which this line is answered, and the id there.
fn refused(talk: &mut Box<dyn Conversation>, line: &str) -> (i64, Value) {
    let heard = talk.heard(line.as_bytes());
    assert!(!heard.iter().any(|heard| matches!(heard, Heard::Calls(_))), "{heard:?}");
    let lines = sent(&heard);
    let [answer] = lines.as_slice() else { panic!("{heard:?}") };
    (answer["error"]["code"].as_i64().expect("a code"), answer["id"].clone())
}

fn accepted(end: TurnEnd) -> Served {
    Served { reply: Ok(json!({ "accepted": true })), end: Some(end) }
}

#[test]
fn a_call_of_the_runner_is_served_and_answered_under_its_own_id() {
    for id in [json!(7), json!("seven")] {
        let mut talk = busy(true);
        let heard = hear(&mut talk, request(id.clone(), "on_inbox_drain"));
        let [Heard::Calls(call)] = heard.as_slice() else { panic!("{heard:?}") };
        assert_eq!((call.method.as_str(), call.id.clone()), ("on_inbox_drain", id.to_string()));
        let heard = talk.served(&call.id, Ok(json!({ "messages": [] })).into());
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "messages": [] } });
        assert_eq!(sent(&heard), [answer]);
        let heard = talk.served(&call.id, Err(Fault::new(-32001, "no model")).into());
        assert_eq!(sent(&heard)[0]["error"], json!({ "code": -32001, "message": "no model" }));
    }
}

#[test]
fn rubbish_and_calls_that_are_not_allowed_get_an_error_and_change_nothing() {
    for (line, code, id) in [
        ("nonsense", -32700, json!(null)),
        ("[]", -32700, json!(null)),
        ("\u{0}\u{1b}[31m", -32700, json!(null)),
        (r#"{"id": 1}"#, -32600, json!(1)),
        (r#"{"id": 1, "method": 5}"#, -32600, json!(1)),
        (r#"{"method": "on_finish", "params": {}}"#, -32600, json!(null)),
        (r#"{"id": 1.5, "method": "on_finish"}"#, -32600, json!(1.5)),
        (
            r#"{"id": 2, "method": "rm -rf", "params": {"thread_id": "t-0000000a"}}"#,
            -32601,
            json!(2),
        ),
        (
            r#"{"id": 3, "method": "start", "params": {"thread_id": "t-0000000a"}}"#,
            -32601,
            json!(3),
        ),
        (
            r#"{"id": 4, "method": "on_inbox_drain", "params": {"thread_id": "t-0000000b"}}"#,
            -32602,
            json!(4),
        ),
        (r#"{"id": 5, "method": "on_inbox_drain"}"#, -32602, json!(5)),
        (r#"{"id": 6, "method": "on_inbox_drain", "params": []}"#, -32602, json!(6)),
    ] {
        let mut talk = busy(true);
        let before = talk.state();
        assert_eq!(refused(&mut talk, line), (code, id), "{line}");
        assert_eq!(talk.state(), before, "{line}");
    }
}

#[test]
fn an_answer_that_nobody_waits_for_is_shown_and_gets_no_answer() {
    let mut talk = busy(true);
    for line in [
        json!({ "id": 99, "result": {} }),
        json!({ "id": null, "error": { "code": -32700, "message": "what?" } }),
    ] {
        let heard = hear(&mut talk, line);
        assert!(matches!(heard.as_slice(), [Heard::Unknown(_)]), "{heard:?}");
    }
}

#[test]
fn a_runner_is_ready_when_it_has_taken_start_and_not_before() {
    let mut talk = begun(&json!({ "turn_open": true, "stay": false }));
    assert_eq!(talk.activity(), Activity::Starting);
    let early = request(json!(1), "on_inbox_drain").to_string();
    assert_eq!(refused(&mut talk, &early), (-32600, json!(1)));
    hear(&mut talk, json!({ "id": START, "result": {} }));
    assert_eq!(talk.activity(), Activity::Busy);

    let mut idle = begun(&json!({ "turn_open": false, "stay": true }));
    hear(&mut idle, json!({ "id": START, "result": {} }));
    assert_eq!(idle.activity(), Activity::Idle);
}

#[test]
fn a_runner_that_refuses_start_fails_with_its_own_words() {
    let mut talk = begun(&json!({ "turn_open": true }));
    let why = json!({ "code": -32602, "message": "the profile\nis odd" });
    let heard = hear(&mut talk, json!({ "id": START, "error": why }));
    assert_eq!(heard, [Heard::Fails("the runner cannot start: the profile is odd".to_owned())]);
    let mut talk: Box<dyn Conversation> = Box::new(Talk::new(THREAD));
    talk.open();
    let heard = talk.served(START, Err(Fault::new(-32001, "the disk is full")).into());
    assert_eq!(heard, [Heard::Fails("the disk is full".to_owned())]);
}

#[test]
fn a_runner_that_stays_is_idle_after_its_turn_and_another_one_ends() {
    for (stays, after) in [(true, Activity::Idle), (false, Activity::Ending)] {
        let mut talk = busy(stays);
        hear(&mut talk, request(json!(1), "on_finish"));
        let end = TurnEnd::Answer("done".to_owned());
        let heard = talk.served("1", accepted(end.clone()));
        assert_eq!(sent(&heard)[0]["result"]["accepted"], true);
        assert_eq!(heard.last(), Some(&Heard::TurnEnded(end)));
        assert_eq!(talk.activity(), after);
    }
    let mut talk = busy(true);
    hear(&mut talk, request(json!(1), "on_finish"));
    let refused = json!({ "accepted": false, "messages": [] });
    talk.served("1", Ok(refused).into());
    assert_eq!(talk.activity(), Activity::Busy);
}

#[test]
fn mail_is_announced_to_an_idle_runner_with_its_thread() {
    let mut talk = begun(&json!({ "turn_open": false, "stay": true }));
    hear(&mut talk, json!({ "id": START, "result": {} }));
    let bytes = talk.prompt(1, "not shown").expect("it is idle");
    let notice: Value = serde_json::from_slice(&bytes).expect("a line of JSON");
    assert_eq!(notice["method"], "inbox");
    assert_eq!(notice["params"], json!({ "thread_id": THREAD, "waiting": 1 }));
    assert!(notice.get("id").is_none());
    assert_eq!(talk.activity(), Activity::Busy);
}

#[test]
fn a_cancelled_turn_may_only_be_finished() {
    let mut talk = busy(true);
    let bytes = talk.interrupt().expect("a turn runs");
    let notice: Value = serde_json::from_slice(&bytes).expect("a line of JSON");
    assert_eq!(
        (&notice["method"], &notice["params"]["thread_id"]),
        (&json!("cancel"), &json!(THREAD))
    );
    assert_eq!(talk.interrupt(), None, "it is told once");
    let more = request(json!(2), "on_llm_request").to_string();
    assert_eq!(refused(&mut talk, &more), (-32003, json!(2)));
    let heard = hear(&mut talk, request(json!(3), "on_finish"));
    assert!(matches!(heard.as_slice(), [Heard::Calls(_)]), "{heard:?}");
    talk.served("3", accepted(TurnEnd::Interrupted));
    assert_eq!(talk.activity(), Activity::Idle);
    assert_eq!(talk.interrupt(), None, "there is nothing to cancel");
}

#[test]
fn a_hub_goes_on_at_every_line_also_with_an_older_state() {
    let mut talk = busy(true);
    talk.interrupt();
    for older in older_states(&talk.state()) {
        resume(&older);
    }
    let talk = resume(&talk.state());
    assert_eq!(talk.activity(), Activity::Busy);
    assert!(Runner.resume(&json!({ "session": "of another driver" })).is_none());
}
