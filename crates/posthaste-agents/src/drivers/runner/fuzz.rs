//! Fuzzes the lines of runners: each is served, or answered with an error.

use posthaste_testkit::fuzz;
use serde_json::{Value, json};

use super::tests::{busy, resume};
use crate::conversation::Heard;

const LINES: [&str; 4] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"on_llm_request","params":{"thread_id":"t-0000000a","messages":[{"role":"user","content":"größe"},{"role":"assistant","tool_calls":[{"id":"c","name":"n","arguments":{}}]},{"role":"tool","tool_call_id":"c","content":"x"}]}}"#,
    r#"{"jsonrpc":"2.0","id":"two","method":"on_tool_call","params":{"thread_id":"t-0000000a","tool_name":"x","arguments":{"a":[1]},"tool_call_id":"c"}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"on_finish","params":{"thread_id":"t-0000000a","result":"done"}}"#,
    r#"{"jsonrpc":"2.0","id":"start","error":{"code":-32602,"message":"no"}}"#,
];

#[test]
fn no_line_of_a_runner_breaks_its_conversation() {
    let document: Value = serde_json::from_str(LINES[0]).expect("JSON");
    for mut case in fuzz::cases(6_000, &LINES) {
        let mut talk = busy(case.dice.one_in(2));
        if case.dice.one_in(2) {
            let odd = case.odd_json(&document);
            case.bytes = odd.to_string().into_bytes();
        }
        for heard in talk.heard(&case.bytes) {
            match heard {
                Heard::Send(bytes) => {
                    let line: Value = serde_json::from_slice(&bytes).expect("a line of JSON");
                    assert!(line["error"]["code"].is_i64(), "{line}");
                }
                Heard::Calls(call) => drop(talk.served(&call.id, Ok(json!({})).into())),
                Heard::Unknown(_) | Heard::Fails(_) => {}
                other => panic!("{other:?}"),
            }
        }
        let mut talk = resume(&talk.state());
        talk.interrupt();
        talk.heard(&case.bytes);
    }
}
