//! `posthaste config`: what counts, and who decided it.

use serde_json::Value;

use crate::world::{Ran, Started, World};

/// A command with these variables set, too.
fn run_with(world: &World, args: &[&str], vars: &[(&str, &str)]) -> Ran {
    let mut command = world.command(args);
    command.envs(vars.iter().copied());
    Started::new(command).end()
}

fn setting(world: &World, args: &[&str], vars: &[(&str, &str)]) -> (Value, String) {
    let ran = run_with(world, &[&["config", "--json"], args].concat(), vars);
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
    let told: Value = serde_json::from_str(&ran.out).expect("one line of JSON");
    (told["value"].clone(), told["from"].as_str().expect("an origin").to_owned())
}

#[test]
fn every_value_says_where_it_came_from() {
    let world = World::new();
    let file = world.config("[limits]\nrecipients = 7\nattempts = 3\n");
    let vars = [("POSTHASTE_LIMITS__ATTEMPTS", "4"), ("CAO_QUEUE_BACKEND", "asyncio")];
    let one = |key: &str, more: &[&str]| {
        setting(&world, &[&[key, "--config", &file], more].concat(), &vars)
    };
    assert_eq!(one("limits.sweep", &[]), ("30s".into(), "default".into()));
    assert_eq!(one("limits.recipients", &[]), (7.into(), format!("file:{file}")));
    assert_eq!(one("limits.attempts", &[]), (4.into(), "POSTHASTE_LIMITS__ATTEMPTS".into()));
    assert_eq!(one("queue.backend", &[]), ("local".into(), "CAO_QUEUE_BACKEND".into()));
    let listen = one("server.listen", &["--listen", "127.0.0.1:7"]);
    assert_eq!(listen, ("127.0.0.1:7".into(), "--listen".into()));
    let data = world.data().to_str().expect("plain").to_owned();
    assert_eq!(one("data", &[]), (data.into(), "POSTHASTE_DATA".into()));
    assert_eq!(one("data", &["--data", "/x"]), ("/x".into(), "--data".into()));
}

#[test]
fn all_settings_are_one_list_and_one_is_its_value_alone() {
    let world = World::new();
    let all = world.json(&["config"]);
    let all = all["settings"].as_array().expect("a list");
    for key in ["data", "server.listen", "store.batch", "limits.body_bytes", "telemetry.otlp"] {
        assert!(all.iter().any(|s| s["key"] == key), "{key}");
    }
    let told = world.say(&["config"]);
    assert_eq!(told.lines().count(), all.len());
    assert!(told.lines().all(|line| line.contains(" = ") && line.contains("  # ")), "{told}");
    assert_eq!(world.say(&["config", "limits.recipients"]), "100\n");
    assert_eq!(world.say(&["config", "server.listen"]), "127.0.0.1:9889\n");
    let section = world.say(&["config", "compat"]);
    assert!(section.starts_with("compat.cao = true"), "{section}");
    let ran = world.run(&["config", "limits.recipient"]);
    ran.failed(3, "there is no key `limits.recipient`", "did you mean `limits.recipients`?");
}

#[test]
fn the_example_is_a_file_that_changes_nothing() {
    let world = World::new();
    let file = world.config(&world.say(&["config", "--example"]));
    let (with, without) = (world.json(&["config", "--config", &file]), world.json(&["config"]));
    assert_eq!(with, without);
}

#[test]
fn an_unknown_key_names_the_one_that_was_meant() {
    let world = World::new();
    let file = world.config("[limits]\nrecipient = 7\n");
    for command in ["config", "up"] {
        let ran = world.run(&[command, "--config", &file]);
        ran.failed(2, "unknown key `limits.recipient`", "did you mean `limits.recipients`?");
        let ran = run_with(&world, &[command], &[("POSTHASTE_LIMITS__RECIPIENT", "7")]);
        ran.failed(2, "unknown key `limits.recipient` in the environment", "limits.recipients");
        let ran = run_with(&world, &[command], &[("POSTHASTE_LISTEN", "127.0.0.1:1")]);
        ran.failed(2, "unknown variable `POSTHASTE_LISTEN`", "POSTHASTE_SERVER__LISTEN");
    }
    // A client needs none of it, so it does not stumble over it.
    let ran = run_with(&world, &["agents"], &[("POSTHASTE_LISTEN", "127.0.0.1:1")]);
    ran.failed(5, "no hub was ever started", "posthaste up");
}

