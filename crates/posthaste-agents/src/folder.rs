//! The folder of a worker: its input, its output, and the lock that tells whether its
//! keeper lives.
//!
//! ```text
//! <data>/agents/a3f7b2c1/
//!   task        the worker's stdin
//!   cwd         a link to the directory in which the worker works
//!   home        a link to the worker's own files, if they lie elsewhere
//!   prepared    the worker was prepared and has not been started
//!   alias       the name of a link to these files that command lines may have
//!   out, err    the worker's output, bounded
//!   session     the keeper's socket, if the hub holds a conversation with the worker
//!   session.json  the state of that conversation, written by the hub
//!   rest        output of that conversation that no hub had confirmed at its end
//!   ticket      the environment of a worker in a terminal, until its keeper takes it
//!   pane        the pane of tmux in which the keeper runs, if it does
//!   terminal    the text of that pane at the worker's end, bounded
//!   started     written before the worker runs, and again when its process is known
//!   paused      the hub stops and ends an assistant, which the next hub starts again
//!   dismissed   the worker is ended for good
//!   exit.json   how the worker ended; complete or absent
//!   lock        held by the keeper for as long as it lives
//!   work/       the default working directory
//!   worktree/   the worker's own checkout, if it has one
//!   wake/       the same files for the command that wakes an agent
//! ```
//!
//! The hub takes the lock and hands the open file to the keeper as its stdout, so the
//! lock stays with the file: it is free once the keeper has ended, in whatever way, and a
//! hub that is killed in between changes nothing. A keeper in a pane takes the lock itself
//! (`ticket.rs`).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Room for the exit note, and a little more.
const ROOM: [u8; 4096] = [b' '; 4096];

/// The note of an assistant that the next hub starts again.
const PAUSED: &str = "paused";

/// The note of a worker that is ended for good.
const DISMISSED: &str = "dismissed";

/// The signals with which a person or a machine that stops ends a program.
const ASKING: [Signal; 3] = [Signal::TERM, Signal::HUP, Signal::INT];

/// The first letters of the other name of a worker's folder.
const ALIAS: &str = "of-";

/// The longest note that is read.
const NOTE_BYTES: u64 = 64 * 1024;

/// The note of a start, written by the keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Started {
    /// The mark in the environment of the worker and of every process below it.
    pub(crate) run: String,
    pub(crate) keeper: i32,
    /// Start time of the keeper's process, in the system's own count.
    pub(crate) keeper_began: Option<u64>,
    /// `None`: it is not known whether the program ran.
    pub(crate) worker: Option<i32>,
    pub(crate) worker_began: Option<u64>,
}

