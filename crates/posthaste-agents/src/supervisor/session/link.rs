//! The hub's connection to a keeper.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use tokio::net::UnixStream;

use crate::folder::Folder;
use crate::frames::{Decoder, Frame, MOST};

/// Number of bytes read at a time.
const PIECE: usize = 64 * 1024;
/// The longest path of a socket that every system takes.
const PATH: usize = 100;

pub(super) struct Link {
    stream: UnixStream,
    decoder: Decoder,
    out: Vec<u8>,
    written: usize,
    piece: Vec<u8>,
}

impl Link {
    /// Connects to the keeper of this folder.
    pub(super) async fn connect(folder: &Folder) -> io::Result<Self> {
        let (_folder, path) = reachable(folder)?;
        let stream = UnixStream::connect(path).await?;
        let piece = vec![0; PIECE];
        Ok(Self { stream, decoder: Decoder::default(), out: Vec::new(), written: 0, piece })
    }

    /// Puts a frame into the line; [`Link::next`] writes it.
    pub(super) fn send(&mut self, frame: &Frame) {
        frame.encode(&mut self.out);
    }

    /// Puts input for the worker into the line.
    pub(super) fn write(&mut self, mut at: u64, bytes: &[u8]) {
        for part in bytes.chunks(MOST) {
            self.send(&Frame::Input { at, bytes: part.to_vec() });
            at += part.len() as u64;
        }
    }

    /// Writes what is in the line and returns the keeper's next frame. The future may be
    /// dropped at any point.
    pub(super) async fn next(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.decoder.next()? {
                return Ok(frame);
            }
            let sends = self.written < self.out.len();
            tokio::select! {
                ready = self.stream.readable() => {
                    ready?;
                    match self.stream.try_read(&mut self.piece) {
                        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                        Ok(read) => self.decoder.push(&self.piece[..read]),
                        Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                        Err(e) => return Err(e),
                    }
                }
                ready = self.stream.writable(), if sends => {
                    ready?;
                    match self.stream.try_write(&self.out[self.written..]) {
                        Ok(written) => self.written += written,
                        Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                        Err(e) => return Err(e),
                    }
                    if self.written == self.out.len() {
                        self.out.clear();
                        self.written = 0;
                    }
                }
            }
        }
    }
}

/// Returns a path of the keeper's socket that is short enough for an address. A long one
/// leads through the open folder, which must stay open.
fn reachable(folder: &Folder) -> io::Result<(Option<File>, PathBuf)> {
    let path = folder.socket();
    if path.as_os_str().len() <= PATH || !cfg!(target_os = "linux") {
        return Ok((None, path));
    }
    let open = File::open(folder.path())?;
    let name = path.file_name().unwrap_or_default();
    let path = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd())).join(name);
    Ok((Some(open), path))
}
