//! A child process with one owner, from spawn to reap.

use std::path::Path;
use std::process::{Child as Process, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep};

use crate::pin;
use crate::settings::Settings;

/// Ended by its id when dropped, whatever happened before.
pub(crate) struct Child {
    process: Process,
    /// Read once; kept so that the child's stdout stays open. `None` if all that it
    /// says goes to the log.
    said: Option<BufReader<pipe::Receiver>>,
}

impl Child {
    /// Starts a program on the server's core. What it logs goes to `log`.
    pub(crate) fn spawn(
        settings: &Settings,
        program: &Path,
        args: &[&str],
        env: &[(String, String)],
        log: &Path,
    ) -> anyhow::Result<Self> {
        let mut child = Self::begin(settings, program, args, env, log, Stdio::piped())?;
        let said = child.process.stdout.take().context("the child has no stdout")?;
        let said = pipe::Receiver::from_owned_fd(said.into())?;
        child.said = Some(BufReader::new(said));
        Ok(child)
    }

    /// The same for a program that talks on stdout without end: that goes to `log`, too.
    pub(crate) fn spawn_logged(
        settings: &Settings,
        program: &Path,
        args: &[&str],
        env: &[(String, String)],
        log: &Path,
    ) -> anyhow::Result<Self> {
        let told = std::fs::File::options().create(true).append(true).open(log)?;
        Self::begin(settings, program, args, env, log, told.into())
    }

    fn begin(
        settings: &Settings,
        program: &Path,
        args: &[&str],
        env: &[(String, String)],
        log: &Path,
        stdout: Stdio,
    ) -> anyhow::Result<Self> {
        let log = std::fs::File::options().create(true).append(true).open(log)?;
        #[expect(clippy::disallowed_methods, reason = "this file is the owner of every child")]
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(stdout).stderr(log);
        command.envs(env.iter().map(|(name, value)| (name, value)));
        let pins = settings.pins;
        let process = pin::started_on(pins.map(|p| p.server), pins.map(|p| p.load), || {
            command.spawn().with_context(|| format!("cannot start {}", program.display()))
        })?;
        Ok(Self { process, said: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The first line that it prints: children here say where they listen.
    pub(crate) async fn first_line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let said = self.said.as_mut().context("its words go to its log")?;
        let patience = Duration::from_secs(60);
        match tokio::time::timeout(patience, said.read_line(&mut line)).await {
            Ok(Ok(n)) if n > 0 => Ok(line),
            Ok(Ok(_)) => bail!("it ended without a word"),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => bail!("it said nothing for {} s", patience.as_secs()),
        }
    }

    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.process.try_wait()?.is_some())
    }

    /// `kill -9`; returns when the process is gone.
    pub(crate) fn kill(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Asks it to stop, and says whether it did so in time and in order.
    pub(crate) async fn stop(&mut self, patience: Duration) -> anyhow::Result<bool> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("the child has no id")?, Signal::TERM)?;
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status.success());
            }
            sleep(Duration::from_millis(5)).await;
        }
        self.kill();
        Ok(false)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}
