//! `posthaste connect` and its companions, on files of every kind.
//!
//! Connecting looks whether a client's program is there and never starts it, so a
//! file of its name is enough here; the real programs have their own stories.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::world::{BINARY, Hub, Ran, Started, World, mode};

const CLIENTS: [&str; 6] = ["claude", "codex", "gemini", "opencode", "copilot", "qwen"];

/// A user with a home, a hub, and the programs on the path.
struct User {
    world: World,
    _hub: Hub,
}

impl User {
    fn new() -> Self {
        let world = World::new();
        let hub = world.hub();
        let user = Self { world, _hub: hub };
        fs::create_dir_all(user.home().join("project")).expect("a home");
        fs::create_dir_all(user.bin()).expect("a folder");
        for client in CLIENTS {
            let file = user.bin().join(client);
            fs::write(&file, "#!/bin/sh\necho 1.2.3\n").expect("written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("ours");
        }
        user
    }

    fn home(&self) -> PathBuf {
        self.world.scratch().join("home")
    }

    fn bin(&self) -> PathBuf {
        self.world.scratch().join("bin")
    }

    /// As a shell in the project folder would.
    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.world.command(args);
        command
            .env("HOME", self.home())
            .env("PATH", format!("{}:/usr/bin:/bin", self.bin().display()))
            .current_dir(self.home().join("project"));
        Started::new(command).end()
    }

    #[track_caller]
    fn says(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.out
    }

    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.home().join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("written");
        path
    }

    /// Every file below the home, with its text.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.home()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a folder").flatten() {
                let path = entry.path();
                match path.is_dir() {
                    true => {
                        found.push((path.clone(), Vec::new()));
                        folders.push(path);
                    }
                    false => found.push((path.clone(), fs::read(&path).expect("readable"))),
                }
            }
        }
        found.sort();
        found
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("text")
}

#[test]
fn every_client_is_connected_once_and_undone_to_the_byte() {
    let user = User::new();
    for (file, content) in [
        (".claude.json", "{\"numStartups\": 3}"),
        (".codex/config.toml", "# mine\r\nmodel = \"x\"\r\n"),
        (".gemini/settings.json", "{\n\t// dark\n\t\"ui\": {\"theme\": \"x\"},\n}"),
        (".config/opencode/opencode.jsonc", "// a\n{ \"mcp\": { } }\n\n"),
        (
            ".copilot/mcp-config.json",
            "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"b\"}\n  }\n}\n",
        ),
    ] {
        user.write(file, content);
    }
    for scope in ["user", "project"] {
        for line in [&["--name", "bob", "--team", "avalon"][..], &["--http"], &["--no-hooks"]] {
            for client in CLIENTS {
                let before = user.files();
                let connect = [&["connect", client, "--yes", "--scope", scope], line].concat();
                let said = user.says(&connect);
                assert!(said.contains("is connected") && said.contains("Proved"), "{said}");
                let connected = user.files();
                assert_ne!(connected, before, "{connect:?}");
                let again = user.says(&connect);
                assert!(again.contains("nothing was changed"), "{again}");
                assert_eq!(user.files(), connected, "{connect:?}");
                let undone = user.says(&["connect", client, "--undo", "--scope", scope]);
                assert_eq!(user.files(), before, "{connect:?}: {undone}");
                let nothing = user.says(&["connect", client, "--undo", "--scope", scope]);
                assert!(nothing.contains("nothing to undo"), "{nothing}");
                assert_eq!(user.files(), before, "{connect:?}");
            }
        }
    }
    let left = user.world.json(&["agents"]);
    let names: Vec<_> = left["instances"].as_array().expect("a list").iter().collect();
    assert!(
        names.iter().all(|agent| agent["agent"] != "bob" && agent["agent"] != "posthaste-check"),
        "the round trip leaves nobody behind: {left}"
    );
}

