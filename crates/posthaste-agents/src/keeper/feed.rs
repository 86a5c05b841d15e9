//! The mail of a worker: a file that the hub appends to, copied into the worker's stdin.
//!
//! The mail is a file so that a restarted hub can go on with it. At the worker's end the
//! keeper knows what the worker did not read, and the hub must not count that as read.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use tokio::net::unix::pipe::Sender;
use tokio::time::sleep;

/// The time between two looks into the file.
const LOOK: Duration = Duration::from_millis(50);
/// Number of bytes read at a time.
const PIECE: usize = 64 * 1024;

pub(super) struct Feed {
    from: File,
    to: Sender,
    /// The other end of the pipe is closed.
    closed: bool,
    piece: Vec<u8>,
    written: usize,
    /// Number of bytes written into the pipe.
    given: u64,
}

impl Feed {
    pub(super) fn new(from: File, to: OwnedFd) -> io::Result<Self> {
        let to = Sender::from_owned_fd(to)?;
        Ok(Self { from, to, closed: false, piece: Vec::new(), written: 0, given: 0 })
    }

    /// Copies new bytes, a piece at a time; never completes. The future may be dropped at
    /// any point; the next call goes on from there.
    pub(super) async fn run(&mut self) {
        loop {
            if self.written == self.piece.len() && !self.read() {
                sleep(LOOK).await;
                continue;
            }
            if self.closed {
                return std::future::pending().await;
            }
            // An error shows at the write.
            let _ = self.to.writable().await;
            match self.to.try_write(&self.piece[self.written..]) {
                Ok(written) => {
                    self.written += written;
                    self.given += written as u64;
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => (),
                Err(_) => self.closed = true,
            }
        }
    }

    /// Returns how many bytes the worker has taken out of the pipe.
    pub(super) fn heard(&self) -> u64 {
        // A pipe that cannot tell counts as unread.
        self.given.saturating_sub(ioctl_fionread(&self.to).unwrap_or(self.given))
    }

    /// Reads the next piece; returns whether there was one.
    fn read(&mut self) -> bool {
        self.piece.resize(PIECE, 0);
        let read = self.from.read(&mut self.piece).unwrap_or(0);
        self.piece.truncate(read);
        self.written = 0;
        read > 0
    }
}
