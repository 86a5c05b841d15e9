//! Makes the name of a connected program an address before its first agent joins:
//! messages to it wait.

use posthaste_api::client::ClientError;
use posthaste_api::instances::InstancesQuery;
use posthaste_api::profiles::ProfileInput;
use posthaste_api::teams::PutTeam;
use posthaste_api::{Client, ErrorCode};
use posthaste_bridges::clients::Client as Program;
use posthaste_core::address::Mailbox;

use super::record::Record;
use super::wish::Wish;
use crate::commands::Session;
use crate::failure::Failure;

/// Returns the name of the program's agents.
pub(super) fn name<'a>(program: &'a dyn Program, wish: &'a Wish) -> &'a str {
    wish.name.as_deref().unwrap_or_else(|| program.name())
}

/// Makes sure that the hub knows the name and the team. Returns whether the name is new;
/// `None` without the operator's token, which alone could create it.
pub(super) async fn make(
    program: &dyn Program,
    wish: &Wish,
    session: &Session,
) -> Result<Option<bool>, Failure> {
    let Some(operator) = session.operator(&session.stranger()?) else { return Ok(None) };
    let name = name(program, wish);
    let profile = ProfileInput { name: Some(name.to_owned()), ..ProfileInput::default() };
    let new = match operator.profile(name).await {
        Err(ClientError::Api(e)) if e.code == ErrorCode::NotFound => true,
        found => found.map(|_| false)?,
    };
    if new {
        match operator.create_profile(&profile).await {
            // Another caller created it in between.
            Err(ClientError::Api(e)) if e.code == ErrorCode::Conflict => (),
            made => drop(made?),
        }
    }
    if let Some(team) = &wish.team {
        make_team(&operator, team).await?;
    }
    Ok(Some(new))
}

async fn make_team(operator: &Client, team: &str) -> Result<(), ClientError> {
    match operator.team(team).await {
        Err(ClientError::Api(e)) if e.code == ErrorCode::NotFound => {
            let nobody = PutTeam { leaders: Vec::new() };
            operator.put_team(team, &nobody).await.map(drop)
        }
        known => known.map(drop),
    }
}

/// Removes the names that connecting created, unless they are in use: an agent had the
/// name, messages wait for it, or the profile was changed.
pub(super) async fn take_back(record: &Record, session: &Session) -> Result<(), Failure> {
    let others = Record::all(&session.folder)?;
    // Without a hub it cannot be known; an unused name does no harm.
    let Some(operator) = session.operator(&session.stranger()?) else { return Ok(()) };
    for name in &record.made_names {
        let shared = others.iter().any(|other| other.id != record.id && other.agent() == name);
        if !shared && is_unused(&operator, name).await.unwrap_or(false) {
            let _ = operator.remove_profile(name).await;
        }
    }
    Ok(())
}

async fn is_unused(operator: &Client, name: &str) -> Result<bool, ClientError> {
    let profile = operator.profile(name).await?;
    if (profile.source.as_str(), profile.version) != ("join", 1) {
        return Ok(false);
    }
    let query = InstancesQuery {
        agent: Some(name.to_owned()),
        status: Some("all".to_owned()),
        ..InstancesQuery::default()
    };
    if !operator.instances(&query).await?.instances.is_empty() {
        return Ok(false);
    }
    let of_name = |mailbox: &str| match mailbox.parse::<Mailbox>() {
        Ok(Mailbox::Name(of) | Mailbox::NameIn(of, _)) => of.as_str() == name,
        _ => false,
    };
    let mailboxes = operator.mailbox_stats().await?;
    Ok(!mailboxes.iter().any(|stats| stats.unread > 0 && of_name(&stats.mailbox)))
}
