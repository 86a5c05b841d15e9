//! The service `shell`: everything that a command starts ends with its call.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{KEY, Office, gone, has_python, number, runs};
use crate::world::{World, eventually, is_root};

fn shell() -> Value {
    json!({ "allowed_builtin_service_aliases": ["shell"] })
}

fn run(command: &str) -> (&'static str, Value) {
    ("builtin_shell__run", json!({ "command": command }))
}

#[test]
fn a_command_runs_in_the_working_directory_and_tells_how_it_ended() {
    let mut office = Office::new("");
    let calls = [
        run("pwd; echo warning >&2"),
        run("echo half; exit 7"),
        run("kill -9 $$"),
        run("head -c 3000000 /dev/zero | tr '\\0' x"),
        run("cat"),
        ("builtin_shell__run", json!({ "command": "sleep 1000", "timeout": 1 })),
        ("builtin_shell__run", json!({ "command": "true", "timeout": 0 })),
        ("builtin_shell__stop", json!({})),
    ];
    office.assistant("worker", &shell(), &calls);
    office.open();
    let all = office.work("worker");
    let [plain, failed, killed, flood, input, slow, zero, unknown] = &all[..] else {
        panic!("{all:?}")
    };
    let desk = office.desk().canonicalize().expect("there");
    assert!(!plain.is_error && plain.text.contains(desk.to_str().expect("plain")), "{plain:?}");
    assert!(plain.text.contains("exit code 0") && plain.text.contains("[stderr]\nwarning"));
    assert!(failed.is_error && failed.text.contains("exit code 7"), "{failed:?}");
    assert!(failed.text.contains("half"), "{failed:?}");
    assert!(killed.is_error && killed.text.contains("signal 9"), "{killed:?}");
    assert!(!flood.is_error && flood.text.len() < 20_000, "{}", flood.text.len());
    assert_eq!(input.text, "exit code 0", "its input is empty");
    assert!(slow.is_error && slow.text.contains("longer than 1s"), "{slow:?}");
    assert!(zero.is_error && zero.text.contains("at least 1 second"), "{zero:?}");
    assert!(unknown.is_error && unknown.text.contains("no tool"), "{unknown:?}");
    assert!(all.iter().all(|outcome| outcome.name.starts_with("builtin_shell__")));
}

#[test]
fn a_service_that_the_profile_does_not_allow_is_refused() {
    let mut office = Office::new("");
    let read = || ("builtin_workspace__read_file", json!({ "path": "notes" }));
    let calls = [run("echo > made"), read()];
    office.assistant(
        "reader",
        &json!({ "allowed_builtin_service_aliases": ["workspace"] }),
        &calls,
    );
    office.assistant("nobody", &json!({}), &calls);
    office.open();
    fs::write(office.desk().join("notes"), "what it says").expect("written");
    let outcomes = office.work("reader");
    let [shell, workspace] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(shell.is_error && shell.text.contains("allowed_builtin_service_aliases"), "{shell:?}");
    assert_eq!((workspace.is_error, &*workspace.text), (false, "what it says\n"));
    assert!(office.work("nobody").iter().all(|outcome| outcome.is_error));
    assert!(!office.desk().join("made").exists());
}

