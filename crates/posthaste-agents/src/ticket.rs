//! The start of a keeper that runs inside a pane of tmux.
//!
//! Such a keeper is not the hub's child, so the hub cannot hand it the lock or an
//! environment. It hands it a ticket: a file with the worker's environment, for the
//! hub's user alone. A keeper waits for the lock, and then takes the ticket; without one
//! it ends and leaves no note.
//!
//! **A ticket is written, taken and revoked only under the lock.** The hub holds the lock
//! while it opens the pane. If the hub is killed then, its lock is free, and the keeper
//! may or may not have come: the next hub takes the lock and revokes the ticket, and only
//! if there was one does it start the worker anew. So a worker runs once, however late
//! the first keeper is.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::folder::{self, Folder};
use crate::tmux::control::is_pane;

/// The largest ticket: more than the environment of any process.
const BYTES: u64 = 8 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The program of tmux.
    pub(crate) tmux: PathBuf,
    pub(crate) environment: Vec<(OsString, OsString)>,
}

/// The pane of a keeper, by its own note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pane {
    /// The path of the server's socket.
    pub(crate) socket: PathBuf,
    /// tmux's own name of the session: `$` and a number.
    pub(crate) session: String,
    /// tmux's own name of the pane: `%` and a number.
    pub(crate) pane: String,
}

/// What became of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Revoked {
    /// Nobody has taken it, and nobody will.
    Yes,
    /// There is none: no hub wrote one, or a keeper has taken it.
    None,
    /// A keeper lives.
    Held,
}

impl Ticket {
    /// Writes the ticket. The caller has the lock.
    pub(crate) fn write(&self, folder: &Folder) -> io::Result<()> {
        let mut bytes = self.tmux.as_os_str().as_bytes().to_vec();
        for (name, value) in &self.environment {
            bytes.push(0);
            bytes.extend(name.as_bytes());
            bytes.push(b'=');
            bytes.extend(value.as_bytes());
        }
        folder::replace(&file(folder), &bytes)
    }

    /// Waits for the lock and takes the ticket, if there is one.
    pub(crate) fn take(folder: &Folder) -> io::Result<Option<(Self, File)>> {
        let lock = folder.lock_file()?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let mut bytes = Vec::new();
        match folder::open(&file(folder)) {
            Ok(ticket) => ticket.take(BYTES).read_to_end(&mut bytes)?,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        fs::remove_file(file(folder))?;
        Ok(Some((Self::read(&bytes), lock)))
    }

    fn read(bytes: &[u8]) -> Self {
        let mut parts = bytes.split(|byte| *byte == 0);
        let tmux = OsStr::from_bytes(parts.next().unwrap_or_default()).into();
        let variable = |part: &[u8]| {
            let at = part.iter().position(|byte| *byte == b'=')?;
            let (name, value) = (part[..at].to_vec(), part[at + 1..].to_vec());
            Some((OsString::from_vec(name), OsString::from_vec(value)))
        };
        Self { tmux, environment: parts.filter_map(variable).collect() }
    }

    /// Returns whether no keeper has taken the ticket yet.
    pub(crate) fn waits(folder: &Folder) -> bool {
        fs::symlink_metadata(file(folder)).is_ok()
    }

    /// Revokes the ticket, so that no keeper starts the worker any more.
    pub(crate) fn revoke(folder: &Folder) -> io::Result<Revoked> {
        let lock = folder.lock_file()?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Revoked::Held),
            Err(e) => return Err(e.into()),
        }
        match fs::remove_file(file(folder)) {
            Ok(()) => Ok(Revoked::Yes),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Revoked::None),
            Err(e) => Err(e),
        }
    }
}

impl Pane {
    /// Reads the pane from the variables that tmux sets in it: `TMUX` has the socket, the
    /// server's process and the number of the session.
    pub(crate) fn of(tmux: &OsStr, pane: &OsStr) -> Option<Self> {
        let mut parts = tmux.as_bytes().rsplitn(3, |byte| *byte == b',');
        let session = std::str::from_utf8(parts.next()?).ok()?;
        let (_, socket) = (parts.next()?, parts.next()?);
        let session = format!("${session}");
        let pane = pane.to_str()?.to_owned();
        let socket = PathBuf::from(OsStr::from_bytes(socket));
        Some(Self { socket, session, pane }).filter(Self::is_sound)
    }

