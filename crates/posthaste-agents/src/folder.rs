//! The folder of a worker: what it gets, what it leaves, and whether it lives.
//!
//! ```text
//! <data>/agents/a3f7b2c1/
//!   task        what it reads on stdin
//!   cwd         a link to the directory in which it works
//!   home        a link to the files of its own, if they lie elsewhere
//!   prepared    it was made ready and has not been started
//!   out, err    what it wrote, within a bound
//!   started     written before it runs, and again when its process is known
//!   exit.json   how it ended; whole or not there
//!   lock        held by its keeper for as long as that lives
//!   work/       where it works if nobody says otherwise
//!   worktree/   its own checkout, if it has one
//!   wake/       the same files for the command that wakes an agent
//! ```
//!
//! The lock tells of life. The hub takes it and hands the open file to the keeper as
//! its stdout, so the lock goes where the file goes: it is free when the keeper has
//! ended, however it ended, and a hub that was killed in between changes nothing.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What the note of an end takes, and a little more.
const ROOM: [u8; 4096] = [b' '; 4096];

/// More than this no note says.
const NOTE_BYTES: u64 = 64 * 1024;

/// That a worker was started, as its keeper wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Started {
    /// The mark in the environment of the worker and of all that it starts.
    pub(crate) run: String,
    pub(crate) keeper: i32,
    /// When the keeper began, in the system's own count.
    pub(crate) keeper_began: Option<u64>,
    /// `None`: nobody knows whether the program ran.
    pub(crate) worker: Option<i32>,
    pub(crate) worker_began: Option<u64>,
}

/// How a worker ended, as its keeper wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Why it could not be run at all.
    pub(crate) error: Option<String>,
    /// The keeper was asked to end it, before it ended.
    pub(crate) asked: bool,
    /// It ran longer than it may.
    pub(crate) overdue: bool,
    /// How many processes it left behind; they were ended.
    pub(crate) strays: usize,
    /// What was written beyond the bound, and is not kept.
    pub(crate) out_dropped: u64,
    pub(crate) err_dropped: u64,
    /// How much of its mail it had read, if any came to its stdin.
    pub(crate) heard: Option<u64>,
    /// Milliseconds since 1970.
    pub(crate) started_at: u64,
    pub(crate) ended_at: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes it, for its owner alone.
    pub(crate) fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    pub(crate) fn task(&self) -> PathBuf {
        self.0.join("task")
    }

    /// What it hears while it runs, if it hears anything.
    pub(crate) fn mail(&self) -> PathBuf {
        self.0.join("mail")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.0.join("out")
    }

    pub(crate) fn err(&self) -> PathBuf {
        self.0.join("err")
    }

    /// A link to where the worker works. Its keeper stands in this folder, so neither
    /// path is a word of the keeper's command line, which every user can read.
    pub(crate) fn directory(&self) -> PathBuf {
        self.0.join("cwd")
    }

    /// Says where the worker works.
    pub(crate) fn work_in(&self, directory: &Path) -> io::Result<()> {
        remove_file(&self.directory())?;
        symlink(directory, self.directory())
    }

    /// Notes that what the worker itself reads and writes lies elsewhere: where it goes
    /// may be configured anew while it is there.
    pub(crate) fn note_home(&self, home: &Path) -> io::Result<()> {
        remove_file(&self.0.join("home"))?;
        symlink(std::path::absolute(home)?, self.0.join("home"))
    }

    /// Where what the worker itself reads and writes lies: here, unless the hub noted
    /// another folder of the same name.
    pub(crate) fn home(&self) -> PathBuf {
        let noted = fs::read_link(self.0.join("home")).ok();
        noted.filter(|home| home.file_name() == self.0.file_name()).unwrap_or(self.0.clone())
    }

    fn prepared_file(&self) -> PathBuf {
        self.0.join("prepared")
    }

    /// Notes that the worker was made ready. The note goes when its keeper starts it, so
    /// a folder without it, emptied or not, is one of a worker that may have run.
    pub(crate) fn note_prepared(&self) -> io::Result<()> {
        create(&self.prepared_file()).map(drop)
    }

    pub(crate) fn is_prepared(&self) -> bool {
        fs::symlink_metadata(self.prepared_file()).is_ok_and(|note| note.is_file())
    }

    fn started_file(&self) -> PathBuf {
        self.0.join("started")
    }

    fn exit_file(&self) -> PathBuf {
        self.0.join("exit.json")
    }

    /// What its keeper noted when it started it. A note that cannot be read still
    /// says that there was a start.
    pub(crate) fn started(&self) -> Option<Option<Started>> {
        match note(&self.started_file()) {
            Ok(text) => Some(serde_json::from_slice(&text).ok()),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(_) => Some(None),
        }
    }

    /// Whether it read all that was written for its stdin.
    pub(crate) fn was_heard(&self, exit: &Exit) -> bool {
        let all = || fs::symlink_metadata(self.mail()).map_or(u64::MAX, |mail| mail.len());
        exit.heard.is_none_or(|heard| heard >= all())
    }

    pub(crate) fn exit(&self) -> Option<Exit> {
        read(&self.exit_file())
    }

    pub(crate) fn note_start(&self, started: &Started) -> io::Result<()> {
        replace(&self.started_file(), &json(started))?;
        remove_file(&self.prepared_file())
    }

    /// Takes the room for the note of its end: who ends on a full disk still says how.
    pub(crate) fn reserve_exit(&self) -> io::Result<()> {
        anew(&draft_of(&self.exit_file()))?.write_all(&ROOM)
    }

    pub(crate) fn note_exit(&self, exit: &Exit) -> io::Result<()> {
        let (path, content) = (self.exit_file(), json(exit));
        let draft = draft_of(&path);
        // In the room that was taken: who empties a file first gives that away.
        let reserved = OpenOptions::new().write(true).custom_flags(careful()).open(&draft);
        let reserved = reserved.ok().filter(|file| file.metadata().is_ok_and(|m| m.is_file()));
        let mut file = match reserved {
            Some(file) => file,
            None => anew(&draft)?,
        };
        file.write_all(&content)?;
        file.set_len(content.len() as u64)?;
        fs::rename(&draft, &path)
    }

    /// The lock, for a new keeper; nothing if one lives. What an earlier run noted
    /// is gone then.
    pub(crate) fn hold(&self) -> io::Result<Option<File>> {
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(careful())
            .open(self.0.join("lock"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => (),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        for file in [self.started_file(), self.exit_file()] {
            remove_file(&file)?;
        }
        Ok(Some(lock))
    }

    /// Whether a keeper lives.
    pub(crate) fn is_held(&self) -> bool {
        let Ok(lock) = open(&self.0.join("lock")) else { return false };
        let taken = flock(&lock, FlockOperation::NonBlockingLockShared);
        taken == Err(rustix::io::Errno::WOULDBLOCK)
    }
}

/// Removes a file, if there is one.
fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// A new file for its owner alone, in the place of any other.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Opens a file of a worker's folder to read it. The worker may have put anything in
/// its place: a pipe would hold the hub up, and a link would lead it elsewhere.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(careful()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidData, "it is no file any more")),
    }
}

