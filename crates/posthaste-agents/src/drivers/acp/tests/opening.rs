//! The opening of a session: profiles, logins, models and modes.

use serde_json::{Value, json};

use super::{begin, heard_in, try_launch, written};
use crate::check_profile;
use crate::conversation::{Activity, Conversation, Heard, TOKEN};
use crate::drivers::Driver;
use crate::settings::tests::profile;
use crate::settings::{Line, Stdin};

fn refused(config: &str) -> String {
    let error = try_launch(config).expect_err("refused");
    format!("{}; {} ({})", error.why, error.hint.unwrap_or_default(), error.key.unwrap_or_default())
}

/// Opens a session with a program that answers so; returns what was heard last.
fn open(config: Value, hello: Value, session: Value) -> (Box<dyn Conversation>, Vec<Heard>) {
    let mut talk = begin(&config.to_string());
    talk.open();
    let mut hello = hello;
    hello["protocolVersion"] = json!(1);
    hello["agentInfo"] = json!({ "name": "newcomer", "version": "1" });
    let heard = talk.heard(json!({ "id": 1, "result": hello }).to_string().as_bytes());
    if !matches!(heard.as_slice(), [Heard::SendWithToken(_)]) {
        return (talk, heard);
    }
    let heard = talk.heard(json!({ "id": 2, "result": session }).to_string().as_bytes());
    (talk, heard)
}

fn fails(heard: &[Heard]) -> String {
    let [Heard::Fails(why)] = heard else { panic!("{heard:?}") };
    why.clone()
}

