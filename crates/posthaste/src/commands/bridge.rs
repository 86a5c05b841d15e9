//! A client of `posthaste mcp`, as an agent's program is one: a child process, lines in,
//! lines out.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The time that a bridge may take to end once its stdin is closed.
const GOODBYE: Duration = Duration::from_secs(5);

/// A child process with one owner, from its start to its end.
pub(super) struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    patience: Duration,
}

impl Bridge {
    /// Starts the bridge with these variables and no others; answers must come within
    /// `patience`.
    #[expect(clippy::disallowed_methods, reason = "the bridge ends with who speaks, see `end`")]
    pub(super) fn start<'a>(
        program: impl AsRef<OsStr>,
        args: &[String],
        variables: impl Iterator<Item = (&'a str, String)>,
        patience: Duration,
    ) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(args)
            .env_clear()
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or(Value::Null);
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, stdin, lines, patience })
    }

    pub(super) fn say(&mut self, message: &Value) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("it is not spoken to any more")?;
        let said = writeln!(stdin, "{message}").and_then(|()| stdin.flush());
        said.map_err(|_| "it has ended".to_owned())
    }

    pub(super) fn ask(&mut self, message: &Value) -> Result<Value, String> {
        self.say(message)?;
        let until = Instant::now() + self.patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.map_err(|_| format!("no answer to {}", message["method"]))?;
            if line["id"] == message["id"] {
                return Ok(line);
            }
        }
    }

    /// Ends the bridge, and returns its stderr.
    pub(super) fn end(mut self) -> String {
        self.stdin = None;
        let until = Instant::now() + GOODBYE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            // The bridge closes its stdout when it ends.
            let left = until.saturating_duration_since(Instant::now());
            if self.lines.recv_timeout(left).is_err() {
                break;
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut said = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(1 << 16).read_to_string(&mut said);
        }
        said
    }
}
