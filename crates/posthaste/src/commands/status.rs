//! `posthaste status`: shows the connected agent programs, and those of their
//! conversations that are here; and how much waits for the operator.

use std::path::Path;

use posthaste_api::ApiError;
use posthaste_api::client::ClientError;
use posthaste_api::instances::{InstanceView, InstancesQuery};
use posthaste_api::needs::NeedsQuery;
use posthaste_bridges::clients::{self, ClientEnv, Scope};
use serde_json::json;

use super::Session;
use super::connect::record::Record;
use crate::cli::StatusArgs;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::output::Output;
use crate::paint::Tone;
use crate::table::Cell;
use crate::when;

/// Number of characters of a key that are shown.
const SHORT: usize = 36;
/// The largest page that the hub returns.
const PAGE: u32 = 1000;

pub(super) async fn run(
    _args: &StatusArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let records = Record::all(&session.folder)?;
    let names = agents(&records);
    let here = conversations(session, &names).await;
    let trouble = trouble(session).await;
    let needs = needs(session).await;
    if output.json() {
        let connections: Vec<_> = records.iter().map(as_json).collect();
        let (hub, found) = match &here {
            Ok(found) => (true, found.as_slice()),
            Err(_) => (false, [].as_slice()),
        };
        let several: Vec<_> = several(session, found).iter().map(Several::as_json).collect();
        return output.answer(&json!({
            "hub": hub, "not_ready": trouble.map(|error| error.message),
            "connections": connections, "conversations": found, "several": several,
            "needs": needs,
        }));
    }
    if let Some(error) = trouble {
        let hint = error.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        output.note(&format!("the hub is not ready: {}{hint}", error.message));
    }
    let now = when::now().timestamp();
    if records.is_empty() {
        output.say("no agent program is connected yet; try: posthaste connect claude")?;
    } else {
        let head = ["PROGRAM", "SCOPE", "LINE", "AS", "HOOKS", "FILE", "SINCE"];
        output.table(head, 3, records.iter().map(|record| row(record, now)))?;
    }
    match here {
        Ok(found) if found.is_empty() => output.say("\nnone of their conversations is here")?,
        Ok(found) => {
            let head = ["AGENT", "CONVERSATION", "STATUS", "ACTIVITY", "UNREAD", "LAST SEEN"];
            let rows = found.iter().map(|agent| conversation(agent, now));
            output.say("")?;
            output.table(head, 0, rows)?;
            for several in several(session, &found) {
                output.say(&several.told())?;
            }
        }
        Err(_) => {
            output.note("the hub does not answer, so who is here is not known: posthaste up");
        }
    }
    match needs {
        None => Ok(()),
        Some(0) => output.say("\nnothing needs you"),
        Some(1) => output.say("\n1 thing needs you: posthaste needs"),
        Some(count) => output.say(&format!("\n{count} things need you: posthaste needs")),
    }
}

/// Returns how many things wait for the operator, if the caller is the operator.
async fn needs(session: &Session) -> Option<usize> {
    let query = NeedsQuery { limit: Some(1), ..NeedsQuery::default() };
    Some(session.client().ok()?.needs(&query).await.ok()?.open)
}

/// Returns why a hub that answers neither accepts nor hands out messages, if so.
async fn trouble(session: &Session) -> Option<ApiError> {
    match session.client().ok()?.ready().await {
        Err(ClientError::Api(error)) => Some(error),
        Ok(_) | Err(_) => None,
    }
}

/// Agents of one folder that are away: the next program there becomes a new agent.
struct Several {
    folder: String,
    addresses: Vec<String>,
}

/// Returns the folders with more than one such agent that the hub still knows.
fn several(session: &Session, here: &[InstanceView]) -> Vec<Several> {
    let known = |me: &Identity| here.iter().any(|agent| agent.instance == me.instance);
    let folders = session.keyring().several().into_iter().map(|(folder, away)| {
        let away = away.into_iter().filter_map(|one| one.joined).filter(known);
        let addresses = away.map(|me| me.address).collect();
        Several { folder: folder.display().to_string(), addresses }
    });
    folders.filter(|several| several.addresses.len() > 1).collect()
}

