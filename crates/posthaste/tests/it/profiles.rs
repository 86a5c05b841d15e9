//! Profiles as an operator has them: files in folders, and the command line.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::world::{World, eventually};

fn text(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\nYou are {name}.\n")
}

fn write(folder: &Path, file: &str, text: &str) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder");
    let path = folder.join(file);
    std::fs::write(&path, text).expect("written");
    path
}

impl World {
    fn profile(&self, name: &str) -> Option<Value> {
        let ran = self.run(&["profiles", "show", name, "--json"]);
        (ran.code == Some(0)).then(|| serde_json::from_str(&ran.out).expect("JSON"))
    }

    fn faults(&self) -> Vec<Value> {
        self.json(&["profiles"])["errors"].as_array().expect("a list").clone()
    }
}

#[test]
fn a_profile_whose_file_does_not_parse_is_named_when_somebody_asks_for_it() {
    let world = World::new();
    let broken = "---\nname: reviewer\ndescription: [oops\n---\n";
    let file = write(&world.file("profiles"), "reads-diffs.md", broken);
    let _hub = world.hub();
    let place = format!("{}:", file.display());
    for args in [
        &["profiles", "show", "reviewer"][..],
        &["assign", "reviewer", "look"],
        &["handoff", "reviewer", "look"],
        &["send", "reviewer", "look"],
    ] {
        world.run(args).failed(3, &place, "mend that file");
    }
    write(&world.file("profiles"), "reads-diffs.md", &text("reviewer", "reads diffs"));
    eventually(|| world.profile("reviewer").is_some());
}

#[test]
fn a_folder_of_profiles_that_is_none_is_a_mistake_in_the_command_line() {
    let world = World::new();
    let file = write(&world.scratch().join("mine"), "heart.md", &text("heart", "beats"));
    let file = file.to_str().expect("a plain path");
    let _hub = world.hub();
    for verb in ["check", "load"] {
        let told = world.run(&["profiles", verb, "/nowhere"]);
        told.failed(2, "there is no folder /nowhere", "name a folder");
        world.run(&["profiles", verb, file]).failed(2, "heart.md is not a folder", "the folder");
    }
}

#[test]
fn a_folder_of_profiles_is_loaded_listed_searched_shown_and_removed() {
    let world = World::new();
    let _hub = world.hub();
    let folder = world.scratch().join("mine");
    assert_eq!(world.say(&["profiles"]).lines().count(), 2, "a hint while there are none");
    write(&folder, "reviewer.md", &text("reviewer", "reads diffs"));
    write(&folder, "writer.md", &text("writer", "writes texts"));
    write(&folder, "broken.md", "---\nname: broken\ntags: {a: b}\n---\n");
    write(&folder, "README.txt", "no profile");
    write(&folder, ".hidden.md", "no profile");
    let load = ["profiles", "load", folder.to_str().expect("a plain path")];

    let ran = world.run(&load);
    assert_eq!(ran.code, Some(2), "one failed: {ran:?}");
    let failed =
        format!("failed  {}:3: tags: it is a list of texts", folder.join("broken.md").display());
    let told = ["created reviewer", "created writer", &failed];
    let told = format!("{}\n2 created, 0 updated, 0 unchanged, 1 failed\n", told.join("\n"));
    assert_eq!(ran.out, told);

    write(&folder, "broken.md", &text("mended", "was broken"));
    write(&folder, "writer.md", &text("writer", "writes books"));
    assert_eq!(
        world.json(&load),
        json!({"created": ["mended"], "updated": ["writer"], "unchanged": ["reviewer"], "failed": []})
    );
    let list = world.say(&["profiles"]);
    assert!(list.starts_with("NAME      DRIVER    DESCRIPTION   TAGS  SOURCE\nmended "), "{list}");
    assert!(world.say(&["profiles", "read", "dif"]).contains("reviewer"));
    assert_eq!(world.say(&["profiles", "zebra"]), "no profile fits these words\n");
    let shown = world.say(&["profiles", "show", "writer"]);
    assert!(
        shown.contains("version      2") && shown.ends_with("\n\nYou are writer.\n"),
        "{shown}"
    );
    world.say(&["send", "writer", "a first letter"]);
    let ran = world.run(&["profiles", "remove", "writer"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "writer is removed\n"));
    assert!(ran.err.contains("one message waits for whoever next"), "{ran:?}");
    world.run(&["profiles", "show", "writer"]).failed(3, "no such profile", "posthaste profiles");
}