/// Adds to a file of a worker's folder: all of the text or, where the disk is full,
/// nothing.
pub(crate) fn append(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).custom_flags(careful()).open(path)?;
    let before = file.metadata()?;
    if !before.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is no file any more"));
    }
    file.write_all(text).inspect_err(|_| {
        let _ = file.set_len(before.len());
    })
}

fn careful() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}

/// A new file in the place of whatever lies there, which is not opened.
fn anew(path: &Path) -> io::Result<File> {
    let _ = fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn draft_of(path: &Path) -> PathBuf {
    path.with_extension("new")
}

fn note(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    open(path)?.take(NOTE_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

fn json<T: Serialize>(what: &T) -> Vec<u8> {
    serde_json::to_vec(what).expect("numbers and text are JSON")
}

pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&note(path).ok()?).ok()
}

/// Writes a file that is whole whenever somebody looks.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = draft_of(path);
    anew(&draft)?.write_all(content)?;
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let folder = Folder::new(scratch.path().join("a3f7b2c1"));
        folder.make().expect("made");
        (scratch, folder)
    }

    #[test]
    fn the_lock_is_held_for_as_long_as_its_file_is_open_somewhere() {
        let (_scratch, folder) = folder();
        assert!(!folder.is_held());
        let lock = folder.hold().expect("a file").expect("free");
        let copy = lock.try_clone().expect("a second handle of the same file");
        assert!(folder.is_held());
        assert!(folder.hold().expect("a file").is_none());
        drop(lock);
        assert!(folder.is_held());
        drop(copy);
        assert!(!folder.is_held());
    }

    #[test]
    fn a_new_start_forgets_what_the_last_one_noted() {
        let (_scratch, folder) = folder();
        folder.note_exit(&Exit { code: Some(3), ..Exit::default() }).expect("written");
        assert_eq!(folder.exit().expect("noted").code, Some(3));
        drop(folder.hold().expect("a file").expect("free"));
        assert_eq!(folder.exit(), None);
        assert!(folder.started().is_none());
    }

    #[test]
    fn a_note_that_cannot_be_read_is_a_start_all_the_same() {
        let (_scratch, folder) = folder();
        fs::write(folder.started_file(), "{").expect("written");
        assert_eq!(folder.started(), Some(None));
    }

    #[test]
    fn what_a_worker_put_in_the_place_of_its_files_is_not_read() {
        let (scratch, folder) = folder();
        let secret = scratch.path().join("secret");
        fs::write(&secret, r#"{"code": 0}"#).expect("written");
        std::os::unix::fs::symlink(&secret, folder.exit_file()).expect("linked");
        let pipe = folder.started_file();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .expect("a pipe");
        // Whoever opens a pipe without care waits for its other end, for ever.
        let (done, looked) = std::sync::mpsc::channel();
        std::thread::spawn(move || drop(done.send((folder.exit(), folder.started()))));
        let patience = std::time::Duration::from_secs(60);
        assert_eq!(looked.recv_timeout(patience), Ok((None, Some(None))));
        drop(scratch);
    }
}