#[test]
fn a_secret_is_never_shown() {
    let world = World::new();
    let file = world.config("[telemetry]\nheaders = 'authorization=geheim-1'\n");
    let vars = [("POSTHASTE_TELEMETRY__HEADERS", "authorization=geheim-2")];
    for args in [&["config"][..], &["config", "--json"], &["config", "telemetry.headers"]] {
        for vars in [&vars[..], &[]] {
            let ran = run_with(&world, &[args, &["--config", &file]].concat(), vars);
            assert_eq!(ran.code, Some(0), "{ran:?}");
            assert!(ran.out.contains("(hidden)") && !ran.out.contains("geheim"), "{ran:?}");
        }
    }
    assert_eq!(world.say(&["config", "telemetry.headers"]), "\n");
}

#[test]
fn data_lies_where_the_platform_keeps_it() {
    let world = World::new();
    let folder = |vars: &[(&str, &str)]| {
        let mut command = world.command(&["config", "data"]);
        command.env_remove("POSTHASTE_DATA").envs(vars.iter().copied());
        let ran = Started::new(command).end();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.out.trim_end().to_owned()
    };
    let home = world.scratch().to_str().expect("plain").to_owned();
    if cfg!(target_os = "macos") {
        assert_eq!(folder(&[]), format!("{home}/Library/Application Support/posthaste"));
    } else {
        assert_eq!(folder(&[]), format!("{home}/.local/share/posthaste"));
        assert_eq!(folder(&[("XDG_DATA_HOME", "/var/tmp/x")]), "/var/tmp/x/posthaste");
    }
    // A file in the platform's place counts without being named.
    let place = match cfg!(target_os = "macos") {
        true => world.scratch().join("Library/Application Support/posthaste"),
        false => world.scratch().join(".config/posthaste"),
    };
    std::fs::create_dir_all(&place).expect("made");
    std::fs::write(place.join("config.toml"), "data = 'mail'\n").expect("written");
    assert_eq!(folder(&[]), place.join("mail").to_str().expect("plain"));
}

#[test]
fn configured_models_are_told_without_their_keys() {
    let world = World::new();
    let file = world.config(
        "[models.large]\nprovider = 'openai'\nmodel = 'm'\napi_key_env = 'THE_KEY'\n\
         price = { input = 1.5, output = 6.0 }\n",
    );
    let told = world.say(&["config", "--config", &file]);
    for line in [
        "models.large.provider = \"openai\"",
        "models.large.api_key_env = \"THE_KEY\"",
        "models.large.timeout = \"2m\"",
        "models.large.price.input = 1.5",
    ] {
        assert!(told.lines().any(|told| told.starts_with(line)), "{line}: {told}");
    }
    let vars = [("POSTHASTE_MODELS__LARGE__TIMEOUT", "9s"), ("THE_KEY", "geheim")];
    let one = |key: &str| setting(&world, &[key, "--config", &file], &vars);
    let variable = "POSTHASTE_MODELS__LARGE__TIMEOUT".to_owned();
    assert_eq!(one("models.large.timeout"), ("9s".into(), variable));
    assert_eq!(one("models.large.model"), ("m".into(), format!("file:{file}")));
    let section = world.say(&["config", "models", "--config", &file]);
    assert_eq!(section.lines().count(), 6, "{section}");
    assert!(!world.say(&["config"]).contains("models."), "nobody configured one");
    world.run(&["config", "models"]).failed(3, "no model is configured", "[models.NAME]");
    let example = world.say(&["config", "--example"]);
    assert!(example.contains("#     [models.large]\n"), "{example}");
    assert!(example.contains("# api_key_env: The variable that holds the key."), "{example}");
}

#[test]
fn a_hub_does_not_start_with_a_model_that_is_wrong_and_does_not_repeat_a_key() {
    let world = World::new();
    let file =
        world.config("[models.large]\nprovider = 'openai'\nmodel = 'm'\napi_key = 'sk-geheim'\n");
    let ran = world.run(&["up", "--config", &file, "--listen", "127.0.0.1:0"]);
    // The file is named by its way from here, if that is shorter.
    ran.failed(2, "config.toml: a key does not stand in this file", "api_key_env");
    assert!(ran.err.contains("`models.large.api_key` in "), "{ran:?}");
    assert!(!ran.err.contains("geheim") && !ran.out.contains("geheim"), "{ran:?}");
}
