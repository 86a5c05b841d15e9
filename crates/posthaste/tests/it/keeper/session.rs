//! A keeper that carries a conversation, and hubs that come and go.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use super::Kept;
use crate::world::{PATIENCE, Started, eventually};

/// The hub's end of a connection, which writes its frames by hand.
struct Talk {
    stream: UnixStream,
    /// The offset of the output that the keeper has kept, as it said.
    kept_from: u64,
    /// Number of bytes that the keeper had accepted for the worker, as it said.
    accepted: u64,
}

/// A frame of the keeper: its kind, its count and its content.
type Frame = (u8, u64, Vec<u8>);

impl Talk {
    /// Connects to the keeper of a folder, once it listens.
    fn with(kept: &Kept) -> Self {
        // The way through the open folder is short, however long its path is.
        let folder = File::open(kept.folder()).expect("a folder");
        let path = format!("/proc/self/fd/{}/session", folder.as_raw_fd());
        let mut stream = None;
        eventually(|| {
            stream = UnixStream::connect(&path).ok();
            stream.is_some()
        });
        let stream = stream.expect("just connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut talk = Self { stream, kept_from: 0, accepted: 0 };
        let (kind, output, content) = talk.next().expect("a greeting");
        assert_eq!(kind, b'H');
        talk.kept_from = output;
        talk.accepted = u64::from_be_bytes(content.try_into().expect("8 bytes"));
        talk
    }

    fn send(&mut self, kind: u8, count: u64, content: &[u8]) {
        let mut frame = vec![kind];
        frame.extend(count.to_be_bytes());
        frame.extend(u32::try_from(content.len()).expect("short").to_be_bytes());
        frame.extend(content);
        self.stream.write_all(&frame).expect("the keeper reads");
    }

    fn reads_from(&mut self, offset: u64) {
        self.send(b'R', offset, &[]);
    }

    /// The next frame; nothing when the keeper has ended the connection.
    fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 13];
        match self.stream.read_exact(&mut head) {
            Ok(()) => {}
            Err(e) if matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                return None;
            }
            Err(e) => panic!("the keeper is silent: {e}"),
        }
        let count = u64::from_be_bytes(head[1..9].try_into().expect("8 bytes"));
        let length = u32::from_be_bytes(head[9..].try_into().expect("4 bytes"));
        let mut content = vec![0; length as usize];
        self.stream.read_exact(&mut content).expect("a whole frame");
        Some((head[0], count, content))
    }

    /// The next output, and its offset.
    fn output(&mut self) -> (u64, Vec<u8>) {
        loop {
            match self.next().expect("the connection stands") {
                (b'O', at, bytes) => return (at, bytes),
                (kind, ..) => assert_eq!(kind, b'A', "output, or that input was accepted"),
            }
        }
    }

    /// Output from this offset on until it ends with this text.
    fn until(&mut self, from: u64, text: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(text.as_bytes()) {
            let (at, bytes) = self.output();
            assert_eq!(at, from + read.len() as u64, "in order, without a gap");
            read.extend(bytes);
        }
        String::from_utf8(read).expect("text")
    }
}

fn session() -> Kept {
    Kept { stdin: "session", ..Kept::new(b"") }
}

fn end(kept: &Kept, keeper: Started) -> serde_json::Value {
    keeper.signal(rustix::process::Signal::TERM);
    kept.ended(keeper.end())
}

/// More than a keeper and all pipes hold.
const LINES: usize = 400_000;

