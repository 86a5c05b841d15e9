//! Completions and manual pages, made from the table of commands.

use posthaste_testkit::excerpt::excerpt;

use crate::world::{World, lacks};

#[test]
fn every_shell_gets_completions_that_know_every_command() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.say(&["completions", shell]);
        for word in ["posthaste", "inbox", "doctor", "completions"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let ran = world.run(&["completions", "cmd"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("powershell"), "{ran:?}");
    assert!(!world.data().exists());
}

#[test]
fn bash_takes_its_completions() {
    let world = World::new();
    let script = world.scratch().join("posthaste.bash");
    std::fs::write(&script, world.say(&["completions", "bash"])).expect("written");
    let path = script.to_str().expect("plain");
    let test = "source \"$0\" && COMP_WORDS=(posthaste doc) COMP_CWORD=1 && \
                _posthaste posthaste doc posthaste && echo \"${COMPREPLY[@]}\"";
    let Ok(output) = world.program("/bin/bash", &["-c", test, path]).output() else {
        return lacks("has no /bin/bash");
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "doctor\n", "{output:?}");
}

#[test]
fn there_is_a_page_for_the_program_and_for_every_command() {
    let world = World::new();
    let page = world.say(&["man"]);
    assert!(page.contains(".TH posthaste 1") && page.contains("post office"), "{}", excerpt(&page));
    let folder = world.scratch().join("man/man1");
    world.say(&["man", "--out", folder.to_str().expect("plain")]);
    for name in ["posthaste", "posthaste-up", "posthaste-send", "posthaste-doctor"] {
        let page = std::fs::read_to_string(folder.join(format!("{name}.1"))).expect("a page");
        assert!(page.contains(".SH NAME"), "{name}");
    }
    let ran = world.run(&["man", "--out", "/proc/nowhere"]);
    ran.failed(1, "/proc/nowhere", "");
}
