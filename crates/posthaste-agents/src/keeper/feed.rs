//! What a worker hears: a file that the hub appends to, copied into its stdin.
//!
//! A file, so that a hub that comes back can go on with it. Nothing is said here
//! about whether the worker reads.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use tokio::net::unix::pipe::Sender;
use tokio::time::sleep;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// What is read at a time.
const PIECE: usize = 64 * 1024;

pub(super) struct Feed {
    from: File,
    /// `None` once nobody reads any more.
    to: Option<Sender>,
    piece: Vec<u8>,
    written: usize,
}

impl Feed {
    pub(super) fn new(from: &Path, to: OwnedFd) -> io::Result<Self> {
        let (from, to) = (File::open(from)?, Some(Sender::from_owned_fd(to)?));
        Ok(Self { from, to, piece: Vec::new(), written: 0 })
    }

    /// Copies what there is, a piece at a time; never completes. It may be dropped at
    /// any point and goes on where it was.
    pub(super) async fn run(&mut self) {
        loop {
            if self.written == self.piece.len() && !self.read() {
                sleep(LOOK).await;
                continue;
            }
            let Some(to) = &self.to else { return std::future::pending().await };
            // An error shows when it is written.
            let _ = to.writable().await;
            match to.try_write(&self.piece[self.written..]) {
                Ok(written) => self.written += written,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => (),
                Err(_) => self.to = None,
            }
        }
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