#[test]
fn a_worker_that_nobody_listens_to_waits_and_nothing_of_it_is_lost() {
    let kept = Kept { bytes: 100_000, ..session() };
    let script = format!("seq -f '%020.0f' {LINES}; echo done > \"$PWD/all-written\"; read end");
    let keeper = kept.script(&script);
    let written = kept.world.scratch().join("all-written");
    let (mut at, mut talk) = (0, Talk::with(&kept));
    talk.reads_from(0);
    // The hub hears, and confirms nothing, until the keeper has no room.
    while at < 100_000 {
        let (offset, bytes) = talk.output();
        assert_eq!(offset, at);
        at += bytes.len() as u64;
    }
    assert!(!written.exists(), "it waits for the hub");
    drop(talk);

    // The next hub hears all of it again, and confirms.
    let (mut all, mut talk) = (Vec::new(), Talk::with(&kept));
    assert_eq!(talk.kept_from, 0);
    talk.reads_from(0);
    while all.len() < LINES * 21 {
        let (offset, bytes) = talk.output();
        assert_eq!(offset, all.len() as u64, "in order, without a gap");
        all.extend(bytes);
        talk.send(b'C', all.len() as u64, &[]);
    }
    let text = String::from_utf8(all).expect("text");
    let numbers = text.lines().map(|line| line.parse::<usize>().expect("a number"));
    assert!(numbers.eq(1..=LINES), "each line once, in order");
    eventually(|| written.exists());
    end(&kept, keeper);
}

#[test]
fn a_hub_that_comes_back_goes_on_where_it_says() {
    let kept = session();
    let keeper = kept.script("echo one; echo two; exec cat");
    let mut talk = Talk::with(&kept);
    talk.reads_from(0);
    assert_eq!(talk.until(0, "two\n"), "one\ntwo\n");
    drop(talk);
    // Nothing was confirmed: all of it is there again.
    let mut talk = Talk::with(&kept);
    assert_eq!(talk.kept_from, 0);
    talk.reads_from(0);
    talk.until(0, "two\n");
    talk.send(b'C', 4, &[]);
    talk.send(b'I', 0, b"three\n");
    talk.until(8, "three\n");
    drop(talk);
    // The first line was confirmed, and the hub knows the second one.
    let mut talk = Talk::with(&kept);
    assert_eq!((talk.kept_from, talk.accepted), (4, 6));
    talk.reads_from(8);
    assert_eq!(talk.until(8, "three\n"), "three\n");
    end(&kept, keeper);
}

#[test]
fn input_that_the_next_hub_writes_again_is_taken_once() {
    let kept = session();
    let keeper = kept.script("exec cat");
    let mut talk = Talk::with(&kept);
    talk.reads_from(0);
    talk.send(b'I', 0, b"one\ntw");
    talk.until(0, "tw");
    drop(talk);
    let mut talk = Talk::with(&kept);
    assert_eq!(talk.accepted, 6);
    talk.reads_from(0);
    talk.send(b'I', 0, b"one\ntwo\n");
    talk.send(b'I', 4, b"two\nthree\n");
    assert_eq!(talk.until(0, "three\n"), "one\ntwo\nthree\n");
    end(&kept, keeper);
}

#[test]
fn a_gap_in_the_input_ends_the_connection_and_not_the_worker() {
    let kept = session();
    let keeper = kept.script("exec cat");
    let mut talk = Talk::with(&kept);
    talk.reads_from(0);
    talk.send(b'I', 7, b"somebody lost what was before this\n");
    assert_eq!(talk.next(), None);
    let mut talk = Talk::with(&kept);
    assert_eq!(talk.accepted, 0);
    talk.reads_from(0);
    talk.send(b'I', 0, b"whole\n");
    assert_eq!(talk.until(0, "whole\n"), "whole\n");
    end(&kept, keeper);
}

