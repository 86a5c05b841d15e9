//! What a worker hears: a file that the hub appends to, copied into its stdin.
//!
//! A file, so that a hub that comes back can go on with it. What the worker did not
//! read is known at its end, and nobody may say then that it heard it.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use tokio::net::unix::pipe::Sender;
use tokio::time::sleep;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// What is read at a time.
const PIECE: usize = 64 * 1024;

pub(super) struct Feed {
    from: File,
    to: Sender,
    /// Nobody reads any more.
    closed: bool,
    piece: Vec<u8>,
    written: usize,
    /// All that went into the pipe.
    given: u64,
}

impl Feed {
    pub(super) fn new(from: File, to: OwnedFd) -> io::Result<Self> {
        let to = Sender::from_owned_fd(to)?;
        Ok(Self { from, to, closed: false, piece: Vec::new(), written: 0, given: 0 })
    }

    /// Copies what there is, a piece at a time; never completes. It may be dropped at
    /// any point and goes on where it was.
    pub(super) async fn run(&mut self) {
        loop {
            if self.written == self.piece.len() && !self.read() {
                sleep(LOOK).await;
                continue;
            }
            if self.closed {
                return std::future::pending().await;
            }
            // An error shows when it is written.
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

    /// How much of the file was taken out of the pipe at its other end.
    pub(super) fn heard(&self) -> u64 {
        // A pipe that does not tell was not read.
        self.given.saturating_sub(ioctl_fionread(&self.to).unwrap_or(self.given))
    }

    /// Whether there was more.
    fn read(&mut self) -> bool {
        self.piece.resize(PIECE, 0);
        let read = self.from.read(&mut self.piece).unwrap_or(0);
        self.piece.truncate(read);
        self.written = 0;
        read > 0
    }
}
