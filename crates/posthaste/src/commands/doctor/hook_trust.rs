//! Checks whether Codex trusts our hooks: it silently skips hooks that it does not trust.
//!
//! The check asks Codex itself, in a scratch home with copies of its files, so that its
//! own files stay untouched.

use std::fs;
use std::path::Path;
use std::time::Duration;

use posthaste_bridges::clients::{Client, Event, Scope};
use serde_json::{Value, json};

use super::Check;
use crate::commands::bridge::Bridge;
use crate::commands::connect::programs;
use crate::commands::connect::proof;
use crate::commands::connect::wish::Ground;

const TRUST: &str = "hook trust";
const HINT: &str = "start `codex`, type /hooks, and trust those of posthaste";

/// Codex answers in less than a second.
const PATIENCE: Duration = Duration::from_secs(20);
/// An address where nothing listens: a check calls no server.
const NOWHERE: &str = "http://127.0.0.1:9";

pub(super) fn of_codex(client: &dyn Client, scope: Scope, ground: &Ground) -> Check {
    let listed = match listed(client, ground) {
        Ok(listed) => listed,
        Err(why) => {
            let told = format!("Codex cannot be asked whether it trusts our hooks: {why}");
            return Check::warn(TRUST, told, HINT);
        }
    };
    let wanted = if scope == Scope::Project { "project" } else { "user" };
    let ours = |hook: &&Value| {
        let command = hook["command"].as_str().unwrap_or_default();
        let named = |event: &str| command.contains(&format!(" hook {event} --client codex"));
        hook["source"] == wanted && Event::ALL.iter().any(|(_, event, _)| named(event))
    };
    let ours: Vec<&Value> = listed.iter().filter(ours).collect();
    let runs =
        |hook: &&&Value| hook["trustStatus"] != "untrusted" && hook["trustStatus"] != "modified";
    let trusted = ours.iter().filter(runs).count();
    match (trusted, ours.len()) {
        (_, 0) => Check::warn(TRUST, "Codex does not see our hooks", HINT),
        (all, of) if all == of => Check::ok(TRUST, "Codex trusts our hooks"),
        (some, of) => {
            let told = format!(
                "Codex does not run {} of our {of} hooks: they wait for your trust",
                of - some
            );
            Check::warn(TRUST, told, HINT)
        }
    }
}

/// Returns all hooks that Codex sees, in its own words.
fn listed(client: &dyn Client, ground: &Ground) -> Result<Vec<Value>, String> {
    let place = ground.env();
    let file = client.servers(Scope::User, &place).files.into_iter().next().unwrap_or_default();
    let home = file.parent().unwrap_or(Path::new("/"));
    let scratch = tempfile::tempdir().map_err(|e| format!("no scratch folder: {e}"))?;
    let copy = fs::canonicalize(scratch.path()).map_err(|e| e.to_string())?;
    // Codex identifies hooks by the path of their file.
    let real = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    for name in ["config.toml", "hooks.json"] {
        let Ok(mut text) = fs::read_to_string(home.join(name)) else { continue };
        if name == "config.toml" {
            for path in [home, &real] {
                let ours = |folder: &Path| format!("{}/hooks.json:", folder.display());
                text = text.replace(&ours(path), &ours(&copy));
            }
        }
        fs::write(copy.join(name), text).map_err(|e| e.to_string())?;
    }
    let program = programs::find(client.program()).ok_or("it is not here")?;
    let copy = copy.to_string_lossy().into_owned();
    let variables = proof::handed_on().filter(|(name, _)| *name != "HOME").chain([
        ("HOME", copy.clone()),
        ("CODEX_HOME", copy),
        ("HTTPS_PROXY", NOWHERE.to_owned()),
        ("HTTP_PROXY", NOWHERE.to_owned()),
    ]);
    let mut codex = Bridge::start(program, &["app-server".to_owned()], variables, PATIENCE)
        .map_err(|e| format!("it cannot be started: {e}"))?;
    let answer = asked(&mut codex, &ground.project);
    codex.end();
    let answer = answer?;
    let folders = answer["result"]["data"].as_array().ok_or("it does not list its hooks")?;
    let hooks = folders.iter().filter_map(|folder| folder["hooks"].as_array());
    Ok(hooks.flatten().cloned().collect())
}

fn asked(codex: &mut Bridge, folder: &Path) -> Result<Value, String> {
    let us = json!({ "name": "posthaste", "version": env!("CARGO_PKG_VERSION") });
    codex.ask(&json!({ "id": 1, "method": "initialize", "params": { "clientInfo": us } }))?;
    codex.say(&json!({ "method": "initialized" }))?;
    codex.ask(&json!({ "id": 2, "method": "hooks/list", "params": { "cwds": [folder] } }))
}