#[test]
fn rubbish_on_the_socket_does_not_end_the_worker() {
    let kept = session();
    let keeper = kept.script("exec cat");
    let head = |kind: u8, length: u32| {
        let mut bytes = vec![kind];
        bytes.extend(u64::MAX.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes
    };
    let rubbish: [Vec<u8>; 6] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        vec![0xff; 1 << 20],
        head(b'I', u32::MAX),
        head(b'H', 0),
        head(b'O', 0),
        head(b'I', 0),
    ];
    for bytes in rubbish {
        let mut talk = Talk::with(&kept);
        // The keeper may have enough of it before the end.
        let _ = talk.stream.write_all(&bytes);
        assert_eq!(talk.next(), None);
    }
    // Half a frame, and an offset of the future, end nothing.
    let mut talk = Talk::with(&kept);
    talk.stream.write_all(&head(b'I', 100)[..7]).expect("written");
    drop(talk);
    let mut talk = Talk::with(&kept);
    talk.reads_from(u64::MAX);
    talk.send(b'C', u64::MAX, &[]);
    drop(talk);
    let mut talk = Talk::with(&kept);
    talk.reads_from(0);
    talk.send(b'I', 0, b"still here\n");
    assert_eq!(talk.until(0, "still here\n"), "still here\n");
    end(&kept, keeper);
}

#[test]
fn the_second_hub_takes_the_place_of_the_first() {
    let kept = session();
    let keeper = kept.script("exec cat");
    let mut first = Talk::with(&kept);
    first.reads_from(0);
    first.send(b'I', 0, b"from the first\n");
    first.until(0, "first\n");
    let mut second = Talk::with(&kept);
    assert_eq!(first.next(), None);
    second.reads_from(0);
    second.send(b'I', second.accepted, b"from the second\n");
    assert_eq!(second.until(0, "second\n"), "from the first\nfrom the second\n");
    end(&kept, keeper);
}

#[test]
fn what_a_worker_said_last_is_kept_for_the_next_hub() {
    let kept = session();
    let keeper = kept.script("echo heard; read go; echo 'not heard'; printf 'no end of line'");
    let mut talk = Talk::with(&kept);
    talk.reads_from(0);
    talk.until(0, "heard\n");
    talk.send(b'C', 6, &[]);
    talk.send(b'I', 0, b"go\n");
    drop(talk);
    let exit = kept.ended(keeper.end());
    assert_eq!(exit["out_dropped"], 0, "{exit}");
    let rest = fs::read(kept.file("rest")).expect("kept");
    let (from, rest) = rest.split_first_chunk().expect("an offset");
    assert_eq!((u64::from_be_bytes(*from), rest), (6, &b"not heard\nno end of line"[..]));
}

#[test]
fn a_worker_that_closes_its_stdin_or_its_stdout_goes_on() {
    let kept = session();
    let keeper =
        kept.script("exec <&-; echo deaf; exec >&-; while ! [ -e go ]; do sleep 0.02; done");
    let mut talk = Talk::with(&kept);
    talk.reads_from(0);
    talk.until(0, "deaf\n");
    // Nobody reads it; the keeper accepts it all the same.
    talk.send(b'I', 0, &vec![b'x'; 500_000]);
    loop {
        match talk.next().expect("the connection stands") {
            (b'A', 500_000, _) => break,
            (kind, ..) => assert_eq!(kind, b'A'),
        }
    }
    fs::write(kept.world.scratch().join("go"), "").expect("written");
    assert_eq!(kept.ended(keeper.end())["code"], 0);
}

#[test]
fn a_flood_that_a_slow_hub_reads_costs_the_keeper_no_memory() {
    let kept = Kept { bytes: 1 << 20, ..session() };
    let total: u64 = 64 << 20;
    let keeper = kept.script(&format!("head -c {total} /dev/zero; read end"));
    let mut talk = Talk::with(&kept);
    talk.reads_from(0);
    let mut heard = 0;
    while heard < total {
        let (at, bytes) = talk.output();
        assert_eq!(at, heard);
        heard += bytes.len() as u64;
        talk.send(b'C', heard, &[]);
    }
    let status = fs::read_to_string(format!("/proc/{}/status", keeper.pid())).expect("it lives");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a figure");
    let most: u64 = most.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(most < 50 << 10, "it once had {most} KiB");
    end(&kept, keeper);
}
