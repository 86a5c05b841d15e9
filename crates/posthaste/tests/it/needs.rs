//! `needs` and `answer`: what waits for the operator, told and answered at the command line.

use posthaste_api::Client;
use posthaste_api::inbox::{InboxQuery, SettleRequest};
use posthaste_api::messages::MessageRef;
use serde_json::{Value, json};

use crate::world::{Hub, Started, World, eventually};

fn open(world: &World) -> Vec<Value> {
    let told = world.json(&["needs"]);
    let needs = told["needs"].as_array().expect("a list").clone();
    assert_eq!(told["open"], needs.len());
    needs
}

/// Lets bob refuse a message until it is dead.
fn refused_by_bob(world: &World, hub: &Hub, seq: u64) {
    let token = world.say(&["join", "bob", "--print-token"]);
    let bob = Client::new(&hub.url).expect("a good address").with_token(token.trim());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        for _ in 0..5 {
            let now = InboxQuery { timeout: Some(0.0), ..InboxQuery::default() };
            bob.inbox(&now).await.expect("an answer");
            let ids = Some(vec![MessageRef::Seq(seq)]);
            bob.nack(&SettleRequest { receipt: None, ids }).await.expect("refused");
        }
    });
}

#[test]
fn what_needs_the_operator_is_listed_survives_a_restart_and_is_answered() {
    let world = World::new();
    let profiles = world.file("profiles");
    std::fs::create_dir_all(&profiles).expect("a folder");
    let failing = "---\nname: failing\ndescription: a script\ndriver: command\n\
                   command: [/bin/sh, -c, 'echo the disk is gone >&2; exit 3']\n---\n";
    std::fs::write(profiles.join("failing.md"), failing).expect("written");
    let hub = world.hub();
    assert_eq!(world.say(&["needs"]), "nothing needs you\n");
    assert!(world.say(&["status"]).ends_with("\nnothing needs you\n"));

    let alice = world.joined("alice");
    world.joined("bob");
    let question =
        world.json(&["send", "human", "red or blue?", "--type", "question", "--as", "alice"]);
    let letter = world.json(&["send", "bob", "take this", "--as", "alice"]);
    refused_by_bob(&world, &hub, letter["seq"].as_u64().expect("a number"));
    world.say(&["assign", "failing", "build"]);
    eventually(|| open(&world).len() == 3);
    assert_eq!(hub.stop().code, Some(0));

    let _hub = world.hub();
    let ran = world.run(&["needs"]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("ID  KIND      FROM"), "{ran:?}");
    assert!(lines[1].starts_with(&format!("1   question  {alice}")), "{ran:?}");
    assert!(lines[1].ends_with("red or blue?"), "{ran:?}");
    assert!(lines[2].contains("dead") && lines[2].contains("was refused 5 times"), "{ran:?}");
    assert!(lines[3].contains("failed") && lines[3].contains("the disk is gone"), "{ran:?}");
    assert!(ran.err.contains("posthaste answer ID"), "{ran:?}");
    assert!(world.say(&["status"]).ends_with("\n3 things need you: posthaste needs\n"));
    assert_eq!(world.json(&["status"])["needs"], 3);
    let of_kind = world.json(&["needs", "--kind", "dead"]);
    assert_eq!(of_kind["needs"][0]["message"], letter["seq"]);

    let how = "posthaste answer 1 TEXT";
    world.run(&["answer", "1"]).failed(2, "TEXT: a question is answered in words", how);
    world.run(&["answer", "1", "--allow"]).failed(2, "--allow or --deny: a question", how);
    world.run(&["answer", "2", "please"]).failed(2, "TEXT: dead mail", "answer 2 --allow");
    let how = "posthaste answer 3 notes that you have seen it";
    world.run(&["answer", "3", "I", "know"]).failed(2, "TEXT: a failed worker reads no", how);
    world.run(&["answer", "3", "--deny"]).failed(2, "--deny: a failed worker asks", how);
    assert_eq!(world.run(&["answer", "1", "--allow", "--deny"]).code, Some(2));
    world.run(&["answer", "99", "red"]).failed(3, "there is no need 99", "posthaste needs");
    world.run(&["answer", "foo", "red"]).failed(3, "there is no need foo", "posthaste needs");
    world.run(&["needs", "foo"]).failed(3, "there is no need foo", "posthaste needs");
    assert!(world.say(&["needs", "1"]).starts_with("1  question, open\n  from       alice."));
    assert_eq!(world.json(&["needs", "1"]), open(&world)[0]);
    world.run(&["answer", "1", "red", "--as", "alice"]).failed(6, "only the operator", "");

    let told = world.say(&["answer", "1", "rather", "red"]);
    assert!(told.starts_with(&format!("answered {alice}: message ")), "{told}");
    let mail = &world.json(&["inbox", "--as", "alice", "--timeout", "10"])["messages"][0];
    assert_eq!((&mail["message"], &mail["type"]), (&json!("rather red"), &json!("answer")));
    assert_eq!(mail["in_reply_to"], question["seq"]);
    let again = world.run(&["answer", "1", "blue"]);
    again.failed(4, "need 1 is not open any more: it was answered", "posthaste needs");
    assert_eq!(
        world.say(&["answer", "2", "--allow"]),
        format!("message {} is queued again\n", letter["seq"])
    );
    let mail = &world.json(&["inbox", "--as", "bob", "--timeout", "10"])["messages"][0];
    assert_eq!(mail["message"], "take this");
    assert!(world.say(&["answer", "3"]).starts_with("noted: you have seen that failing."));

    assert_eq!(world.say(&["needs"]), "nothing needs you\n");
    let all = world.say(&["needs", "--all"]);
    for state in ["answered", "requeued", "seen"] {
        assert!(all.contains(state), "{all}");
    }
    let events = world.say(&["tail", "--after", "0", "--type", "need", "--count", "6"]);
    assert_eq!(events.matches("need.opened").count(), 3, "{events}");
    assert!(events.contains(&format!("need 1 question of {alice} (answered): red or blue?")));
}

#[test]
fn on_a_narrow_terminal_a_question_is_shown_to_its_last_letter() {
    let world = World::new();
    let _hub = world.hub();
    world.joined("alice");
    let question = format!("shall I run `find . {}-delete`?", "-name 'some file' ".repeat(9));
    world.json(&["send", "human", &question, "--type", "question", "--as", "alice"]);
    let mut command = world.on_terminal(50, &["needs"]);
    command.env("NO_COLOR", "1");
    let shown = Started::new(command).end().out.replace('\r', "");
    assert!(shown.lines().all(|line| line.len() <= 50), "{shown}");
    assert!(shown.replace("\n    ", "").contains(&question), "{shown}");
    assert!(shown.contains("    posthaste answer 1 TEXT\n"), "{shown}");
}

#[test]
fn without_a_remembered_verdict_the_list_says_so_and_there_is_nothing_to_forget() {
    let world = World::new();
    let _hub = world.hub();
    assert!(world.say(&["needs", "remembered"]).contains("you are asked each time"));
    assert_eq!(world.json(&["needs", "remembered"]), json!({ "remembered": [] }));
    world.run(&["needs", "forget", "mason", "Edit"]).failed(3, "no such verdict", "");
    world.run(&["needs", "forget", "???", "Edit"]).failed(2, "???", "");
    assert!(world.say(&["needs", "--kind", "permission"]).contains("of that kind"));
}
