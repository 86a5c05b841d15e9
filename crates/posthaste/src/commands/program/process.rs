//! Finds the process of an agent's program, for its bridge and its hooks.
//!
//! Where the system does not report processes, only the pid of the parent is known.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};

/// Programs that may stand between an agent's program and its hook.
const SHELLS: [&str; 10] =
    ["sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox", "timeout", "coreutils"];
const SHELLS_DEEP: usize = 6;

/// Returns the name of the program's process that started this one.
pub(in crate::commands) fn process() -> String {
    named(program())
}

/// Returns the working directory of the program.
pub(in crate::commands) fn folder() -> PathBuf {
    let of_program = fs::read_link(format!("/proc/{}/cwd", program()));
    // If neither can be read, the folder is empty, which no other program shares.
    of_program.or_else(|_| std::env::current_dir()).unwrap_or_default()
}

/// Returns whether a process with a name from `process()` runs.
pub(in crate::commands) fn runs(name: &str) -> bool {
    let mut parts = name.split(':').skip(1);
    let Some(number) = parts.next().and_then(|number| number.parse::<i32>().ok()) else {
        return false;
    };
    match parts.next() {
        Some(began) => read(number.unsigned_abs())
            .is_some_and(|process| !process.has_ended && process.began.to_string() == began),
        // The system reports only whether a process exists.
        None => Pid::from_raw(number).is_some_and(|pid| test_kill_process(pid).is_ok()),
    }
}

/// Returns whether a process is known to be stopped, by a signal or a debugger.
pub(in crate::commands) fn is_stopped(process: u32) -> bool {
    read(process).is_some_and(|process| process.is_stopped)
}

/// Returns the pid of the program. Most programs start hooks, and some their servers, by
/// a shell.
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

/// Decides by the executable: a script has a name of its own.
fn is_shell(process: u32) -> bool {
    executable(process).is_some_and(|name| SHELLS.contains(&name.as_str()))
}

fn executable(process: u32) -> Option<String> {
    let program = fs::read_link(format!("/proc/{process}/exe")).ok()?;
    program.file_name().and_then(OsStr::to_str).map(str::to_owned)
}

/// Returns a variable of the bridge that this hook's program has started, if it is a
/// bridge to the same hub: `same` are the variables in which both must agree.
pub(super) fn variable_of_bridge(name: &str, same: &[(&str, Option<String>)]) -> Option<String> {
    let bridges = children(program()).into_iter().filter(|child| is_bridge(*child));
    let mut found = bridges.filter_map(|bridge| {
        let variables = fs::read(format!("/proc/{bridge}/environ")).ok()?;
        let ours = same.iter().all(|(name, value)| variable(&variables, name) == *value);
        ours.then(|| variable(&variables, name))?
    });
    found.next()
}

/// Returns the children of all threads of a process; the system lists them per thread.
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

/// Returns the name of a process: its pid, and its start time where the system reports
/// it, because pids are reused.
fn named(process: u32) -> String {
    match read(process) {
        Some(Process { began, .. }) => format!("process:{process}:{began}"),
        None => format!("process:{process}"),
    }
}

/// A process as the system reports it.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    began: u64,
    /// The process is a zombie: its parent has not reaped it yet.
    has_ended: bool,
    /// The process is stopped by a signal or a debugger, and does nothing until it is
    /// continued.
    is_stopped: bool,
}

fn read(process: u32) -> Option<Process> {
    of_stat(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Parses the 3rd, 4th and 22nd field; the second, a name in brackets, may contain
/// anything.
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
