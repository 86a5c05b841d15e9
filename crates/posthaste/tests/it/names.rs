//! Names wherever ids are, and who `--as` is.

use crate::world::World;

#[test]
fn a_name_means_the_one_agent_that_has_it() {
    let world = World::new();
    let _hub = world.hub();
    let bob = world.joined("bob");
    assert!(world.say(&["poll", "bob"]).starts_with(&bob));
    assert!(world.say(&["poll", "bob@main"]).starts_with(&bob));

    let other = world.json(&["join", "bob", "--key", "another window"]);
    let other = other["address"].as_str().expect("an address");
    let told = world.run(&["poll", "bob"]);
    told.failed(2, "2 agents are called bob", &bob);
    told.failed(2, "2 agents are called bob", other);

    assert!(world.say(&["stop", other]).contains("has ended"));
    assert!(world.say(&["stop", "bob"]).starts_with(&bob), "one of the name is left");
    world.run(&["logs", "bob"]).failed(3, "came by itself", "only workers");
    world.run(&["stop", "bob"]).failed(3, "nobody called bob is here", &bob);
    world.run(&["poll", "nobody"]).failed(3, "nobody called nobody is here", "posthaste agents");
    world.run(&["poll", "@everyone"]).failed(2, "is not one agent", "posthaste agents");
}

#[test]
fn an_error_about_one_of_several_begins_with_the_word_that_was_typed() {
    let world = World::new();
    let _hub = world.hub();
    for word in ["key", "agent", "team", "message"] {
        let told = format!("error: {word}: nobody called {word} is here\n");
        let ran = world.run(&["stop", word]);
        assert!(ran.code == Some(3) && ran.err.starts_with(&told), "{ran:?}");
    }
}

#[test]
fn tail_and_history_take_the_names_and_addresses_that_other_commands_print() {
    let world = World::new();
    let _hub = world.hub();
    let bob = world.joined("bob");
    let blue = world.json(&["join", "bob", "--team", "blue"]);
    let blue = blue["address"].as_str().expect("an address");
    world.say(&["send", &bob, "to the instance"]);
    world.say(&["send", "bob", "to the name"]);
    world.say(&["send", "bob@blue", "to the name in its team"]);
    world.say(&["send", "@anyone", "to anyone"]);
    world.say(&["send", "human", "to the operator", "--as", "bob@main"]);

    let joins = ["--after", "0", "--count", "1", "--type", "instance.joined"];
    let tail = |flag: &str, who: &str| world.say(&[&["tail", flag, who], &joins[..]].concat());
    for (who, joined) in [(&*bob, &*bob), ("bob@blue", blue), (blue, blue), ("bob@main", &bob)] {
        for flag in ["--agent", "--session"] {
            assert!(tail(flag, who).contains(joined), "{flag} {who}");
        }
    }
    world.run(&["tail", "--agent", "bob@green"]).failed(3, "nobody called bob@green is", "agents");
    world.run(&["tail", "--agent", "@everyone"]).failed(2, "is not one agent", "agents");

    let id = bob.split(['.', '@']).nth(1).expect("an id");
    for (mailbox, text) in [
        (&*bob, "to the instance"),
        (id, "to the instance"),
        (&format!("i.{id}"), "to the instance"),
        ("bob", "to the name"),
        ("n.bob", "to the name"),
        ("bob@blue", "to the name in its team"),
        ("n.bob@blue", "to the name in its team"),
        ("@anyone", "to anyone"),
        ("any", "to anyone"),
        ("operator", "to the operator"),
        ("human", "to the operator"),
    ] {
        let told = world.json(&["history", "--mailbox", mailbox]);
        let texts: Vec<_> = told["messages"].as_array().expect("a list").iter().collect();
        assert!(texts.len() == 1 && texts[0]["message"] == text, "{mailbox}: {texts:?}");
    }
    let ran = world.run(&["history", "--mailbox", "@everyone"]);
    ran.failed(2, "`@everyone` is not a mailbox", "posthaste stats");
}

#[test]
fn joining_a_team_does_not_take_a_name_away_from_another() {
    let world = World::new();
    let _hub = world.hub();
    let first = world.joined("w1");
    let blue = world.run(&["join", "w1", "--team", "blue"]);
    assert!(blue.out.contains("`--as w1@blue` now works"), "{blue:?}");
    let sender = |who: &str| {
        let sent = world.json(&["send", "human", "it is me", "--as", who]);
        world.json(&["read", &sent["seq"].to_string()])["from"].as_str().expect("who").to_owned()
    };
    assert_eq!(sender("w1"), first);
    assert!(sender("w1@blue").ends_with("@blue"));
    assert_eq!(sender("w1@main"), first, "the usual team");

    world.say(&["leave", "w1"]);
    assert!(sender("w1").ends_with("@blue"), "the only one that is left");
    world.say(&["leave", "w1"]);
    world.run(&["inbox", "--as", "w1"]).failed(3, "nobody has joined as w1", "join w1");
}

#[test]
fn when_as_means_somebody_else_from_now_on_it_is_said() {
    let world = World::new();
    let _hub = world.hub();
    let first = world.joined("alice");
    let again = world.run(&["join", "alice"]);
    assert_eq!(again.err, "", "the same as before: {again:?}");
    let other = world.run(&["join", "alice", "--key", "another window"]);
    assert!(other.err.contains(&format!("`--as alice` was {first} until now")), "{other:?}");
}