#[test]
fn a_command_sees_neither_the_hubs_tokens_nor_the_keys_of_models() {
    let mut office = Office::new("");
    office.assistant("worker", &shell(), &[run("env")]);
    office.open();
    let environment = &office.work("worker")[0].text;
    assert!(environment.contains("PATH="), "{environment}");
    for secret in [KEY, "hidden", "POSTHASTE_TOKEN", "CAO_AUTH"] {
        assert!(!environment.contains(secret), "{secret}: {environment}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_that_daemonises_is_ended_with_its_call() {
    let mut office = Office::new("");
    let calls = [
        run("setsid sleep 1000 & echo pid=$!"),
        run(
            "nohup sh -c 'trap \"\" TERM; while :; do sleep 1; done' >/dev/null 2>&1 & echo pid=$!",
        ),
        run("echo alone"),
    ];
    office.assistant("worker", &shell(), &calls);
    office.open();
    let outcomes = office.work("worker");
    let [session, stubborn, alone] = &outcomes[..] else { panic!("{outcomes:?}") };
    for left in [session, stubborn] {
        assert!(left.text.contains("running in the background: ended with the call"), "{left:?}");
        assert!(!runs(number(&left.text, "pid")), "{left:?}");
    }
    assert!(!alone.text.contains("background"), "{alone:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_keeper_of_a_command_starts_nothing_when_the_hub_has_ended() {
    let world = World::new();
    let made = world.scratch().join("made");
    let command = format!("echo > '{}'", made.display());
    // Not our number, so not the number of whoever starts it.
    let other = (std::process::id() + 1).to_string();
    let ran =
        world.run(&["keep", "tree", &other, "command", "022", "-", "/bin/sh", "-c", &command]);
    assert!(ran.code != Some(0) && ran.err.contains("the hub has ended"), "{ran:?}");
    assert!(!made.exists());
    let own = std::process::id().to_string();
    let kept = |words: &[&str]| {
        world.run(&[&["keep", "tree", &own, "command", "022", "-"], words].concat())
    };
    let ran = kept(&["/bin/sh", "-c", "echo said; exit 7"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(7), "said\n"), "{ran:?}");
    assert_eq!(kept(&["/bin/sh", "-c", "kill -TERM $$"]).code, Some(143));
    let missing = kept(&["/no/such/program"]);
    assert!(missing.code != Some(0) && missing.err.contains("/no/such/program"), "{missing:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_hub_leaves_no_process_of_a_command() {
    let mut office = Office::new("");
    let command = "setsid sh -c 'echo pid=$$ > inner; exec sleep 1000' & echo pid=$$ > outer; wait";
    office.assistant("worker", &shell(), &[run(command)]);
    office.open();
    office.begin("worker");
    let pids = pids_in(&office, ["inner", "outer"]);
    assert!(pids.iter().all(|pid| runs(*pid)));
    office.hub.take().expect("a hub").kill();
    pids.into_iter().for_each(gone);
}

#[cfg(target_os = "linux")]
#[test]
fn a_hub_that_stops_ends_the_commands_of_its_assistants() {
    let mut office = Office::new("");
    let command = "setsid sh -c 'echo pid=$$ > inner; exec sleep 1000' & echo pid=$$ > outer; wait";
    office.assistant("worker", &shell(), &[run(command)]);
    office.open();
    office.begin("worker");
    let pids = pids_in(&office, ["inner", "outer"]);
    office.hub.take().expect("a hub").stop();
    assert!(!pids.iter().any(|pid| runs(*pid)), "they ended before the hub");
}

#[cfg(target_os = "linux")]
#[test]
fn commands_and_servers_run_as_the_user_of_workers() {
    if !is_root("a command as another user") || !has_python() {
        return;
    }
    let mut office = Office::of(World::open_to_all(), "");
    fs::set_permissions(office.desk(), fs::Permissions::from_mode(0o777)).expect("our own");
    office.settings.push_str("[agents]\nuser = \"nobody\"\n");
    let script = office.world.scratch().join("server.py");
    let profile = json!({
        "allowed_builtin_service_aliases": ["shell", "workspace"],
        "mcpServers": { "small": { "command": "/usr/bin/python3", "args": [script] } },
    });
    let token = office.world.file("operator.token");
    let calls = [
        run("id -u; setsid sleep 1000 & echo pid=$!"),
        run(&format!("cat '{}'", token.display())),
        ("mcp__small__user", json!({})),
        ("builtin_workspace__list_files", json!({})),
    ];
    office.assistant("worker", &profile, &calls);
    office.open();
    let outcomes = office.work("worker");
    let [id, secret, server, workspace] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(id.text.contains("\n65534\n"), "{id:?}");
    assert!(!runs(number(&id.text, "pid")), "{id:?}");
    assert!(secret.is_error && secret.text.contains("denied"), "{secret:?}");
    assert_eq!(server.text, "user=65534", "{server:?}");
    assert!(workspace.is_error && workspace.text.contains("agents.user"), "{workspace:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_that_is_stopped_with_its_assistant_leaves_no_process() {
    let mut office = Office::new("");
    let command = "setsid sh -c 'echo pid=$$ > inner; exec sleep 1000' & echo pid=$$ > outer; wait";
    office.assistant("worker", &shell(), &[run(command)]);
    office.open();
    office.begin("worker");
    let pids = pids_in(&office, ["inner", "outer"]);
    let agents = office.world.json(&["agents"]);
    let found = agents["instances"].as_array().or_else(|| agents.as_array()).expect("a list");
    let worker = found.iter().find(|one| one["agent"] == "worker").expect("it runs");
    office.world.say(&["stop", worker["instance"].as_str().expect("an id")]);
    pids.into_iter().for_each(gone);
}

fn pids_in(office: &Office, names: [&str; 2]) -> [rustix::process::Pid; 2] {
    let desk = office.desk();
    let read = |name: &str| fs::read_to_string(desk.join(name)).unwrap_or_default();
    eventually(|| names.iter().all(|name| read(name).ends_with('\n')));
    names.map(|name| number(&read(name), "pid"))
}