#[test]
fn odd_files_come_back_to_the_byte() {
    let user = User::new();
    let json = [
        "",
        " \n\t",
        "{}",
        "// only a comment",
        "\u{feff}{\r\n\t\"a\" : [ ]\r\n}\r\n\r\n",
        "{\"hooks\":{\"AfterTool\":[{\"hooks\":[{\"command\":\"x\"}]}]},\"mcpServers\":{}}",
        "/* a */{/* b */\"mcpServers\"/* c */:/* d */{/* e */}/* f */,}// g",
        "{\n  \"mcpServers\": { \"posthaste\": { \"command\": \"mine\" } }\n}",
        "{\"é\": \"\\u00e9\\n\", \"n\": 1e400, \"deep\": [[[[{}]]]]}   ",
    ];
    let toml = [
        "",
        "\n\n# nothing",
        "a=1",
        "\u{feff}a = 1\r\n[b]\n\"c d\" = '''\r\nx'''\r\n",
        "[mcp_servers]\n[mcp_servers.posthaste]\ncommand = 'mine'",
        "mcp_servers = { other = { command = 'x' } }\n",
        "mcp_servers.other.command = 'x' # dotted\n[[z]]\n[[z]]\n",
    ];
    let json = json.iter().map(|text| ("gemini", ".gemini/settings.json", text));
    let toml = toml.iter().map(|text| ("codex", ".codex/config.toml", text));
    for (client, file, content) in json.chain(toml) {
        let path = user.write(file, content);
        user.says(&["connect", client, "--yes"]);
        assert_ne!(text(&path), *content);
        assert!(user.says(&["connect", client, "--yes"]).contains("nothing was changed"));
        let undone: Value =
            serde_json::from_str(&user.says(&["connect", client, "--undo", "--json"]))
                .expect("JSON");
        assert_eq!(undone["files"][0]["restored"], true, "{content:?}: {undone}");
        assert_eq!(text(&path), *content);
    }
}

#[test]
fn a_program_gets_its_answer_as_json() {
    let user = User::new();
    let read = |args: &[&str]| -> Value {
        let out = user.says(args);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
    };
    let answer = read(&["connect", "claude", "--yes", "--json"]);
    assert_eq!(answer["status"], "connected");
    assert_eq!(answer["files"].as_array().map(Vec::len), Some(2));
    assert_eq!(answer["proved"]["tools"], 9);
    assert_eq!(read(&["connect", "claude", "--yes", "--json"])["status"], "unchanged");
    assert_eq!(read(&["doctor", "claude", "--json"])["ok"], true);
    assert_eq!(read(&["connect", "claude", "--undo", "--json"])["status"], "undone");
    assert_eq!(read(&["install", "--json"])["copied"], true);
}

#[test]
fn nothing_is_changed_where_nobody_can_be_asked_or_for_a_look() {
    let user = User::new();
    user.write(".claude.json", "{}");
    let before = user.files();
    let ran = user.run(&["connect", "claude"]);
    ran.failed(2, "nothing was changed", "--yes");
    assert!(ran.out.contains("+++") && ran.out.contains("posthaste"), "{ran:?}");
    assert!(!ran.out.contains('\u{1b}'), "no colours but on a terminal: {ran:?}");
    let shown = user.says(&["connect", "claude", "--print"]);
    assert!(shown.contains("\"mcpServers\""), "{shown}");
    assert_eq!(user.files(), before);
}

#[test]
fn a_client_that_is_not_there_says_how_to_install_it() {
    let user = User::new();
    fs::remove_file(user.bin().join("qwen")).expect("removed");
    let ran = user.run(&["connect", "qwen", "--yes"]);
    assert_ne!(ran.code, Some(0));
    let code = ran.code.expect("a code");
    ran.failed(code, "Qwen Code is not here", "npm install -g @qwen-code/qwen-code");
    assert_ne!(user.run(&["connect", "emacs"]).code, Some(0));
}

#[test]
fn a_wish_to_wake_a_program_is_never_ignored() {
    let user = User::new();
    let before = user.files();
    let refuses = |client: &str, more: &str, why: &str| {
        let ran = user.run(&["connect", client, "--wake", more]);
        assert!(ran.code != Some(0) && ran.err.contains(why), "{client} {more}: {ran:?}");
    };
    let never = |client: &str| {
        refuses(client, "--print", "cannot be woken in a process of its own");
        refuses(client, "--yes", "docs/guide/connect.md");
    };
    let (wakes, does_not) = CLIENTS.split_at(2);
    for client in wakes {
        assert!(user.says(&["connect", client, "--wake", "--print"]).contains("wake:"));
    }
    does_not.iter().for_each(|client| never(client));
    for client in CLIENTS {
        fs::remove_file(user.bin().join(client)).expect("ours");
    }
    // The profile could not name the program.
    wakes.iter().for_each(|client| refuses(client, "--print", "npm install -g"));
    does_not.iter().for_each(|client| never(client));
    assert_eq!(user.files(), before);
}

