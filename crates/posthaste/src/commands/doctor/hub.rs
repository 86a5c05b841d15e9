//! Checks the port, and the hub that may run already.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use posthaste_api::health::Health;
use posthaste_api::{Client, ErrorCode};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::Check;
use crate::commands::up::reachable;
use crate::identity::{DataFolder, Running};
use crate::listening;

/// The file in which a hub records how it runs.
const RECORD: &str = "hub.json";
const PORT: &str = "port";
const HUB: &str = "hub";
const GREETING: Duration = Duration::from_secs(3);

/// Checks the hub that is recorded for this folder.
pub(super) async fn running(data: &DataFolder) -> Check {
    let file = data.path().join(RECORD);
    // Reads the file directly: a check must not repair a fault in passing.
    let said = match fs::read_to_string(&file) {
        Ok(text) => serde_json::from_str::<Running>(&text),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Check::ok(HUB, "none runs on this folder");
        }
        Err(e) => {
            let told = format!("{} cannot be read: {e}", file.display());
            return Check::fail(HUB, told, "open it for its owner, or remove it");
        }
    };
    let Ok(Running { url, pid, .. }) = said else {
        let told = format!("{} says nothing that makes sense", file.display());
        return Check::warn(HUB, told, "remove it; the next start writes it anew");
    };
    let Some(client) = Client::new(&url).ok() else {
        return Check::warn(HUB, format!("{url} is no address"), "start the hub again");
    };
    let health = match ask(&client).await {
        Some(health) => health,
        None => {
            let told = format!("the hub of process {pid} does not answer at {url}");
            return Check::warn(
                HUB,
                told,
                "if it was killed, start it again with `posthaste up --detach`",
            );
        }
    };
    let told = format!("{} runs at {url} (pid {})", health.version, health.pid);
    if health.version != env!("CARGO_PKG_VERSION") {
        let ours = env!("CARGO_PKG_VERSION");
        return Check::warn(HUB, format!("{told}, and this is {ours}"), "restart the hub");
    }
    match readiness(&client).await {
        Ok(()) => Check::ok(HUB, format!("{told} and is ready")),
        Err((why, hint)) => {
            let told = format!("{told} and {why}");
            Check { code: ErrorCode::Unavailable, ..Check::fail(HUB, told, hint) }
        }
    }
}

/// Returns the process of the hub that answers for this folder.
pub(super) async fn process(data: &DataFolder) -> Option<u32> {
    let text = fs::read(data.path().join(RECORD)).ok()?;
    let Running { url, .. } = serde_json::from_slice(&text).ok()?;
    Some(ask(&Client::new(&url).ok()?).await?.pid)
}

/// Tells if the hub of this folder runs with another configuration than the one that
/// is checked here.
pub(super) fn other_file(data: &DataFolder, file: Option<&Path>) -> Option<Check> {
    let record = data.path().join(RECORD);
    let text = fs::read(&record).ok().filter(|_| data.has_hub())?;
    let Running { config: of_hub, .. } = serde_json::from_slice(&text).ok()?;
    let warn = |told: String, hint: String| Some(Check::warn("configuration", told, hint));
    match (of_hub, file) {
        (Some(of_hub), file) if file != Some(&of_hub) => {
            let of_hub = of_hub.display();
            let told = format!("the running hub has read {of_hub}, and this check has not");
            warn(told, format!("`posthaste doctor --config {of_hub}` looks at what it has read"))
        }
        (None, Some(file)) => {
            let told = format!("the running hub has not read {}", file.display());
            warn(told, "start the hub again".to_owned())
        }
        (_, Some(file)) if changed(file)? > changed(&record)? => {
            let told = format!("{} was changed after the hub had read it", file.display());
            warn(told, "start the hub again".to_owned())
        }
        _ => None,
    }
}

fn changed(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}

/// Returns why a hub is not ready, and what to do about it.
async fn readiness(client: &Client) -> Result<(), (String, String)> {
    match timeout(GREETING, client.ready()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(e)) => {
            let error = posthaste_api::ApiError::from(e);
            let hint = error.hint.unwrap_or_else(|| "see its log".into());
            Err((format!("is not ready: {}", error.message), hint))
        }
        Err(_) => Err(("does not say whether it is ready".into(), "see its log".into())),
    }
}

/// Checks whether a hub could listen there.
pub(super) async fn port(listen: SocketAddr) -> Check {
    let error = match TcpListener::bind(listen).await {
        Ok(_) => return Check::ok(PORT, format!("{listen} is free")),
        Err(e) => e,
    };
    if error.kind() != ErrorKind::AddrInUse {
        let told = format!("cannot listen on {listen}: {error}");
        let hint = "choose another address with --listen";
        return Check { code: ErrorCode::InvalidArgument, ..Check::fail(PORT, told, hint) };
    }
    let client = Client::new(&reachable(listen)).ok();
    if let Some(client) = client
        && let Some(health) = ask(&client).await
    {
        let told = format!("{listen} is a hub's (pid {})", health.pid);
        // A hub whose folder was moved away is found only here.
        return match readiness(&client).await {
            Ok(()) => Check::ok(PORT, told),
            Err((why, hint)) => Check::warn(PORT, format!("{told}, which {why}"), hint),
        };
    }
    let who = match listening::holder(listen) {
        Some(holder) => format!("{} (pid {})", holder.name, holder.pid),
        None => "an unknown process".to_owned(),
    };
    let told = format!("{listen} is taken by {who}, which is not a hub");
    let hint = "stop it, or choose another port with --listen or server.listen";
    Check { code: ErrorCode::Unavailable, ..Check::fail(PORT, told, hint) }
}

async fn ask(client: &Client) -> Option<Health> {
    let health = timeout(GREETING, client.health()).await.ok()?.ok()?;
    (health.service == "posthaste").then_some(health)
}
