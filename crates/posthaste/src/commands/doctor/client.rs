//! Checks the connection of one agent program: whether it is there, is right, and works.

use std::process::{Command, Stdio};
use std::time::Duration;

use posthaste_api::ErrorCode;
use posthaste_bridges::clients::{Client, Edit, Scope, Server};

use super::{Check, hook_trip, hook_trust, hub};
use crate::cli::Global;
use crate::commands::Session;
use crate::commands::connect::record::Record;
use crate::commands::connect::wish::{Ground, Wish, written};
use crate::commands::connect::{files, programs, proof};
use crate::failure::Failure;

const PROGRAM: &str = "program";
const CONFIGURATION: &str = "configuration";
const HOOKS: &str = "hooks";
const TRIP: &str = "round trip";
const FOLDER: &str = "folder";

/// The time that a program may take to start; some start slowly.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn checks(
    client: &dyn Client,
    scope: Scope,
    global: &Global,
) -> Result<Vec<Check>, Failure> {
    let session = Session::new(global)?;
    let ground = Ground::here()?;
    let mut checks = vec![program(client)];
    let again = again(client, scope);
    let server = match written(client, scope, &ground) {
        Ok(Some(server)) => server,
        Ok(None) => {
            let file = files::meant(&client.servers(scope, &ground.env()).files);
            let told = format!("{} does not name our server", file.display());
            checks.push(not_found(CONFIGURATION, told, again));
            return Ok(checks);
        }
        Err(Failure::Told(error)) => {
            checks.push(Check::failed(CONFIGURATION, error));
            return Ok(checks);
        }
        Err(other) => return Err(other),
    };
    let record = Record::find(&session.folder, client, scope, &ground)?;
    checks.extend(configuration(client, scope, &ground, &server, record.as_ref())?);
    let read = |path: &std::path::Path| files::read(path).ok().flatten();
    if let Some(found) = client.distrust(scope, &ground.env(), &read) {
        checks.push(Check::warn(FOLDER, found.told, found.hint));
    }
    let hooked = record.as_ref().filter(|record| record.wish.hooks);
    let hooks = hooked.and_then(|_| client.hooks_file(scope, &ground.env()));
    if hooks.is_some() && client.name() == "codex" {
        checks.push(hook_trust::of_codex(client, scope, &ground));
    }
    let running = hub::running(&session.folder).await;
    // A bridge starts a hub when it needs one; a check starts none.
    let runs = match session.stranger() {
        Ok(hub) => hub.health().await.is_ok(),
        Err(failure) if session.hub.is_some() => return Err(failure),
        // It is just starting.
        Err(_) => false,
    };
    checks.push(running);
    checks.push(match runs {
        true => match proof::of_configuration(client, scope, &ground, &session, false).await {
            Ok(proved) => Check::ok(
                TRIP,
                format!("known as {}, {} tools are offered", proved.address, proved.tools),
            ),
            Err(error) => Check::failed(TRIP, error),
        },
        false => match server {
            Server::Stdio { .. } => Check::warn(
                TRIP,
                "not tried, since no hub runs; the agent's first call starts one",
                "start it with `posthaste up --detach` to try it now",
            ),
            Server::Http { url, .. } => {
                let told = format!("nobody answers at {url}");
                let check = Check::fail(TRIP, told, "start the hub with `posthaste up --detach`");
                Check { code: ErrorCode::Unavailable, ..check }
            }
        },
    });
    if let (Some(file), true) = (hooks, runs) {
        checks.push(hook_trip::check(client, &file, &session).await);
    }
    Ok(checks)
}

fn again(client: &dyn Client, scope: Scope) -> String {
    match scope {
        Scope::User => format!("posthaste connect {}", client.name()),
        Scope::Project => format!("posthaste connect {} --scope project", client.name()),
    }
}

fn not_found(name: &'static str, told: String, hint: String) -> Check {
    Check { code: ErrorCode::NotFound, ..Check::fail(name, told, hint) }
}

fn program(client: &dyn Client) -> Check {
    let Some(path) = programs::find(client.program()) else {
        let told = format!("there is no `{}` on the PATH", client.program());
        return not_found(PROGRAM, told, format!("npm install -g {}", client.package()));
    };
    match version(&path) {
        Ok(version) => Check::ok(PROGRAM, format!("{} is {version}", path.display())),
        Err(why) => Check::warn(
            PROGRAM,
            format!("{} does not tell its version: {why}", path.display()),
            format!("try `{} --version`", client.program()),
        ),
    }
}

#[expect(clippy::disallowed_methods, reason = "it is waited for here, or ended")]
fn version(path: &std::path::Path) -> Result<String, String> {
    let mut child = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    let stdout = child.stdout.take().expect("piped");
    let (sender, first) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(std::io::read_to_string(stdout));
    });
    let said = first.recv_timeout(PATIENCE);
    if said.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    let said = said.map_err(|_| "it does not end".to_owned())?.map_err(|e| e.to_string())?;
    match said.lines().next() {
        Some(line) if status.success() => Ok(line.trim().to_owned()),
        _ => Err(status.to_string()),
    }
}

/// Checks whether the files hold what connecting now, with the recorded options, would
/// write.
fn configuration(
    client: &dyn Client,
    scope: Scope,
    ground: &Ground,
    server: &Server,
    record: Option<&Record>,
) -> Result<Vec<Check>, Failure> {
    let mut checks = Vec::new();
    let file = files::meant(&client.servers(scope, &ground.env()).files);
    let place = file.display();
    let Some(record) = record else {
        checks.push(Check::warn(
            CONFIGURATION,
            format!("{place} names our server, and `connect` has not written it"),
            again(client, scope),
        ));
        return Ok(checks);
    };
    let edits = record.wish.edits(client, scope, ground, &meant(server, &record.wish));
    let right = |edit: &Edit| -> Result<bool, Failure> {
        let changes = files::changes(std::slice::from_ref(edit), Some(record))?;
        Ok(changes.iter().all(|change| !change.is_one()))
    };
    let gone = match server {
        Server::Stdio { program, .. } => !std::path::Path::new(program).exists(),
        Server::Http { .. } => false,
    };
    let changed = format!("{place} differs from what `connect` wrote");
    checks.push(match (right(&edits[0])?, gone) {
        (_, true) => not_found(
            CONFIGURATION,
            format!("{place} names a program that is not there any more"),
            again(client, scope),
        ),
        (true, false) => Check::ok(CONFIGURATION, format!("{place} is as `connect` wrote it")),
        (false, false) => Check::warn(CONFIGURATION, changed, again(client, scope)),
    });
    let Some(file) = client.hooks_file(scope, &ground.env()) else { return Ok(checks) };
    let place = file.display();
    let there = edits.iter().find(|edit| edit.files.contains(&file));
    checks.push(match (record.wish.hooks, there.map(right).transpose()?) {
        (false, _) => Check::ok(HOOKS, "not wanted: it was connected with --no-hooks or --http"),
        (true, Some(true)) => Check::ok(HOOKS, format!("{place} has all of them")),
        (true, _) => {
            let told = format!("{place} does not have all of them");
            Check::warn(HOOKS, told, again(client, scope))
        }
    });
    Ok(checks)
}

/// Returns the server of the record's options; over HTTP with the token in the file.
fn meant(server: &Server, wish: &Wish) -> Server {
    match (wish.http, server) {
        (true, Server::Http { .. }) => server.clone(),
        _ => wish.bridge(),
    }
}
