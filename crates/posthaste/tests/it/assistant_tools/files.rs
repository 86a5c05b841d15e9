//! The service `workspace`: what it leaves alone, and the permissions of what it writes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use posthaste_api::Client;
use posthaste_api::work::HandoffRequest;
use serde_json::{Value, json};

use super::Office;

fn workspace() -> Value {
    json!({ "allowed_builtin_service_aliases": ["workspace"] })
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn an_assistant_in_the_folder_above_the_data_folder_does_not_see_the_operators_token() {
    let mut office = Office::new("");
    let key = office.world.scratch().join("model.key");
    fs::write(&key, "a-key-of-a-model").expect("written");
    office.settings.push_str(
        "[models.filed]\nprovider = \"openai\"\nmodel = \"m\"\napi_key_file = \"model.key\"\n",
    );
    let read = |path: &str| ("builtin_workspace__read_file", json!({ "path": path }));
    let calls = [
        read("data/operator.token"),
        read("model.key"),
        ("builtin_workspace__write_file", json!({ "path": "data/join.token", "content": "x" })),
        ("builtin_workspace__search", json!({ "query": "a-key-of-a-model" })),
        ("builtin_workspace__list_files", json!({})),
    ];
    office.assistant("asker", &workspace(), &calls);
    office.open();
    let token = fs::read_to_string(office.world.file("operator.token")).expect("a token");
    let outcomes = office.work_in("asker", office.world.scratch());
    let [opened, key, written, found, listed] = &outcomes[..] else { panic!("{outcomes:?}") };
    for refused in [opened, key, written] {
        assert!(refused.is_error && refused.text.contains("belongs to the hub"), "{refused:?}");
        assert!(!refused.text.contains(token.trim()), "it has the token");
    }
    let places: Vec<_> = found.text.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(places, ["asker.json"], "only the script of the model");
    let lines: Vec<&str> = listed.text.lines().collect();
    assert!(lines.contains(&"desk/") && lines.contains(&"config.toml"), "{listed:?}");
    assert!(!listed.text.contains("data/") && !lines.contains(&"model.key"), "{listed:?}");
}

#[tokio::test]
async fn an_assistant_without_a_directory_writes_in_its_own_one_below_the_data_folder() {
    let mut office = Office::new("");
    let calls = [
        ("builtin_workspace__write_file", json!({ "path": "notes", "content": "mine" })),
        ("builtin_workspace__read_file", json!({ "path": "notes" })),
    ];
    office.assistant("asker", &workspace(), &calls);
    office.open();
    let token = fs::read_to_string(office.world.file("operator.token")).expect("a token");
    let url = &office.hub.as_ref().expect("a hub").url;
    let operator = Client::new(url).expect("a good address").with_token(token.trim());
    let request = HandoffRequest {
        agent: "asker".into(),
        message: "Begin.".into(),
        ..HandoffRequest::default()
    };
    operator.handoff(&request).await.expect("a report");
    let outcomes = office.outcomes();
    assert!(outcomes.iter().all(|outcome| !outcome.is_error), "{outcomes:?}");
    assert!(outcomes[1].text.contains("mine"), "{outcomes:?}");
    let written = office.newest().with_file_name("work").join("notes");
    assert_eq!(fs::read_to_string(written).expect("there"), "mine");
}

#[test]
fn files_keep_their_permissions_and_new_ones_have_those_of_the_user() {
    let mut office = Office::new("");
    let calls = [
        ("builtin_workspace__edit_file", json!({ "path": "old", "old": "one", "new": "two" })),
        ("builtin_workspace__write_file", json!({ "path": "new/file", "content": "new" })),
    ];
    office.assistant("writer", &workspace(), &calls);
    office.open();
    let old = office.desk().join("old");
    fs::write(&old, "one").expect("written");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o644)).expect("set");
    // What this process may make, the hub was started with.
    let (file, folder) = (office.desk().join("mine"), office.desk().join("ours"));
    fs::write(&file, "").expect("written");
    fs::create_dir(&folder).expect("made");
    let outcomes = office.work("writer");
    assert!(outcomes.iter().all(|outcome| !outcome.is_error), "{outcomes:?}");
    assert_eq!((fs::read_to_string(&old).expect("there").as_str(), mode(&old)), ("two", 0o644));
    assert_eq!(mode(&office.desk().join("new/file")), mode(&file));
    assert_eq!(mode(&office.desk().join("new")), mode(&folder));
}
