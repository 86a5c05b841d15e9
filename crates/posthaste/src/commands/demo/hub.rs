//! A hub that the demo may kill.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::blocking;
use crate::config;
use crate::failure::{Failure, internal};

/// The time that a hub may take for its shutdown.
const GOODBYE: Duration = Duration::from_secs(20);

/// A child process with one owner: on drop it is asked to end, with all its workers.
pub(super) struct DemoHub {
    data: PathBuf,
    pub(super) url: String,
    child: Option<Child>,
}

impl DemoHub {
    pub(super) async fn start(data: &Path) -> Result<Self, Failure> {
        // The demo's hub has a separate configuration, which is empty.
        std::fs::write(config_beside(data), "")
            .map_err(|e| internal(format!("no configuration for the demo's hub: {e}")))?;
        let mut hub = Self { data: data.to_owned(), url: String::new(), child: None };
        hub.listen("127.0.0.1:0").await?;
        Ok(hub)
    }

    /// Starts the hub again on the same address and folder.
    pub(super) async fn restart(&mut self) -> Result<(), Failure> {
        let listen = self.url.trim_start_matches("http://").to_owned();
        self.listen(&listen).await
    }

    #[expect(clippy::disallowed_methods, reason = "the hub ends with the demo, see `stop`")]
    async fn listen(&mut self, listen: &str) -> Result<(), Failure> {
        let program = std::env::current_exe().map_err(|e| internal(format!("no program: {e}")))?;
        let beside = config_beside(&self.data);
        let ours = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("POSTHASTE_");
        let variables = config::whole_environment().into_iter().filter(|(name, _)| !ours(name));
        let mut child = Command::new(program)
            .args(["up", "--json", "--listen", listen, "--data"])
            .arg(&self.data)
            .env_clear()
            .envs(variables)
            .env("POSTHASTE_CONFIG", beside)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C is for the demo, which then stops its hub in order.
            .process_group(0)
            .spawn()
            .map_err(|e| internal(format!("no hub: {e}")))?;
        let stdout = child.stdout.take();
        self.child = Some(child);
        let line = blocking(move || {
            let mut line = String::new();
            let read = stdout.map(|out| BufReader::new(out).read_line(&mut line));
            read.transpose().map_err(|e| internal(format!("no hub: {e}")))?;
            Ok(line)
        });
        let told: Value = serde_json::from_str(&line.await?).unwrap_or_default();
        let url = told["url"].as_str().ok_or_else(|| internal("the demo's hub did not start"))?;
        self.url = url.to_owned();
        Ok(())
    }

    /// Kills the hub without a shutdown.
    pub(super) fn kill(&mut self) -> Result<u32, Failure> {
        let mut child = self.child.take().ok_or_else(|| internal("no hub runs"))?;
        let pid = child.id();
        let killed = child.kill().and_then(|()| child.wait());
        killed.map_err(|e| internal(format!("the hub cannot be killed: {e}")))?;
        Ok(pid)
    }

    pub(super) async fn stop(mut self) {
        self.ask_to_end();
        let until = Instant::now() + GOODBYE;
        while let Some(child) = &mut self.child
            && matches!(child.try_wait(), Ok(None))
            && Instant::now() < until
        {
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn ask_to_end(&self) {
        let pid = self.child.as_ref().and_then(|child| i32::try_from(child.id()).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

fn config_beside(data: &Path) -> PathBuf {
    data.parent().unwrap_or(data).join("posthaste.toml")
}

impl Drop for DemoHub {
    fn drop(&mut self) {
        self.ask_to_end();
        let Some(mut child) = self.child.take() else { return };
        let until = std::time::Instant::now() + GOODBYE;
        while matches!(child.try_wait(), Ok(None)) && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
