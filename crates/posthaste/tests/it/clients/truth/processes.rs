//! The processes of a program, which can be made to stand still: so a test decides
//! what is on its way when something else happens.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Processes that stand still, and go on when this is dropped.
pub(super) struct Paused(Vec<Pid>);

/// The bridges between the program and the hub stand still: what the hub answers is on
/// its way, and the program goes on without it.
pub(super) fn pause_bridges(home: &Path) -> Paused {
    pause(home, true)
}

/// The program stands still, and its bridges go on.
pub(super) fn pause_program(home: &Path) -> Paused {
    pause(home, false)
}

fn pause(home: &Path, bridges: bool) -> Paused {
    let found: Vec<Pid> = processes(home)
        .filter(|pid| is_bridge(*pid) == bridges)
        .filter(|pid| kill_process(*pid, Signal::STOP).is_ok())
        .collect();
    assert!(!found.is_empty(), "there is no such process");
    Paused(found)
}

/// Every process that lives in this home.
fn processes(home: &Path) -> impl Iterator<Item = Pid> {
    let mine = format!("HOME={}", home.display());
    let all = fs::read_dir("/proc").expect("a list of processes").flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let pids = numbers.filter_map(Pid::from_raw);
    pids.filter(move |pid| words(*pid, "environ").contains(&mine))
}

fn is_bridge(pid: Pid) -> bool {
    let line = words(pid, "cmdline");
    let program = line.first().is_some_and(|program| program.ends_with("/posthaste"));
    program && line.iter().any(|word| word == "mcp")
}

/// A process that has just ended has none.
fn words(pid: Pid, file: &str) -> Vec<String> {
    let text = fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero())).unwrap_or_default();
    text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

impl Drop for Paused {
    fn drop(&mut self) {
        for pid in &self.0 {
            // It may have been killed meanwhile.
            let _ = kill_process(*pid, Signal::CONT);
        }
    }
}
