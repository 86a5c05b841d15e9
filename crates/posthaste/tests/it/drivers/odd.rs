//! A program that speaks the Agent Client Protocol and behaves oddly: a script, so that no
//! program has to be installed and no model to be played.

use serde_json::Value;

use crate::world::{Hub, World, eventually};

/// A hub whose profile `odd` runs the script.
pub(super) fn stage() -> (World, Hub) {
    let world = World::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/drivers/odd_agent.sh");
    let profiles = world.file("profiles");
    std::fs::create_dir_all(&profiles).expect("a folder");
    let profile = format!(
        "---\nname: odd\ndescription: a script\ndriver: acp\ncommand: [/bin/sh, {script:?}]\n---\n"
    );
    std::fs::write(profiles.join("odd.md"), profile).expect("written");
    let hub = world.hub();
    world.say(&["join", "alice"]);
    (world, hub)
}

/// Alice gives it a task; returns the instance.
pub(super) fn assign(world: &World, task: &str) -> String {
    let given = world.json(&["assign", "odd", task, "--as", "alice"]);
    given["instance"].as_str().unwrap_or_else(|| panic!("{given}")).to_owned()
}

fn report(world: &World) -> Value {
    let inbox = world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
    let message = &inbox["messages"][0];
    assert!(message.is_object(), "no mail: {inbox}");
    message.clone()
}

/// Returns the one thing that needs the operator.
pub(super) fn need(world: &World) -> Value {
    let mut need = Value::Null;
    eventually(|| {
        need = world.json(&["needs"])["needs"][0].clone();
        need.is_object()
    });
    need
}

fn counted() -> String {
    (1..=10_000).map(|n| format!("{n}\n")).collect()
}

#[test]
fn an_answer_in_a_flood_of_updates_arrives_whole() {
    let (world, _hub) = stage();
    let worker = assign(&world, "Please flood.");
    let report = report(&world);
    assert_eq!(report["type"], "result");
    let whole = world.say(&["read", &report["id"].to_string(), "--as", "alice"]);
    assert!(whole.contains(&counted()), "{} bytes", whole.len());
    assert!(!whole.contains("not the answer"));
    world.say(&["stop", &worker]);
}

#[test]
fn a_hub_killed_in_a_flood_goes_on_where_it_was() {
    let (world, hub) = stage();
    let worker = assign(&world, "Please flood.");
    eventually(|| world.say(&["logs", &worker]).contains("not the answer"));
    hub.kill();
    let _hub = world.hub();
    let report = report(&world);
    assert_eq!(report["type"], "result", "{}", report["type"]);
    let whole = world.say(&["read", &report["id"].to_string(), "--as", "alice"]);
    assert!(whole.contains(&counted()), "{} bytes", whole.len());
}

