//! The transcript of a worker, in two bounded files of its folder.
//!
//! Entries are lines of JSON. When the younger file has half of the bound, it becomes the
//! older one, and the older one is dropped. Each line also has the number of bytes that
//! the hub had heard of the worker when it wrote the line: a hub that starts anew hears
//! the last lines of the worker once more, and drops the entries that came of them.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use posthaste_core::ports::{TranscriptEntry, TranscriptPage};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::folder;

/// Number of entries that are kept in memory while the worker runs.
const RECENT: usize = 256;
/// The longest text of an entry, in bytes.
const TEXT: usize = 64 * 1024;

#[derive(Serialize, Deserialize)]
struct Line {
    heard: u64,
    #[serde(flatten)]
    entry: TranscriptEntry,
}

/// The transcript of a running worker.
pub(crate) struct Transcript {
    state: Mutex<State>,
    news: watch::Sender<u64>,
}

struct State {
    files: Files,
    file: Option<File>,
    bytes: u64,
    most: u64,
    last: u64,
    recent: VecDeque<TranscriptEntry>,
}

/// The two files of a transcript.
#[derive(Debug, Clone)]
struct Files {
    young: PathBuf,
    old: PathBuf,
}

impl Files {
    fn of(folder: &Path) -> Self {
        Self { young: folder.join("transcript"), old: folder.join("transcript.old") }
    }

    fn lines(&self) -> Vec<Line> {
        [&self.old, &self.young].into_iter().flat_map(|path| lines(path)).collect()
    }

    /// Drops the lines that came of bytes beyond these: they come again with the bytes.
    fn drop_beyond(&self, heard: u64) {
        for path in [&self.old, &self.young] {
            let lines = lines(path);
            let kept = lines.iter().filter(|line| line.heard <= heard);
            let kept: Vec<Vec<u8>> = kept.map(json).collect();
            if kept.len() < lines.len() {
                let _ = folder::replace(path, &kept.concat());
            }
        }
    }
}

/// Returns the whole lines of a file. A line that cannot be read is left out.
fn lines(path: &Path) -> Vec<Line> {
    let Ok(file) = folder::open(path) else { return Vec::new() };
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_slice(&line).ok()).collect()
}

impl Transcript {
    /// Opens the transcript of a worker of which the hub has heard so many bytes.
    pub(crate) fn open(folder: &Path, most: u64, heard: u64) -> Self {
        let state = State::load(Files::of(folder), most, heard);
        let news = watch::Sender::new(state.last);
        Self { state: Mutex::new(state), news }
    }

    /// Drops the entries that came of bytes beyond these, which are heard again.
    pub(crate) fn rewind(&self, heard: u64) {
        let mut state = self.state.lock();
        *state = State::load(state.files.clone(), state.most, heard);
    }

    /// Adds an entry, whose number is set here. A full disk costs the entry and not the
    /// worker.
    pub(crate) fn add(&self, heard: u64, mut entry: TranscriptEntry) {
        let mut state = self.state.lock();
        state.last += 1;
        entry.no = state.last;
        clip(&mut entry.text);
        state.write(&json(&Line { heard, entry: entry.clone() }));
        state.recent.push_back(entry);
        if state.recent.len() > RECENT {
            state.recent.pop_front();
        }
        self.news.send_replace(state.last);
    }

    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Returns entries after this number from memory; `None` if they are on disk.
    pub(crate) fn recent(&self, after: u64, most: usize) -> Option<TranscriptPage> {
        let state = self.state.lock();
        let oldest = state.recent.front()?.no;
        if after.saturating_add(1) < oldest {
            return None;
        }
        let entries = state.recent.iter().filter(|entry| entry.no > after).take(most);
        Some(TranscriptPage { entries: entries.cloned().collect(), oldest: 0, last: state.last })
    }
}

impl State {
    fn load(files: Files, most: u64, heard: u64) -> Self {
        files.drop_beyond(heard);
        let mut lines = files.lines();
        // On a full disk they could not be dropped there.
        lines.retain(|line| line.heard <= heard);
        let bytes = fs::metadata(&files.young).map_or(0, |file| file.len());
        let last = lines.last().map_or(0, |line| line.entry.no);
        let skip = lines.len().saturating_sub(RECENT);
        let recent = lines.into_iter().skip(skip).map(|line| line.entry).collect();
        Self { files, file: None, bytes, most, last, recent }
    }

    fn write(&mut self, line: &[u8]) {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.most / 2 {
            self.file = None;
            let _ = fs::rename(&self.files.young, &self.files.old);
            self.bytes = 0;
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => match append(&self.files.young) {
                Ok(file) => none.insert(file),
                Err(_) => return,
            },
        };
        match file.write_all(line) {
            Ok(()) => self.bytes += line.len() as u64,
            // Half a line would spoil the next one.
            Err(_) => drop(file.set_len(self.bytes)),
        }
    }
}

