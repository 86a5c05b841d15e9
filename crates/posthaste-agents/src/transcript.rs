//! The transcript of a worker, in two bounded files of its folder.
//!
//! Entries are lines of JSON. When the younger file has half of the bound, it becomes the
//! older one, and the older one is dropped. Each line also has the number of bytes that
//! the hub had heard of the worker when it wrote the line: a hub that starts anew hears
//! the last lines of the worker once more, and drops the entries that came of them.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use posthaste_core::ports::{TranscriptEntry, TranscriptKind, TranscriptPage};
use posthaste_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::folder;

/// Number of entries that are kept in memory while the worker runs.
const RECENT: usize = 256;
/// The longest text of an entry, in bytes.
const TEXT: usize = 64 * 1024;
/// Number of bytes that are read without a search.
const STRIDE: u64 = 8 * 1024;

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

/// Keeps all entries of a worker that is about to be started again: the number of bytes
/// that the hub has heard of it begins at 0 then.
pub(crate) fn keep_for_next_run(folder: &Path) -> io::Result<()> {
    let files = Files::of(folder);
    for path in [&files.old, &files.young] {
        let lines = lines(path).into_iter().map(|line| json(&Line { heard: 0, ..line }));
        let all: Vec<Vec<u8>> = lines.collect();
        if !all.is_empty() {
            folder::replace(path, &all.concat())?;
        }
    }
    Ok(())
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

    /// Ends the calls of tools that an earlier run of the worker has begun. Returns whether
    /// there was one.
    pub(crate) fn end_earlier(&self, at: Timestamp) -> bool {
        let (had_run, mut begun) = (self.state.lock().last > 0, Vec::new());
        for entry in &self.state.lock().recent {
            if entry.kind == TranscriptKind::Tool {
                begun.retain(|begun: &TranscriptEntry| begun.id != entry.id);
                if entry.state.as_deref() == Some("began") {
                    begun.push(entry.clone());
                }
            }
        }
        for call in begun {
            let (text, state) = ("interrupted".to_owned(), Some("failed".to_owned()));
            self.add(0, TranscriptEntry { at, text, state, ..call });
        }
        had_run
    }

    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Returns entries after this number from memory; `None` if they are on disk.
    pub(crate) fn recent(&self, after: u64, most: usize) -> Option<TranscriptPage> {
        let state = self.state.lock();
        let oldest = state.recent.front().map_or(state.last + 1, |entry| entry.no);
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
    // The younger file first: if it becomes the older one now, it is opened twice, and
    // not missed.
    let young = folder::open(&files.young);
    let opened = [folder::open(&files.old), young].into_iter().filter_map(Result::ok);
    let mut opened: Vec<Lines<File>> = opened.map(Lines::new).collect::<io::Result<_>>()?;
    if opened.is_empty() {
        return Ok(None);
    }
    page(&mut opened, after, most).map(Some)
}

/// Returns a page of entries from files, oldest first. Reads little more than the page.
fn page<F: Read + Seek>(
    files: &mut [Lines<F>],
    after: u64,
    most: usize,
) -> io::Result<TranscriptPage> {
    let mut page = TranscriptPage::default();
    for file in files.iter_mut() {
        if page.oldest == 0 {
            page.oldest = file.first_from(0)?.map_or(0, |(_, entry)| entry.no);
        }
        page.last = file.last()?.map_or(page.last, |entry| entry.no);
    }
    let mut after = after;
    for file in files {
        if after >= page.last || page.entries.len() >= most {
            break;
        }
        let mut at = file.begin_after(after)?;
        while page.entries.len() < most
            && let Some((next, entry)) = file.first_from(at)?
        {
            at = next;
            if entry.no > after {
                after = entry.no;
                page.entries.push(entry);
            }
        }
    }
    Ok(page)
}

/// The lines of one file, whose numbers grow: the line of a number is searched and not
/// counted to.
struct Lines<F> {
    file: BufReader<F>,
    bytes: u64,
}

impl<F: Read + Seek> Lines<F> {
    fn new(mut file: F) -> io::Result<Self> {
        let bytes = file.seek(SeekFrom::End(0))?;
        Ok(Self { file: BufReader::new(file), bytes })
    }

    /// Moves to a byte, and keeps what was read ahead.
    fn go_to(&mut self, at: u64) -> io::Result<()> {
        let here = self.file.stream_position()?;
        self.file.seek_relative(at.cast_signed() - here.cast_signed())
    }

    /// Returns the first entry in a line that begins at this byte or later, and the byte
    /// after its line; the byte is one at which a line begins. A line that cannot be read
    /// is left out.
    fn first_from(&mut self, mut at: u64) -> io::Result<Option<(u64, TranscriptEntry)>> {
        self.go_to(at)?;
        let mut line = Vec::new();
        while at < self.bytes {
            line.clear();
            let bytes = self.file.read_until(b'\n', &mut line)? as u64;
            if bytes == 0 {
                break;
            }
            at += bytes;
            if let Ok(read) = serde_json::from_slice::<Line>(&line) {
                return Ok(Some((at, read.entry)));
            }
        }
        Ok(None)
    }

    /// Returns the byte at which the first line begins whose number is higher, or one a
    /// few lines before.
    fn begin_after(&mut self, after: u64) -> io::Result<u64> {
        // The line before `low` is not higher; that after `high` is.
        let (mut low, mut high) = (0, self.bytes);
        while high.saturating_sub(low) > STRIDE {
            let middle = low.midpoint(high);
            let begin = self.line_after(middle)?;
            match self.first_from(begin)? {
                Some((next, entry)) if begin < high && entry.no <= after => low = next,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Returns the byte after the next end of a line.
    fn line_after(&mut self, at: u64) -> io::Result<u64> {
        self.go_to(at)?;
        Ok(at + self.file.skip_until(b'\n')? as u64)
    }

    /// Returns the last entry. Reads more and more of the end until it contains one.
    fn last(&mut self) -> io::Result<Option<TranscriptEntry>> {
        let mut tail = STRIDE;
        loop {
            let from = self.bytes.saturating_sub(tail);
            let mut at = if from == 0 { 0 } else { self.line_after(from)? };
            let mut last = None;
            while let Some((next, entry)) = self.first_from(at)? {
                (at, last) = (next, Some(entry));
            }
            if last.is_some() || from == 0 {
                return Ok(last);
            }
            tail *= 4;
        }
    }
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
    use std::cell::Cell;

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
    fn a_worker_that_is_started_again_keeps_its_entries_and_their_numbers() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let transcript = Transcript::open(scratch.path(), 1 << 20, 0);
        transcript.add(0, entry("one"));
        transcript.add(700, entry("two"));
        drop(transcript);
        keep_for_next_run(scratch.path()).expect("written");
        let transcript = Transcript::open(scratch.path(), 1 << 20, 0);
        transcript.add(3, entry("three"));
        let page = transcript.recent(0, 9).expect("in memory");
        assert_eq!(texts(&page), ["one", "two", "three"]);
        assert_eq!(page.entries[2].no, 3);
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

    /// A file that counts what is read of it.
    struct Counted<'a> {
        file: File,
        bytes: &'a Cell<u64>,
    }

    impl Read for Counted<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let read = self.file.read(into)?;
            self.bytes.set(self.bytes.get() + read as u64);
            Ok(read)
        }
    }

    impl Seek for Counted<'_> {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.file.seek(to)
        }
    }

    #[test]
    fn a_long_transcript_is_read_page_by_page_and_each_byte_a_few_times() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let transcript = Transcript::open(scratch.path(), 8 << 20, 0);
        for number in 1..=30_000 {
            transcript.add(number, entry(&format!("entry {number}")));
        }
        let files = Files::of(scratch.path());
        let whole = fs::metadata(&files.young).expect("there").len();
        let read = Cell::new(0);
        let page = |after, most| {
            let file = folder::open(&files.young).expect("there");
            let file = Counted { file, bytes: &read };
            page(&mut [Lines::new(file).expect("a file")], after, most).expect("readable")
        };
        let mut after = 0;
        while after < 30_000 {
            let numbers: Vec<u64> = page(after, 200).entries.iter().map(|e| e.no).collect();
            assert_eq!(numbers, (after + 1..=after + 200).collect::<Vec<_>>());
            after += 200;
        }
        let times = read.replace(0) / whole;
        assert!(times < 16, "each byte was read {times} times");
        assert_eq!(texts(&page(29_998, 9)), ["entry 29999", "entry 30000"]);
        assert!(read.replace(0) < whole / 10, "the end is found without the beginning");
        assert_eq!(page(u64::MAX, 0).last, 30_000);
        assert!(read.get() < whole / 10, "the last number is found at the end");
    }

    #[test]
    fn every_page_of_a_transcript_with_long_and_broken_lines_is_found() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let transcript = Transcript::open(scratch.path(), 8 << 20, 0);
        for number in 1..=120_usize {
            transcript.add(0, entry(&"x".repeat(number * 7_919 % 40_000)));
            if number % 9 == 0 {
                let mut file = append(&scratch.path().join("transcript")).expect("a file");
                file.write_all(b"half a li\n").expect("written");
            }
        }
        for after in 0..=121 {
            let page = read(scratch.path(), after, 3).expect("readable").expect("there");
            let numbers: Vec<u64> = page.entries.iter().map(|entry| entry.no).collect();
            let wanted: Vec<u64> = (after + 1..=120).take(3).collect();
            assert_eq!((numbers, page.oldest, page.last), (wanted, 1, 120));
        }
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
