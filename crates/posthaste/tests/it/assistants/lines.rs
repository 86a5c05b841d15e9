//! The lines of a runner, to which the test itself is the hub.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::stage::Runner;
use crate::assistant_tools::python;
use crate::world::BINARY;

const THREAD: &str = "t-0000002a";

struct Talk {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Talk {
    /// Starts a runner on this conversation; it stays for further mail.
    #[expect(clippy::disallowed_methods, reason = "the fixture owns every child it starts")]
    fn start(runner: Runner, conversation: Value, context_chars: usize) -> Option<Self> {
        let mut command = match runner {
            Runner::BuiltIn => Command::new(BINARY),
            Runner::Python => Command::new(python()?),
        };
        match runner {
            Runner::BuiltIn => command.arg("runner"),
            Runner::Python => {
                command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/runner.py"))
            }
        };
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pipes.spawn().expect("a runner");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut talk = Self { child, input, output };
        talk.write(json!({ "id": "start", "method": "start", "params": {
            "thread_id": THREAD, "instance": "0000002a", "address": "helper.0000002a@main",
            "profile": { "name": "helper", "system_prompt": "You help.", "model": "" },
            "turn_open": conversation != json!([]),
            "conversation": conversation, "tools": [],
            "limits": { "context_chars": context_chars }, "stay": true,
        }}));
        assert_eq!(talk.read(), json!({ "jsonrpc": "2.0", "id": "start", "result": {} }));
        Some(talk)
    }

    fn write(&mut self, mut line: Value) {
        line["jsonrpc"] = "2.0".into();
        writeln!(self.input, "{line}").expect("it reads");
    }

    fn tell(&mut self, method: &str) {
        self.write(json!({ "method": method, "params": { "thread_id": THREAD } }));
    }

    fn read(&mut self) -> Value {
        let line = self.output.next().expect("it goes on").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Returns the parameters of the next call, which must be this one, after it is
    /// answered.
    fn answers(&mut self, method: &str, result: Value) -> Value {
        let call = self.read();
        assert_eq!(call["method"], method, "{call}");
        self.write(json!({ "id": call["id"], "result": result }));
        call["params"].clone()
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn a_turn_that_is_cancelled_before_its_first_look_ends_all_the_same(runner: Runner) {
    let Some(mut talk) = Talk::start(runner, json!([]), 9_000) else { return };
    talk.tell("inbox");
    talk.tell("cancel");
    let mut call = talk.read();
    // Both happen: it may look before it reads that the turn is cancelled.
    if call["method"] == "on_inbox_drain" {
        let error = json!({ "code": -32003, "message": "the turn was cancelled" });
        talk.write(json!({ "id": call["id"], "error": error }));
        call = talk.read();
    }
    assert_eq!(
        (&call["method"], &call["params"]["cancelled"]),
        (&json!("on_finish"), &json!(true))
    );
    talk.write(json!({ "id": call["id"], "result": { "accepted": true } }));
    // The next mail finds it there.
    talk.tell("inbox");
    let mail = json!({ "messages": [{ "role": "user", "content": "and now?" }] });
    talk.answers("on_inbox_drain", mail);
    talk.answers("on_aggregate_service_context", json!({ "context_prompt": "" }));
    let request =
        talk.answers("on_llm_request", json!({ "role": "assistant", "content": "Well." }));
    assert_eq!(request["messages"][1], json!({ "role": "user", "content": "and now?" }));
}

/// A call of a tool with its result.
fn round(id: &str, name: &str, content: &str) -> [Value; 2] {
    let call = json!({ "id": id, "name": name, "arguments": {} });
    [
        json!({ "role": "assistant", "tool_calls": [call] }),
        json!({ "role": "tool", "tool_call_id": id, "content": content }),
    ]
}

/// The results of tools in a request.
fn results(request: &Value) -> Vec<&str> {
    let messages = request["messages"].as_array().expect("a list").iter();
    let results = messages.filter(|message| message["role"] == "tool");
    results.filter_map(|message| message["content"].as_str()).collect()
}

fn the_task_of_another_agent_is_not_left_out_of_a_long_conversation(runner: Runner) {
    // Each is longer than everything else, the prompt included.
    let long = "x".repeat(10_000);
    let task = "Count every brick.".repeat(20);
    let notice = json!({ "role": "user", "content": "[posthaste] alice gives you a task." });
    let mut conversation = vec![notice];
    conversation.extend(round("mail_7", "check_inbox", &task));
    conversation.extend(round("a", "read", &long));
    conversation.extend(round("b", "read", &long));
    let Some(mut talk) = Talk::start(runner, json!(conversation), 16_000) else { return };
    talk.answers("on_aggregate_service_context", json!({ "context_prompt": "" }));
    let request =
        talk.answers("on_llm_request", json!({ "role": "assistant", "content": "Done." }));
    let contents = results(&request);
    assert_eq!(contents[0], task);
    assert_eq!(contents[1], "[posthaste] a result of 10000 characters was left out");
    assert_eq!(contents[2], long);
}

fn a_result_that_the_model_has_not_seen_stays_before_mail(runner: Runner) {
    let long = "x".repeat(10_000);
    let mut conversation = vec![json!({ "role": "user", "content": "mend it" })];
    conversation.extend(round("b", "read", &long));
    conversation.extend(round("mail_9", "check_inbox", "the bricks are here"));
    let Some(mut talk) = Talk::start(runner, json!(conversation), 9_000) else { return };
    talk.answers("on_aggregate_service_context", json!({ "context_prompt": "" }));
    let request =
        talk.answers("on_llm_request", json!({ "role": "assistant", "content": "Done." }));
    let results = results(&request);
    assert!(results[0].starts_with(&long[..1_000]), "it was left out");
    assert_eq!(results[1], "the bricks are here");
}

#[test]
fn both_runners_keep_a_result_that_the_model_has_not_seen() {
    for runner in [Runner::BuiltIn, Runner::Python] {
        a_result_that_the_model_has_not_seen_stays_before_mail(runner);
    }
}

#[test]
fn both_runners_end_a_turn_that_is_cancelled_before_its_first_look() {
    for runner in [Runner::BuiltIn, Runner::Python] {
        a_turn_that_is_cancelled_before_its_first_look_ends_all_the_same(runner);
    }
}

#[test]
fn both_runners_keep_the_task_of_another_agent_in_a_long_conversation() {
    for runner in [Runner::BuiltIn, Runner::Python] {
        the_task_of_another_agent_is_not_left_out_of_a_long_conversation(runner);
    }
}