/// Returns entries of a transcript from its files.
pub(crate) fn read(folder: &Path, after: u64, most: usize) -> io::Result<Option<TranscriptPage>> {
    let files = Files::of(folder);
    if fs::symlink_metadata(&files.young).is_err() {
        return Ok(None);
    }
    let lines = files.lines();
    let oldest = lines.first().map_or(0, |line| line.entry.no);
    let last = lines.last().map_or(0, |line| line.entry.no);
    let entries = lines.into_iter().map(|line| line.entry).filter(|entry| entry.no > after);
    Ok(Some(TranscriptPage { entries: entries.take(most).collect(), oldest, last }))
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn json(line: &Line) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn clip(text: &mut String) {
    if text.len() > TEXT {
        text.truncate(text.floor_char_boundary(TEXT));
        text.push_str(" [clipped]");
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::Timestamp;
    use posthaste_core::ports::TranscriptKind;

    use super::*;

    fn entry(text: &str) -> TranscriptEntry {
        let (name, id, state) = (None, None, None);
        let (at, kind) = (Timestamp(7), TranscriptKind::Text);
        TranscriptEntry { no: 0, at, kind, text: text.to_owned(), name, id, state }
    }

    fn texts(page: &TranscriptPage) -> Vec<&str> {
        page.entries.iter().map(|entry| entry.text.as_str()).collect()
    }

    #[test]
    fn entries_are_numbered_and_read_again_from_memory_and_from_disk() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        assert_eq!(read(scratch.path(), 0, 9).expect("readable"), None);
        let transcript = Transcript::open(scratch.path(), 1 << 20, 0);
        for text in ["a", "b", "c"] {
            transcript.add(0, entry(text));
        }
        assert_eq!(*transcript.news().borrow(), 3);
        let recent = transcript.recent(1, 9).expect("in memory");
        assert_eq!((texts(&recent), recent.last), (vec!["b", "c"], 3));
        let kept = read(scratch.path(), 1, 1).expect("readable").expect("there");
        assert_eq!((texts(&kept), kept.oldest, kept.last), (vec!["b"], 1, 3));
    }

    #[test]
    fn what_the_hub_hears_again_after_a_restart_is_written_once() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let transcript = Transcript::open(scratch.path(), 1 << 20, 0);
        transcript.add(10, entry("kept"));
        transcript.add(20, entry("heard again"));
        let transcript = Transcript::open(scratch.path(), 1 << 20, 10);
        transcript.add(20, entry("heard again"));
        let kept = read(scratch.path(), 0, 9).expect("readable").expect("there");
        assert_eq!(texts(&kept), ["kept", "heard again"]);
        assert_eq!(kept.last, 2);
    }

    #[test]
    fn a_transcript_stays_within_its_bound_when_its_end_is_heard_again() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let transcript = Transcript::open(scratch.path(), 4_000, 0);
        let size = |name: &str| fs::metadata(scratch.path().join(name)).map_or(0, |f| f.len());
        for number in 1..=300 {
            transcript.add(number, entry(&format!("entry {number}")));
            if number % 7 == 0 {
                transcript.rewind(number - 3);
            }
            let bytes = size("transcript") + size("transcript.old");
            assert!(bytes <= 4_000, "{bytes} after {number}");
        }
    }

    #[test]
    fn what_is_heard_again_before_the_end_keeps_its_number() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let transcript = Transcript::open(scratch.path(), 1 << 20, 0);
        transcript.add(10, entry("kept"));
        transcript.add(20, entry("half heard"));
        transcript.rewind(10);
        transcript.add(20, entry("heard"));
        let recent = transcript.recent(0, 9).expect("in memory");
        assert_eq!((texts(&recent), recent.last), (vec!["kept", "heard"], 2));
        let kept = read(scratch.path(), 0, 9).expect("readable").expect("there");
        assert_eq!((texts(&kept), kept.last), (vec!["kept", "heard"], 2));
    }

    #[test]
    fn a_long_transcript_loses_its_beginning_and_keeps_its_numbers() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let transcript = Transcript::open(scratch.path(), 4_000, 0);
        for number in 1..=200 {
            transcript.add(0, entry(&format!("entry {number}")));
        }
        let kept = read(scratch.path(), 0, 1_000).expect("readable").expect("there");
        assert!(kept.oldest > 1 && kept.last == 200, "{} to {}", kept.oldest, kept.last);
        assert_eq!(kept.entries.last().expect("some").text, "entry 200");
        let size = |name: &str| fs::metadata(scratch.path().join(name)).expect("there").len();
        assert!(size("transcript") + size("transcript.old") <= 4_000);
    }
}
