//! Tests of every client with a file that is empty, in use, or full of comments.

use serde_json::Value;

use super::*;
use crate::edit::{at, value};

const HOME: &str = "/home/u";
const PROJECT: &str = "/src/p";

fn bridge() -> Server {
    let args = ["mcp", "--name", "bob"].map(str::to_owned).to_vec();
    Server::Stdio { program: "/bin/posthaste".to_owned(), args }
}

fn door() -> Server {
    Server::Http { url: "http://127.0.0.1:9889/mcp".into(), token: "secret-token".into() }
}

fn line(flags: &[String]) -> HookLine<'_> {
    HookLine { program: "/bin/posthaste", flags }
}

fn planned(client: &dyn Client, scope: Scope, server: &Server, hooks: bool) -> Vec<Edit> {
    let env =
        ClientEnv { home: Path::new(HOME), project: Path::new(PROJECT), variable: &|_: &str| None };
    let flags = ["--name".to_owned(), "bob".to_owned()];
    plan(client, scope, &env, server, line(&flags), hooks)
}

/// An empty file, a file in use, and a file with everything that a person may write
/// there.
fn examples(form: Form) -> [&'static str; 3] {
    match form {
        Form::Json => [
            "",
            "{\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"other\": {\n      \"command\": \"x\"\n    }\n  }\n}\n",
            "// top\n{\n    /* hooks of mine */\n    \"hooks\": {\n        \"Stop\": [\n            {\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}\n        ]\n    },\n    \"theme\": \"dark\", // dark\n}\n",
        ],
        Form::Toml => [
            "",
            "model = \"m\"\n\n[mcp_servers.other]\ncommand = \"x\"\n",
            "# top\nmodel = \"m\" # mine\n\n# servers\n[mcp_servers.other] # o\ncommand = \"x\"\n# end\n",
        ],
        Form::Lines => ["", "registry=http://127.0.0.1:1/\n", "# top\nfund = false\n"],
        Form::Text => ["", "export const Mine = () => ({})\n", "// mine\n"],
    }
}