#[test]
fn a_file_that_cannot_be_read_is_never_touched() {
    let user = User::new();
    for (client, file, content, line) in [
        ("claude", ".claude.json", "{\n  \"a\": 1,\n  oops\n}", "line 3"),
        ("claude", ".claude/settings.json", "{\n  \"hooks\": []\n}", "line 2"),
        ("codex", ".codex/config.toml", "a = 1\n\nb =\n", "line 3"),
        ("gemini", ".gemini/settings.json", "{ \"mcpServers\": 3 }", "line 1"),
        ("opencode", ".config/opencode/opencode.json", "{\n\n\"a\": 'b'}", "line 3"),
    ] {
        let path = user.write(file, content);
        let before = user.files();
        let ran = user.run(&["connect", client, "--yes"]);
        ran.failed(2, line, "nothing was changed");
        assert!(ran.err.contains(path.to_str().expect("plain")), "{ran:?}");
        assert_eq!(user.files(), before, "{client}");
        fs::remove_file(path).expect("removed");
    }
}

#[test]
fn of_a_file_that_changed_since_only_what_is_ours_is_taken() {
    let user = User::new();
    let path = user.write(".codex/config.toml", "model = \"x\"\n");
    user.says(&["connect", "codex", "--yes"]);
    let connected = text(&path);
    fs::write(&path, format!("# since\n{connected}\n[tui]\ntheme = 1\n")).expect("written");
    let said = user.says(&["connect", "codex", "--undo"]);
    assert!(said.contains("only what is ours"), "{said}");
    let left = text(&path);
    assert!(
        left.starts_with("# since\nmodel = \"x\"\n") && left.contains("[tui]\ntheme = 1\n"),
        "{left}"
    );
    assert!(!left.contains("posthaste"), "{left}");
}

#[test]
fn connecting_anew_with_other_words_still_knows_what_was_before() {
    let user = User::new();
    let path = user.write(".qwen/settings.json", "{ \"a\" : 1 }");
    user.says(&["connect", "qwen", "--yes"]);
    user.says(&["connect", "qwen", "--yes", "--name", "carol"]);
    assert!(text(&path).contains("carol"));
    user.says(&["connect", "qwen", "--undo"]);
    assert_eq!(text(&path), "{ \"a\" : 1 }");
}

#[test]
fn a_link_stays_a_link_and_a_file_keeps_its_permissions() {
    let user = User::new();
    let real = user.write("dotfiles/claude.json", "{}\n");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("ours");
    let link = user.home().join(".claude.json");
    symlink(&real, &link).expect("a link");
    user.says(&["connect", "claude", "--yes"]);
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert!(text(&real).contains("posthaste"));
    assert_eq!(mode(&real), 0o640);
    user.says(&["connect", "claude", "--undo"]);
    assert_eq!((text(&real).as_str(), mode(&real)), ("{}\n", 0o640));
}

#[test]
fn a_token_is_in_the_file_for_its_owner_alone_and_never_shown() {
    let user = User::new();
    let said = user.says(&["connect", "gemini", "--yes", "--http"]);
    let path = user.home().join(".gemini/settings.json");
    assert_eq!(mode(&path), 0o600);
    let written = text(&path);
    let token = written.split("Bearer ").nth(1).and_then(|rest| rest.split('"').next());
    let token = token.expect("a token");
    assert!(token.len() >= 32, "{written}");
    assert!(!said.contains(token), "{said}");
    assert!(!written.contains(" hook "), "hooks are a conversation's own: {written}");
    let undone = user.run(&["connect", "gemini", "--undo"]);
    assert!(!undone.out.contains(token) && !undone.err.contains(token), "{undone:?}");
}

#[test]
fn mail_to_a_connected_program_waits_before_it_ever_ran() {
    let user = User::new();
    let unknown = user.run(&["send", "gemini", "too early"]);
    assert_ne!(unknown.code, Some(0), "{unknown:?}");
    user.says(&["connect", "gemini", "--yes"]);
    user.says(&["connect", "qwen", "--yes", "--name", "carol", "--team", "avalon"]);
    for to in ["gemini", "carol", "carol@avalon"] {
        user.says(&["send", to, "first"]);
    }
    user.says(&["join", "carol", "--team", "avalon"]);
    let inbox = user.says(&["inbox", "--as", "carol", "--timeout", "0", "--json"]);
    let inbox: Value = serde_json::from_str(&inbox).expect("JSON");
    assert_eq!(inbox["messages"][0]["message"], "first", "{inbox}");
}

