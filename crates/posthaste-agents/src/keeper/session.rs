//! The worker's stdin and stdout, in a conversation that the hub leads.
//!
//! The keeper keeps the worker's output in memory until a hub confirms it, and at its
//! bound stops reading, so that the worker waits and nothing is lost. It accepts input at
//! the byte that it expects next, so a hub that is not sure what its predecessor wrote
//! writes it again. One hub talks at a time: the next one takes the place of the last.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::frames::{Decoder, Frame, LINE};

/// Number of bytes read at a time.
const PIECE: usize = 64 * 1024;
/// The time for which the pipe of an ended worker may be silent before it is closed.
const SILENCE: Duration = Duration::from_millis(100);
/// The most that is read after the worker's end; no pipe holds more.
const LAST: u64 = 1 << 20;
/// The most input that waits for the worker. A hub that writes more is broken.
const INPUT: usize = 256 << 20;

pub(super) struct Session {
    listener: UnixListener,
    hub: Option<Connection>,
    stdout: Option<Receiver>,
    tape: Tape,
    stdin: Option<Sender>,
    input: VecDeque<u8>,
    /// Number of bytes that were accepted for the worker's stdin.
    accepted: u64,
    piece: Vec<u8>,
}

/// The worker's output that no hub has confirmed.
struct Tape {
    /// The offset of the first byte.
    from: u64,
    bytes: VecDeque<u8>,
    most: usize,
}

/// The connection of a hub.
struct Connection {
    stream: UnixStream,
    decoder: Decoder,
    /// Bytes on their way to the hub.
    out: Vec<u8>,
    written: usize,
    /// The offset of the output that is sent next; `None` before the hub has said it.
    next: Option<u64>,
}

/// The part of a session that is ready.
enum Ready {
    Hub(io::Result<UnixStream>),
    FromHub,
    ToHub,
    Output,
    Input,
}

impl Session {
    /// Offers the socket. The worker does not run yet.
    pub(super) fn new(
        socket: &Path,
        stdout: OwnedFd,
        stdin: OwnedFd,
        bytes: u64,
    ) -> io::Result<Self> {
        let _ = std::fs::remove_file(socket);
        Ok(Self {
            listener: UnixListener::bind(socket)?,
            hub: None,
            stdout: Some(Receiver::from_owned_fd(stdout)?),
            tape: Tape {
                from: 0,
                bytes: VecDeque::new(),
                // At a smaller bound a long line would wait for a confirmation that waits
                // for its end.
                most: usize::try_from(bytes).unwrap_or(usize::MAX).max(LINE + PIECE),
            },
            stdin: Some(Sender::from_owned_fd(stdin)?),
            input: VecDeque::new(),
            accepted: 0,
            piece: vec![0; PIECE],
        })
    }

    /// Carries bytes both ways; never completes. The future may be dropped at any point;
    /// the next call goes on from there.
    pub(super) async fn run(&mut self) {
        loop {
            let ready = self.ready().await;
            self.act(ready);
            self.fill();
        }
    }

    async fn ready(&self) -> Ready {
        let room = self.tape.bytes.len() < self.tape.most;
        let (stdout, stdin) = (self.stdout.as_ref(), self.stdin.as_ref());
        let hub = self.hub.as_ref();
        let sends = hub.is_some_and(|hub| hub.written < hub.out.len());
        tokio::select! {
            hub = self.listener.accept() => Ready::Hub(hub.map(|(stream, _)| stream)),
            () = readable(hub.map(|hub| &hub.stream)) => Ready::FromHub,
            () = writable(hub.map(|hub| &hub.stream).filter(|_| sends)) => Ready::ToHub,
            () = pipe_readable(stdout.filter(|_| room)) => Ready::Output,
            () = pipe_writable(stdin.filter(|_| !self.input.is_empty())) => Ready::Input,
        }
    }

    fn act(&mut self, ready: Ready) {
        match ready {
            Ready::Hub(Ok(stream)) => self.greet(stream),
            // The next hub may have more luck.
            Ready::Hub(Err(_)) => {}
            Ready::FromHub => {
                if self.hear().is_err() {
                    self.hub = None;
                }
            }
            Ready::ToHub => {
                let sent = self.hub.as_mut().map_or(Ok(()), Connection::send);
                if sent.is_err() {
                    self.hub = None;
                }
            }
            Ready::Output => self.read_output(),
            Ready::Input => self.write_input(),
        }
    }

    fn greet(&mut self, stream: UnixStream) {
        let mut out = Vec::new();
        Frame::Hello { output: self.tape.from, input: self.accepted }.encode(&mut out);
        let decoder = Decoder::default();
        self.hub = Some(Connection { stream, decoder, out, written: 0, next: None });
    }

