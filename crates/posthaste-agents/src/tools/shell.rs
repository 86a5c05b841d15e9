//! The service `shell`: commands that begin in the working directory.
//!
//! A command is not confined: it may do whatever the user may as whom it runs. It has no
//! token of the hub and no key of a model, and ends with its call: its whole process group
//! is killed when it takes too long, when the call is cancelled, and when the hub stops.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use humantime_serde::re::humantime::format_duration;
use posthaste_runner::protocol::ToolSpec;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use super::{read, spec};
use crate::environment::Environment;
use crate::user::WorkerUser;

pub(super) const NAME: &str = "shell";

pub(super) struct Shell {
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

/// Kills a process group when it is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Shell {
    pub(super) fn new(
        directory: PathBuf,
        environment: Environment,
        user: Option<WorkerUser>,
        most: Duration,
        shown: usize,
    ) -> Self {
        Self { directory, environment, user, most, shown }
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
        let limit = timeout.map_or(self.most, Duration::from_secs).min(self.most);
        self.run(&command, limit).await
    }

    async fn run(&self, command: &str, limit: Duration) -> Result<String, String> {
        if command.contains('\0') {
            return Err("the command has a zero byte".to_owned());
        }
        let words = ["/bin/sh".into(), "-c".into(), command.into()];
        let words: Vec<std::ffi::OsString> = match &self.user {
            Some(user) => user.runs(&words),
            None => words.to_vec(),
        };
        let (program, arguments) = words.split_first().expect("a shell");
        #[expect(
            clippy::disallowed_methods,
            reason = "a tool of an assistant, ended with its call"
        )]
        let mut line = tokio::process::Command::new(program);
        line.args(arguments)
            .current_dir(&self.directory)
            .env_clear()
            .envs(self.environment.all())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = line.spawn().map_err(|error| format!("/bin/sh: {error}"))?;
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let _group = Group(pid);
        let out = bounded(child.stdout.take(), self.shown);
        let err = bounded(child.stderr.take(), self.shown);
        let work = async {
            let status = child.wait();
            tokio::join!(status, out, err)
        };
        let Ok((status, out, err)) = timeout(limit, work).await else {
            let limit = format_duration(limit);
            return Err(format!("the command took longer than {limit}, and was ended"));
        };
        let status = status.map_err(|error| error.to_string())?;
        let told = match status.code() {
            Some(code) => format!("exit code {code}"),
            None => format!("{status}"),
        };
        let mut text = told;
        for (name, output) in [("stdout", out), ("stderr", err)] {
            if !output.is_empty() {
                text.push_str(&format!("\n[{name}]\n{output}"));
            }
        }
        match status.success() {
            true => Ok(text),
            false => Err(text),
        }
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
