//! `hooks.log` in the data folder: hooks that failed, one line each.
//!
//! The log is for the operator, and `posthaste doctor` reads it. It is bounded, readable
//! by its owner alone, and contains no text of an agent. If it cannot be written, the
//! failure is not recorded.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::private;
use crate::terminal::tame;

/// The largest size of the log.
const LONGEST: u64 = 256 << 10;
/// Number of bytes at its end that are kept when it is too long.
const KEPT: u64 = LONGEST / 2;
/// The longest line.
const LINE: usize = 500;

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) struct Missed {
    pub(in crate::commands) at: Timestamp,
    pub(in crate::commands) why: String,
}

pub(in crate::commands) fn path(folder: &Path) -> PathBuf {
    folder.join("hooks.log")
}

/// Adds a line. Does not create the folder: without it no hub has run here.
pub(super) fn add(folder: &Path, line: &str) {
    // A full disk must not stop the hook.
    let _ = append(&path(folder), line);
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    let line: String = tame(line).chars().filter(|c| !c.is_control()).take(LINE).collect();
    let line = format!("{:.0} {line}\n", Timestamp::now());
    let length = fs::metadata(path).map_or(0, |found| found.len());
    if length + u64::try_from(line.len()).unwrap_or(u64::MAX) > LONGEST {
        private::write(path, &end_of(path, KEPT)?)?;
    }
    let mut log = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    log.write_all(line.as_bytes())
}

/// Returns the last whole lines of the log.
fn end_of(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut log = File::open(path)?;
    let length = log.metadata()?.len();
    let from = length.saturating_sub(most);
    log.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    log.take(most).read_to_end(&mut end)?;
    if from > 0 {
        let whole = end.iter().position(|byte| *byte == b'\n').map_or(end.len(), |at| at + 1);
        end.drain(..whole);
    }
    Ok(end)
}

/// Returns the failures since then, the latest last.
pub(in crate::commands) fn since(folder: &Path, then: Timestamp) -> io::Result<Vec<Missed>> {
    let text = match end_of(&path(folder), LONGEST) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let text = String::from_utf8_lossy(&text);
    let read = |line: &str| {
        let (at, why) = line.split_once(' ')?;
        Some(Missed { at: at.parse().ok()?, why: why.to_owned() })
    };
    Ok(text.lines().filter_map(read).filter(|missed| missed.at >= then).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_log_is_bounded_keeps_the_latest_and_is_for_its_owner() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        for n in 0..2_000 {
            add(scratch.path(), &format!("number {n} {}", "x".repeat(400)));
        }
        let found = fs::metadata(path(scratch.path())).expect("a log");
        assert!(found.len() <= LONGEST && found.len() > KEPT / 2, "{}", found.len());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        let kept = since(scratch.path(), Timestamp::UNIX_EPOCH).expect("readable");
        let numbers: Vec<_> = kept.iter().map(|m| &m.why[..m.why.len() - 401]).collect();
        assert_eq!(numbers.last(), Some(&"number 1999"));
        let first = 2_000 - numbers.len();
        assert_eq!(numbers[0], format!("number {first}"), "no gap");
        assert!(since(scratch.path(), Timestamp::MAX).expect("readable").is_empty());
    }

    #[test]
    fn a_line_is_one_line_and_not_endless() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        add(scratch.path(), &format!("a\nb\u{1b}[31m{}", "y".repeat(10_000)));
        let text = fs::read_to_string(path(scratch.path())).expect("a log");
        assert_eq!(text.lines().count(), 1);
        assert!(text.len() < 600 && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_not_made() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let nowhere = scratch.path().join("nowhere");
        add(&nowhere, "x");
        assert!(!nowhere.exists());
        assert!(since(&nowhere, Timestamp::UNIX_EPOCH).expect("nothing").is_empty());
    }
}