    /// Reads what the hub says. An error ends the connection.
    fn hear(&mut self) -> io::Result<()> {
        let Some(hub) = &mut self.hub else { return Ok(()) };
        match hub.stream.try_read(&mut self.piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => hub.decoder.push(&self.piece[..read]),
            Err(e) if is_not_ready(&e) => return Ok(()),
            Err(e) => return Err(e),
        }
        loop {
            let Some(hub) = &mut self.hub else { return Ok(()) };
            match hub.decoder.next()? {
                None => return Ok(()),
                Some(Frame::Read { from }) => {
                    hub.next = Some(from.max(self.tape.from));
                    self.tape.drop_until(from);
                }
                Some(Frame::Confirm { upto }) => self.tape.drop_until(upto),
                Some(Frame::Input { at, bytes }) => {
                    self.accept(at, &bytes)?;
                    if let Some(hub) = &mut self.hub {
                        Frame::Accepted { upto: self.accepted }.encode(&mut hub.out);
                    }
                }
                Some(_) => return Err(ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Takes the part of the input that was not accepted before. A gap is an error: the
    /// bytes before it are lost to somebody.
    fn accept(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let known = self.accepted.checked_sub(at).ok_or(ErrorKind::InvalidData)?;
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(bytes.len());
        let new = &bytes[known..];
        if self.input.len() + new.len() > INPUT {
            return Err(ErrorKind::OutOfMemory.into());
        }
        self.accepted += new.len() as u64;
        if self.stdin.is_some() {
            self.input.extend(new);
        }
        Ok(())
    }

    /// Puts output into the buffer of the connection, if it has room.
    fn fill(&mut self) {
        let Some(hub) = &mut self.hub else { return };
        let Some(next) = &mut hub.next else { return };
        while hub.out.len() - hub.written < PIECE {
            *next = (*next).max(self.tape.from);
            let bytes = self.tape.read(*next, PIECE);
            if bytes.is_empty() {
                return;
            }
            let at = *next;
            *next += bytes.len() as u64;
            Frame::Output { at, bytes }.encode(&mut hub.out);
        }
    }

    fn read_output(&mut self) {
        let Some(stdout) = &self.stdout else { return };
        match stdout.try_read(&mut self.piece) {
            Ok(0) => self.stdout = None,
            Ok(read) => self.tape.bytes.extend(&self.piece[..read]),
            Err(e) if is_not_ready(&e) => {}
            Err(_) => self.stdout = None,
        }
    }

    fn write_input(&mut self) {
        let Some(stdin) = &self.stdin else { return };
        match stdin.try_write(self.input.as_slices().0) {
            Ok(written) => drop(self.input.drain(..written)),
            Err(e) if is_not_ready(&e) => {}
            Err(_) => {
                self.stdin = None;
                self.input.clear();
            }
        }
    }

    /// Reads what the ended worker left in the pipe. Returns the offset of the output that
    /// no hub has confirmed, and that output.
    pub(super) async fn finish(mut self) -> (u64, Vec<u8>) {
        let begin = self.tape.bytes.len() as u64;
        while self.stdout.is_some() && self.tape.bytes.len() as u64 - begin < LAST {
            if timeout(SILENCE, pipe_readable(self.stdout.as_ref())).await.is_err() {
                break;
            }
            self.read_output();
        }
        (self.tape.from, self.tape.bytes.into())
    }
}

impl Connection {
    fn send(&mut self) -> io::Result<()> {
        match self.stream.try_write(&self.out[self.written..]) {
            Ok(written) => self.written += written,
            Err(e) if is_not_ready(&e) => {}
            Err(e) => return Err(e),
        }
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
        Ok(())
    }
}

impl Tape {
    fn drop_until(&mut self, upto: u64) {
        let known = upto.saturating_sub(self.from);
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(self.bytes.len());
        self.bytes.drain(..known);
        self.from += known as u64;
    }

    fn read(&self, from: u64, most: usize) -> Vec<u8> {
        let skip = usize::try_from(from.saturating_sub(self.from)).unwrap_or(usize::MAX);
        let end = skip.saturating_add(most).min(self.bytes.len());
        let begin = skip.min(end);
        self.bytes.range(begin..end).copied().collect()
    }
}

fn is_not_ready(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

// Errors show at the read or write that follows.

async fn readable(stream: Option<&UnixStream>) {
    match stream {
        Some(stream) => drop(stream.readable().await),
        None => std::future::pending().await,
    }
}

async fn writable(stream: Option<&UnixStream>) {
    match stream {
        Some(stream) => drop(stream.writable().await),
        None => std::future::pending().await,
    }
}

async fn pipe_readable(pipe: Option<&Receiver>) {
    match pipe {
        Some(pipe) => drop(pipe.readable().await),
        None => std::future::pending().await,
    }
}

async fn pipe_writable(pipe: Option<&Sender>) {
    match pipe {
        Some(pipe) => drop(pipe.writable().await),
        None => std::future::pending().await,
    }
}