#[test]
fn a_command_is_needed_and_runs_as_it_is() {
    let told = refused("{}");
    assert!(told.contains("[opencode, acp]") && told.contains("(command)"), "{told}");
    let launch = try_launch(r#"{"command": ["opencode", "acp"]}"#).expect("good");
    assert_eq!(launch.line, Line::Words(vec!["opencode".into(), "acp".into()]));
    assert_eq!(launch.stdin, Stdin::Session);
    let launch = try_launch(r#"{"command": "exec gemini --acp"}"#).expect("good");
    assert_eq!(launch.line, Line::Shell("exec gemini --acp".into()));
}

#[test]
fn limits_that_the_protocol_does_not_know_are_refused_before_anything_starts() {
    let mut profile = profile(Some("acp"), r#"{"command": "agent"}"#);
    assert_eq!(check_profile(&profile.template), Ok(()));
    profile.template.tools = Some(vec!["Read".to_owned()]);
    let error = check_profile(&profile.template).expect_err("refused");
    assert_eq!(error.key, Some("tools"));
}

#[test]
fn the_token_is_filled_in_only_when_the_session_is_opened() {
    let mut talk = begin("{}");
    talk.open();
    let hello = json!({ "id": 1, "result": { "protocolVersion": 1 } });
    let heard = talk.heard(hello.to_string().as_bytes());
    let [Heard::SendWithToken(line)] = heard.as_slice() else { panic!("{heard:?}") };
    assert_eq!(line.matches(TOKEN).count(), 1);
    let params = &written(heard[0].clone())[0]["params"];
    assert_eq!(
        params["mcpServers"][0]["env"][2],
        json!({ "name": "POSTHASTE_TOKEN", "value": "TOKEN" })
    );
}

#[test]
fn servers_of_the_profile_are_translated() {
    let config = json!({ "mcpServers": {
        "files": { "command": "files-mcp", "args": ["-v", 2], "env": { "DEPTH": 3 } },
        "web": { "type": "http", "url": "http://127.0.0.1:1/mcp", "headers": { "X-Key": "k" } },
        "old": { "type": "sse", "url": "http://127.0.0.1:1/sse" },
    }});
    let mut talk = begin(&config.to_string());
    talk.open();
    let able = json!({ "mcpCapabilities": { "http": true, "sse": true } });
    let hello = json!({ "id": 1, "result": { "protocolVersion": 1, "agentCapabilities": able } });
    let heard = talk.heard(hello.to_string().as_bytes());
    let servers = &written(heard[0].clone())[0]["params"]["mcpServers"];
    let expected = json!([
        { "name": "files", "command": "files-mcp", "args": ["-v", "2"],
          "env": [{ "name": "DEPTH", "value": "3" }] },
        { "type": "http", "name": "web", "url": "http://127.0.0.1:1/mcp",
          "headers": [{ "name": "X-Key", "value": "k" }] },
        { "type": "sse", "name": "old", "url": "http://127.0.0.1:1/sse", "headers": [] },
    ]);
    assert_eq!(json!(servers.as_array().expect("a list")[1..]), expected);
}

#[test]
fn a_server_that_the_program_cannot_use_is_told_by_name() {
    let config = |server: Value| json!({ "command": "x", "mcpServers": { "web": server } });
    for (server, why) in [
        (json!({}), "neither"),
        (json!({ "command": "x", "url": "y" }), "both"),
        (json!({ "command": "x", "args": "y" }), "`args`"),
        (json!({ "command": "x", "env": ["y"] }), "`env`"),
        (json!({ "url": "http://x", "headers": { "A": "Bearer ${KEY}" } }), "variable"),
    ] {
        let told = refused(&config(server).to_string());
        assert!(told.contains("web") && told.contains(why), "{told}");
        assert!(told.contains("(mcp_config)"), "{told}");
    }
    let hub = json!({ "command": "x", "mcpServers": { "posthaste": { "command": "y" } } });
    assert!(refused(&hub.to_string()).contains("the hub itself"));
    let web = json!({ "mcpServers": { "web": { "url": "http://127.0.0.1:1/mcp" } } });
    let (_, heard) = open(web, json!({}), json!({}));
    assert!(fails(&heard).contains("newcomer cannot use the MCP server web"), "{heard:?}");
}

#[test]
fn a_model_or_mode_that_is_not_offered_fails_with_those_that_are() {
    let session = json!({
        "sessionId": "s",
        "modes": { "currentModeId": "ask", "availableModes": [
            { "id": "ask", "name": "Ask" }, { "id": "go", "name": "Go On" },
        ]},
        "models": { "currentModelId": "own", "availableModels": [
            { "modelId": "big", "name": "Big" },
        ]},
    });
    let (_, heard) = open(json!({ "model": "huge" }), json!({}), session.clone());
    let told = fails(&heard);
    assert!(told.contains("no `model` `huge`: it offers big, own"), "{told}");
    let (_, heard) = open(json!({ "permission_mode": "never" }), json!({}), session.clone());
    assert!(fails(&heard).contains("no `permission_mode` `never`: it offers ask, go"), "{heard:?}");
    let (_, heard) = open(json!({ "model": "big" }), json!({}), json!({ "sessionId": "s" }));
    assert!(fails(&heard).contains("take `model` out of its profile"), "{heard:?}");

    let config = json!({ "model": "own", "permission_mode": "go on" });
    let (mut talk, heard) = open(config, json!({}), session);
    let model = json!({ "jsonrpc": "2.0", "id": 3, "method": "session/set_model",
        "params": { "sessionId": "s", "modelId": "own" } });
    assert_eq!(written(heard[1].clone()), [model]);
    // A program that answers with nothing has done it.
    let heard = talk.heard(br#"{"jsonrpc": "2.0", "id": 3, "result": null}"#);
    let mode = json!({ "jsonrpc": "2.0", "id": 4, "method": "session/set_mode",
        "params": { "sessionId": "s", "modeId": "go" } });
    assert_eq!(written(heard[0].clone()), [mode]);
    assert_eq!(talk.activity(), Activity::Starting);
    talk.heard(br#"{"jsonrpc": "2.0", "id": 4, "result": {}}"#);
    assert_eq!(talk.activity(), Activity::Idle);
}

#[test]
fn a_choice_that_the_program_refuses_fails_with_its_words() {
    let session = json!({ "sessionId": "s", "models": {
        "currentModelId": "own", "availableModels": [],
    }});
    let (mut talk, _) = open(json!({ "model": "own" }), json!({}), session);
    let refusal = json!({ "id": 3, "error": { "code": -32603, "message": "Internal error",
        "data": { "details": "no such model" } } });
    let heard = talk.heard(refusal.to_string().as_bytes());
    assert!(fails(&heard).contains("Internal error: no such model"), "{heard:?}");
}

#[test]
fn a_program_that_is_not_logged_in_fails_with_the_way_to_log_in() {
    for (program, login) in [
        ("claude", "run `claude` once"),
        ("codex", "run `codex login`"),
        ("gemini", "run `gemini` once"),
    ] {
        let heard = heard_in(&format!("{program}-logged_out"));
        let fails = heard.iter().find_map(|heard| match heard {
            Heard::Fails(why) => Some(why.as_str()),
            _ => None,
        });
        let why = fails.unwrap_or_else(|| panic!("{program}: {heard:?}"));
        assert!(why.contains("is not logged in") && why.contains(login), "{why}");
    }
    assert!(
        heard_in("gemini-logged_out")
            .iter()
            .any(|heard| matches!(heard, Heard::Fails(why) if why.contains("Log in with your"))),
        "with the ways that it offers"
    );
}

#[test]
fn a_program_of_another_version_or_of_no_protocol_fails_with_a_sentence() {
    let mut talk = begin("{}");
    talk.open();
    let heard = talk.heard(br#"{"id": 1, "result": {"protocolVersion": 2}}"#);
    assert!(fails(&heard).contains("version 2"), "{heard:?}");
    let mut talk = begin("{}");
    talk.open();
    let heard = talk.heard(br#"{"id": 1, "result": [1]}"#);
    assert!(fails(&heard).contains("initialize"), "{heard:?}");
    let mut talk = begin("{}");
    talk.open();
    let heard = talk.heard(br#"{"id": 1, "error": "broken"}"#);
    assert!(fails(&heard).contains("broken"), "{heard:?}");
}

#[test]
fn instructions_come_before_the_task_where_no_system_prompt_can_be_given() {
    let (mut talk, _) = open(json!({}), json!({}), json!({ "sessionId": "s" }));
    let blocks = |bytes: Option<Vec<u8>>| {
        let line: Value = serde_json::from_slice(&bytes.expect("idle")).expect("JSON");
        line["params"]["prompt"].clone()
    };
    let text = |text: &str| json!({ "type": "text", "text": text });
    assert_eq!(blocks(talk.prompt(1, "the task")), json!([text("You are bob."), text("the task")]));
    talk.heard(br#"{"id": 3, "result": {"stopReason": "end_turn"}}"#);
    assert_eq!(blocks(talk.prompt(2, "more")), json!([text("more")]));
}

#[test]
fn a_program_that_does_not_know_the_protocol_is_told_apart_from_a_broken_one() {
    for stderr in [
        "Unknown argument: acp",
        "Usage: gemini\n\nUnknown arguments: acp, skip-trust\n",
        "error: unknown option '--acp'",
        "error: unrecognized subcommand 'acp'",
        "Error: Failed to change directory to /home/me/acp",
        "Error: stdin is not a terminal",
        "  -v, --version  Show version number\n  -h, --help  Show help",
    ] {
        let told = super::Acp.explains(stderr).expect(stderr);
        assert!(told.contains("too old") && told.contains("`command`"), "{told}");
    }
    assert_eq!(super::Acp.explains("Killed"), None);
}

#[test]
fn a_folder_that_gemini_does_not_trust_is_told_with_the_way_to_trust_it() {
    let words = "Cannot enable privileged approval modes in an untrusted folder.";
    let session = json!({ "sessionId": "s", "modes": { "currentModeId": "ask",
        "availableModes": [{ "id": "yolo", "name": "YOLO" }] } });
    let (mut talk, _) = open(json!({ "permission_mode": "yolo" }), json!({}), session);
    let refusal = json!({ "id": 3, "error": { "code": -32603, "message": words } });
    let heard = talk.heard(refusal.to_string().as_bytes());
    assert!(fails(&heard).contains("`--skip-trust`"), "{heard:?}");
    assert!(super::Acp.explains(words).is_some_and(|told| told.contains("`--skip-trust`")));
}

#[test]
fn a_key_of_a_server_that_the_protocol_cannot_say_is_an_error() {
    for key in ["timeout", "disabled", "cwd"] {
        let server = json!({ "command": "x", key: 1 });
        let config = json!({ "command": ["x"], "mcpServers": { "files": server } });
        let error = super::try_launch(&config.to_string()).expect_err(key);
        assert!(error.why.contains("files") && error.why.contains(key), "{error}");
    }
}
