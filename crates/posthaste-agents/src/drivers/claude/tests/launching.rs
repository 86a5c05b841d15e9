//! The way in which a profile is run.

use posthaste_core::ports::LaunchError;
use posthaste_core::profiles::Profile;
use serde_json::{Value, json};

use super::launch;
use crate::drivers::claude::Claude;
use crate::drivers::{Brief, Driver, check_profile, named};
use crate::settings::tests::profile;
use crate::settings::{Line, Settings, Stdin};

fn refused(config: &str) -> LaunchError {
    check_profile(&profile(Some("claude"), config).template).expect_err(config)
}

fn words(config: &str) -> Vec<String> {
    let launch = launch(config);
    assert_eq!(launch.stdin, Stdin::Session);
    let Line::Words(words) = launch.line else { panic!("{:?}", launch.line) };
    words
}

/// Returns the words of a profile with lists of tools.
fn limited(change: impl FnOnce(&mut Profile)) -> Vec<String> {
    let mut profile = profile(Some("claude"), "{}");
    change(&mut profile);
    let settings = Settings::read(&profile, None).expect("a good profile");
    let launch = Claude.launch(&Brief::of_nobody(&profile.template, &settings));
    let Line::Words(words) = launch.expect("good").expect("a program").line else { panic!() };
    words
}

fn list(words: &[&str]) -> Option<Vec<String>> {
    Some(words.iter().map(|word| (*word).to_owned()).collect())
}

fn after<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| word == flag)?;
    words.get(at + 1).map(String::as_str)
}

#[test]
fn the_program_is_claude_or_what_the_profile_says() {
    let usual = words("{}");
    assert_eq!(usual[..2], ["claude", "-p"]);
    for flag in ["--input-format", "--output-format"] {
        assert_eq!(after(&usual, flag), Some("stream-json"));
    }
    assert_eq!(after(&usual, "--permission-prompt-tool"), Some("stdio"));
    for flag in ["--verbose", "--replay-user-messages"] {
        assert!(usual.iter().any(|word| word == flag), "{flag}: {usual:?}");
    }
    let own = words(r#"{"command": ["/opt/claude", "--debug"]}"#);
    assert_eq!(own[..3], ["/opt/claude", "--debug", "-p"]);
    let error = refused(r#"{"command": "claude --debug"}"#);
    assert!(error.hint.is_some() && error.key == Some("command"), "{error}");
}

#[test]
fn the_model_and_the_mode_are_words_and_the_rest_lies_in_files() {
    let words = words(r#"{"model": "opus", "permission_mode": "acceptEdits"}"#);
    assert_eq!(after(&words, "--model"), Some("opus"));
    assert_eq!(after(&words, "--permission-mode"), Some("acceptEdits"));
    assert_eq!(after(&words, "--mcp-config"), Some("/home/me/posthaste/claude-mcp.json"));
    let file = after(&words, "--append-system-prompt-file");
    assert_eq!(file, Some("/home/me/posthaste/claude-instructions.md"));
    assert!(!words.iter().any(|word| word.contains("You are bob.")), "others can read it");
    let usual = self::words("{}");
    assert_eq!((after(&usual, "--model"), after(&usual, "--permission-mode")), (None, None));
}

#[test]
fn the_files_hold_the_instructions_and_the_servers_and_no_token() {
    let launch = launch(r#"{"mcpServers": {"files": {"command": "files", "args": ["-x"]}}}"#);
    assert!(launch.env.is_empty());
    let [(servers, content), (instructions, text)] = launch.files.as_slice() else {
        panic!("{:?}", launch.files)
    };
    assert_eq!((*servers, *instructions), ("claude-mcp.json", "claude-instructions.md"));
    assert_eq!(text, "You are bob.");
    let content: Value = serde_json::from_str(content).expect("JSON");
    let hub = json!({
        "type": "http",
        "url": "http://127.0.0.1:9889/mcp",
        "headers": { "Authorization": "Bearer ${POSTHASTE_TOKEN}" },
    });
    let files = json!({ "command": "files", "args": ["-x"] });
    assert_eq!(content, json!({ "mcpServers": { "posthaste": hub, "files": files } }));
}

#[test]
fn a_permission_mode_that_claude_does_not_know_is_an_error_with_those_that_it_knows() {
    for wrong in ["ask", "AcceptEdits"] {
        let error = refused(&json!({ "permission_mode": wrong }).to_string());
        assert_eq!(error.key, Some("permission_mode"), "{wrong}");
        let hint = error.hint.expect("a hint");
        assert!(hint.contains("acceptEdits") && hint.contains("plan"), "{hint}");
    }
}

#[test]
fn the_name_of_the_hub_among_the_servers_is_taken() {
    let error = refused(r#"{"mcpServers": {"posthaste": {"command": "x"}}}"#);
    assert!(error.why.contains("`posthaste`") && error.key == Some("mcp_config"), "{error}");
}

#[test]
fn lists_of_tools_are_kept_by_the_program_and_the_tools_of_the_hub_are_always_allowed() {
    let usual = limited(|_| ());
    assert!(usual.contains(&"--allowedTools=mcp__posthaste".to_owned()), "{usual:?}");
    assert!(!usual.iter().any(|word| word.starts_with("--tools")), "{usual:?}");
    let tools = limited(|p| p.template.tools = list(&["Read", "Grep"]));
    assert!(tools.contains(&"--tools=Read,Grep".to_owned()), "{tools:?}");
    let none = limited(|p| p.template.tools = list(&[]));
    assert!(none.contains(&"--tools=".to_owned()), "{none:?}");
    let every = limited(|p| p.template.tools = list(&["*"]));
    assert!(!every.iter().any(|word| word.starts_with("--tools")), "{every:?}");
    let allowed = limited(|p| p.template.allowed_tools = list(&["Bash(git *)"]));
    assert!(allowed.contains(&"--allowedTools=mcp__posthaste,Bash(git *)".to_owned()));
    let mut services = profile(Some("claude"), "{}");
    services.template.services = list(&["files"]);
    assert!(check_profile(&services.template).is_err(), "claude knows no services");
}

#[test]
fn an_old_claude_is_told_apart_from_a_broken_one() {
    let old = Claude.explains("error: unknown option '--replay-user-messages'\n").expect("old");
    assert!(old.contains("--replay-user-messages") && old.contains("npm install"), "{old}");
    let root = "--dangerously-skip-permissions cannot be used with root/sudo privileges for x";
    assert!(Claude.explains(root).is_some_and(|told| told.contains("`agents.user`")));
    assert_eq!(Claude.explains("Killed"), None);
}

#[test]
fn a_state_of_another_driver_is_none_of_claude() {
    let claude = named("claude").expect("registered");
    for state in [Value::Null, json!({}), json!({ "session": 1 }), json!("x")] {
        assert!(claude.resume(&state).is_none(), "{state}");
    }
}
