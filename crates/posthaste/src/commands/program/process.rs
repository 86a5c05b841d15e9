//! The process of an agent's program, as its bridge and its hooks find it.
//!
//! Where the system tells nothing of processes, the number of the parent is all there
//! is.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};

/// What stands between a program and its hook.
const SHELLS: [&str; 10] =
    ["sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox", "timeout", "coreutils"];
const SHELLS_DEEP: usize = 6;

/// The process of the program that started this one.
pub(in crate::commands) fn process() -> String {
    named(program())
}

/// The folder that the program works in.
pub(in crate::commands) fn folder() -> PathBuf {
    let of_program = fs::read_link(format!("/proc/{}/cwd", program()));
    // Who can tell neither is in no folder, and alone there.
    of_program.or_else(|_| std::env::current_dir()).unwrap_or_default()
}

/// Whether a process that was named here runs.
pub(in crate::commands) fn runs(name: &str) -> bool {
    let mut parts = name.split(':').skip(1);
    let Some(number) = parts.next().and_then(|number| number.parse::<i32>().ok()) else {
        return false;
    };
    match parts.next() {
        Some(began) => read(number.unsigned_abs())
            .is_some_and(|process| !process.has_ended && process.began.to_string() == began),
        // The system tells nothing of processes but whether they are there.
        None => Pid::from_raw(number).is_some_and(|pid| test_kill_process(pid).is_ok()),
    }
}

/// Whether it is known to do nothing, for as long as somebody holds it.
pub(in crate::commands) fn is_stopped(process: u32) -> bool {
    read(process).is_some_and(|process| process.is_stopped)
}

/// Most programs start hooks, and some their servers, by a shell.
fn program() -> u32 {
    let mut process = parent_id();
    for _ in 0..SHELLS_DEEP {
        match read(process) {
            Some(Process { parent, .. }) if parent > 1 && is_shell(process) => process = parent,
            _ => break,
        }
    }
    process
}

/// By its program: a script has a name of its own.
fn is_shell(process: u32) -> bool {
    executable(process).is_some_and(|name| SHELLS.contains(&name.as_str()))
}

fn executable(process: u32) -> Option<String> {
    let program = fs::read_link(format!("/proc/{process}/exe")).ok()?;
    program.file_name().and_then(OsStr::to_str).map(str::to_owned)
}

/// A variable of the bridge that the program of this hook has started, where it is a
/// bridge to the hub of this hook: `same` are variables that both have or lack.
pub(super) fn variable_of_bridge(name: &str, same: &[(&str, Option<String>)]) -> Option<String> {
    let bridges = children(program()).into_iter().filter(|child| is_bridge(*child));
    let mut found = bridges.filter_map(|bridge| {
        let variables = fs::read(format!("/proc/{bridge}/environ")).ok()?;
        let ours = same.iter().all(|(name, value)| variable(&variables, name) == *value);
        ours.then(|| variable(&variables, name))?
    });
    found.next()
}

/// Each thread has its own.
fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|t| fs::read_to_string(t.path().join("children")).ok());
    let numbers = |list: String| -> Vec<u32> {
        list.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    };
    lists.flat_map(numbers).collect()
}

fn is_bridge(process: u32) -> bool {
    let Ok(line) = fs::read(format!("/proc/{process}/cmdline")) else { return false };
    let mut words = line.split(|byte| *byte == 0).filter_map(|word| str::from_utf8(word).ok());
    let ours = |word: &str| Path::new(word).file_name() == Some(OsStr::new("posthaste"));
    words.next().is_some_and(ours) && words.any(|word| word == "mcp")
}

fn variable(variables: &[u8], name: &str) -> Option<String> {
    let mut all = variables.split(|byte| *byte == 0).filter_map(|v| str::from_utf8(v).ok());
    let value = all.find_map(|v| v.strip_prefix(name)?.strip_prefix('='))?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// Its number, and where the system tells when it began, since numbers are given
/// again.
fn named(process: u32) -> String {
    match read(process) {
        Some(Process { began, .. }) => format!("process:{process}:{began}"),
        None => format!("process:{process}"),
    }
}

/// What the system tells of a process.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    began: u64,
    /// Its parent has not looked after it yet.
    has_ended: bool,
    /// By a signal or a debugger; it does nothing until it is let go on.
    is_stopped: bool,
}

fn read(process: u32) -> Option<Process> {
    of_stat(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The 3rd, 4th and 22nd field; the second, a name in brackets, may hold anything.
fn of_stat(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let (has_ended, is_stopped) = (matches!(state, "Z" | "X"), matches!(state, "T" | "t"));
    let parent = fields.next()?.parse().ok()?;
    let began = fields.nth(17)?.parse().ok()?;
    Some(Process { parent, began, has_ended, is_stopped })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_process_is_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 12345 99 1";
        let alive = Process { parent: 1, began: 12345, has_ended: false, is_stopped: false };
        assert_eq!(of_stat(stat), Some(alive));
        let ended = of_stat(&stat.replace(" S ", " Z ")).expect("a process");
        assert!(ended.has_ended && !ended.is_stopped);
        assert!(of_stat(&stat.replace(" S ", " T ")).expect("a process").is_stopped);
        assert_eq!(of_stat(""), None);
        assert!(process().starts_with("process:"));
        assert!(runs(&process()) && !runs("process:1:1") && !runs("process:") && !runs(""));
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let all = b"SESSION_ID=no\0ID=s1\0EMPTY=\0\xff=1\0";
        assert_eq!(variable(all, "ID").as_deref(), Some("s1"));
        assert_eq!(variable(all, "EMPTY"), None);
        assert_eq!(variable(all, "SESSION"), None);
    }
}
