//! Reports how a worker ended.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use humantime_serde::re::humantime::format_duration;
use posthaste_core::address::InstanceId;
use posthaste_core::ports::{Ended, Outcome};
use posthaste_core::registry::Instance;
use regex::Regex;
use rustix::process::Signal;

use super::Shared;
use super::session::SessionEnd;
use super::watch::Failure;
use crate::drivers::Driver;
use crate::folder::{self, Exit, Folder};

/// The beginning of the last line of an answer that is longer than a message may be.
pub const CLIPPED: &str = "[clipped: ";
/// The beginning of the last line of an answer of which a part could not be kept.
pub const NOT_WHOLE: &str = "[not whole: ";

/// Returns how a worker ended whose keeper has ended. `stopped` is the reason of a
/// request to end it.
pub(super) async fn of(
    shared: &Shared,
    worker: &Instance,
    folder: &Folder,
    stopped: Option<&str>,
) -> Outcome {
    let who = worker.id;
    let exit = folder.exit();
    let timeout = worker.work.as_deref().and_then(|work| work.timeout);
    let overdue = overdue(timeout, shared.config.agents.stale);
    let has_notes = folder.started().is_some() || folder.is_prepared();
    let (end, why) = verdict(exit.as_ref(), has_notes, stopped, &overdue);
    let code = exit.as_ref().and_then(|exit| exit.code);
    let unheard = exit.as_ref().is_some_and(|exit| !folder.was_heard(exit));
    let dropped = exit.map_or(0, |exit| exit.out_dropped);
    let (answer_bytes, tail_chars) = (shared.config.answer_bytes, shared.config.agents.tail_chars);
    let folder = folder.clone();
    let read = move || match end {
        Ended::Finished => (Some(answer(&folder.out(), answer_bytes, who, dropped)), String::new()),
        Ended::Failed | Ended::Stopped => (None, tail(&folder, tail_chars)),
    };
    let (answer, tail) = tokio::task::spawn_blocking(read).await.unwrap_or_default();
    Outcome { end, code, answer, why, tail, kept_branch: None, unheard }
}

/// The reason why a worker fails whose conversation cannot be taken up again.
pub(super) const LOST_SESSION: &str =
    "the hub cannot read what it kept of the conversation; assign the task again";

/// Corrects the outcome of a worker with which the hub held a conversation of which it has
/// lost the state.
pub(super) fn of_lost_session(outcome: &mut Outcome, folder: &Folder) {
    if folder.session_state().exists() {
        outcome.end = Ended::Failed;
        outcome.why = LOST_SESSION.to_owned();
        outcome.answer = None;
    }
}

/// Returns the outcome of an assistant whose only turn had ended so before its hub did.
pub(super) fn of_turn(end: Result<String, String>) -> Outcome {
    match end {
        Ok(answer) => Outcome {
            end: Ended::Finished,
            answer: Some(answer),
            why: "its turn had ended".to_owned(),
            ..Outcome::default()
        },
        Err(why) => Outcome { end: Ended::Failed, why, ..Outcome::default() },
    }
}

/// Corrects the outcome of a worker with which the hub held a conversation: its answers
/// were turns, and not its output.
pub(super) fn of_session(
    outcome: &mut Outcome,
    folder: &Folder,
    (driver, end): (&dyn Driver, SessionEnd),
    failure: Option<&Failure>,
    tail_chars: usize,
) {
    if outcome.end == Ended::Finished && end.in_turn {
        outcome.end = Ended::Failed;
        outcome.why = format!("it ended in the middle of its turn, or before ({})", outcome.why);
        outcome.tail = tail(folder, tail_chars);
    }
    match (outcome.end, failure) {
        (_, Some(failure)) => {
            outcome.end = Ended::Failed;
            outcome.why = failure.why.clone();
            if !failure.quotes {
                outcome.tail.clear();
            }
        }
        (Ended::Failed, None) => {
            if let Some(why) = driver.explains(&outcome.tail) {
                outcome.why = why;
                outcome.tail.clear();
            }
        }
        (Ended::Finished | Ended::Stopped, None) => {}
    }
    if outcome.tail.is_empty() && outcome.end != Ended::Finished {
        outcome.tail = end.screen.map_or_else(String::new, |screen| last_of(&screen, tail_chars));
    }
    outcome.answer = end.last_answer.filter(|_| outcome.end == Ended::Finished);
}

/// Returns a text that names the limit which ended an overdue worker.
fn overdue(timeout: Option<Duration>, stale: Duration) -> String {
    match timeout {
        Some(timeout) if timeout < stale => {
            format!("timed out: it ran longer than its timeout of {}", format_duration(timeout))
        }
        _ => format!("it ran longer than {} (agents.stale), and was ended", format_duration(stale)),
    }
}