#[test]
fn a_watched_folder_and_the_hub_stay_alike() {
    let world = World::new();
    // Nothing is found by a mere look: the system must tell.
    let settings = world.config("[profiles]\nrescan = '1h'\n");
    let _hub = world.hub_with(&["--config", &settings]);
    let folder = world.file("profiles");

    let file = write(&folder, "mason.md", &text("mason", "lays bricks"));
    eventually(|| world.profile("mason").is_some());
    let kept = world.profile("mason").expect("kept");
    assert_eq!((&kept["source"], &kept["version"]), (&json!(file.to_str()), &json!(1)));
    world.say(&["send", "mason", "its name is an address"]);

    write(&folder, "mason.md", &text("mason", "cuts stone"));
    let says = |word: &str| world.profile("mason").is_some_and(|p| p["description"] == *word);
    eventually(|| says("cuts stone"));
    assert!(world.say(&["profiles", "bricks"]).starts_with("no profile"));

    write(&folder, "mason.md", "---\nname: mason\nkind: robot\n---\n");
    eventually(|| !world.faults().is_empty());
    let fault = &world.faults()[0];
    assert_eq!((&fault["file"], &fault["line"]), (&json!(file.to_str()), &json!(3)));
    assert!(says("cuts stone"), "what was good stays");
    let ran = world.run(&["profiles"]);
    let told = format!("note: {}:3: kind", file.display());
    assert!(ran.err.contains(&told), "{ran:?}");

    write(&folder, "mason.md", &text("mason", "is mended"));
    eventually(|| says("is mended") && world.faults().is_empty());

    let other = folder.join("renamed.md");
    std::fs::rename(&file, &other).expect("renamed");
    eventually(|| world.profile("mason").is_some_and(|p| p["source"] == json!(other.to_str())));
    write(&folder, "second.md", &text("mason", "also"));
    eventually(|| world.faults().iter().any(|f| f["line"] == json!(2)));

    std::fs::remove_file(folder.join("second.md")).expect("removed");
    std::fs::remove_file(&other).expect("removed");
    eventually(|| world.profile("mason").is_none() && world.faults().is_empty());
}

#[test]
fn what_stands_in_a_file_is_changed_in_the_file() {
    let world = World::new();
    let folder = world.file("profiles");
    let file = write(&folder, "mason.md", &text("mason", "lays bricks"));
    let hub = world.hub();
    let path = file.to_str().expect("a plain path");
    world.run(&["profiles", "remove", "mason"]).failed(4, "mason stands in a file", path);
    let mine = world.scratch().join("mine");
    write(&mine, "other.md", &text("mason", "by the API"));
    let ran = world.run(&["profiles", "load", mine.to_str().expect("a plain path")]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.out.contains("other.md:2: mason stands in a file"), "{ran:?}");

    write(&mine, "other.md", &text("carver", "by the API"));
    world.say(&["profiles", "load", mine.to_str().expect("a plain path")]);
    write(&folder, "carver.md", &text("carver", "by a file"));
    eventually(|| !world.faults().is_empty());
    assert_eq!(world.faults()[0]["line"], 2);
    assert_eq!(world.profile("carver").expect("kept")["source"], "api");

    world.say(&["profiles", "remove", "carver"]);
    // Whatever changes is a reason to look again.
    write(&folder, "carver.md", &text("carver", "by the file"));
    eventually(|| world.profile("carver").is_some_and(|p| p["description"] == "by the file"));
    drop(hub.stop());
}

#[test]
fn a_file_that_is_gone_leaves_its_profile_to_those_who_live_by_it() {
    let world = World::new();
    let folder = world.file("profiles");
    let file = write(&folder, "mason.md", &text("mason", "lays bricks"));
    let settings = world.config("[profiles]\nrescan = '50ms'\n");
    let _hub = world.hub_with(&["--config", &settings]);
    world.joined("mason");
    std::fs::remove_file(&file).expect("removed");
    eventually(|| !world.faults().is_empty());
    assert!(world.faults()[0]["message"].as_str().is_some_and(|told| told.contains("in use")));
    assert!(world.profile("mason").is_some());
    world.say(&["leave", "mason"]);
    eventually(|| world.profile("mason").is_none() && world.faults().is_empty());
}

