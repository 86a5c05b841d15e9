//! A window of tmux that shows a worker whose program needs no terminal.

use serde_json::json;

use super::stage::Stage;
use super::{Cast, claude};
use crate::tmux::{self, Tmux};
use crate::world::{World, eventually};

/// Claude Code, for people who attach to the session `shop`.
const IN_A_SESSION: Cast = Cast {
    config: |tools| {
        let mut config = (claude::CAST.config)(tools);
        config["session"] = json!("shop");
        config
    },
    surround: |command, model, home| {
        (claude::CAST.surround)(command, model, home);
        let socket = tmux::name_for(home.parent().expect("a folder"));
        command.env("POSTHASTE_AGENTS__TMUX_SOCKET", socket);
    },
    ..claude::CAST
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_who_attaches_to_the_session_sees_the_agent_and_talks_to_it() {
    let Some(mut stage) = Stage::set(IN_A_SESSION).await else { return };
    let Some(tmux) = Tmux::of(&stage.world) else { return };
    let worker = stage.assign("Lay the first brick.");
    let turn = stage.turn().await;
    let screen = || tmux.run(&["capture-pane", "-p", "-t", "=shop:"]).out;
    eventually(|| screen().contains("Lay the first brick."));
    let seen = Stage::command_lines();
    assert!(!seen.iter().any(|words| words.contains(&worker.id)), "others see its id: {seen:?}");

    tmux.run(&["send-keys", "-t", "=shop:", "C-c"]);
    eventually(|| screen().contains("Ctrl-B D leaves; to end it"));
    tmux.run(&["send-keys", "-t", "=shop:", "and paint it", "Enter"]);
    eventually(|| stage.world.say(&["history"]).contains("and paint it"));
    stage.kill_the_hub();
    turn.say("The first brick is laid.");
    stage.start_the_hub_again();
    assert_eq!(stage.alice_reads()["message"], "The first brick is laid.");
    let turn = stage.turn().await;
    turn.assert_saw_once("and paint it");
    turn.say("It is painted.");
    eventually(|| screen().contains("It is painted."));

    stage.world.say(&["stop", &worker.id]);
    eventually(|| tmux.run(&["has-session", "-t", "=shop"]).code != Some(0));
}

#[test]
fn without_tmux_an_agent_of_a_session_runs_all_the_same() {
    let world = World::new();
    let hub = world.hub();
    let folder = world.scratch().join("profiles");
    std::fs::create_dir(&folder).expect("a folder");
    let text = "---\nname: counter\ndescription: counts words\ndriver: command\n\
        session: shop\ncommand: [/usr/bin/wc, -w]\n---\n";
    std::fs::write(folder.join("counter.md"), text).expect("written");
    world.say(&["profiles", "load", folder.to_str().expect("plain")]);
    let ran = world.run(&["handoff", "counter", "one two three"]);
    assert_eq!((ran.code, ran.out.trim()), (Some(0), "3"), "{ran:?}");
    hub.stop();
}
