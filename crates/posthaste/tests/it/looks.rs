//! What a person sees on a terminal: colours, and rows that fit.

use crate::world::{Started, World};

/// Columns that a line takes, without its colours.
fn bare(text: &str) -> String {
    let mut bare = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => drop(rest.by_ref().find(char::is_ascii_alphabetic)),
            '\r' => {}
            c => bare.push(c),
        }
    }
    bare
}

fn shown(world: &World, columns: u16, args: &[&str], no_color: bool) -> String {
    let mut command = world.on_terminal(columns, args);
    if no_color {
        command.env("NO_COLOR", "1");
    }
    let ran = Started::new(command).end();
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
    ran.out
}

fn crowd() -> (World, crate::world::Hub) {
    let world = World::new();
    let hub = world.hub();
    for name in ["zoe", "code-reviewer-of-the-night", "alice"] {
        world.joined(name);
    }
    (world, hub)
}

#[test]
fn a_terminal_has_colours_unless_somebody_says_no() {
    let (world, _hub) = crowd();
    let colour = "\u{1b}[36malice.";
    assert!(shown(&world, 100, &["agents"], false).contains(colour));
    let plain = [
        shown(&world, 100, &["agents"], true),
        shown(&world, 100, &["agents", "--color", "never"], false),
        world.say(&["agents"]),
        world.say(&["agents", "--json", "--color", "always"]),
    ];
    for told in plain {
        assert!(told.contains("alice.") && !told.contains('\u{1b}'), "{told:?}");
    }
    assert!(world.say(&["agents", "--color", "always"]).contains(colour), "in a pipe, too");
    let wrong = world.run(&["poll", "nobody", "--color", "always"]);
    assert!(wrong.err.starts_with("\u{1b}[1m\u{1b}[31merror:"), "{wrong:?}");
}

#[test]
fn help_and_errors_of_usage_have_the_colours_that_are_asked_for() {
    let world = World::new();
    let told = |args: &[&str]| Started::new(world.on_terminal(80, args)).end().out;
    for args in [&["agents", "--bogus"][..], &["agents", "--help"]] {
        let colours = |more: &[&str]| told(&[more, args].concat()).contains('\u{1b}');
        assert!(colours(&[]), "a terminal has colours: {args:?}");
        assert!(!colours(&["--color", "never"]) && !colours(&["--color=never"]), "{args:?}");
    }
    let piped = world.run(&["agents", "--bogus", "--color", "always"]);
    assert!(piped.err.starts_with('\u{1b}') && piped.code == Some(2), "{piped:?}");
}

#[test]
fn a_table_fits_a_narrow_terminal_and_keeps_the_addresses_whole() {
    let (world, _hub) = crowd();
    let told = bare(&shown(&world, 60, &["agents"], false));
    assert!(!told.contains("LAST SEEN"), "there is no room for it: {told}");
    for line in told.lines() {
        assert!(line.chars().count() <= 60, "{line:?}");
    }
    assert!(told.contains("code-reviewer-of-the-night.") && told.contains("@main"), "{told}");
    let wide = bare(&shown(&world, 200, &["agents"], false));
    assert_eq!(wide.trim_end(), world.say(&["agents"]).trim_end(), "nothing is cut");
}

#[test]
fn agents_are_sorted_by_name_and_who_was_seen_last_comes_first() {
    let (world, _hub) = crowd();
    let second = world.json(&["join", "alice", "--key", "another window"]);
    let told = world.say(&["agents"]);
    let names: Vec<&str> = told.lines().skip(1).filter_map(|row| row.split('.').next()).collect();
    assert_eq!(names, ["alice", "alice", "code-reviewer-of-the-night", "zoe"]);
    let first = told.lines().nth(1).expect("a row");
    assert!(first.starts_with(second["address"].as_str().expect("an address")), "{told}");
}

#[test]
fn history_is_clipped_on_a_terminal_and_read_shows_all() {
    let (world, _hub) = crowd();
    let long = "a very long story ".repeat(100);
    let alice = world.joined("alice");
    world.say(&["send", &alice, &long]);
    let told = bare(&shown(&world, 60, &["history"], false));
    assert!(told.trim_end().ends_with("… (posthaste read 1)"), "{told}");
    assert!(told.len() < 400, "{told}");
    assert!(world.say(&["history"]).contains(long.trim_end()), "a pipe gets all");
    let read = bare(&shown(&world, 60, &["read", "1"], false));
    assert!(read.contains("message 1\n  from      human\n") && read.contains(&alice), "{read}");
    let tail = bare(&shown(&world, 60, &["tail", "--last", "1", "--count", "1"], false));
    let line = tail.lines().next().expect("an event");
    assert!(line.chars().count() <= 60 && line.contains("message.accepted"), "{tail}");
}

#[test]
fn whoever_waits_on_a_terminal_sees_for_what_and_nothing_stays() {
    let (world, _hub) = crowd();
    let mut command = world.on_terminal(80, &["inbox", "--as", "alice", "--batch-window", "0"]);
    command.env("NO_COLOR", "1");
    let mut waiting = Started::new(command);
    let shown = waiting.until("waiting for mail, ");
    assert!(shown.ends_with("waiting for mail, "), "{shown:?}");
    world.say(&["send", &world.joined("alice"), "hello"]);
    let ran = waiting.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let last = ran.out.rsplit("\u{1b}[J").next().expect("what stands there at the end");
    assert!(last.starts_with("[1] human (") && !last.contains("waiting"), "{ran:?}");
    let piped = world.run(&["inbox", "--as", "alice", "--timeout", "0.3"]);
    assert!(!piped.err.contains("waiting") && !piped.out.contains("waiting"), "{piped:?}");
}

/// Signs of two code points are wider than their first one: "⚠️", "1️⃣", a family.
#[test]
fn an_emoji_ends_nobodys_table_and_nobodys_tail() {
    let world = World::new();
    let profiles = world.file("profiles");
    std::fs::create_dir_all(&profiles).expect("a folder");
    let text = "⚠️ ❤️1️⃣👩‍👩‍👧".repeat(20);
    let profile = format!("---\nname: careful\ndescription: \"{text}\"\n---\n");
    std::fs::write(profiles.join("careful.md"), profile).expect("written");
    let _hub = world.hub();
    world.joined("bob");
    world.say(&["send", "bob", &text]);
    for columns in 56..64 {
        let told = bare(&shown(&world, columns, &["profiles"], false));
        assert!(told.contains("⚠️ ❤️"), "{told}");
        let last = ["tail", "--last", "1", "--count", "1"];
        let told = bare(&shown(&world, columns, &last, false));
        assert!(told.contains("message.accepted") && told.contains('…'), "{told}");
    }
}
