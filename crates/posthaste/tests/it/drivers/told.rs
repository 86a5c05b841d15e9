//! What a person is told who watches an agent: that it waits, that it is busy, and how it
//! ended.

use std::process::Stdio;

use super::odd::{assign, need, stage};
use crate::world::{Started, World, eventually};

fn attached(world: &World, columns: u16, args: &[&str]) -> Started {
    let mut attach = world.on_terminal(columns, &[&["attach"], args].concat());
    attach.stdin(Stdio::piped()).env("NO_COLOR", "1");
    Started::new(attach)
}

#[test]
fn a_person_who_watches_is_told_that_the_agent_waits_for_them() {
    let (world, _hub) = stage();
    let worker = assign(&world, "You must ask first.");
    let mut watcher = world.start(&["logs", &worker, "--follow"]);
    watcher.until("? it asks for permission: Bash: touch made");
    let id = need(&world)["id"].to_string();
    let told =
        format!("it waits for you: posthaste needs {id}, then posthaste answer {id} --allow");
    eventually(|| watcher.complained().contains(&told));
    // So is whoever looks later.
    let mut person = attached(&world, 200, &[&worker]);
    person.until(&told);
    for look in [&["poll", &*worker][..], &["logs", &worker]] {
        let ran = world.run(look);
        assert!(ran.code == Some(0) && ran.err.contains(&told), "{look:?}: {ran:?}");
    }
    let whole = world.run(&["needs", &id]);
    assert!(whole.out.ends_with("\n\nBash: touch made\n"), "{whole:?}");
    assert!(whole.err.contains("; denied in ") && whole.err.contains("--allow or"), "{whole:?}");

    let told = world.say(&["answer", &id, "--allow", "--remember"]);
    let subject = world.json(&["needs", "remembered"])["remembered"][0]["subject"].clone();
    let subject = subject.as_str().expect("a subject");
    assert!(told.contains("\nundo: posthaste needs forget odd "), "{told}");
    assert!(told.contains(subject), "{told}");
    person.until("It is made.");
    let waited = watcher.until("It is made.");
    assert!(waited.ends_with("It is made."), "{waited}");
    assert_eq!(watcher.complained().matches("it waits for you").count(), 1);
    world.say(&["needs", "forget", "odd", subject]);
    world.say(&["stop", &worker]);
}

#[test]
fn a_person_may_attach_to_an_agent_that_has_not_started() {
    let (world, _hub) = stage();
    // All places are taken, so the next one waits in line.
    let first: Vec<String> = (0..8).map(|_| assign(&world, "Please wait for ever.")).collect();
    let worker = assign(&world, "Say hello.");
    let mut person = world.start(&["attach", &worker]);
    eventually(|| person.complained().contains("it has not started yet"));
    world.say(&["stop", &first[0]]);
    assert!(person.until("Done.").contains("> Say hello."));
    for worker in first[1..].iter().chain([&worker]) {
        world.say(&["stop", worker]);
    }
}

#[test]
fn a_line_that_is_typed_to_a_busy_agent_says_when_it_is_read() {
    let (world, _hub) = stage();
    let worker = assign(&world, "Please wait for ever.");
    eventually(|| world.say(&["logs", &worker]).contains("> Please wait"));
    let mut person = attached(&world, 200, &[&worker]);
    person.until("> Please wait for ever.");
    person.types("and sing\n");
    person.until("it gets this when its turn ends; begin with ! to send it at once");
    person.types("! the wall falls\n");
    let rest = person.until("I have stopped.");
    assert!(!rest.contains("it gets this"), "{rest}");
    person.close_stdin();
    assert_eq!(person.end().code, Some(0));
    world.say(&["stop", &worker]);
}

#[test]
fn what_is_typed_while_only_looking_reaches_neither_the_agent_nor_the_shell() {
    let (world, _hub) = stage();
    let worker = assign(&world, "Please wait for ever.");
    eventually(|| world.say(&["logs", &worker]).contains("> Please wait"));
    let line = format!(
        "{} attach -r {worker}; echo shell:; read -r left; echo got:$left",
        env!("CARGO_BIN_EXE_posthaste")
    );
    let mut shell = world.program("script", &["--quiet", "--return", "-c", &line, "/dev/null"]);
    shell.env("TERM", "xterm").env("SHELL", "/bin/sh").env("PATH", "/usr/bin:/bin");
    shell.stdin(Stdio::piped()).env("NO_COLOR", "1");
    let mut person = Started::new(shell);
    let shown = person.until("> Please wait for ever.");
    assert!(!shown.contains("each line goes"), "{shown}");
    person.types("rm x\n");
    person.until("rm x");
    world.say(&["stop", &worker]);
    person.until("shell:");
    person.types("second\n");
    person.until("got:second");
    assert_eq!(person.end().code, Some(0));
    assert!(!world.say(&["history"]).contains("rm x"));
}

