//! The output of a worker, on its way to a file.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

use super::bounded::Bounded;

/// Number of bytes read at a time.
const PIECE: usize = 64 * 1024;
/// The time for which the pipe of an ended worker may be silent before it is closed: a
/// process that could not be ended may hold it open.
const SILENCE: Duration = Duration::from_millis(100);
/// The most that is read after the end; no pipe holds more.
const LAST: u64 = 1 << 20;

pub(super) struct Pipe {
    from: Option<Receiver>,
    to: Bounded<File>,
    piece: Vec<u8>,
}

impl Pipe {
    pub(super) fn new(from: OwnedFd, to: File, bytes: u64) -> io::Result<Self> {
        let from = Some(Receiver::from_owned_fd(from)?);
        Ok(Self { from, to: Bounded::new(to, bytes), piece: Vec::new() })
    }

    /// Completes when there is something to copy; never, once the other end is closed.
    pub(super) async fn ready(&self) {
        match &self.from {
            // An error shows at the read.
            Some(from) => drop(from.readable().await),
            None => std::future::pending().await,
        }
    }

    /// Copies one piece. Returns its number of bytes.
    pub(super) fn copy(&mut self) -> u64 {
        let Some(from) = &self.from else { return 0 };
        if self.piece.is_empty() {
            self.piece.resize(PIECE, 0);
        }
        match from.try_read(&mut self.piece) {
            Ok(0) => self.from = None,
            Ok(read) => {
                self.to.take(&self.piece[..read]);
                return read as u64;
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => (),
            Err(_) => self.from = None,
        }
        0
    }

    /// Copies what is left in the pipe after all writers have ended, and closes the file.
    /// Returns the number of dropped bytes.
    pub(super) async fn finish(mut self) -> u64 {
        let mut copied = 0;
        while self.from.is_some() && copied < LAST {
            if timeout(SILENCE, self.ready()).await.is_err() {
                break;
            }
            copied += self.copy();
        }
        self.to.finish()
    }
}
