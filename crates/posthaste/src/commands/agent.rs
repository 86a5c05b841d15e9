//! One agent as a person names it: by its id, an address with the id, or a name.

use posthaste_api::instances::{InstanceView, InstancesQuery};
use posthaste_api::{ApiError, Client, ErrorCode};
use posthaste_core::address::{Address, Name};

use crate::failure::{Failure, invalid};
use crate::output::Output;

/// The most candidates that an error lists.
const LISTED: usize = 8;

/// Returns the id of the named agent. A name means the one living agent that has it.
pub(super) async fn find(text: &str, client: &Client) -> Result<String, Failure> {
    match text.parse::<Address>() {
        Ok(Address::Exact { instance, .. }) => Ok(instance.to_string()),
        Ok(Address::Named { name, team }) => of_name(&name, team.as_ref(), client).await,
        _ => Err(not_one(text)),
    }
}

/// Returns the id of the named agent, whose work is only looked at. If nobody of the name
/// is here, it means the one that ended last.
pub(super) async fn find_to_read(
    text: &str,
    client: &Client,
    output: &mut Output,
) -> Result<String, Failure> {
    let Ok(Address::Named { name, team }) = text.parse::<Address>() else {
        return find(text, client).await;
    };
    let (name, team) = (&name, team.as_ref());
    if !named(name, team, None, client).await?.is_empty() {
        return of_name(name, team, client).await;
    }
    let ended = named(name, team, Some("all"), client).await?;
    let Some(last) = last_ended(&ended) else { return Err(gone(name, team, client).await?) };
    let shown = shown(name, team);
    output.note(&match ended.len() {
        1 => format!("{} has ended: {}", last.address, last.status),
        count => format!(
            "{count} agents called {shown} have ended; this is the last: {} ({})",
            last.address, last.status
        ),
    });
    Ok(last.instance.clone())
}

/// Returns the agent that ended last.
fn last_ended(agents: &[InstanceView]) -> Option<&InstanceView> {
    agents.iter().max_by_key(|agent| (&agent.ended_at, &agent.created_at))
}

/// Returns the ids of all named agents. A name means every agent here that has it.
pub(super) async fn find_all(text: &str, client: &Client) -> Result<Vec<String>, Failure> {
    let (name, team) = match text.parse::<Address>() {
        Ok(Address::Exact { instance, .. }) => return Ok(vec![instance.to_string()]),
        Ok(Address::Named { name, team }) => (name, team),
        _ => return Err(not_one(text)),
    };
    let here = named(&name, team.as_ref(), None, client).await?;
    match here.is_empty() {
        true => Err(gone(&name, team.as_ref(), client).await?),
        false => Ok(here.into_iter().map(|agent| agent.instance).collect()),
    }
}

fn not_one(text: &str) -> Failure {
    let told = invalid(format!("`{text}` is not one agent"));
    let hint = "write a name, an address or 8 hex digits: `posthaste agents` shows them";
    told.hint(hint).into()
}

async fn of_name(name: &Name, team: Option<&Name>, client: &Client) -> Result<String, Failure> {
    let here = named(name, team, None, client).await?;
    match (one(here.iter().filter(|agent| lives(agent))), one(here.iter())) {
        // One agent of the name lives, or only one is here.
        (Some(agent), _) | (None, Some(agent)) => Ok(agent.instance.clone()),
        (None, None) if here.is_empty() => Err(gone(name, team, client).await?),
        (None, None) => {
            let told = format!("{} agents are called {}", here.len(), shown(name, team));
            Err(candidates(invalid(told), "say which", &here).into())
        }
    }
}

/// Returns the agents of a name: those that have not ended, or those of a status, or
/// `all`.
pub(super) async fn named(
    name: &Name,
    team: Option<&Name>,
    status: Option<&str>,
    client: &Client,
) -> Result<Vec<InstanceView>, Failure> {
    let query = InstancesQuery {
        agent: Some(name.to_string()),
        team: team.map(Name::to_string),
        status: status.map(str::to_owned),
        ..InstancesQuery::default()
    };
    Ok(client.instances(&query).await?.instances)
}

/// Returns the agent, if there is only one.
fn one<'a>(mut agents: impl Iterator<Item = &'a InstanceView>) -> Option<&'a InstanceView> {
    agents.next().filter(|_| agents.next().is_none())
}

fn lives(agent: &InstanceView) -> bool {
    matches!(agent.status.as_str(), "starting" | "running")
}

/// Returns the error that no agent of the name is here, with those that have ended.
async fn gone(name: &Name, team: Option<&Name>, client: &Client) -> Result<Failure, Failure> {
    let mut ended = named(name, team, Some("all"), client).await?;
    ended.sort_by(|a, b| b.created_at.cmp(&a.created_at));
    let told = format!("nobody called {} is here", shown(name, team));
    let told = ApiError::new(ErrorCode::NotFound, told);
    Ok(match ended.is_empty() {
        true => told.hint("`posthaste agents` lists who is here").into(),
        false => candidates(told, "these have ended", &ended).into(),
    })
}

fn candidates(error: ApiError, lead: &str, agents: &[InstanceView]) -> ApiError {
    let each = agents.iter().take(LISTED).map(|a| format!("{} ({})", a.address, a.status));
    let mut list: Vec<String> = each.collect();
    if agents.len() > LISTED {
        list.push(format!("and {} more", agents.len() - LISTED));
    }
    let all: Vec<&str> = agents.iter().map(|agent| agent.address.as_str()).collect();
    error
        .hint(format!("{lead}: {}", list.join(", ")))
        .details(serde_json::json!({ "candidates": all }))
}

fn shown(name: &Name, team: Option<&Name>) -> String {
    match team {
        Some(team) => format!("{name}@{team}"),
        None => name.to_string(),
    }
}
