//! `posthaste doctor`: what is wrong, and what to do; it changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use posthaste_testkit::provider::{Ending, Format, KEY, ProviderServer, Reply, Turn};
use serde_json::Value;

use crate::world::{Ran, Started, World, is_root, mode};

/// What the doctor says with these flags, by the name of the check.
fn checks(world: &World, args: &[&str]) -> (Ran, BTreeMap<String, Value>) {
    let ran = world.run(&[&["doctor", "--json"], args].concat());
    let told: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    let list = told["checks"].as_array().expect("a list").iter().cloned();
    let named = list.map(|c| (c["name"].as_str().expect("a name").to_owned(), c));
    let named: BTreeMap<_, _> = named.collect();
    let failed = named.values().any(|check| check["status"] == "fail");
    assert_eq!(told["ok"], !failed, "{ran:?}");
    assert_eq!(ran.code == Some(0), !failed, "{ran:?}");
    (ran, named)
}

#[track_caller]
fn says(check: &Value, status: &str, message: &str, hint: &str) {
    assert_eq!(check["status"], status, "{check}");
    assert!(check["message"].as_str().expect("a sentence").contains(message), "{check}");
    assert!(check["hint"].as_str().unwrap_or_default().contains(hint), "{check}");
}

fn close_to(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own file");
}

/// Names, sizes, modes and times of everything below.
fn everything(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let data = entry.metadata().expect("it is there");
        let (path, size) = (entry.path(), data.len());
        if data.is_dir() {
            found.extend(everything(&path));
        } else {
            let changed = data.modified().expect("a time");
            found.push(format!("{} {size} {:o} {changed:?}", path.display(), mode(&path)));
        }
    }
    found.sort();
    found
}

#[test]
fn a_new_machine_is_well() {
    let world = World::new();
    let (_, found) = checks(&world, &["--listen", "127.0.0.1:0"]);
    for name in
        ["configuration", "data folder", "tokens", "disk", "clock", "database", "hub", "port"]
    {
        says(&found[name], "ok", "", "");
    }
    for name in ["files", "network"] {
        says(&found[name], "ok", "", "");
    }
    // A fact, and what could be done about it.
    says(&found["workers"], "ok", "the hub's own user", "agents.user");
    assert!(found.contains_key("disk space") && found.contains_key("open files"));
    assert!(!world.data().exists(), "it changes nothing");
    // For people it is one line each.
    let told = world.say(&["doctor", "--listen", "127.0.0.1:0"]);
    assert_eq!(told.lines().count(), found.len(), "{told}");
}

#[test]
fn a_hub_that_runs_is_found_and_compared() {
    let world = World::new();
    let hub = world.hub();
    world.say(&["join", "alice"]);
    let (_, found) = checks(&world, &["--listen", &format!("127.0.0.1:{}", hub.port())]);
    let pid = format!("(pid {})", hub.process.pid());
    says(&found["hub"], "ok", &pid, "");
    says(&found["hub"], "ok", "is ready", "");
    says(&found["port"], "ok", &pid, "");
    says(&found["database"], "ok", "sound, schema ", "");
    says(&found["tokens"], "ok", "4 files", "");
    says(&found["data folder"], "ok", "yours alone", "");
    says(&found["files"], "ok", "yours alone", "");
    says(&found["network"], "ok", "this machine only", "");

    hub.kill();
    let (_, found) = checks(&world, &["--listen", "127.0.0.1:0"]);
    says(&found["hub"], "warn", "does not answer", "posthaste up");
    says(&found["database"], "ok", "sound", "");
}

