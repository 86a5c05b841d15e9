//! What workers leave behind: nothing.

use rustix::process::Signal;

use super::{Kept, Mortal, exists};

#[test]
fn whoever_holds_the_pipe_keeps_nobody_waiting() {
    let kept = Kept::new(b"");
    let exit = kept.run("sleep 1000 & echo $! > stray; echo done");
    let stray = kept.number("stray");
    let _ends = Mortal(stray);
    assert_eq!((exit["code"].as_i64(), exit["strays"].as_u64()), (Some(0), Some(1)));
    assert_eq!(kept.out(), "done\n");
    assert!(!exists(stray));
}

#[cfg(target_os = "linux")]
#[test]
fn a_daemon_in_a_session_of_its_own_ends_with_its_worker() {
    let kept = Kept::new(b"");
    let daemon = "setsid sh -c 'echo $$ > daemon; exec sleep 1000' </dev/null >/dev/null 2>&1 &\n\
                  while ! [ -s daemon ]; do sleep 0.01; done; echo up";
    let exit = kept.run(daemon);
    let daemon = kept.number("daemon");
    let _ends = Mortal(daemon);
    assert_eq!((exit["code"].as_i64(), exit["strays"].as_u64()), (Some(0), Some(1)));
    assert!(!exists(daemon));
}

#[cfg(target_os = "linux")]
#[test]
fn a_daemon_that_ignores_being_asked_is_killed() {
    let kept = Kept::new(b"");
    let daemon = "setsid sh -c 'trap \"\" TERM; echo $$ > daemon; while :; do sleep 1; done' &\n\
                  while ! [ -s daemon ]; do sleep 0.01; done; exit 5";
    let exit = kept.run(daemon);
    let daemon = kept.number("daemon");
    let _ends = Mortal(daemon);
    assert_eq!(exit["code"], 5);
    assert!(!exists(daemon));
}

#[cfg(target_os = "linux")]
#[test]
fn a_tree_of_children_ends_whole_when_its_root_is_killed() {
    let kept = Kept { grace_ms: 50, ..Kept::new(b"") };
    let tree = "trap '' TERM\n\
                for a in 1 2 3; do (for b in 1 2 3; do (trap '' TERM; exec sleep 1000) & done; wait) & done\n\
                while [ $(cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c \"^POSTHASTE_RUN=$POSTHASTE_RUN$\") -lt 13 ]; do sleep 0.05; done\n\
                echo $POSTHASTE_RUN; echo ready; wait";
    let keeper = kept.script(tree);
    kept.hears("ready");
    keeper.signal(Signal::TERM);
    let exit = kept.ended(keeper.end());
    assert_eq!(exit["asked"], true);
    let out = kept.out();
    let mark = format!("POSTHASTE_RUN={}", out.lines().next().expect("a line"));
    assert_eq!(marked(&mark), Vec::<String>::new(), "nobody of that tree is left");
}

/// Whoever has this variable in its environment.
#[cfg(target_os = "linux")]
fn marked(variable: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").expect("Linux has it").flatten();
    let has = |folder: &std::fs::DirEntry| {
        let text = std::fs::read(folder.path().join("environ")).unwrap_or_default();
        text.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    all.filter(has).map(|folder| folder.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn orphans_that_end_before_their_worker_leave_no_zombies() {
    let kept = Kept::new(b"");
    // A zombie can still be signalled: only who is reaped is gone.
    let script = "(sh -c 'echo $$ > orphan' &)\n\
                  while ! [ -s orphan ]; do sleep 0.01; done\n\
                  while kill -0 $(cat orphan) 2>/dev/null; do sleep 0.01; done; echo gone";
    let exit = kept.run(script);
    assert_eq!((exit["code"].as_i64(), exit["strays"].as_u64()), (Some(0), Some(0)));
    assert_eq!(kept.out(), "gone\n");
}