/// Decides by the keeper's note: a worker that had ended before the keeper was asked
/// ended by itself.
fn verdict(
    exit: Option<&Exit>,
    has_notes: bool,
    stopped: Option<&str>,
    overdue: &str,
) -> (Ended, String) {
    let Some(exit) = exit else {
        let unknown = match has_notes {
            true => "its keeper was killed, or its disk is full: nobody knows how it ended",
            false => "its folder was removed or emptied: nobody knows how it ended",
        };
        return match stopped {
            Some(why) => (Ended::Stopped, why.to_owned()),
            None => (Ended::Failed, unknown.to_owned()),
        };
    };
    if let Some(error) = &exit.error {
        return (Ended::Failed, error.clone());
    }
    if exit.overdue {
        return (Ended::Failed, overdue.to_owned());
    }
    if exit.closed && !exit.asked {
        return (Ended::Failed, "its terminal was closed".to_owned());
    }
    if exit.asked {
        return (Ended::Stopped, stopped.unwrap_or("it was asked to end").to_owned());
    }
    match (exit.code, exit.signal) {
        (Some(0), _) => (Ended::Finished, "exit code 0".to_owned()),
        (Some(code), _) => (Ended::Failed, format!("exit code {code}{}", meaning(code))),
        (None, Some(signal)) => {
            (Ended::Failed, format!("killed by signal {signal}{}", name_of(signal)))
        }
        (None, None) => (Ended::Failed, "nobody knows how it ended".to_owned()),
    }
}

/// Returns the meaning of an exit code by the convention of shells.
fn meaning(code: i32) -> &'static str {
    match code {
        126 => " (a command could not be executed)",
        127 => " (a command was not found)",
        _ => "",
    }
}

fn name_of(signal: i32) -> &'static str {
    let known = [
        (Signal::HUP, " (HUP)"),
        (Signal::INT, " (INT)"),
        (Signal::QUIT, " (QUIT)"),
        (Signal::ILL, " (ILL)"),
        (Signal::TRAP, " (TRAP)"),
        (Signal::ABORT, " (ABRT)"),
        (Signal::BUS, " (BUS)"),
        (Signal::FPE, " (FPE)"),
        (Signal::KILL, " (KILL)"),
        (Signal::SEGV, " (SEGV)"),
        (Signal::PIPE, " (PIPE)"),
        (Signal::ALARM, " (ALRM)"),
        (Signal::TERM, " (TERM)"),
        (Signal::XCPU, " (XCPU)"),
        (Signal::XFSZ, " (XFSZ)"),
    ];
    known.iter().find(|(known, _)| known.as_raw() == signal).map_or("", |(_, name)| name)
}

/// Returns the worker's stdout as text, within the longest that a message can be.
/// `dropped` is the number of bytes that were lost on their way to the disk.
fn answer(path: &Path, most: usize, who: InstanceId, dropped: u64) -> String {
    let mut bytes = Vec::new();
    // A file that cannot be read counts as empty.
    let read = |file: File| -> io::Result<u64> {
        let total = file.metadata()?.len();
        file.take(most as u64 + 1).read_to_end(&mut bytes)?;
        Ok(total)
    };
    let total = folder::open(path).and_then(read).unwrap_or_default();
    let mut text = lossy(bytes);
    while text.ends_with(['\n', '\r']) {
        text.pop();
    }
    let fits = total <= most as u64 && text.len() <= most;
    let note = match (fits, dropped) {
        (true, 0) => return text,
        (true, _) => format!("\n{NOT_WHOLE}{dropped} bytes that it wrote could not be kept]"),
        (false, 0) => {
            format!("\n{CLIPPED}it wrote {total} bytes; `posthaste logs {who}` shows all]")
        }
        (false, _) => format!(
            "\n{CLIPPED}it wrote {} bytes; `posthaste logs {who}` shows what is kept]",
            total + dropped
        ),
    };
    let end = text.floor_char_boundary(most.saturating_sub(note.len()));
    text.truncate(end);
    text + &note
}

fn lossy(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
    }
}

/// Returns the end of the worker's stderr, and of its stdout if there is room; or the end
/// of its terminal.
fn tail(folder: &Folder, chars: usize) -> String {
    if folder.terminal().exists() {
        return last(&folder.terminal(), chars);
    }
    let err = last(&folder.err(), chars);
    let room = chars.saturating_sub(err.chars().count());
    let out = last(&folder.out(), room);
    match (err.is_empty(), out.is_empty()) {
        (_, true) => err,
        (true, false) => out,
        (false, false) => format!("{err}\n[stdout]\n{out}"),
    }
}

/// Returns the last so many characters of a file, without white space at its end.
pub(super) fn last(path: &Path, chars: usize) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = folder::open(path)?;
        let most = (chars as u64).saturating_mul(4);
        let begin = file.metadata()?.len().saturating_sub(most);
        file.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    last_of(&lossy(read().unwrap_or_default()), chars)
}

