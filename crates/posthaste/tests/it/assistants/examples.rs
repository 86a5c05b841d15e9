//! The examples and the providers, as a newcomer uses them.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::stage::{Runner, Stage};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_assistant_of_the_examples_works_with_the_only_model_that_is_configured() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    stage.world.say(&["profiles", "load", &format!("{EXAMPLES}/profiles")]);
    let assistant = stage.assign_agent("assistant", "count to one");
    let turn = stage.turn().await;
    assert!(turn.system().starts_with("You are a careful assistant"), "{}", turn.system());
    for tool in ["builtin_workspace__edit_file", "builtin_shell__run", "assign", "askUser"] {
        assert!(turn.tools().iter().any(|name| name == tool), "{tool}: {:?}", turn.tools());
    }
    turn.call("builtin_shell__run", json!({ "command": "echo one" }));
    let turn = stage.turn().await;
    assert!(turn.last().contains("one"), "{}", turn.last());
    turn.say("one");
    assert_eq!(stage.hears()["message"], "one");
    stage.until_status(&assistant, "finished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_the_example_runner_beside_a_profile_is_run_by_it() {
    let mut stage = Stage::set(Runner::BuiltIn).await;
    let folder = stage.world.data().join("profiles");
    std::fs::create_dir_all(&folder).expect("a folder");
    let copy = folder.join("runner.py");
    std::fs::copy(format!("{EXAMPLES}/runner.py"), &copy).expect("copied");
    let mode = std::fs::metadata(&copy).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "the example is a program");
    let profile = "---\nname: python-helper\ndescription: helps\ndriver: runner\ncommand: [./runner.py]\n---\nYou are in Python.\n";
    std::fs::write(folder.join("python-helper.md"), profile).expect("written");
    crate::world::eventually(|| stage.world.say(&["profiles"]).contains("python-helper"));
    let assistant = stage.assign_agent("python-helper", "say hello");
    let turn = stage.turn().await;
    assert!(turn.system().starts_with("You are in Python."), "{}", turn.system());
    turn.say("hello");
    assert_eq!(stage.hears()["message"], "hello");
    stage.until_status(&assistant, "finished");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_works_with_the_models_of_other_providers_as_well() {
    for provider in ["anthropic", "gemini"] {
        let mut stage = Stage::set_of(provider, Runner::BuiltIn, "").await;
        let helper = stage.assign("fix the login bug");
        let turn = stage.turn().await;
        turn.asked().assert_saw("fix the login bug");
        turn.asked().assert_saw("You mend logins.");
        let weather = stage.says(&helper, "what is the weather?");
        turn.call("builtin_shell__run", json!({ "command": "echo the clouds" }));
        let turn = stage.turn().await;
        assert!(turn.asked().result().contains("the clouds"), "{provider}: {turn:?}");
        turn.asked().assert_saw("what is the weather?");
        turn.call("respondToUser", json!({ "message": "Cloudy.", "inReplyTo": weather }));
        assert_eq!(stage.hears()["in_reply_to"], weather, "{provider}");
        let turn = stage.turn().await;
        assert!(turn.asked().result().contains("delivered"), "{provider}: {turn:?}");
        turn.say("The login bug is fixed.");
        assert_eq!(stage.hears()["message"], "The login bug is fixed.", "{provider}");
        stage.until_status(&helper, "finished");
    }
}
