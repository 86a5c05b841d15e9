//! How workers end.

use std::fs;

use rustix::process::{Signal, kill_process};

use super::{Kept, exists};
use crate::world::mode;

#[test]
fn a_worker_reads_its_task_and_its_answer_is_kept() {
    let kept = Kept::new("count the words, \u{1f40e}".as_bytes());
    let exit = kept.run("cat; echo done >&2");
    assert_eq!((exit["code"].as_i64(), exit["signal"].as_i64()), (Some(0), None));
    assert_eq!(kept.out(), "count the words, \u{1f40e}");
    assert_eq!(fs::read_to_string(kept.file("err")).expect("it is there"), "done\n");
    assert!(exit["started_at"].as_u64() <= exit["ended_at"].as_u64());
    for file in ["out", "err", "started", "exit.json"] {
        assert_eq!(mode(&kept.file(file)), 0o600, "{file}");
    }
}

#[test]
fn an_exit_code_and_a_signal_are_told_as_they_were() {
    let kept = Kept::new(b"");
    assert_eq!(kept.run("exit 3")["code"], 3);
    let exit = kept.run("kill -SEGV $$");
    assert_eq!((&exit["code"], exit["signal"].as_i64()), (&serde_json::Value::Null, Some(11)));
    assert_eq!(exit["asked"], false);
}

#[test]
fn a_task_of_a_mebibyte_arrives_whole() {
    let task: Vec<u8> = (0..1 << 20).map(|n| b'a' + (n % 26) as u8).collect();
    let kept = Kept::new(&task);
    let exit = kept.run("cat");
    assert_eq!(exit["code"], 0);
    assert!(fs::read(kept.file("out")).expect("it is there") == task);
}

#[test]
fn a_worker_that_closes_its_stdin_and_its_stdout_goes_on_until_it_ends() {
    let kept = Kept::new(&vec![b'x'; 1 << 20]);
    let exit = kept.run("exec <&- >&- 2>&-; exit 7");
    assert_eq!(exit["code"], 7);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let kept = Kept::new(b"");
    let exit = kept.ended(kept.start(&["/no/such/program"]).end());
    let error = exit["error"].as_str().expect("a reason");
    assert!(error.contains("/no/such/program"), "{error}");
    assert!(exit["code"].is_null());
}

#[test]
fn a_pipe_in_the_place_of_the_mail_does_not_hold_the_keeper_up() {
    let kept = Kept { stdin: "mail", ..Kept::new(b"") };
    let pipe = kept.file("mail");
    let made = kept.world.program("/usr/bin/mkfifo", &[pipe.to_str().expect("text")]).status();
    assert!(made.expect("mkfifo").success());
    let exit = kept.run("exit 0");
    let error = exit["error"].as_str().expect("a reason");
    assert!(error.contains("its mail"), "{error}");
}

#[test]
fn a_keeper_that_is_asked_to_end_asks_its_worker() {
    let kept = Kept::new(b"");
    let script = "trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 1; done";
    let keeper = kept.script(script);
    kept.hears("ready");
    keeper.signal(Signal::TERM);
    let exit = kept.ended(keeper.end());
    assert_eq!((&exit["asked"], exit["code"].as_i64()), (&true.into(), Some(4)));
    assert!(kept.out().contains("bye"));
}

#[test]
fn a_worker_that_ignores_being_asked_is_killed_after_the_grace() {
    let kept = Kept { grace_ms: 50, ..Kept::new(b"") };
    let keeper = kept.script("trap '' TERM; echo ready; while :; do sleep 1; done");
    kept.hears("ready");
    let worker = kept.worker();
    keeper.signal(Signal::TERM);
    let exit = kept.ended(keeper.end());
    assert_eq!((&exit["asked"], exit["signal"].as_i64()), (&true.into(), Some(9)));
    assert!(!exists(worker));
}

#[test]
fn a_worker_that_was_halted_can_still_be_ended() {
    let kept = Kept::new(b"");
    let keeper = kept.script("echo ready; kill -STOP $$; sleep 1000");
    kept.hears("ready");
    keeper.signal(Signal::TERM);
    assert_eq!(kept.ended(keeper.end())["signal"], 15);
}

#[test]
fn a_worker_that_hangs_is_ended_when_its_time_is_up() {
    let kept = Kept { most_ms: 100, ..Kept::new(b"") };
    let exit = kept.run("sleep 1000");
    assert_eq!((&exit["overdue"], &exit["asked"]), (&true.into(), &false.into()));
    assert_eq!(exit["signal"], 15);
}

#[test]
fn a_worker_killed_by_somebody_else_is_told_as_killed() {
    let kept = Kept::new(b"");
    let keeper = kept.script("echo ready; exec sleep 1000");
    kept.hears("ready");
    kill_process(kept.worker(), Signal::KILL).expect("it runs");
    let exit = kept.ended(keeper.end());
    assert_eq!((&exit["asked"], exit["signal"].as_i64()), (&false.into(), Some(9)));
}

#[test]
fn the_lock_is_held_while_the_keeper_lives_and_never_by_the_worker() {
    let kept = Kept::new(b"");
    let keeper = kept.script("echo ready; exec sleep 1000");
    kept.hears("ready");
    assert!(kept.is_held());
    let worker = kept.worker();
    let _ends = super::Mortal(worker);
    keeper.signal(Signal::KILL);
    keeper.end();
    assert!(exists(worker), "a killed keeper cannot take its worker along");
    assert!(!kept.is_held(), "and the worker holds nothing of it");
    assert!(kept.exit().is_none(), "nobody knows how it will end");
}

#[test]
fn a_worker_has_the_manners_of_the_hubs_own_start() {
    let kept = Kept::new(b"");
    let exit = kept.run("umask; ulimit -n; echo $POSTHASTE_RUN");
    assert_eq!(exit["code"], 0);
    let out = kept.out();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(&lines[..2], ["0022", "256"], "{out}");
    assert!(lines.last().expect("a mark").contains('-'), "{out}");
}

#[test]
fn a_worker_that_puts_a_pipe_where_its_end_is_noted_does_not_hold_its_keeper_up() {
    let kept = Kept::new(b"");
    let exit = kept.run("rm -f a3f7b2c1/exit.new; mkfifo a3f7b2c1/exit.new; exit 5");
    assert_eq!(exit["code"], 5);
}
