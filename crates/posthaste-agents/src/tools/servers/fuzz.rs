//! Fuzzes the definitions of MCP servers, and the names and results of their tools.

use posthaste_testkit::fuzz;
use serde_json::{Value, json};

use super::words::text_of;
use super::{Definition, names};

#[test]
fn every_definition_of_a_server_is_read_or_refused_in_a_sentence() {
    let servers = [
        json!({ "command": "x", "args": ["a", 1], "env": { "A": "b" }, "cwd": "c", "type": "stdio" }),
        json!({ "type": "http", "url": "https://tools.example/mcp", "headers": { "X-Key": "k" } }),
    ];
    for mut case in fuzz::cases::<&str>(4_000, &[]) {
        for server in &servers {
            let server = case.odd_json(server);
            match Definition::read(&server) {
                Ok(definition) => {
                    let _ = definition.is_hub("http://127.0.0.1:9889");
                    if let Definition::Stdio { command, args, env, .. } = definition {
                        let bad = |text: &String| text.contains('\0');
                        assert!(!bad(&command) && !args.iter().any(bad));
                        assert!(!env.iter().any(|(key, value)| bad(key) || bad(value)));
                        assert!(!env.keys().any(|key| key.is_empty() || key.contains('=')));
                    }
                }
                Err(why) => assert!(!why.is_empty() && why.len() < 1_000, "{why}"),
            }
        }
    }
}

#[test]
fn every_name_of_a_tool_becomes_one_that_providers_take() {
    for case in fuzz::cases(4_000, &["files\nread_file", "my files\nlesen ä", "a__b\n_c_"]) {
        let text = case.text();
        let (server, tool) = text.split_once('\n').unwrap_or((&*text, ""));
        for name in [names::named(server, tool), names::another(server, tool, 3)] {
            let fits = |one: char| one.is_ascii_alphanumeric() || one == '_' || one == '-';
            assert!(name.len() <= 64 && name.chars().all(fits), "{name}");
            assert!(name.starts_with(names::PREFIX), "{name}");
        }
    }
}

#[test]
fn every_result_of_a_tool_becomes_a_bounded_text() {
    let result = json!({
        "content": [
            { "type": "text", "text": "one ä" },
            { "type": "image", "data": "QUJD", "mimeType": "image/png" },
            { "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } },
        ],
        "structuredContent": { "sum": 7 }, "isError": false,
    });
    for mut case in fuzz::cases::<&str>(4_000, &[]) {
        let odd: Value = case.odd_json(&result);
        if let Ok(result) = serde_json::from_value(odd) {
            let text = text_of(&result, 50);
            assert!(!text.is_empty() && text.len() < 4_000, "{} bytes", text.len());
        }
    }
}
