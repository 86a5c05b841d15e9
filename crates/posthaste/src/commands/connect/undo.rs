//! `posthaste connect --undo`: restores every file.

use std::fs;

use posthaste_bridges::clients::{Client, Edit, Scope, Server};
use posthaste_bridges::edit::{self, Form};
use serde_json::{Value, json};

use super::files::{self, Change};
use super::record::{Kept, Record, digest};
use super::wish::{Ground, Wish, written};
use super::{address, differs, programs};
use crate::commands::Session;
use crate::failure::Failure;
use crate::output::Output;

pub(super) async fn run(
    client: &dyn Client,
    scope: Scope,
    ground: &Ground,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let known = Record::find(&session.folder, client, scope, ground)?;
    let wish = match &known {
        Some(record) => record.wish.clone(),
        // Only the places of our entries matter, and not their values.
        None => Wish {
            scope: scope.as_str().to_owned(),
            name: None,
            team: None,
            http: false,
            hooks: true,
            program: programs::own()?,
            options: Vec::new(),
            wake: None,
        },
    };
    let server = written(client, scope, ground)?;
    let server = server.unwrap_or(Server::Stdio { program: String::new(), args: Vec::new() });
    let mut told = Vec::new();
    for edit in wish.edits(client, scope, ground, &server) {
        let path = files::meant(&edit.files);
        let kept = known.as_ref().and_then(|record| record.kept(&path));
        let (change, exact) = undone(&edit, kept, path)?;
        if change.is_one() {
            if !output.json() {
                differs(&change, &server, output)?;
            }
            change.write(false)?;
        }
        if change.new.is_none() {
            // Folders that hold other files by now are not empty, and stay.
            for folder in kept.iter().flat_map(|kept| kept.made.iter().rev()) {
                let _ = fs::remove_dir(folder);
            }
        }
        told.push((change, exact));
    }
    if let Some(record) = known {
        address::take_back(&record, session).await?;
        record.forget(&session.folder)?;
    }
    tell(client, &told, output)
}

/// Returns the restored file, and whether it equals the original to the byte.
fn undone(
    edit: &Edit,
    kept: Option<&Kept>,
    path: std::path::PathBuf,
) -> Result<(Change, bool), Failure> {
    let old = files::read(&path)?;
    let before = kept.and_then(|kept| kept.before.clone());
    let (new, exact) = match (&old, kept) {
        (None, _) => (None, before.is_none()),
        (Some(now), Some(kept)) if digest(now) == kept.written => (before.clone(), true),
        (Some(now), _) => {
            let earlier = before.as_deref().unwrap_or_default();
            let rest = edit.take(now, earlier).map_err(|e| files::broken(&path, &e))?;
            let exact = Some(&rest) == before.as_ref();
            let made = edit.form == Form::Text || kept.is_some_and(|kept| kept.before.is_none());
            let empty = edit::value(edit.form, &rest) == Ok(Value::Object(serde_json::Map::new()));
            ((!(made && empty)).then_some(rest), exact)
        }
    };
    Ok((Change { path, old, new, before }, exact))
}

fn tell(client: &dyn Client, told: &[(Change, bool)], output: &mut Output) -> Result<(), Failure> {
    if output.json() {
        let files: Vec<_> = told
            .iter()
            .map(|(change, exact)| {
                json!({ "file": change.path, "changed": change.is_one(), "restored": exact })
            })
            .collect();
        let status =
            if told.iter().any(|(change, _)| change.is_one()) { "undone" } else { "unchanged" };
        return output.answer(&json!({
            "client": client.name(), "status": status, "files": files,
        }));
    }
    if !told.iter().any(|(change, _)| change.is_one()) {
        return output.say(&format!("{} was not connected: nothing to undo.", client.title()));
    }
    for (change, exact) in told.iter().filter(|(change, _)| change.is_one()) {
        let place = change.path.display();
        output.say(&match (exact, &change.new) {
            (true, None) => format!("{place} is removed: there was none before."),
            (true, Some(_)) => format!("{place} is as it was before, to the byte."),
            (false, None) => format!("{place} is removed: nothing but ours was left in it."),
            (false, Some(_)) => {
                format!("{place} has changed since, or nothing is kept of it, so only what is ours was taken out.")
            }
        })?;
    }
    Ok(())
}
