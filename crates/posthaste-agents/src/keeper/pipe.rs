//! What a worker writes, on its way to a file.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

use super::bounded::Bounded;

/// What is read at a time.
const PIECE: usize = 64 * 1024;
/// How long the pipe of a worker that has ended may be silent before it is let go: a
/// process that nobody could end may hold it open.
const SILENCE: Duration = Duration::from_millis(100);
/// More than this no pipe holds back.
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
            // An error shows when it is read.
            Some(from) => drop(from.readable().await),
            None => std::future::pending().await,
        }
    }

    /// Copies one piece. Tells how much it was.
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

    /// Copies what is still in it when everybody who wrote has ended, and closes the
    /// file. Tells how much was dropped.
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