#[test]
fn an_agent_that_has_just_ended_is_shown_by_its_name_and_says_how_it_ended() {
    let (world, _hub) = stage();
    let worker = assign(&world, "Please crash.");
    eventually(|| world.json(&["poll", &worker])["status"] == "failed");
    let ran = world.run(&["logs", "odd"]);
    assert!(ran.code == Some(0) && ran.out.contains("> Please crash."), "{ran:?}");
    assert!(ran.err.contains(&format!("odd.{worker}@main has ended: failed")), "{ran:?}");
    assert!(ran.err.contains("it failed: exit code 3"), "{ran:?}");
    let shown = attached(&world, 200, &["odd"]).end();
    assert!(shown.code == Some(0) && shown.out.contains("> Please crash."), "{shown:?}");
    assert!(!shown.out.contains("each line goes"), "{shown:?}");
    assert!(world.say(&["poll", "odd"]).contains("exit code 3"));
    // Nobody is there to stop or to write to.
    world.run(&["stop", "odd"]).failed(3, "nobody called odd is here", &worker);

    let later = assign(&world, "Please crash.");
    eventually(|| world.json(&["poll", &later])["status"] == "failed");
    let ran = world.run(&["poll", "odd"]);
    assert!(ran.out.starts_with(&format!("odd.{later}@main")), "{ran:?}");
    assert!(ran.err.contains("2 agents called odd have ended; this is the last"), "{ran:?}");
}

#[test]
fn logs_of_an_agent_that_never_said_a_word_say_why_it_ended() {
    let (world, _hub) = stage();
    let profiles = world.scratch().join("more");
    std::fs::create_dir_all(&profiles).expect("a folder");
    let profile = "---\nname: mute\ndescription: a script\ndriver: acp\n\
        command: [/bin/sh, -c, 'echo no login >&2; exit 4']\n---\n";
    std::fs::write(profiles.join("mute.md"), profile).expect("written");
    world.say(&["profiles", "load", profiles.to_str().expect("plain")]);
    let given = world.json(&["assign", "mute", "Sing."]);
    let worker = given["instance"].as_str().expect("an instance");
    eventually(|| world.json(&["poll", worker])["status"] == "failed");
    let ran = world.run(&["logs", worker]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = format!("it said nothing; it ended: exit code 4 (posthaste logs --stderr {worker})");
    assert!(ran.err.contains(&told), "{ran:?}");
    assert_eq!(world.say(&["logs", "--stderr", worker]), "no login\n");
}

#[test]
fn a_plain_yes_in_the_chat_allows_what_the_agent_asked_and_is_no_message() {
    let (world, _hub) = stage();
    let worker = assign(&world, "You must ask first.");
    let asked = need(&world);
    let mut person = world.on_terminal(200, &["chat", &worker]);
    person.stdin(Stdio::piped()).env("NO_COLOR", "1");
    let mut person = Started::new(person);
    person.until("! it asks for permission: Bash: touch made");
    person.types("yes\n");
    person.until("allowed: Bash: touch made");
    person.types("/quit\n");
    assert_eq!(person.end().code, Some(0));
    let id = asked["id"].to_string();
    assert_eq!(world.json(&["needs", &id])["outcome"], "allowed");
    let inbox = world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
    assert_eq!(inbox["messages"][0]["message"], "It is made.");
    assert!(!world.say(&["history"]).contains(": yes"), "no message said so");

    world.say(&["stop", &worker]);

    // The same for a script.
    let worker = assign(&world, "You must ask once more.");
    need(&world);
    let ran = world.run(&["chat", &worker, "no"]);
    assert!(ran.code == Some(0) && ran.err.contains("denied: Bash: touch made"), "{ran:?}");
    world.say(&["stop", &worker]);
}

#[test]
fn an_agent_of_another_program_answers_in_the_chat_by_its_last_words() {
    let (world, _hub) = stage();
    let ran = world.run(&["chat", "odd", "Say hello."]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Done.\n"), "{ran:?}");
    assert!(ran.err.contains("started odd."), "{ran:?}");
    // It stays, and answers the next message as well.
    let ran = world.run(&["chat", "odd", "Say it again."]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Done.\n"), "{ran:?}");
    let ran = world.run(&["chat", "odd", "You must ask first."]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(8), "Bash: touch made\n"), "{ran:?}");
    let ran = world.run(&["chat", "odd", "yes"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "It is made.\n"), "{ran:?}");
    assert!(ran.err.contains("allowed: Bash: touch made"), "{ran:?}");
    world.say(&["stop", "odd"]);
}
