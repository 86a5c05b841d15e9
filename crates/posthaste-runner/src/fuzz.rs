//! Fuzzes the lines of the hub: a runner reads them to the end, whatever they are.

use posthaste_testkit::fuzz;
use serde_json::Value;

use crate::run;

/// Whole talks of a hub that answers before it is asked, which a runner takes as well.
const TALKS: [&str; 4] = [
    concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"start","params":{"thread_id":"t","instance":"i","address":"a@b","profile":{"name":"p","system_prompt":"be brief"},"conversation":[{"role":"user","content":"größe"}],"turn_open":true,"limits":{"context_chars":900},"stay":true}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":1,"result":{"context_prompt":"now"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"result":{"role":"assistant","content":"so","tool_calls":[{"id":"c","name":"look","arguments":{"at":1}}]}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"seen"}],"isError":false}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":4,"result":{"messages":[{"role":"user","content":"more"}]}}"#,
        "\n",
    ),
    concat!(
        r#"{"jsonrpc":"2.0","id":"s","method":"start","params":{"thread_id":"t","instance":"i","address":"a@b","profile":{"name":"p","system_prompt":""},"limits":{"context_chars":0},"stay":true}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"inbox","params":{"thread_id":"t","waiting":2}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":1,"result":{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"m","name":"check_inbox"}]},{"role":"tool","tool_call_id":"m","content":"mail"}]}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32003,"message":"cancelled"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":3,"result":{"accepted":true}}"#,
        "\n",
    ),
    "{\"jsonrpc\":\"2.0\",\"method\":\"cancel\",\"params\":{\"thread_id\":\"t\",\"reason\":\"stop\"}}\r\n",
    "nonsense\n{}\n[1]\n",
];

#[test]
fn broken_lines_end_in_an_error_line_or_change_nothing() {
    for case in fuzz::cases(3_000, &TALKS) {
        let mut said = Vec::new();
        // It may end in the middle of a turn, which is an error and no panic.
        let _ = run(std::io::Cursor::new(case.bytes.clone()), &mut said);
        assert!(said.is_empty() || said.ends_with(b"\n"));
        for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line: Value = serde_json::from_slice(line).expect("each line is one JSON value");
            assert_eq!(line["jsonrpc"], "2.0");
            assert!(line["method"].is_string() || line.get("id").is_some());
        }
    }
}