#[test]
fn a_name_that_nobody_used_goes_with_its_connection() {
    let user = User::new();
    let known = |name: &str| user.run(&["profiles", "show", name]).code == Some(0);
    user.says(&["connect", "gemini", "--yes"]);
    assert!(known("gemini"));
    user.says(&["connect", "gemini", "--undo"]);
    assert!(!known("gemini"), "nobody used it");

    user.says(&["connect", "gemini", "--yes"]);
    user.says(&["send", "gemini", "wait for it"]);
    user.says(&["connect", "gemini", "--undo"]);
    assert!(known("gemini"), "mail waits for it");

    user.says(&["connect", "qwen", "--yes", "--name", "carol"]);
    user.says(&["join", "carol"]);
    user.says(&["leave", "carol"]);
    user.says(&["connect", "qwen", "--undo"]);
    assert!(known("carol"), "an agent had it");

    user.says(&["connect", "codex", "--yes"]);
    user.says(&["connect", "codex", "--yes", "--scope", "project"]);
    user.says(&["connect", "codex", "--undo"]);
    assert!(known("codex"), "it is connected elsewhere");
}

#[test]
fn a_round_trip_leaves_nobody_behind_and_takes_no_mail() {
    let user = User::new();
    user.says(&["send", "@anyone", "for whoever is here"]);
    user.says(&["connect", "gemini", "--yes", "--name", "carol"]);
    user.says(&["send", "carol", "for carol"]);
    let before = user.files();
    user.says(&["doctor", "gemini"]);
    assert_eq!(user.files(), before, "it changes no file of the program");
    let all = user.world.json(&["agents"]);
    assert_eq!(all["instances"], serde_json::json!([]), "{all}");
    assert_ne!(user.run(&["profiles", "show", "posthaste-check"]).code, Some(0));
    let kept = fs::read_dir(user.world.file("identities")).expect("a folder").flatten();
    let kept: Vec<_> = kept.map(|entry| entry.file_name()).collect();
    assert_eq!(kept, [".lock"], "no secret of the check is kept");
    user.says(&["join", "carol"]);
    let inbox = user.says(&["inbox", "--as", "carol", "--timeout", "0", "--json"]);
    let inbox: Value = serde_json::from_str(&inbox).expect("JSON");
    let mail = inbox["messages"].as_array().expect("a list");
    assert!(mail.len() == 2 && mail.iter().all(|m| m["redelivered"] != true), "{inbox}");

    // Over HTTP the token is an agent's that may be at work.
    user.says(&["connect", "gemini", "--yes", "--http"]);
    user.says(&["send", "gemini", "for gemini"]);
    let trip = user.says(&["doctor", "gemini"]);
    assert!(trip.contains("known as gemini."), "{trip}");
    let agents = user.world.json(&["agents"]);
    let agents = agents["instances"].as_array().expect("a list").len();
    assert_eq!(agents, 2, "carol and gemini");
    let stats = user.world.json(&["stats"]);
    assert!(stats.to_string().contains("\"unread\":1"), "{stats}");
}

#[test]
fn a_plugin_goes_also_when_nothing_is_kept_of_its_making() {
    let user = User::new();
    user.says(&["connect", "opencode", "--yes"]);
    let plugin = user.home().join(".config/opencode/plugins/posthaste.js");
    assert!(text(&plugin).contains("posthaste"));
    fs::remove_dir_all(user.world.file("connections")).expect("what is kept");
    user.says(&["connect", "opencode", "--undo"]);
    assert!(!plugin.exists());
    // One that is somebody else's stays.
    let theirs = user.write(".config/opencode/plugins/posthaste.js", "export const X = 1\n");
    user.says(&["connect", "opencode", "--undo"]);
    assert!(theirs.exists());
}

