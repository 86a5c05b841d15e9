//! The way in which a profile is run.

use posthaste_core::ports::LaunchError;
use serde_json::{Value, json};

use super::launch;
use crate::drivers::codex::Codex;
use crate::drivers::{Driver, check_profile, named};
use crate::settings::tests::profile;
use crate::settings::{Line, Stdin};

fn refused(config: &str) -> LaunchError {
    check_profile(&profile(Some("codex"), config).template).expect_err(config)
}

/// Returns the parameters of the thread of a profile.
fn thread(config: &str) -> Value {
    launch(config).state.expect("a conversation")["start"]["params"].clone()
}

fn words(config: &str) -> Vec<String> {
    let launch = launch(config);
    assert_eq!(launch.stdin, Stdin::Session);
    let Line::Words(words) = launch.line else { panic!("{:?}", launch.line) };
    words
}

#[test]
fn the_program_is_codex_or_what_the_profile_says() {
    assert_eq!(words("{}"), ["codex", "app-server"]);
    let own = words(r#"{"command": ["/opt/codex", "--profile", "work"]}"#);
    assert_eq!(own, ["/opt/codex", "--profile", "work", "app-server"]);
    let error = refused(r#"{"command": "codex --profile work"}"#);
    assert!(error.why.contains("a list of words") && error.key == Some("command"), "{error}");
}

#[test]
fn nothing_of_a_profile_stands_on_the_command_line() {
    let config = json!({
        "model": "small", "permission_mode": "never",
        "mcpServers": { "files": { "command": "files", "env": { "KEY": "geheim" } } },
    });
    assert_eq!(words(&config.to_string()), ["codex", "app-server"]);
    let launch = launch(&config.to_string());
    assert!(launch.env.is_empty() && launch.files.is_empty());
}

#[test]
fn the_model_and_the_instructions_are_those_of_the_profile() {
    let params = thread(r#"{"model": "small"}"#);
    assert_eq!(params["model"], "small");
    assert_eq!(params["developerInstructions"], "You are bob.");
    assert_eq!(thread("{}").get("model"), None, "else the user's own model");
}

#[test]
fn a_permission_mode_is_in_the_words_of_codex() {
    let of = |mode: &str| {
        let config = json!({ "permission_mode": mode }).to_string();
        let sandbox = launch(&config).state.expect("a conversation")["sandbox"].clone();
        (thread(&config)["approvalPolicy"].clone(), sandbox["type"].clone())
    };
    assert_eq!(of("never"), (json!("never"), Value::Null));
    assert_eq!(of("danger-full-access"), (Value::Null, json!("dangerFullAccess")));
    assert_eq!(of("workspace-write untrusted"), (json!("untrusted"), json!("workspaceWrite")));
    assert_eq!(of("on-request,read-only"), (json!("on-request"), json!("readOnly")));
    for wrong in ["bypassPermissions", "never never", "read-only workspace-write", "Never"] {
        let error = refused(&json!({ "permission_mode": wrong }).to_string());
        let hint = error.hint.expect("a hint");
        assert!(error.why.contains(wrong) && error.key == Some("permission_mode"), "{wrong}");
        for word in ["untrusted", "on-request", "never", "read-only", "danger-full-access"] {
            assert!(hint.contains(word), "{hint}");
        }
    }
}

#[test]
fn other_servers_are_translated_into_the_words_of_codex() {
    let config = json!({ "mcpServers": {
        "files": { "type": "stdio", "command": "files", "args": ["-x"], "timeout": 1500 },
        "web": {
            "type": "http", "url": "http://127.0.0.1/mcp",
            "headers": { "X-Who": "me", "X-Key": "${KEY}" },
        },
    }});
    let servers = &thread(&config.to_string())["config"]["mcp_servers"];
    let files = json!({ "command": "files", "args": ["-x"], "tool_timeout_sec": 2 });
    assert_eq!(servers["files"], files);
    let web = json!({
        "url": "http://127.0.0.1/mcp",
        "http_headers": { "X-Who": "me" },
        "env_http_headers": { "X-Key": "KEY" },
    });
    assert_eq!(servers["web"], web);
    assert_eq!(servers["posthaste"]["bearer_token_env_var"], "POSTHASTE_TOKEN");
}

#[test]
fn a_server_that_codex_cannot_use_is_an_error_that_names_it() {
    for (server, why) in [
        (json!({ "posthaste": { "command": "x" } }), "posthaste"),
        (json!({ "old": { "type": "sse", "url": "x" } }), "sse"),
        (json!({ "odd": 7 }), "odd"),
        (json!({ "odd": { "url": "x", "headers": 7 } }), "odd"),
        (json!({ "odd": { "url": "http://${HOST}/mcp" } }), "variable"),
        (json!({ "odd": { "url": "x", "headers": { "A": "Bearer ${KEY}" } } }), "variable"),
    ] {
        let error = refused(&json!({ "mcpServers": server }).to_string());
        assert!(error.why.contains(why) && error.key == Some("mcp_config"), "{error}");
    }
}

#[test]
fn a_limit_that_codex_cannot_keep_is_refused() {
    let mut limited = profile(Some("codex"), "{}");
    limited.template.tools = Some(vec!["Read".to_owned()]);
    let error = check_profile(&limited.template).expect_err("refused");
    assert!(error.why.contains("`codex`") && error.key == Some("tools"), "{error}");
}

#[test]
fn an_old_codex_is_told_apart_from_a_broken_one() {
    let told = |stderr: &str| Codex.explains(stderr);
    let old = told("error: unrecognized subcommand 'app-server'\n\nUsage: codex").expect("old");
    assert!(old.contains("npm install"), "{old}");
    assert!(told("Error: stdin is not a terminal").is_some());
    let raced = told("Error: failed to initialize sqlite state runtime under /x").expect("known");
    assert!(raced.contains("give the task again"), "{raced}");
    assert_eq!(told("killed"), None);
}

#[test]
fn a_state_of_another_driver_is_none_of_codex() {
    let codex = named("codex").expect("registered");
    for state in [Value::Null, json!({}), json!({ "session": 1 }), json!([])] {
        assert!(codex.resume(&state).is_none(), "{state}");
    }
}

#[test]
fn a_server_that_is_switched_off_stays_so() {
    let config = json!({ "mcpServers": { "files": { "command": "x", "disabled": true } } });
    let servers = &thread(&config.to_string())["config"]["mcp_servers"];
    assert_eq!(servers["files"], json!({ "command": "x", "enabled": false }));
}
