//! `posthaste import cao`.

use serde_json::{Value, json};

use crate::world::World;

const DEVELOPER: &str =
    "---\nname: developer\ndescription: writes code\nprovider: mock_cli\n---\nYou write code.\n";
const REVIEWER: &str = "---\nname: reviewer\ndescription: reads code\nprovider: claude_code\nrole: reviewer\n---\nYou read code.\n";

fn with_profiles() -> World {
    let world = World::new();
    for (folder, name, text) in [
        ("agent-store", "developer.md", DEVELOPER),
        ("agent-store", "broken.md", "no front matter\n"),
        ("agent-context", "reviewer.md", REVIEWER),
        ("agent-context", "developer.md", "---\nname: developer\ndescription: an older one\n---\n"),
    ] {
        let folder = world.scratch().join(".aws/cli-agent-orchestrator").join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(name), text).expect("a file");
    }
    world
}

fn outcomes(told: &Value) -> Vec<(String, String)> {
    let files = told["files"].as_array().expect("a list").iter();
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    files.map(|found| (word(&found["profile"]), word(&found["outcome"]))).collect()
}

#[test]
fn profiles_are_taken_over_once_and_what_is_there_is_never_overwritten() {
    let world = with_profiles();
    let dry = world.json(&["import", "cao", "--dry-run"]);
    let expected =
        [("?", "failed"), ("developer", "taken"), ("developer", "skipped"), ("reviewer", "taken")];
    assert_eq!(outcomes(&dry), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let profiles = world.data().join("profiles");
    assert!(!profiles.join("developer.md").exists(), "only shown");

    let told = world.say(&["import", "cao"]);
    assert!(told.contains("developer: taken over (driver command)"), "{told}");
    assert!(told.contains("2 of 4"), "{told}");
    std::fs::write(profiles.join("reviewer.md"), "---\nname: reviewer\n---\nMine.\n")
        .expect("mine");
    let again = world.json(&["import", "cao"]);
    assert!(outcomes(&again).iter().all(|(_, outcome)| outcome != "taken"), "{again}");
    let kept = std::fs::read_to_string(profiles.join("reviewer.md")).expect("a file");
    assert!(kept.contains("Mine."), "{kept}");

    let hub = world.hub();
    let done = world.run(&["handoff", "developer", "count the words"]);
    assert_eq!(done.out, "> MOCK: count the words\n", "{done:?}");
    hub.stop();
}

#[test]
fn any_folder_of_profiles_may_be_named() {
    let world = World::new();
    let folder = world.scratch().join("mine");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("reviewer.md"), REVIEWER).expect("a file");
    let told = world.json(&["import", "cao", "--from", folder.to_str().expect("plain")]);
    assert_eq!(told["files"][0]["driver"], json!("claude"), "{told}");
    let copy = std::fs::read_to_string(world.data().join("profiles/reviewer.md")).expect("a copy");
    assert!(copy.contains("allowed_tools: [\"Read\""), "{copy}");
    let missing = world.run(&["import", "cao", "--from", "/no/such/folder"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
}
