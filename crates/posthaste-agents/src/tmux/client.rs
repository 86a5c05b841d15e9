//! The hub's control-mode client of one pane.

use std::io::{self, ErrorKind};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, getpid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::control::{ATTACHED, TICK};
use super::{Tmux, command};
use crate::conversation::one_line;
use crate::keeper::{COMMAND, TIED};
use crate::ticket::Pane;

/// The time between two ticks.
const TICKS: Duration = Duration::from_millis(250);
/// Number of bytes read at a time.
const PIECE: usize = 64 * 1024;
/// Number of bytes of stderr that are read, and of characters of tmux's words that are told.
const WORDS: usize = 200;
/// The longest time in which the last words of an ended client are read.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The longest line that is read; of a longer one the end is left out.
const LINE: usize = 4 << 20;

/// A `tmux -C attach-session`, which ends when this is dropped and when the hub is killed.
pub(crate) struct Client {
    /// Killed when dropped.
    _child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
    /// tmux has done a command of this client, which therefore is attached.
    attached: bool,
    /// The last line of tmux before that which is no notice.
    words: String,
    /// The first line, until it was read.
    first: Option<String>,
    ticks: Interval,
    /// Bytes of tmux, and how many of them were returned as lines.
    heard: Vec<u8>,
    taken: usize,
    out: Vec<u8>,
    written: usize,
}

impl Client {
    /// Attaches to the pane in which this process runs.
    pub(crate) fn attach(tmux: &Tmux, pane: &Pane, process: Pid) -> io::Result<Self> {
        let mut command = command(&tmux.keeper, &tmux.environment);
        command.args([COMMAND, TIED, &getpid().to_string()]).arg(&tmux.program);
        command.arg("-u").arg("-S").arg(&pane.socket).args(["-C", "attach-session"]);
        // Neither the size of the window nor its place in the session is the hub's.
        command.args(["-f", "ignore-size", "-t", &pane.session]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let closed = || io::Error::from(ErrorKind::BrokenPipe);
        let stdin = child.stdin.take().ok_or_else(closed)?;
        let stdout = child.stdout.take().ok_or_else(closed)?;
        let stderr = child.stderr.take().ok_or_else(closed)?;
        let mut ticks = interval(TICKS);
        // A tick stands for the time in which the pane had a chance to write.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            _child: child,
            stdin,
            stdout,
            stderr,
            attached: false,
            words: String::new(),
            first: Some(format!("{ATTACHED} {} {process}", pane.pane)),
            ticks,
            heard: Vec::new(),
            taken: 0,
            out: Vec::new(),
            written: 0,
        })
    }

    /// Returns whether tmux took the client.
    pub(crate) fn attached(&self) -> bool {
        self.attached
    }

    /// Puts commands into the line; [`Client::next`] writes them.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.out.extend(bytes);
    }

    /// Writes what is in the line and returns the next line. The future may be dropped at
    /// any point.
    pub(crate) async fn next(&mut self) -> io::Result<Vec<u8>> {
        if let Some(first) = self.first.take() {
            return Ok(first.into_bytes());
        }
        loop {
            if let Some(line) = self.line() {
                return Ok(line);
            }
            let sends = self.written < self.out.len();
            self.heard.reserve(PIECE);
            // A flood of output must not keep the commands and the time waiting.
            tokio::select! {
                biased;
                written = self.stdin.write(&self.out[self.written..]), if sends => {
                    // tmux has ended, and its last words are read.
                    self.written += written.unwrap_or(self.out.len() - self.written);
                    if self.written == self.out.len() {
                        self.out.clear();
                        self.written = 0;
                    }
                }
                _ = self.ticks.tick() => return Ok(TICK.as_bytes().to_vec()),
                read = self.stdout.read_buf(&mut self.heard) => {
                    if read? == 0 {
                        return Err(self.end().await);
                    }
                }
            }
        }
    }

    /// Returns the reason for which tmux ended the client, in tmux's words.
    async fn end(&mut self) -> io::Error {
        let mut bytes = Vec::new();
        let stderr = (&mut self.stderr).take(WORDS as u64);
        let _ = timeout(LAST_WORDS, { stderr }.read_to_end(&mut bytes)).await;
        let said = String::from_utf8_lossy(&bytes);
        let said = if said.trim().is_empty() { self.words.as_str() } else { &said };
        match said.trim() {
            "" => ErrorKind::UnexpectedEof.into(),
            said => io::Error::other(one_line(said, WORDS)),
        }
    }

    /// Takes a whole line out of what was heard.
    fn line(&mut self) -> Option<Vec<u8>> {
        let rest = &self.heard[self.taken..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.heard.drain(..self.taken);
            self.taken = 0;
            self.heard.truncate(LINE);
            return None;
        };
        let line = rest[..end].to_vec();
        self.taken += end + 1;
        self.attached |= line.starts_with(b"%end ");
        if !self.attached && !line.starts_with(b"%") {
            self.words = String::from_utf8_lossy(&line).into_owned();
        }
        Some(line)
    }
}
