//! Runners that do not keep to the protocol: the hub says so, and goes on.

use serde_json::{Value, json};

use super::stage::{Assistant, KEY, Runner, Stage};

/// The beginning of every odd runner: it takes `start`.
const BEGIN: &str = r#"
import json, sys
def read(): return json.loads(sys.stdin.readline())
def raw(text): print(text, flush=True)
def write(**line): raw(json.dumps({"jsonrpc": "2.0", **line}))
def call(id, method, **params):
    write(id=id, method=method, params={"thread_id": thread, **params})
start = read()
thread = start["params"]["thread_id"]
write(id=start["id"], result={})
"#;

/// The end of a runner that has something to say.
const FINISH: &str = "\ncall(900, 'on_finish', result=json.dumps(seen))\nread()\n";

async fn play(program: &str) -> (Stage, Assistant) {
    let stage =
        Stage::set_with(Runner::BuiltIn, "[agents]\nopening = \"3s\"\ngrace = \"1s\"\n").await;
    stage.world.say(&["join", "alice"]);
    let config = json!({ "model": "play", "command": ["python3", "-c", program] });
    stage.profile_with("odd", "You are odd.", &config);
    let odd = stage.assign_agent_as("alice", "odd", "work");
    (stage, odd)
}

/// Plays a runner that reports the answers that it got.
async fn seen(program: &str) -> Value {
    let (stage, odd) = play(&format!("{BEGIN}\n{program}{FINISH}")).await;
    let report = stage.world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
    let report = &report["messages"][0];
    assert_eq!(report["type"], "result", "{report}");
    stage.until_status(&odd, "finished");
    serde_json::from_str(report["message"].as_str().expect("a text")).expect("JSON")
}

/// Plays a runner that fails, and gives the report.
async fn fails(program: &str) -> String {
    let (stage, odd) = play(program).await;
    let report = stage.world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
    let report = &report["messages"][0];
    assert_eq!(report["type"], "system.agent_failed", "{report}");
    stage.until_status(&odd, "failed");
    assert_eq!(stage.world.run(&["status"]).code, Some(0), "the hub goes on");
    report["message"].as_str().expect("a text").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rubbish_of_a_runner_is_answered_with_errors_and_its_work_goes_on() {
    let seen = seen(
        r#"
seen = []
raw("nonsense"); seen.append(read())
raw("[1, 2]"); seen.append(read())
call(1, "no_such_method"); seen.append(read())
write(id=2, method="on_inbox_drain", params={"thread_id": "t-ffffffff"}); seen.append(read())
call(3, "on_tool_call", arguments=7); seen.append(read())
call(4, "on_event", type="smoke"); seen.append(read())
call(5, "on_tool_call", tool_name="rm", arguments={}); seen.append(read())
call(6, "on_inbox_drain"); seen.append(read())
"#,
    )
    .await;
    let code = |at: usize| seen[at]["error"]["code"].clone();
    assert_eq!((code(0), code(1)), (json!(-32700), json!(-32700)), "{seen}");
    assert_eq!((code(2), code(3)), (json!(-32601), json!(-32602)), "{seen}");
    assert_eq!((code(4), code(5)), (json!(-32602), json!(-32602)), "{seen}");
    assert_eq!(seen[6]["result"]["isError"], true, "an unknown tool is a result: {seen}");
    assert_eq!(seen[7]["result"], json!({ "messages": [] }), "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_are_answered_by_their_ids_and_too_many_are_refused() {
    let seen = seen(
        r#"
run = {"tool_name": "builtin_shell__run", "arguments": {"command": "sleep 1"}}
for n in range(1, 41): call(n, "on_tool_call", tool_call_id=str(n), **run)
answers = [read() for n in range(40)]
seen = [[a["id"], "error" in a] for a in answers]
"#,
    )
    .await;
    let all = seen.as_array().expect("a list");
    let mut ids: Vec<_> = all.iter().map(|answer| answer[0].as_u64().expect("an id")).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=40).collect::<Vec<_>>(), "each is answered once");
    let refused = all.iter().filter(|answer| answer[1] == true).count();
    assert_eq!(refused, 8, "runner.open_calls is 32: {seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_under_a_used_id_gets_its_first_answer_again_and_does_nothing() {
    let seen = seen(
        r#"
run = {"tool_name": "builtin_shell__run", "tool_call_id": "c"}
seen = []
call(1, "on_tool_call", arguments={"command": "echo one"}, **run); seen.append(read())
call(1, "on_tool_call", arguments={"command": "echo two"}, **run); seen.append(read())
"#,
    )
    .await;
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].to_string().contains("one"), "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_does_not_take_start_fails_in_time_with_a_hint() {
    let why = fails("import time; time.sleep(600)").await;
    assert!(why.contains("agents.opening") && why.contains("protocol of runners"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_ends_in_mid_turn_fails_with_its_last_words() {
    let program = format!("{BEGIN}\nsys.exit('no bricks left')");
    let why = fails(&program).await;
    assert!(why.contains("exit code 1") && why.contains("no bricks left"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_ends_before_it_takes_start_fails_also_without_an_error() {
    let why = fails("import sys\nsys.stdin.readline()\nsys.exit(0)").await;
    assert!(why.contains("it ended in the middle of its turn, or before"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_has_reported_and_stays_is_ended_and_cannot_say_more() {
    let later = "call(901, 'on_finish', result='more')\nimport time; time.sleep(600)";
    let program = format!("{BEGIN}\ncall(900, 'on_finish', result='done')\nread()\n{later}");
    let (stage, odd) = play(&program).await;
    let report = stage.world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
    assert_eq!(report["messages"][0]["message"], "done", "{report}");
    stage.until_status(&odd, "finished");
    let inbox = stage.world.run(&["inbox", "--as", "alice", "--timeout", "0"]);
    assert_eq!(inbox.code, Some(7), "there is one report: {inbox:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_without_an_end_fails_the_runner_and_not_the_hub() {
    let program = format!("{BEGIN}\nsys.stdout.write('x' * (5 << 20))\nsys.stdout.flush()\nread()");
    let why = fails(&program).await;
    assert!(why.contains("a line of more than 4194304 bytes"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_reads_no_answers_fails_and_not_the_hub() {
    let program = format!(
        "{BEGIN}\nfor n in range(1, 20000): call(n, 'on_tool_call', tool_name='x', arguments={{}})\n\
         import time; time.sleep(600)"
    );
    let why = fails(&program).await;
    assert!(why.contains("has not read the last 1000 lines for it"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_has_no_token_and_no_key_and_nor_have_its_commands() {
    let seen = seen(
        r#"
import os
call(1, "on_tool_call", tool_name="builtin_shell__run", arguments={"command": "env"}, tool_call_id="c")
seen = [dict(os.environ), read()["result"]["content"][0]["text"]]
"#,
    )
    .await;
    let own = seen[0].as_object().expect("variables");
    assert!(own.contains_key("PATH"), "{seen}");
    let commands = seen[1].as_str().expect("a text");
    assert!(commands.contains("PATH="), "{commands}");
    for text in [seen[0].to_string(), commands.to_owned()] {
        for secret in ["TOKEN", KEY, "the-key-of-the-model", "SECRET"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}