#[test]
fn the_doctor_of_a_client_names_what_is_wrong() {
    let user = User::new();
    let ran = user.run(&["doctor", "claude"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("does not name our server; posthaste connect claude"), "{ran:?}");

    user.says(&["connect", "claude", "--yes"]);
    let well = user.says(&["doctor", "claude"]);
    assert!(well.contains("is 1.2.3") && well.contains("has all of them"), "{well}");
    assert!(well.contains("round trip") && !well.contains("warn"), "{well}");
    assert!(well.contains("reaches the hub"), "{well}");
    let left = user.world.json(&["agents"]);
    assert_eq!(left["instances"].as_array().map(Vec::len), Some(0), "nobody is left: {left}");

    let settings = user.home().join(".claude/settings.json");
    let gone = text(&settings).replace(BINARY, "/nowhere/posthaste");
    fs::write(&settings, gone).expect("written");
    let told = user.says(&["doctor", "claude"]);
    let trip = told.lines().find(|line| line.contains("hook trip")).expect("it tries");
    assert!(trip.starts_with("warn") && trip.contains("nobody came"), "{told}");
    fs::write(&settings, "{}").expect("written");
    let told = user.says(&["doctor", "claude"]);
    assert!(told.contains("does not have all of them"), "{told}");

    let state = user.home().join(".claude.json");
    let gone = text(&state).replace("\"command\": \"", "\"command\": \"/nowhere");
    fs::write(&state, gone).expect("written");
    let ran = user.run(&["doctor", "claude"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("a program that is not there any more"), "{ran:?}");

    fs::write(&state, "{").expect("written");
    let ran = user.run(&["doctor", "claude"]);
    assert!(ran.code != Some(0) && ran.out.contains("line 1"), "{ran:?}");
}

#[test]
fn the_doctor_tries_the_hook_of_every_client_and_tells_of_folders_without_trust() {
    let user = User::new();
    for client in CLIENTS {
        user.says(&["connect", client, "--yes"]);
        let told = user.says(&["doctor", client]);
        let trip = told.lines().find(|line| line.contains("hook trip")).expect("it tries");
        assert!(trip.starts_with("ok") && trip.contains("reaches the hub"), "{told}");
        assert_eq!(told.contains("does not trust this folder"), client == "gemini", "{told}");
    }
    let project = user.home().join("project");
    let rule = format!("{{\"{}\": \"TRUST_FOLDER\"}}", project.display());
    user.write(".gemini/trustedFolders.json", &rule);
    let told = user.says(&["doctor", "gemini"]);
    assert!(!told.contains("warn"), "{told}");

    for client in ["codex", "copilot"] {
        user.says(&["connect", client, "--yes", "--scope", "project"]);
        let told = user.says(&["doctor", client, "--scope", "project"]);
        assert!(told.contains("does not trust this folder"), "{told}");
    }
}

#[test]
fn the_status_tells_who_is_connected_and_who_is_here() {
    let user = User::new();
    let none = user.says(&["status"]);
    assert!(none.contains("posthaste connect claude"), "{none}");
    user.says(&["connect", "codex", "--yes", "--name", "carol", "--team", "avalon"]);
    user.says(&["join", "carol", "--team", "avalon"]);
    user.says(&["join", "stranger"]);
    let told = user.says(&["status"]);
    assert!(told.contains("carol@avalon") && told.contains(".codex/config.toml"), "{told}");
    let json: Value = serde_json::from_str(&user.says(&["status", "--json"])).expect("JSON");
    assert_eq!(json["connections"][0]["client"], "codex");
    assert_eq!(json["conversations"].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(json["conversations"][0]["agent"], "carol");
    user.says(&["connect", "codex", "--undo"]);
    assert!(user.says(&["status"]).contains("no agent program is connected"));
}

#[test]
fn from_a_build_folder_it_warns_and_an_installed_one_is_at_home() {
    let user = User::new();
    let ran = user.run(&["connect", "claude", "--print"]);
    assert!(ran.err.contains("build folder") && ran.err.contains("posthaste install"), "{ran:?}");
    let ran = user.run(&["install"]);
    let installed = user.home().join(".local/bin/posthaste");
    assert!(ran.out.contains(installed.to_str().expect("plain")), "{ran:?}");
    assert!(ran.err.contains("not on your PATH"), "{ran:?}");

    let own = installed.to_str().expect("plain");
    let mut command = user.world.program(own, &["connect", "claude", "--yes"]);
    command.env("HOME", user.home()).env("PATH", user.bin()).current_dir(user.home());
    let ran = Started::new(command).end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.err.contains("build folder"), "{ran:?}");
    assert!(text(&user.home().join(".claude.json")).contains(own));

    let elsewhere = user.bin();
    let ran = user.run(&["install", "--to", elsewhere.to_str().expect("plain")]);
    assert!(ran.code == Some(0) && ran.err.is_empty(), "{ran:?}");
}