/// The note of a worker's end, written by the keeper.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// The reason why the worker could not be run at all.
    pub(crate) error: Option<String>,
    /// The keeper was asked to end the worker, before the worker ended.
    pub(crate) asked: bool,
    /// The worker ran longer than it may.
    pub(crate) overdue: bool,
    /// The worker's terminal was closed.
    pub(crate) closed: bool,
    /// Number of processes that the worker left behind; they were ended.
    pub(crate) strays: usize,
    /// Number of bytes beyond the bound, which are not kept.
    pub(crate) out_dropped: u64,
    pub(crate) err_dropped: u64,
    /// Number of bytes of its mail that the worker had read, if its stdin carried mail.
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

    /// Makes the folder, for its owner alone.
    pub(crate) fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    pub(crate) fn task(&self) -> PathBuf {
        self.0.join("task")
    }

    /// The mail that the worker reads on its stdin while it runs, if it reads any.
    pub(crate) fn mail(&self) -> PathBuf {
        self.0.join("mail")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.0.join("out")
    }

    /// The text of the worker's terminal at its end, if it had one.
    pub(crate) fn terminal(&self) -> PathBuf {
        self.0.join("terminal")
    }

    /// The keeper's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("session")
    }

    /// The state of the conversation.
    pub(crate) fn session_state(&self) -> PathBuf {
        self.0.join("session.json")
    }

    fn rest_file(&self) -> PathBuf {
        self.0.join("rest")
    }

    /// Keeps the output that no hub had confirmed, and its offset.
    pub(crate) fn keep_rest(&self, from: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = anew(&self.rest_file())?;
        file.write_all(&from.to_be_bytes())?;
        file.write_all(bytes)
    }

    /// Returns the output that no hub had confirmed, and its offset.
    pub(crate) fn rest(&self) -> io::Result<(u64, Vec<u8>)> {
        let mut from = [0; 8];
        let mut bytes = Vec::new();
        let mut file = open(&self.rest_file())?;
        file.read_exact(&mut from)?;
        file.read_to_end(&mut bytes)?;
        Ok((u64::from_be_bytes(from), bytes))
    }

    pub(crate) fn err(&self) -> PathBuf {
        self.0.join("err")
    }

    /// A link to the worker's directory. The keeper runs in this folder, so neither path
    /// is part of the keeper's command line, which every user can read.
    pub(crate) fn directory(&self) -> PathBuf {
        self.0.join("cwd")
    }

    /// Records the worker's directory.
    pub(crate) fn work_in(&self, directory: &Path) -> io::Result<()> {
        remove_file(&self.directory())?;
        symlink(directory, self.directory())
    }

    /// Records that the worker's own files lie elsewhere: the configured place may change
    /// while the worker exists.
    pub(crate) fn note_home(&self, home: &Path) -> io::Result<()> {
        remove_file(&self.0.join("home"))?;
        symlink(std::path::absolute(home)?, self.0.join("home"))
    }

    /// Returns the folder of the worker's own files: this one, unless the hub recorded
    /// another folder of the same name.
    pub(crate) fn home(&self) -> PathBuf {
        let noted = fs::read_link(self.0.join("home")).ok();
        noted.filter(|home| home.file_name() == self.0.file_name()).unwrap_or(self.0.clone())
    }

    /// Returns another path of the worker's own files, beside them, for command lines:
    /// every user can read those, and the folder's name is the worker's id. The same in
    /// every run.
    pub(crate) fn alias(&self, home: &Path) -> PathBuf {
        let noted = fs::read_to_string(self.0.join("alias")).ok();
        let name = noted.filter(|name| name.starts_with(ALIAS) && !name.contains('/'));
        home.with_file_name(
            name.unwrap_or_else(|| format!("{ALIAS}{:016x}", rand::random::<u64>())),
        )
    }

    /// Makes the link that [`Folder::alias`] names.
    pub(crate) fn link_alias(&self, alias: &Path, home: &Path) -> io::Result<()> {
        let (Some(name), Some(target)) = (alias.file_name(), home.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        replace(&self.0.join("alias"), name.as_encoded_bytes())?;
        remove_file(alias)?;
        symlink(target, alias)
    }

    /// Removes the link of a worker that is forgotten.
    pub(crate) fn unlink_alias(&self, home: &Path) -> io::Result<()> {
        match self.0.join("alias").exists() {
            true => remove_file(&self.alias(home)),
            false => Ok(()),
        }
    }

    fn prepared_file(&self) -> PathBuf {
        self.0.join("prepared")
    }

    /// Records that the worker was prepared. The keeper removes this note when it starts
    /// the worker, so a folder without it, even an empty one, is that of a worker that
    /// may have run.
    pub(crate) fn note_prepared(&self) -> io::Result<()> {
        create(&self.prepared_file()).map(drop)
    }

    pub(crate) fn is_prepared(&self) -> bool {
        fs::symlink_metadata(self.prepared_file()).is_ok_and(|note| note.is_file())
    }

    /// Records that the worker is ended only because the hub stops.
    pub(crate) fn note_paused(&self) -> io::Result<()> {
        create(&self.0.join(PAUSED)).map(drop)
    }

    pub(crate) fn is_paused(&self) -> bool {
        fs::symlink_metadata(self.0.join(PAUSED)).is_ok_and(|note| note.is_file())
    }

    /// Records that somebody ends the worker for good.
    pub(crate) fn note_dismissed(&self) -> io::Result<()> {
        create(&self.0.join(DISMISSED)).map(drop)
    }

    pub(crate) fn is_dismissed(&self) -> bool {
        fs::symlink_metadata(self.0.join(DISMISSED)).is_ok_and(|note| note.is_file())
    }

    /// Returns whether the worker was ended by a signal and not for good, or with its
    /// keeper, as when the machine stops: the next hub starts it again.
    pub(crate) fn is_interrupted(&self) -> bool {
        if self.is_dismissed() {
            return false;
        }
        match self.exit() {
            Some(exit) => {
                let asking = |number| ASKING.iter().any(|signal| signal.as_raw() == number);
                !exit.overdue && (exit.asked || exit.signal.is_some_and(asking))
            }
            None => self.is_paused() || self.started().is_some(),
        }
    }

    fn started_file(&self) -> PathBuf {
        self.0.join("started")
    }

    fn exit_file(&self) -> PathBuf {
        self.0.join("exit.json")
    }

    /// Returns the keeper's note of the start. A note that cannot be read (`Some(None)`)
    /// still tells that there was a start.
    pub(crate) fn started(&self) -> Option<Option<Started>> {
        match note(&self.started_file()) {
            Ok(text) => Some(serde_json::from_slice(&text).ok()),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(_) => Some(None),
        }
    }

    /// Returns whether the worker read all the mail that was written for its stdin.
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

    /// Reserves the room for the exit note, so that it can be written on a full disk.
    pub(crate) fn reserve_exit(&self) -> io::Result<()> {
        anew(&draft_of(&self.exit_file()))?.write_all(&ROOM)
    }

    pub(crate) fn note_exit(&self, exit: &Exit) -> io::Result<()> {
        let (path, content) = (self.exit_file(), json(exit));
        let draft = draft_of(&path);
        // Overwrites the reserved room: to truncate the file first would give the room away.
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

    /// Takes the lock for a new keeper, and removes the notes of an earlier run. Returns
    /// `None` if a keeper lives.
    pub(crate) fn hold(&self) -> io::Result<Option<File>> {
        let lock = self.lock_file()?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => (),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        let notes = ["started", "exit.json", "rest", "session", "pane", "ticket", "terminal"];
        for note in notes.into_iter().chain([PAUSED, DISMISSED]) {
            remove_file(&self.0.join(note))?;
        }
        Ok(Some(lock))
    }

    /// Opens the file of the lock, without taking the lock.
    pub(crate) fn lock_file(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(careful())
            .open(self.0.join("lock"))
    }

    /// Returns whether a keeper lives.
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

/// Creates a file for its owner alone, or empties the one that is there.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Opens a file of a worker's folder for reading. The worker may have replaced the file:
/// a pipe would block the hub, and a link would lead it elsewhere.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(careful()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidData, "it is no file any more")),
    }
}

/// Appends to a file of a worker's folder: all of the text or, on a full disk, nothing.
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

/// Creates a new file in place of the one that lies there, which is not opened.
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

/// Reads a file of any length, which the hub has written itself.
pub(crate) fn read_whole<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_reader(BufReader::new(open(path).ok()?)).ok()
}

/// Writes a file that every reader finds complete.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = draft_of(path);
    anew(&draft)?.write_all(content)?;
    fs::rename(&draft, path)
}

/// Does the same for a file that must be whole after the power has failed, with the names
/// that its folder has then.
pub(crate) fn replace_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = draft_of(path);
    let mut file = anew(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
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
        // A plain open of a pipe would wait for its other end for ever.
        let (done, looked) = std::sync::mpsc::channel();
        std::thread::spawn(move || drop(done.send((folder.exit(), folder.started()))));
        let patience = std::time::Duration::from_secs(60);
        assert_eq!(looked.recv_timeout(patience), Ok((None, Some(None))));
        drop(scratch);
    }
}
