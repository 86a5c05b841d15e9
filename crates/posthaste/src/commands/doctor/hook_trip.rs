//! Runs one hook as the agent's program does: by the command in the program's file.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use posthaste_api::Client as Hub;
use posthaste_api::instances::{InstanceView, InstancesQuery};
use posthaste_bridges::clients::{Client, Event};
use serde_json::json;

use super::{Check, hooks};
use crate::commands::Session;
use crate::commands::connect::{files, proof};

const TRIP: &str = "hook trip";

/// The largest page that the hub returns.
const MOST: u32 = 1000;

/// Tries the hook before a tool, which returns no messages, so that no mail is taken.
/// The hook joins under a key of its own, and leaves again.
pub(super) async fn check(client: &dyn Client, file: &Path, session: &Session) -> Check {
    let text = files::read(file).ok().flatten().unwrap_or_default();
    let Some(words) = client.hooks().command(client.name(), Event::BeforeTool, &text) else {
        let told = format!("{} has no hook of ours to try", file.display());
        return Check::warn(TRIP, told, format!("posthaste connect {}", client.name()));
    };
    let key = format!("doctor:{:016x}", rand::random::<u64>());
    let failed = |why: &str| {
        let told = format!("the hook in {} does not reach the hub: {why}", file.display());
        let log = hooks::log_of(session.folder.path());
        Check::warn(TRIP, told, format!("see {}", log.display()))
    };
    let said = match run(&words, &key) {
        Ok(said) => said,
        Err(why) => return failed(&why),
    };
    if !said.is_empty() {
        return failed("it says something where nothing is to be said");
    }
    let Ok(operator) = session.client() else { return failed("nobody may ask who is there") };
    match joined(&operator, &key).await {
        Some(one) => {
            let _ = operator.leave(&one.instance).await;
            let owner = session.owner(&operator, &one.agent, Some(&one.team));
            // The instance has ended, so a secret that stays is useless.
            let _ = session.keyring().take(&owner, &key);
            Check::ok(TRIP, format!("the hook in {} reaches the hub", file.display()))
        }
        None => failed("it ended well, and nobody came"),
    }
}

/// Returns the instance that joined under this key.
async fn joined(operator: &Hub, key: &str) -> Option<InstanceView> {
    let query = InstancesQuery { limit: Some(MOST), ..InstancesQuery::default() };
    let here = operator.instances(&query).await.ok()?;
    here.instances.into_iter().find(|one| one.key.as_deref() == Some(key))
}

/// Runs the command, and returns its stdout. The command has its own time limit.
#[expect(clippy::disallowed_methods, reason = "it is waited for here")]
fn run(words: &[String], key: &str) -> Result<String, String> {
    let (program, args) = words.split_first().ok_or("it is empty")?;
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .envs(proof::handed_on())
        .env("POSTHASTE_KEY", key)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("{program} cannot be started: {e}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // The write fails if the program reads nothing and has closed the pipe.
        let _ = write!(stdin, "{}", json!({ "session_id": key, "tool_name": "doctor" }));
    }
    let done = child.wait_with_output().map_err(|e| e.to_string())?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned()),
        false => Err(done.status.to_string()),
    }
}