/// Returns the last so many characters of a text, without white space at its end and
/// without colours.
fn last_of(text: &str, chars: usize) -> String {
    static COLOURS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\x1b\[[0-9;:?]*[ -/]*[@-~]").expect("a good pattern"));
    let text = COLOURS.replace_all(text, "");
    let text = text.trim_end();
    let skip = text.chars().count().saturating_sub(chars);
    text.chars().skip(skip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(exit: &Exit, stopped: Option<&str>) -> (Ended, String) {
        verdict(Some(exit), true, stopped, "it took too long")
    }

    #[test]
    fn an_end_is_told_in_a_few_words() {
        let code = |code| Exit { code: Some(code), ..Exit::default() };
        let signal = |signal| Exit { signal: Some(signal), ..Exit::default() };
        assert_eq!(said(&code(0), None).0, Ended::Finished);
        assert_eq!(said(&code(3), None), (Ended::Failed, "exit code 3".into()));
        assert!(said(&code(127), None).1.contains("not found"));
        assert_eq!(said(&signal(9), None), (Ended::Failed, "killed by signal 9 (KILL)".into()));
        let asked = Exit { asked: true, ..signal(15) };
        assert_eq!(said(&asked, Some("bob said so")), (Ended::Stopped, "bob said so".into()));
        assert_eq!(said(&asked, None).0, Ended::Stopped);
        let closed = Exit { closed: true, ..code(0) };
        assert_eq!(said(&closed, None), (Ended::Failed, "its terminal was closed".into()));
        assert_eq!(said(&Exit { asked: true, ..closed }, Some("x")).0, Ended::Stopped);
        let stale = Exit { overdue: true, ..signal(15) };
        assert_eq!(said(&stale, None), (Ended::Failed, "it took too long".into()));
        assert_eq!(verdict(None, true, None, "").0, Ended::Failed);
        let emptied = verdict(None, false, None, "");
        assert!(emptied.0 == Ended::Failed && emptied.1.contains("its folder"), "{emptied:?}");
        assert_eq!(verdict(None, true, Some("x"), ""), (Ended::Stopped, "x".into()));
    }

    #[test]
    fn a_worker_that_ran_too_long_is_told_which_limit_it_was() {
        let (minute, day) = (Duration::from_secs(60), Duration::from_secs(86_400));
        let timed_out = "timed out: it ran longer than its timeout of 1m";
        assert_eq!(overdue(Some(minute), day), timed_out);
        assert!(overdue(Some(day), minute).contains("1m (agents.stale)"));
        assert!(overdue(None, day).contains("agents.stale"));
    }

    #[test]
    fn who_finished_before_it_was_stopped_has_finished() {
        let exit = Exit { code: Some(0), ..Exit::default() };
        assert_eq!(said(&exit, Some("too late")).0, Ended::Finished);
    }

    #[test]
    fn an_answer_is_text_within_the_limit_whatever_was_written() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let path = scratch.path().join("out");
        let answer = |bytes: &[u8], most| {
            std::fs::write(&path, bytes).expect("written");
            answer(&path, most, InstanceId(0xa3f7_b2c1), 0)
        };
        assert_eq!(answer(b"42\n\n", 100), "42");
        assert_eq!(answer(b"a\xffb\x1b[0m", 100), "a\u{fffd}b\u{1b}[0m");
        assert_eq!(answer(b"", 100), "");
        let long = "ä".repeat(500);
        let clipped = answer(long.as_bytes(), 200);
        assert!(clipped.len() <= 200 && clipped.starts_with('ä'), "{clipped}");
        assert!(clipped.contains("it wrote 1000 bytes") && clipped.contains("logs a3f7b2c1"));
        assert!(answer(&[0xff; 150], 200).len() <= 200, "replaced characters are longer");
    }

    #[test]
    fn an_answer_that_is_not_whole_says_so() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let path = scratch.path().join("out");
        std::fs::write(&path, "the first half").expect("written");
        let told = answer(&path, 1000, InstanceId(0xa3f7_b2c1), 15);
        assert!(told.starts_with("the first half\n[not whole: 15 bytes"), "{told}");
        assert!(answer(&path, 60, InstanceId(0xa3f7_b2c1), 15).len() <= 60);
        std::fs::write(&path, "flood".repeat(100)).expect("written");
        let told = answer(&path, 200, InstanceId(0xa3f7_b2c1), 1500);
        assert!(told.contains("it wrote 2000 bytes") && told.contains("what is kept"), "{told}");
    }

    #[test]
    fn the_tail_is_the_end_of_stderr_and_then_of_stdout() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let folder = Folder::new(scratch.path().to_owned());
        let write = |out: &str, err: &str| {
            std::fs::write(folder.out(), out).expect("written");
            std::fs::write(folder.err(), err).expect("written");
        };
        write("half an answer\n", "line 1\nboom ä\n");
        assert_eq!(tail(&folder, 6), "boom ä");
        assert_eq!(tail(&folder, 100), "line 1\nboom ä\n[stdout]\nhalf an answer");
        write("only this\n", "");
        assert_eq!(tail(&folder, 100), "only this");
        assert_eq!(tail(&Folder::new("/nowhere".into()), 100), "");
    }
}
