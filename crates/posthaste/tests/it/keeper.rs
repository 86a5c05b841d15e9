//! The keeper of one worker, alone: no hub is there. Whatever the worker does, its
//! keeper ends, says how it ended, and leaves no process behind.

mod endings;
mod output;
#[cfg(target_os = "linux")]
mod session;
mod strays;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::world::{PATIENCE, Ran, Started, World, eventually};

/// A worker's folder, and how it is kept.
pub(crate) struct Kept {
    world: World,
    bytes: u64,
    grace_ms: u64,
    most_ms: u64,
    /// What it has on its stdin.
    stdin: &'static str,
}

impl Kept {
    /// With this task, and much time and room.
    pub(crate) fn new(task: &[u8]) -> Self {
        let kept = Self {
            world: World::new(),
            bytes: 8 << 20,
            grace_ms: PATIENCE.as_millis() as u64,
            most_ms: 24 * 3_600_000,
            stdin: "task",
        };
        fs::create_dir(kept.folder()).expect("made");
        fs::write(kept.file("task"), task).expect("written");
        symlink(kept.world.scratch(), kept.file("cwd")).expect("linked");
        kept
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.world.scratch().join("a3f7b2c1")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// The lock, taken as the hub takes it.
    pub(crate) fn lock(&self) -> File {
        let lock = File::create(self.file("lock")).expect("a file");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("it is free");
        lock
    }

    pub(crate) fn is_held(&self) -> bool {
        let lock = File::open(self.file("lock")).expect("it was made");
        flock(&lock, FlockOperation::NonBlockingLockShared).is_err()
    }

    /// Starts a keeper of this program, the way the hub does.
    pub(crate) fn start(&self, program: &[&str]) -> Started {
        let words = [
            "keep".to_owned(),
            self.bytes.to_string(),
            self.grace_ms.to_string(),
            self.most_ms.to_string(),
            "022".to_owned(),
            "256".to_owned(),
            self.stdin.to_owned(),
            "-".to_owned(),
        ];
        let words: Vec<&str> =
            words.iter().map(String::as_str).chain(program.iter().copied()).collect();
        let mut command = self.world.command(&words);
        command.current_dir(self.folder());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").stdout(Stdio::from(self.lock()));
        Started::new(command)
    }

    /// A script of the shell.
    pub(crate) fn script(&self, script: &str) -> Started {
        self.start(&["/bin/sh", "-c", script])
    }

    /// The whole life of a script.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.ended(self.script(script).end())
    }

    /// What the keeper noted, after it ended as it should.
    #[track_caller]
    pub(crate) fn ended(&self, ran: Ran) -> Value {
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(!self.is_held(), "who has ended holds nothing");
        self.exit().expect("a keeper that ended well has noted how")
    }

    pub(crate) fn exit(&self) -> Option<Value> {
        let text = fs::read(self.file("exit.json")).ok()?;
        Some(serde_json::from_slice(&text).expect("whole, or not there"))
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8(fs::read(self.file("out")).expect("it is there")).expect("text")
    }

    /// What is kept of its stdout, if it wrote any.
    pub(crate) fn said(&self) -> Option<String> {
        let text = fs::read_to_string(self.file("out")).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    }

    /// Waits until the worker has said something: then it is as far as it says.
    pub(crate) fn hears(&self, word: &str) {
        eventually(|| self.said().is_some_and(|said| said.lines().any(|line| line == word)));
    }

    /// The number in a file that a process wrote.
    pub(crate) fn number(&self, name: &str) -> Pid {
        let mut found = None;
        eventually(|| {
            let text = fs::read_to_string(self.world.scratch().join(name)).unwrap_or_default();
            found = text.ends_with('\n').then(|| text.trim().parse().ok()).flatten();
            found.is_some()
        });
        Pid::from_raw(found.expect("just seen")).expect("a process has a number")
    }

    pub(crate) fn worker(&self) -> Pid {
        let mut found = None;
        eventually(|| {
            let note = fs::read(self.file("started")).unwrap_or_default();
            let note: Option<Value> = serde_json::from_slice(&note).ok();
            found = note.and_then(|note| note["worker"].as_i64());
            found.is_some()
        });
        let raw = i32::try_from(found.expect("just seen")).expect("a number");
        Pid::from_raw(raw).expect("a process has a number")
    }
}

/// Whether a process is there, also as a zombie.
pub(crate) fn exists(pid: Pid) -> bool {
    rustix::process::test_kill_process(pid).is_ok()
}

/// A process of a test that would outlive it is ended, whatever becomes of the test.
pub(crate) struct Mortal(pub(crate) Pid);

impl Drop for Mortal {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}