#[test]
fn the_doctor_changes_nothing() {
    let world = World::new();
    let hub = world.hub();
    world.say(&["join", "alice"]);
    world.say(&["send", "alice", "hello"]);
    hub.stop();
    close_to(&world.file("join.token"), 0o644);
    close_to(&world.data(), 0o755);
    let before = everything(world.scratch());
    let (ran, found) = checks(&world, &["--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&found["tokens"], "fail", "join.token has mode 0644", "chmod 600");
    says(&found["data folder"], "warn", "mode 0755", "chmod 700");
    assert_eq!(everything(world.scratch()), before);
}

#[test]
fn a_damaged_or_foreign_database_is_named() {
    let world = World::new();
    fs::create_dir(world.data()).expect("made");
    close_to(&world.data(), 0o700);
    fs::write(world.file("hub.db"), "this is no database, but it is long enough").expect("written");
    let (ran, found) = checks(&world, &["--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&found["database"], "fail", "is damaged", "Restore");

    let damaged = World::new();
    let hub = damaged.hub();
    damaged.say(&["join", "alice"]);
    for _ in 0..20 {
        damaged.say(&["send", "alice", &"x".repeat(20_000)]);
    }
    hub.stop();
    let mut bytes = fs::read(damaged.file("hub.db")).expect("a database");
    let middle = bytes.len() / 8192 / 2 * 8192;
    bytes[middle..middle + 4096].fill(0xa5);
    fs::write(damaged.file("hub.db"), bytes).expect("written");
    let (_, found) = checks(&damaged, &["--listen", "127.0.0.1:0"]);
    says(&found["database"], "fail", "is damaged", "backup");
}

#[test]
fn a_port_that_another_program_has_is_a_failure() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let world = World::new();
    let (ran, found) = checks(&world, &["--listen", &address]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    says(&found["port"], "fail", "which is not a hub", "--listen");
}

#[test]
fn a_wrong_configuration_is_told_and_the_rest_is_looked_at() {
    let world = World::new();
    for text in ["[limits]\nrecipient = 7\n", "[limits\n", "[server]\nlisten = '0.0.0.0:1'\n"] {
        let file = world.config(text);
        let (ran, found) = checks(&world, &["--config", &file, "--listen", "127.0.0.1:0"]);
        if text.contains("0.0.0.0") {
            // The flag says otherwise.
            says(&found["configuration"], "ok", "", "");
            continue;
        }
        assert_eq!(ran.code, Some(2), "{text}: {ran:?}");
        says(&found["configuration"], "fail", "", "");
        assert!(found.contains_key("port"), "{ran:?}");
    }
    let (ran, found) = checks(&world, &["--config", "/nowhere", "--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    says(&found["configuration"], "fail", "there is no configuration file /nowhere", "");
}

#[test]
fn a_hub_with_another_configuration_than_the_one_that_is_checked_is_told() {
    let world = World::new();
    let ours = world.config("");
    let other = world.scratch().join("other.toml");
    fs::write(&other, "").expect("written");
    let other = other.to_str().expect("a plain path").to_owned();
    let look = |flags: &[&str]| {
        let (_, found) = checks(&world, &[&["--listen", "127.0.0.1:0"], flags].concat());
        found["configuration"].clone()
    };
    let hub = world.hub_with(&["--config", &ours]);
    says(&look(&["--config", &ours]), "ok", "every key is known", "");
    for flags in [&[][..], &["--config", &other]] {
        let hint = format!("`posthaste doctor --config {ours}`");
        says(&look(flags), "warn", &format!("the running hub has read {ours}"), &hint);
    }
    let later = fs::File::options().append(true).open(&ours).expect("a file");
    later.set_modified(SystemTime::now() + Duration::from_secs(9)).expect("changed");
    says(&look(&["--config", &ours]), "warn", "was changed after", "start the hub again");
    assert_eq!(hub.stop().code, Some(0));
    says(&look(&["--config", &ours]), "ok", "every key is known", "");
    let _hub = world.hub_with(&[]);
    says(&look(&["--config", &other]), "warn", &format!("not read {other}"), "start the hub");
    says(&look(&[]), "ok", "every key is known", "");
}

#[test]
fn a_folder_that_cannot_be_one_is_told() {
    let world = World::new();
    fs::write(world.data(), "a file").expect("written");
    let (ran, found) = checks(&world, &["--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&found["data folder"], "fail", "is not a folder", "--data");
}

#[test]
fn whoever_could_reach_the_hubs_secrets_is_named() {
    let world = World::new();
    close_to(world.scratch(), 0o777);
    let hub = world.hub();
    world.say(&["join", "alice"]);
    close_to(&world.file("hub.db"), 0o644);
    let (_, found) = checks(&world, &["--listen", "127.0.0.1:0"]);
    says(&found["folders above"], "warn", "others may write to it", "chmod go-w");
    says(&found["files"], "warn", "hub.db has mode 0644", "chmod go=");
    // An address for examples, which no machine has.
    let (_, elsewhere) = checks(&world, &["--listen", "192.0.2.1:9889", "--allow-remote"]);
    says(&elsewhere["network"], "warn", "can be reached from other machines", "TLS");

    close_to(&world.file("hub.db"), 0o600);
    close_to(&world.file("identities"), 0o755);
    close_to(world.scratch(), 0o755);
    hub.stop();
    let (_, found) = checks(&world, &["--listen", "127.0.0.1:0"]);
    says(&found["files"], "warn", "identities has mode 0755", "chmod go=");
}

#[test]
fn a_user_for_workers_that_cannot_be_used_is_a_failure() {
    let world = World::new();
    let file = world.config("[agents]\nuser = \"no-such-user\"\n");
    let (ran, found) = checks(&world, &["--config", &file, "--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    says(&found["workers"], "fail", "no user `no-such-user`", "useradd");
    if is_root("the doctor's word on another user for workers") {
        let file = world.config("[agents]\nuser = \"nobody\"\n");
        let (_, found) = checks(&world, &["--config", &file, "--listen", "127.0.0.1:0"]);
        says(&found["workers"], "ok", "they run as nobody", "");
        assert!(!world.scratch().join("data-workers").exists(), "it changes nothing");
    }
}

#[test]
fn the_programs_of_profiles_are_looked_for_with_and_without_a_hub() {
    let world = World::new();
    let looks = || checks(&world, &["--listen", "127.0.0.1:0"]).1["programs"].clone();
    says(&looks(), "ok", "no profile needs one", "");
    let profile = |name: &str, rest: &str| {
        let folder = world.file("profiles");
        fs::create_dir_all(&folder).expect("a folder");
        close_to(&world.data(), 0o700);
        let text = format!("---\nname: {name}\ndescription: an agent\n{rest}\n---\n");
        fs::write(folder.join(format!("{name}.md")), text).expect("written");
    };
    profile("scribe", "driver: command\ncommand: [/bin/sh, -c, date]");
    profile("guest", "driver: external");
    says(&looks(), "ok", "those of all profiles are there: sh", "");
    // The doctor of this test has no PATH, so no program is on it.
    profile("mason", "driver: claude");
    profile("miner", "driver: claude");
    let told = "the program `claude` is not there (mason, miner)";
    says(&looks(), "warn", told, "npm install -g @anthropic-ai/claude-code");

    let _hub = world.hub();
    let folder = world.scratch().join("more");
    fs::create_dir(&folder).expect("a folder");
    let text = "---\nname: welder\ndescription: an agent\ndriver: codex\n---\n";
    fs::write(folder.join("welder.md"), text).expect("written");
    world.say(&["profiles", "load", folder.to_str().expect("a plain path")]);
    says(&looks(), "warn", told, "npm install");
    says(&looks(), "warn", "the program `codex` is not there (welder)", "@openai/codex");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_configured_model_is_asked_once_and_told_with_what_to_do() {
    let world = World::new();
    let answers = ProviderServer::start(Format::Anthropic).await;
    answers.plan(Turn::says(&["ready"]));
    let refuses = ProviderServer::start(Format::OpenAi).await;
    refuses.plan(Reply::error(401, "who are you?"));
    let limits = ProviderServer::start(Format::Gemini).await;
    limits.plan(Reply::error(429, "slow down"));
    let silent = ProviderServer::start(Format::Ollama).await;
    silent.plan(Reply::from(Turn::says(&["so"])).ends(Ending::Silent(0)));
    fs::write(world.scratch().join("key"), KEY).expect("written");
    fs::write(world.scratch().join("steps.json"), r#"{"steps": [{"say": "hello"}]}"#)
        .expect("written");
    let config = world.config(&format!(
        "[models.good]\nprovider = 'anthropic'\nmodel = 'opus'\nbase_url = '{}'\n\
         api_key_file = 'key'\n\
         [models.closed]\nprovider = 'openai'\nmodel = 'm'\nbase_url = '{}'\n\
         api_key_env = 'THE_KEY'\n\
         [models.busy]\nprovider = 'gemini'\nmodel = 'm'\nbase_url = '{}'\n\
         [models.slow]\nprovider = 'ollama'\nmodel = 'm'\nbase_url = '{}'\ntimeout = '100ms'\n\
         [models.keyless]\nprovider = 'openai'\nmodel = 'm'\napi_key_env = 'NO_SUCH_KEY'\n\
         [models.played]\nprovider = 'script'\nfile = 'steps.json'\n\
         [models.torn]\nprovider = 'script'\nfile = 'gone.json'\n",
        answers.base_url(),
        refuses.base_url(),
        limits.base_url(),
        silent.base_url(),
    ));
    let mut command =
        world.command(&["doctor", "--json", "--config", &config, "--listen", "127.0.0.1:0"]);
    command.env("THE_KEY", KEY);
    let ran = Started::new(command).end();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let told: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    let check = |name: &str| {
        let all = told["checks"].as_array().expect("a list");
        let named = |check: &&Value| check["name"] == format!("model {name}");
        all.iter().find(named).unwrap_or_else(|| panic!("{name}: {told}")).clone()
    };
    says(&check("good"), "ok", "opus answered in ", "");
    says(
        &check("closed"),
        "fail",
        "refuses our key (models.closed): who are you?",
        "models.closed",
    );
    says(&check("busy"), "fail", "limits our rate: slow down", "wait");
    says(&check("slow"), "fail", "took longer than 100ms", "models.slow.timeout");
    let missing = "the variable NO_SUCH_KEY is not set";
    says(&check("keyless"), "fail", missing, "models.keyless.api_key_env");
    says(&check("played"), "ok", "a script, and no language model", "");
    says(&check("torn"), "fail", "gone.json", "docs/guide/models.md");
    for provider in [&answers, &refuses, &limits, &silent] {
        assert_eq!(provider.heard().len(), 1, "it is asked once");
    }
    assert!(answers.heard()[0].has_key && refuses.heard()[0].has_key);
    assert!(!ran.out.contains(KEY) && !ran.err.contains(KEY));
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_was_started_without_the_key_of_this_shell_is_told() {
    let world = World::new();
    let model = ProviderServer::start(Format::OpenAi).await;
    let config = world.config(&format!(
        "[models.large]\nprovider = 'openai'\nmodel = 'm'\nbase_url = '{}'\n\
         api_key_env = 'THE_KEY'\n",
        model.base_url()
    ));
    for (key_of_hub, status, message) in
        [(Some(KEY), "ok", "m answered in"), (None, "warn", "was started with another THE_KEY")]
    {
        let up = ["up", "--json", "--listen", "127.0.0.1:0", "--config", &config];
        let mut command = world.command(&up);
        command.envs(key_of_hub.map(|key| ("THE_KEY", key)));
        let hub = world.hub_of(command);
        model.plan(Turn::says(&["ready"]));
        let listen = format!("127.0.0.1:{}", hub.port());
        let mut command =
            world.command(&["doctor", "--json", "--config", &config, "--listen", &listen]);
        command.env("THE_KEY", KEY);
        let ran = Started::new(command).end();
        let told: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        let all = told["checks"].as_array().expect("a list");
        let check = all.iter().find(|check| check["name"] == "model large").expect("checked");
        says(check, status, message, "");
        assert!(!ran.out.contains(KEY), "{ran:?}");
        assert_eq!(hub.stop().code, Some(0));
    }
}