    /// Returns the pane of a folder's keeper, by its note.
    pub(crate) fn noted(folder: &Folder) -> Option<Self> {
        folder::read::<Self>(&note(folder)).filter(Self::is_sound)
    }

    pub(crate) fn note(&self, folder: &Folder) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        folder::replace(&note(folder), &text)
    }

    /// Returns whether the names are names of tmux, and no words of a command.
    fn is_sound(&self) -> bool {
        let number = self.session.strip_prefix('$').unwrap_or_default();
        let is_session = number.len() < 12 && number.parse::<u64>().is_ok();
        is_session && is_pane(&self.pane) && self.socket.is_absolute()
    }
}

fn file(folder: &Folder) -> PathBuf {
    folder.path().join("ticket")
}

fn note(folder: &Folder) -> PathBuf {
    folder.path().join("pane")
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

    fn ticket() -> Ticket {
        let variable = |name: &str, value: &[u8]| (name.into(), OsString::from_vec(value.to_vec()));
        let environment =
            vec![variable("PATH", b"/bin"), variable("EMPTY", b""), variable("ODD", b"a=b\n\xff")];
        Ticket { tmux: "/usr/bin/tmux".into(), environment }
    }

    #[test]
    fn a_ticket_is_taken_once() {
        let (_scratch, folder) = folder();
        ticket().write(&folder).expect("written");
        let (taken, lock) = Ticket::take(&folder).expect("a file").expect("one ticket");
        assert_eq!(taken, ticket());
        assert!(folder.is_held());
        assert_eq!(Ticket::revoke(&folder).expect("a file"), Revoked::Held);
        drop(lock);
        assert!(Ticket::take(&folder).expect("no error").is_none());
        assert_eq!(Ticket::revoke(&folder).expect("a file"), Revoked::None);
    }

    #[test]
    fn a_keeper_that_comes_after_its_ticket_was_revoked_starts_nothing() {
        let (_scratch, folder) = folder();
        let lock = folder.hold().expect("a file").expect("free");
        ticket().write(&folder).expect("written");
        let late = folder.clone();
        let keeper = std::thread::spawn(move || Ticket::take(&late).expect("no error").is_some());
        assert_eq!(Ticket::revoke(&folder).expect("a file"), Revoked::Held);
        fs::remove_file(file(&folder)).expect("the hub gave it up under its lock");
        drop(lock);
        assert!(!keeper.join().expect("it ends"));
    }

    #[test]
    fn a_new_start_forgets_the_pane_and_the_ticket_of_the_last_one() {
        let (_scratch, folder) = folder();
        let pane = Pane { socket: "/tmp/s".into(), session: "$1".into(), pane: "%2".into() };
        pane.note(&folder).expect("written");
        ticket().write(&folder).expect("written");
        assert_eq!(Pane::noted(&folder), Some(pane));
        drop(folder.hold().expect("a file").expect("free"));
        assert_eq!(Pane::noted(&folder), None);
        assert!(Ticket::take(&folder).expect("no error").is_none());
    }

    #[test]
    fn a_pane_is_read_from_the_words_of_tmux_and_nothing_else() {
        let of = |tmux: &str, pane: &str| Pane::of(tmux.as_ref(), pane.as_ref());
        let pane = of("/tmp/tmux-0/a,b,1234,7", "%3").expect("a pane");
        assert_eq!(pane.socket, PathBuf::from("/tmp/tmux-0/a,b"));
        assert_eq!((&*pane.session, &*pane.pane), ("$7", "%3"));
        for (tmux, pane) in [
            ("", "%3"),
            ("/tmp/s,1", "%3"),
            ("/tmp/s,1,x", "%3"),
            ("s,1,2", "%3"),
            ("/tmp/s,1,2", "3"),
            ("/tmp/s,1,2", "%3; kill-server"),
        ] {
            assert_eq!(of(tmux, pane), None, "{tmux} {pane}");
        }
    }
}
