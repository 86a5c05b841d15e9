//! Processes, as the system reports them.
//!
//! The system reuses pids, so a pid counts only together with the start time of its
//! process. Where the system does not report start times, only our own children are
//! signalled.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Pid, RawPid, Signal, kill_process};

/// Returns the start time of a process, in the system's own count.
pub(crate) fn began(pid: Pid) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    began_of(&stat)
}

/// Parses the 22nd field; the second, a name in brackets, may contain anything.
fn began_of(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Returns the process of this pid, which a worker could have written into the note: a
/// signal to a number below 1 would go to a group or to every process, and 1 is the init
/// process.
pub(crate) fn numbered(number: RawPid) -> Option<Pid> {
    if number > 1 { Pid::from_raw(number) } else { None }
}

/// Returns the process of this pid, if its start time is still the same.
pub(crate) fn same(number: RawPid, began_at: Option<u64>) -> Option<Pid> {
    let pid = numbered(number)?;
    (began_at.is_some() && began(pid) == began_at).then_some(pid)
}

/// Returns all processes below this one.
pub(crate) fn descendants(of: Pid) -> Vec<Pid> {
    let mut found = children(of);
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        let more = children(*parent);
        found.extend(more);
        next += 1;
    }
    found
}

/// Returns the children of all threads of a process; the system lists them per thread.
pub(crate) fn children(of: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists: Vec<_> = threads.map(|t| fs::read_to_string(t.path().join("children"))).collect();
    if lists.iter().any(Result::is_ok) {
        return lists.iter().flatten().flat_map(|list| numbers(list)).collect();
    }
    // A kernel without these lists reports the parent of each process.
    all().filter(|pid| parent(*pid) == Some(of)).collect()
}

fn numbers(list: &str) -> impl Iterator<Item = Pid> {
    list.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?))
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Pid::from_raw(stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?)
}

fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// A variable with its value that every descendant of a process has in its environment,
/// also outside of its group or session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark(Vec<u8>);

impl Mark {
    pub(crate) fn new(variable: &str, value: &OsStr) -> Self {
        Self([variable.as_bytes(), b"=", value.as_bytes()].concat())
    }
}

/// Returns every process with one of these marks.
pub(crate) fn marked(marks: &[Mark]) -> Vec<Pid> {
    let has = |pid: &Pid| {
        let all = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        all.split(|byte| *byte == 0).any(|one| marks.iter().any(|mark| mark.0 == one))
    };
    all().filter(has).collect()
}

/// Sends a signal; a process that has ended meanwhile needs none.
pub(crate) fn signal(pid: Pid, signal: Signal) {
    let _ = kill_process(pid, signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_process_is_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 12345 99 1";
        assert_eq!(began_of(stat), Some(12345));
        assert_eq!(began_of(""), None);
    }

    #[test]
    fn a_number_that_means_many_is_nobody() {
        for many in [i32::MIN, -2, -1, 0, 1] {
            assert_eq!((numbered(many), same(many, Some(0))), (None, None), "{many}");
        }
        assert!(numbered(2).is_some());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_number_alone_is_nobody() {
        let me = rustix::process::getpid();
        let since = began(me);
        assert!(since.is_some());
        assert_eq!(same(me.as_raw_nonzero().get(), since), Some(me));
        assert_eq!(same(me.as_raw_nonzero().get(), since.map(|s| s + 1)), None);
        assert_eq!(same(me.as_raw_nonzero().get(), None), None);
    }
}