#[test]
fn each_is_connected_and_disconnected_on_every_file() {
    for client in ALL {
        for scope in [Scope::User, Scope::Project] {
            for server in [bridge(), door()] {
                for edit in planned(client, scope, &server, true) {
                    for text in examples(edit.form) {
                        let who =
                            format!("{} {}: {text:?}", client.name(), edit.files[0].display());
                        let new = edit.put(text, text).expect(&who);
                        assert_eq!(edit.put(&new, text).expect(&who), new, "twice: {who}");
                        assert_ne!(new, text, "{who}");
                        let comments = text.lines().filter(|_| edit.form != Form::Text);
                        for line in
                            comments.filter(|line| line.contains("//") || line.contains('#'))
                        {
                            assert!(new.contains(line.trim()), "{who}: {line} is gone:\n{new}");
                        }
                        let left = edit.take(&new, text).expect(&who);
                        assert_eq!(value(edit.form, &left), value(edit.form, text), "{who}");
                        if !text.is_empty() {
                            assert_eq!(left, text, "{who}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_was_written_for_a_client_is_read_back() {
    for client in ALL {
        for server in [bridge(), door()] {
            assert_eq!(Server::read(&client.server(&server)), Some(server), "{}", client.name());
        }
    }
    assert_eq!(Server::read(&json!({ "command": 3 })), None);
    assert_eq!(Server::read(&json!({})), None);
}

/// Returns every command line of a hook in these edits.
fn commands(edits: &[Edit]) -> Vec<String> {
    let items = edits.iter().flat_map(|edit| &edit.entries).filter_map(|entry| match entry {
        Entry::Item { value, .. } => Some(value),
        _ => None,
    });
    let command = |item: &Value| {
        let command = item["hooks"][0]["command"].as_str().or(item["bash"].as_str());
        command.expect("a command").to_owned()
    };
    items.map(command).collect()
}

#[test]
fn all_six_have_hooks_for_every_event_and_without_they_go() {
    for client in ALL {
        let name = client.name();
        let edits = planned(client, Scope::User, &bridge(), true);
        let commands = commands(&edits);
        for (event, word, _) in Event::ALL {
            let ours = format!("/bin/posthaste hook {word} --client {name} --name bob");
            let found = commands.iter().filter(|command| command.contains(&ours)).count();
            let wanted = client.hooks().events.iter().filter(|(known, _)| *known == event).count();
            // Only a program that begins turns by itself can be woken while it is idle.
            assert!(wanted > 0 || event == Event::Idle, "{name} {word}");
            assert_eq!(found, if name == "opencode" { 0 } else { wanted }, "{name}: {commands:?}");
        }
        for (with, without) in edits.iter().zip(planned(client, Scope::User, &bridge(), false)) {
            let text = with.put("", "").expect("written");
            let left = without.put(&text, "").expect("written");
            assert!(!left.contains(" hook") && !left.contains("\"hook\""), "{name}: {left}");
        }
    }
}

#[test]
fn the_plugin_has_the_program_and_its_flags_as_they_are() {
    let opencode = by_name("opencode").expect("known");
    let env =
        ClientEnv { home: Path::new(HOME), project: Path::new(PROJECT), variable: &|_: &str| None };
    let flags = ["--data".to_owned(), "/my \"data\"".to_owned()];
    let hook = HookLine { program: "/my bin/it's", flags: &flags };
    let edits = plan(opencode, Scope::User, &env, &bridge(), hook, true);
    let text = edits[1].put("", "").expect("written");
    assert!(text.contains("const PROGRAM = \"/my bin/it's\"\n"), "{text}");
    let wanted = r#"const FLAGS = ["--client","opencode","--data","/my \"data\""]"#;
    assert!(text.contains(wanted), "{text}");
    assert!(!text.contains('@'), "{text}");
}

#[test]
fn the_files_are_where_each_client_looks() {
    let files = |name: &str, scope, variable: &dyn Fn(&str) -> Option<String>| -> Vec<String> {
        let env = ClientEnv { home: Path::new(HOME), project: Path::new(PROJECT), variable };
        let client = by_name(name).expect("known");
        let edits = plan(client, scope, &env, &bridge(), line(&[]), true);
        edits.iter().flat_map(|edit| &edit.files).map(|file| file.display().to_string()).collect()
    };
    let nothing = |_: &str| None;
    let everything = |name: &str| Some(format!("/v/{name}"));
    for (name, user, project, told) in [
        (
            "claude",
            &["/home/u/.claude.json", "/home/u/.claude/settings.json"][..],
            &["/src/p/.mcp.json", "/src/p/.claude/settings.json"][..],
            &["/v/CLAUDE_CONFIG_DIR/.claude.json", "/v/CLAUDE_CONFIG_DIR/settings.json"][..],
        ),
        (
            "codex",
            &["/home/u/.codex/config.toml", "/home/u/.codex/hooks.json"],
            &["/src/p/.codex/config.toml", "/src/p/.codex/hooks.json"],
            &["/v/CODEX_HOME/config.toml", "/v/CODEX_HOME/hooks.json"],
        ),
        (
            "gemini",
            &["/home/u/.gemini/settings.json"],
            &["/src/p/.gemini/settings.json"],
            &["/v/GEMINI_CLI_HOME/.gemini/settings.json"],
        ),
        (
            "opencode",
            &[
                "/home/u/.config/opencode/opencode.json",
                "/home/u/.config/opencode/opencode.jsonc",
                "/home/u/.config/opencode/plugins/posthaste.js",
                "/home/u/.config/opencode/.npmrc",
            ],
            &[
                "/src/p/opencode.json",
                "/src/p/opencode.jsonc",
                "/src/p/.opencode/plugins/posthaste.js",
                "/src/p/.opencode/.npmrc",
            ],
            &[
                "/v/OPENCODE_CONFIG",
                "/v/XDG_CONFIG_HOME/opencode/plugins/posthaste.js",
                "/v/XDG_CONFIG_HOME/opencode/.npmrc",
            ],
        ),
        (
            "copilot",
            &["/home/u/.copilot/mcp-config.json", "/home/u/.copilot/hooks/posthaste.json"],
            &["/src/p/.github/mcp.json"],
            &["/v/COPILOT_HOME/mcp-config.json", "/v/COPILOT_HOME/hooks/posthaste.json"],
        ),
        (
            "qwen",
            &["/home/u/.qwen/settings.json"],
            &["/src/p/.qwen/settings.json"],
            &["/v/QWEN_HOME/settings.json"],
        ),
    ] {
        assert_eq!(files(name, Scope::User, &nothing), user, "{name}");
        assert_eq!(files(name, Scope::Project, &everything), project, "{name}");
        assert_eq!(files(name, Scope::User, &everything), told, "{name}");
    }
}

#[test]
fn the_entry_of_each_client_has_its_own_form() {
    let said =
        |name: &str, server: &Server| -> Value { by_name(name).expect("known").server(server) };
    let http = said("gemini", &door());
    assert_eq!(at(&http, &["headers", "Authorization"]), Some(&json!("Bearer secret-token")));
    assert_eq!(said("codex", &door())["http_headers"]["Authorization"], "Bearer secret-token");
    assert_eq!(said("opencode", &bridge())["command"][0], "/bin/posthaste");
    assert_eq!(said("copilot", &bridge())["tools"], json!(["*"]));
    assert_eq!(said("claude", &bridge())["type"], "stdio");
}

#[test]
fn the_command_of_a_hook_is_found_in_the_file_that_has_it() {
    for client in ALL {
        let name = client.name();
        let edits = planned(client, Scope::User, &bridge(), true);
        let env = ClientEnv {
            home: Path::new(HOME),
            project: Path::new(PROJECT),
            variable: &|_: &str| None,
        };
        let file = client.hooks_file(Scope::User, &env).expect("it has hooks");
        let edit = edits.iter().find(|edit| edit.files.contains(&file)).expect("planned");
        let text = edit.put("", "").expect("written");
        for (event, word, _) in Event::ALL {
            if client.hooks().called(event).is_empty() {
                continue;
            }
            let words = client.hooks().command(name, event, &text).expect("it is there");
            let line = words.join(" ");
            let ours = format!("/bin/posthaste hook {word} --client {name} --name bob");
            assert!(line.contains(&ours), "{name}: {line}");
            assert_eq!(client.hooks().command(name, event, "{}"), None);
        }
    }
}

#[test]
fn a_folder_that_a_program_does_not_trust_is_told() {
    let env =
        ClientEnv { home: Path::new(HOME), project: Path::new(PROJECT), variable: &|_: &str| None };
    let asked = |name: &str, scope, text: &'static str| {
        let read = |_: &Path| Some(text.to_owned());
        by_name(name).expect("known").distrust(scope, &env, &read).is_some()
    };
    for (name, scope, text, distrusted) in [
        ("gemini", Scope::User, "{}", true),
        ("gemini", Scope::User, r#"{"/src":"TRUST_FOLDER"}"#, false),
        ("gemini", Scope::User, r#"{"/src/q":"TRUST_PARENT"}"#, false),
        ("gemini", Scope::User, r#"{"/src/p":"DO_NOT_TRUST"}"#, true),
        ("gemini", Scope::User, r#"{"security":{"folderTrust":{"enabled":false}}}"#, false),
        ("codex", Scope::User, "", false),
        ("codex", Scope::Project, "", true),
        ("codex", Scope::Project, "[projects.\"/src/p\"]\ntrust_level = \"trusted\"", false),
        ("codex", Scope::Project, "[projects.\"/src/p\"]\ntrust_level = \"untrusted\"", true),
        ("copilot", Scope::User, "{}", false),
        ("copilot", Scope::Project, "// x\n{}", true),
        ("copilot", Scope::Project, r#"{"trustedFolders":["/src"]}"#, false),
        ("claude", Scope::Project, "{}", false),
    ] {
        assert_eq!(asked(name, scope, text), distrusted, "{name} {text}");
    }
}