impl Several {
    fn told(&self) -> String {
        let names = self.addresses.join(", ");
        format!(
            "{} went away in {}: the next program there is a new agent. `posthaste stop` ends \
             those that are not needed any more; the one that is left is found again",
            names,
            self.folder.replace(['\n', '\t'], " ")
        )
    }

    fn as_json(&self) -> serde_json::Value {
        json!({ "folder": self.folder, "agents": self.addresses })
    }
}

/// Returns the names under which connected programs join, and those of all other
/// programs.
fn agents(records: &[Record]) -> Vec<String> {
    let named = records.iter().filter_map(|record| record.wish.name.clone());
    let known = clients::ALL.iter().map(|client| client.name().to_owned());
    let mut names: Vec<String> = known.chain(named).collect();
    names.sort();
    names.dedup();
    names
}

async fn conversations(session: &Session, names: &[String]) -> Result<Vec<InstanceView>, Failure> {
    let client = session.client()?;
    let mut query = InstancesQuery { limit: Some(PAGE), ..InstancesQuery::default() };
    let mut found = Vec::new();
    loop {
        let page = client.instances(&query).await?;
        found.extend(page.instances.into_iter().filter(|agent| names.contains(&agent.agent)));
        query.cursor = page.cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    found.sort_by(|a, b| b.last_seen.cmp(&a.last_seen));
    Ok(found)
}

fn as_json(record: &Record) -> serde_json::Value {
    let files: Vec<_> = record.files.iter().map(|kept| &kept.path).collect();
    json!({
        "client": record.client,
        "scope": record.wish.scope,
        "line": line(record),
        "name": record.wish.name,
        "team": record.wish.team,
        "hooks": has_hooks(record),
        "program": record.wish.program,
        "files": files,
        "connected_at": record.connected_at,
    })
}

fn row(record: &Record, now: jiff::Timestamp) -> [Cell; 7] {
    let file = record.files.first().map(|kept| kept.path.display().to_string());
    let name = record.wish.name.clone().unwrap_or_else(|| record.client.clone());
    let team = record.wish.team.as_ref().map(|team| format!("@{team}")).unwrap_or_default();
    [
        Cell::new(Tone::Strong, &record.client),
        record.wish.scope.clone().into(),
        line(record).into(),
        Cell::new(Tone::Who, format!("{name}{team}")),
        if has_hooks(record) { "yes" } else { "no" }.into(),
        file.unwrap_or_default().into(),
        Cell::new(Tone::Faint, when::ago(&record.connected_at, now)),
    ]
}

fn conversation(agent: &InstanceView, now: jiff::Timestamp) -> [Cell; 6] {
    [
        Cell::new(Tone::Who, &agent.address),
        agent.key.as_deref().map_or_else(String::new, short).into(),
        Cell::state(&agent.status),
        agent.activity.replace('_', " ").into(),
        super::agents::unread(agent).into(),
        Cell::new(Tone::Faint, when::ago(&agent.last_seen, now)),
    ]
}

/// Returns as much of a conversation's key as tells it from others.
fn short(key: &str) -> String {
    let plain: String = key.chars().filter(|c| !c.is_control()).collect();
    match plain.char_indices().nth(SHORT) {
        Some((at, _)) => format!("{}…", &plain[..at]),
        None => plain,
    }
}

fn line(record: &Record) -> &'static str {
    if record.wish.http { "http" } else { "stdio" }
}

fn has_hooks(record: &Record) -> bool {
    let scope = if record.wish.scope == "project" { Scope::Project } else { Scope::User };
    let (home, project, variable) = (Path::new(""), record.project.as_path(), &|_: &str| None);
    let client = clients::by_name(&record.client);
    let file = client.and_then(|c| c.hooks_file(scope, &ClientEnv { home, project, variable }));
    record.wish.hooks && file.is_some()
}