#[test]
fn a_restart_finds_what_the_files_say_by_then() {
    let world = World::new();
    let folder = world.file("profiles");
    write(&folder, "stays.md", &text("stays", "the same"));
    write(&folder, "changes.md", &text("changes", "before"));
    let gone = write(&folder, "goes.md", &text("goes", "away"));
    let hub = world.hub();
    assert!(["stays", "changes", "goes"].iter().all(|name| world.profile(name).is_some()));
    assert_eq!(hub.stop().code, Some(0));
    write(&folder, "changes.md", &text("changes", "after"));
    std::fs::remove_file(gone).expect("removed");

    let _hub = world.hub();

    let version = |name: &str| world.profile(name).expect("kept")["version"].clone();
    assert_eq!((version("stays"), version("changes")), (json!(1), json!(2)));
    assert!(world.profile("goes").is_none());
}

#[test]
fn no_file_and_no_folder_stops_the_hub() {
    let world = World::new();
    let folder = world.scratch().join("team");
    write(&folder, "good.md", &text("good", "is fine"));
    write(&folder, "empty.md", "");
    write(&folder, "huge.md", &"x".repeat(2 << 20));
    write(&folder, "yaml.md", "---\nname: [\n---\n");
    std::fs::write(folder.join("bytes.md"), b"---\nname: x\n\xff\xfe").expect("written");
    std::os::unix::fs::symlink("/nowhere", folder.join("link.md")).expect("a link");
    std::fs::create_dir(folder.join("folder.md")).expect("a folder");
    write(&world.data(), "profiles", "a file where a folder should be");
    let settings = world.config("[profiles]\nfolders = ['team', 'missing']\n");

    let hub = world.hub_with(&["--config", &settings]);

    assert!(world.profile("good").is_some());
    let faults = world.faults();
    let of = |name: &str| {
        let ends = |f: &&Value| f["file"].as_str().is_some_and(|file| file.ends_with(name));
        faults.iter().find(ends).unwrap_or_else(|| panic!("{name}: {faults:?}")).clone()
    };
    assert_eq!(of("team/empty.md")["line"], 1);
    assert_eq!(of("team/bytes.md")["line"], 3);
    assert!(of("team/yaml.md")["line"].is_u64(), "{faults:?}");
    assert!(of("team/huge.md")["message"].to_string().contains("limits.profile_file_bytes"));
    assert!(of("team/link.md")["message"].to_string().contains("cannot be read"));
    assert!(of("missing")["message"].to_string().contains("cannot be read"));
    assert!(of("data/profiles")["message"].to_string().contains("cannot be read"));
    assert_eq!(faults.len(), 7, "{faults:?}");
    let log = hub.stop();
    assert_eq!(log.code, Some(0));
    assert!(log.err.contains("team/yaml.md") && log.err.contains("line=2"), "{log:?}");
}

#[test]
fn a_limit_that_no_driver_keeps_is_told_by_check_load_and_watch_and_starts_nobody() {
    let world = World::new();
    let folder = world.scratch().join("mine");
    let limited = |name: &str| {
        let command = "driver: command\ncommand: [\"true\"]";
        format!("---\nname: {name}\n{command}\nallowedTools: [Read]\n---\n")
    };
    let file = write(&folder, "tame.md", &limited("tame"));
    write(&folder, "good.md", &text("good", "is fine"));
    let why = "its driver `command` cannot keep its agents to `allowed_tools`";
    let warning = format!("warning {}:5: no agent can be started: tame: {why}", file.display());
    let plain = folder.to_str().expect("a plain path");

    let checked = world.run(&["profiles", "check", plain]);
    assert_eq!(checked.code, Some(2), "no hub is needed: {checked:?}");
    assert!(checked.out.starts_with(&warning), "{checked:?}");
    assert!(checked.out.ends_with("\n1 good, 1 cannot be started, 0 failed\n"), "{checked:?}");

    let hub = world.hub();
    let loaded = world.say(&["profiles", "load", plain]);
    assert!(loaded.contains(&warning) && loaded.contains("2 created"), "{loaded}");
    for verb in ["assign", "handoff"] {
        world.run(&[verb, "tame", "a task"]).failed(4, why, "--allowedTools");
    }
    let all = world.json(&["agents", "--all"]);
    assert_eq!(all["instances"], json!([]), "nobody was started");

    write(&world.file("profiles"), "wild.md", &limited("wild"));
    eventually(|| !world.faults().is_empty());
    let fault = &world.faults()[0];
    assert_eq!(fault["line"], 5, "{fault}");
    assert!(fault["message"].as_str().is_some_and(|told| told.contains(why)), "{fault}");
    assert!(world.profile("wild").is_some(), "its name is an address all the same");
    drop(hub.stop());
}
