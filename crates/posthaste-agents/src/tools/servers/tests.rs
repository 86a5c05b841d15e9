use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;

fn pool() -> McpServers {
    let second = Duration::from_secs(1);
    let limits = ServerLimits { start: second, idle: second, call: second, shown: 1_000 };
    let manners = crate::keeper::Manners { umask: 0o022, open_files: None };
    // Nothing is started here.
    let trees = Arc::new(Trees::new("/nowhere/keeper".into(), manners));
    McpServers::new(trees, limits, "http://127.0.0.1:9889".to_owned())
}

fn of(pool: &McpServers, servers: Value, directory: &str) -> ServersOfOne {
    let Value::Object(servers) = servers else { panic!("an object") };
    let environment = Environment::default();
    let directory = Path::new(directory);
    pool.of(&servers, &ServerPlace { directory, environment: &environment, user: None })
}

fn definition(server: Value) -> Result<Definition, String> {
    Definition::read(&server)
}

#[test]
fn a_server_is_a_command_or_a_url() {
    assert!(matches!(
        definition(json!({ "command": "x", "args": ["a", 7], "env": { "PORT": 80 }, "cwd": "d" })),
        Ok(Definition::Stdio { args, env, cwd: Some(_), .. })
            if args == ["a", "7"] && env["PORT"] == "80"
    ));
    for kind in [json!(null), json!("http"), json!("streamable-http")] {
        let server = json!({ "type": kind, "url": "https://x/mcp", "headers": { "X-Key": "k" } });
        assert!(matches!(definition(server), Ok(Definition::Http { .. })), "{kind}");
    }
}

#[test]
fn a_server_of_a_wrong_form_is_told_what_is_wrong() {
    for (server, why) in [
        (json!([]), "no object"),
        (json!({}), "`command`"),
        (json!({ "command": "" }), "`command`"),
        (json!({ "command": "a\0b" }), "zero byte"),
        (json!({ "command": ["x"] }), "`command`"),
        (json!({ "command": "x", "args": "y" }), "`args`"),
        (json!({ "command": "x", "args": [[]] }), "`args`"),
        (json!({ "command": "x", "env": { "A=B": "c" } }), "variable"),
        (json!({ "command": "x", "env": ["A"] }), "`env`"),
        (json!({ "command": "x", "disabled": true }), "`disabled`"),
        (json!({ "command": "x", "type": "http" }), "not both"),
        (json!({ "command": "${HOME}/x" }), "variable"),
        (json!({ "type": "sse", "url": "http://x" }), "sse"),
        (json!({ "type": "carrier", "url": "http://x" }), "`carrier`"),
        (json!({ "url": "ftp://x" }), "http://"),
        (json!({ "url": "http://x", "headers": { "a b": "c" } }), "header"),
        (json!({ "url": "http://x", "headers": { "a": "b\nc" } }), "header"),
    ] {
        let error = definition(server.clone()).expect_err(why);
        assert!(error.contains(why), "{server}: {error}");
    }
}

#[test]
fn the_hub_itself_is_left_out_and_a_note_says_so() {
    let servers = of(
        &pool(),
        json!({
            "own": { "command": "/usr/bin/posthaste", "args": ["mcp"] },
            "cao": { "command": "uvx", "args": ["--from", "x", "cao-mcp-server"] },
            "http": { "url": "http://127.0.0.1:9889/mcp" },
            "other": { "url": "http://127.0.0.1:9890/mcp" },
            "broken": {},
        }),
        "/",
    );
    assert_eq!(servers.list.keys().collect::<Vec<_>>(), ["other"]);
    let notes = servers.take_notes();
    assert_eq!(notes.len(), 4, "{notes:?}");
    assert!(notes.iter().filter(|note| note.contains("is the hub itself")).count() == 3);
    assert!(servers.take_notes().is_empty(), "told once");
}

#[test]
fn assistants_share_a_server_of_the_same_command_folder_and_environment() {
    let pool = pool();
    let files = || json!({ "files": { "command": "x", "args": ["a"] } });
    let one = of(&pool, files(), "/a");
    let same = |other: &ServersOfOne| {
        let server = |of: &ServersOfOne| of.list.values().next().cloned().expect("a server");
        Arc::ptr_eq(&server(&one), &server(other))
    };
    assert!(same(&of(&pool, files(), "/a")));
    let named = json!({ "other": { "command": "x", "args": ["a"] } });
    assert!(same(&of(&pool, named, "/a")), "whatever its name");
    assert!(!same(&of(&pool, files(), "/b")), "another folder");
    let more = json!({ "files": { "command": "x", "args": ["a"], "env": { "A": "b" } } });
    assert!(!same(&of(&pool, more, "/a")), "another environment");
    drop(one);
    assert_eq!(of(&pool, files(), "/c").list.len(), 1);
    assert_eq!(pool.all.lock().len(), 1, "servers that nobody names are forgotten");
}

#[tokio::test]
async fn a_name_that_is_no_servers_is_left_to_others_and_a_missing_tool_is_explained() {
    let servers = of(&pool(), json!({ "files": { "command": "no-such-program" } }), "/");
    let call = async |name: &str| servers.call(name, Map::new()).await;
    assert_eq!(call("builtin_shell__run").await, None);
    assert_eq!(call("mcp__other__read").await, None);
    let error = call("mcp__files__read").await.expect("its server").expect_err("missing");
    assert!(error.contains("files") && error.contains("no-such-program"), "{error}");
    let notes = servers.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("no-such-program"), "{notes:?}");
}