#[test]
fn rubbish_is_shown_and_a_request_that_nobody_can_answer_is_refused() {
    let (world, _hub) = stage();
    let worker = assign(&world, "Write rubbish.");
    assert_eq!(report(&world)["message"], "I got an error for my request, and go on.");
    let shown = world.say(&["logs", &worker]);
    for line in ["odd agent, version 1", "Warning: this is not JSON", "from_the_future"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn a_program_that_crashes_in_mid_turn_fails_its_task_with_its_last_words() {
    let (world, _hub) = stage();
    assign(&world, "Please crash.");
    let report = report(&world);
    assert_eq!(report["type"], "system.agent_failed", "{report}");
    let told = report["message"].as_str().unwrap_or_default();
    assert!(told.contains("exit code 3") && told.contains("no memory left"), "{told}");
}

#[test]
fn a_denial_reaches_a_program_that_ends_its_turn_with_it_and_the_task_goes_on() {
    let (world, _hub) = stage();
    let worker = assign(&world, "You must ask first.");
    let asked = need(&world);
    assert_eq!(asked["kind"], "permission", "{asked}");
    assert_eq!(asked["text"], "Bash: touch made", "{asked}");
    world.say(&["answer", &asked["id"].to_string(), "--deny"]);
    assert_eq!(report(&world)["message"], "I do without it.");
    world.say(&["stop", &worker]);
}

#[test]
fn a_permission_that_was_remembered_is_not_asked_again() {
    let (world, _hub) = stage();
    assign(&world, "You must ask first.");
    let asked = need(&world);
    world.say(&["answer", &asked["id"].to_string(), "--allow", "--remember"]);
    assert_eq!(report(&world)["message"], "It is made.");
    assign(&world, "You must ask as well.");
    assert_eq!(report(&world)["message"], "It is made.");
    assert_eq!(world.say(&["needs"]), "nothing needs you\n");
}

#[test]
fn urgent_mail_cuts_a_turn_that_would_never_end() {
    let (world, _hub) = stage();
    let worker = assign(&world, "Please wait for ever.");
    world.say(&["send", &worker, "the wall falls", "--urgent", "--as", "alice"]);
    assert_eq!(report(&world)["message"], "I have stopped.");
    let shown = world.say(&["logs", &worker]);
    assert!(shown.contains("I wait.") && shown.contains("I was cut."), "{shown}");
}

#[test]
fn a_request_for_permission_ends_with_the_turn_that_is_cut() {
    let (world, _hub) = stage();
    let worker = assign(&world, "You must ask first.");
    need(&world);
    world.say(&["send", &worker, "the wall falls", "--urgent", "--as", "alice"]);
    assert_eq!(report(&world)["message"], "I have stopped.");
    assert_eq!(world.say(&["needs"]), "nothing needs you\n");
}

#[test]
fn urgent_mail_to_a_name_cuts_one_turn_and_leaves_the_other_alone() {
    let (world, _hub) = stage();
    let workers = [(); 2].map(|()| assign(&world, "Please wait for ever."));
    for worker in &workers {
        let task = world.json(&["poll", worker])["assignments"][0]["task"].to_string();
        eventually(|| world.json(&["read", &task])["deliveries"][0]["state"] == "acked");
    }
    world.say(&["send", "odd", "the wall falls", "--urgent", "--as", "alice"]);
    let told = report(&world);
    assert_eq!(told["message"], "I have stopped.");
    for worker in &workers {
        let stopped = told["from"].as_str().is_some_and(|from| from.contains(worker.as_str()));
        let shown = world.say(&["logs", worker]);
        assert_eq!(shown.contains("its turn is interrupted"), stopped, "{shown}");
    }
}

#[test]
fn a_turn_that_was_cut_for_mail_that_is_gone_is_gone_on_with() {
    let (world, mut hub) = stage();
    let worker = assign(&world, "Please wait for ever.");
    let poll = world.json(&["poll", &worker]);
    let desk = std::path::PathBuf::from(poll["working_directory"].as_str().expect("a path"));
    for file in ["held", "slow"] {
        std::fs::write(desk.join(file), "").expect("written");
    }
    let sent = world.json(&["send", &worker, "the wall falls", "--urgent", "--as", "alice"]);
    eventually(|| world.say(&["logs", &worker]).contains("its turn is interrupted"));
    hub.kill();
    hub = world.hub();
    world.say(&["cancel", &sent["seq"].to_string(), "--as", "alice"]);
    std::fs::remove_file(desk.join("held")).expect("removed");
    eventually(|| world.say(&["logs", &worker]).contains("was taken back"));
    // A hub that is killed with this prompt under way takes no mail for it.
    let sent = world.json(&["send", &worker, "paint the door", "--as", "alice"]);
    hub.kill();
    let _hub = world.hub();
    std::fs::remove_file(desk.join("slow")).expect("removed");
    assert_eq!(report(&world)["message"], "I have gone on.");
    let seq = sent["seq"].to_string();
    eventually(|| world.json(&["read", &seq])["deliveries"][0]["state"] == "acked");
    let shown = world.say(&["logs", &worker]);
    assert_eq!(shown.matches("paint the door").count(), 1, "{shown}");
}
