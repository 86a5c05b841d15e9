//! The service `shell`: commands that begin in the working directory.
//!
//! A command is not confined: it may do whatever the user may as whom it runs. It has no
//! token of the hub and no key of a model, and everything that it started ends with its
//! call: when the command ends, takes too long or is cancelled, and when the hub ends.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use humantime_serde::re::humantime::format_duration;
use posthaste_runner::protocol::ToolSpec;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use super::trees::Trees;
use super::{read, spec};
use crate::environment::Environment;
use crate::keeper::{TreeEnd, TreeStdin};
use crate::user::WorkerUser;

pub(super) const NAME: &str = "shell";

/// The time that the end of a command may take, beyond that of its keeper.
const ENDING: Duration = Duration::from_secs(20);

pub(super) struct Shell {
    trees: Arc<Trees>,
    directory: PathBuf,
    environment: Environment,
    user: Option<WorkerUser>,
    /// The longest time of a command.
    most: Duration,
    /// Number of bytes that are kept of its output.
    shown: usize,
}

pub(super) fn specs() -> Vec<ToolSpec> {
    vec![spec(
        "run",
        "Run a command with /bin/sh in the working directory; its input is empty.",
        json!({ "type": "object", "required": ["command"], "properties": {
            "command": { "type": "string" },
            "timeout": { "type": "integer", "description": "seconds" } } }),
    )]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    command: String,
    #[serde(default)]
    timeout: Option<u64>,
}

impl Shell {
    pub(super) fn new(
        trees: Arc<Trees>,
        directory: PathBuf,
        environment: Environment,
        user: Option<WorkerUser>,
        most: Duration,
        shown: usize,
    ) -> Self {
        Self { trees, directory, environment, user, most, shown }
    }

    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<String, String> {
        if tool != "run" {
            return Err(format!("the service shell has no tool {tool}"));
        }
        let Run { command, timeout } = read(arguments)?;
        if timeout == Some(0) {
            return Err("`timeout` is at least 1 second; without it the command has the longest \
                        time that the hub allows"
                .to_owned());
        }
        let limit = timeout.map_or(self.most, Duration::from_secs).min(self.most);
        self.run(&command, limit).await
    }

    async fn run(&self, command: &str, limit: Duration) -> Result<String, String> {
        if command.contains('\0') {
            return Err("the command has a zero byte".to_owned());
        }
        let words = ["/bin/sh".into(), "-c".into(), command.into()];
        let words: Vec<OsString> = match &self.user {
            Some(user) => user.runs(&words),
            None => words.to_vec(),
        };
        let started =
            self.trees.start(words, &self.directory, &self.environment, TreeStdin::Report);
        let mut tree = started.map_err(|error| {
            format!("the command cannot be started in {}: {error}", self.directory.display())
        })?;
        let stop = tree.stop();
        let out = bounded(tree.stdout.take(), self.shown);
        let err = bounded(tree.stderr.take(), self.shown);
        let work = async { tokio::join!(tree.end(), out, err) };
        tokio::pin!(work);
        let (done, overdue) = match timeout(limit, &mut work).await {
            Ok(done) => (done, None),
            Err(_) => {
                stop.cancel();
                let done = timeout(ENDING, &mut work).await;
                let why = "a process of the command cannot be ended";
                (done.map_err(|_| why.to_owned())?, Some(limit))
            }
        };
        told(done, overdue)
    }
}

/// Returns the result of a command, for the model.
fn told(
    (end, out, err): (TreeEnd, String, String),
    overdue: Option<Duration>,
) -> Result<String, String> {
    let mut text = match (overdue, &end) {
        (_, TreeEnd { error: Some(why), .. }) => return Err(why.clone()),
        (Some(limit), _) => {
            format!("the command took longer than {}, and was ended", format_duration(limit))
        }
        (None, TreeEnd { code: Some(code), .. }) => format!("exit code {code}"),
        (None, TreeEnd { signal: Some(signal), .. }) => format!("ended by signal {signal}"),
        (None, _) => "the command ended, and nobody knows how".to_owned(),
    };
    if overdue.is_none() && end.left > 0 {
        text.push_str(&format!(
            "\n[posthaste] the command left {} running in the background: ended with the call",
            if end.left == 1 { "1 process".to_owned() } else { format!("{} processes", end.left) }
        ));
    }
    for (name, output) in [("stdout", out), ("stderr", err)] {
        if !output.is_empty() {
            text.push_str(&format!("\n[{name}]\n{output}"));
        }
    }
    match overdue.is_none() && end.code == Some(0) {
        true => Ok(text),
        false => Err(text),
    }
}

/// Reads a stream to its end, and keeps its beginning.
async fn bounded(stream: Option<impl AsyncRead + Unpin>, most: usize) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let (mut kept, mut dropped, mut part) = (Vec::new(), 0_usize, [0_u8; 8192]);
    while let Ok(count @ 1..) = stream.read(&mut part).await {
        let room = most.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&part[..room]);
        dropped += count - room;
    }
    let mut text = String::from_utf8_lossy(&kept).into_owned();
    if dropped > 0 {
        text.push_str(&format!("\n[{dropped} more bytes were dropped]"));
    }
    text
}

#[cfg(test)]
mod tests;
