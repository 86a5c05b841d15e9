//! `posthaste teams`: shows the teams, their leaders and their members.

use posthaste_api::client::ClientError;
use posthaste_api::instances::{InstanceView, Instances, InstancesQuery};
use posthaste_api::teams::{PutTeam, TeamView};
use posthaste_api::{ApiError, Client, ErrorCode};
use posthaste_core::address::{Address, Name};

use super::addresses::Addresses;
use super::{Session, agent, agents, name};
use crate::cli::{TeamsArgs, TeamsCommand};
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::Tone;
use crate::table::Cell;

pub(super) async fn run(
    args: TeamsArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    match args.command {
        None => list(&client, output).await,
        Some(TeamsCommand::Create { name: team, leaders }) => {
            create(&name(&team)?, &leaders, &client, output).await
        }
        Some(TeamsCommand::Leaders { team, leaders, none }) => {
            let team = name(&team)?;
            let known = client.team(team.as_str()).await?;
            let now = match leaders.is_empty() && !none {
                true => known,
                false => put(&team, &leaders, &client, output).await?,
            };
            show(&now, &client, output).await
        }
        Some(TeamsCommand::Members { team }) => members(&name(&team)?, &client, output).await,
    }
}

async fn list(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let all = client.teams().await?;
    if output.json() {
        return output.answer(&all);
    }
    if all.teams.is_empty() {
        output.say("there are no teams yet")?;
        return output.say("make one with: posthaste teams create avalon");
    }
    let mut addresses = Addresses::default();
    addresses.learn(client, all.teams.iter().flat_map(ids)).await;
    let row = |team: &TeamView| {
        [
            Cell::new(Tone::Who, &team.name),
            led_by(team, &addresses).into(),
            team.members.len().to_string().into(),
        ]
    };
    output.table(["TEAM", "LEADERS", "MEMBERS"], 0, all.teams.iter().map(row))
}

async fn create(
    team: &Name,
    leaders: &[String],
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    match client.team(team.as_str()).await {
        Ok(_) => {
            let told = format!("there is a team {team} already");
            let hint = format!("say who leads it with `posthaste teams leaders {team} WHO`");
            return Err(ApiError::new(ErrorCode::Conflict, told).hint(hint).into());
        }
        Err(ClientError::Api(error)) if error.code == ErrorCode::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let made = put(team, leaders, client, output).await?;
    show(&made, client, output).await
}

/// Sets the leaders. An agent that connected by itself can lead only by its instance, so
/// its name is replaced by that; a name that no agent has yet is for agents that the
/// operator will create.
async fn put(
    team: &Name,
    leaders: &[String],
    client: &Client,
    output: &mut Output,
) -> Result<TeamView, Failure> {
    let mut ids = Vec::with_capacity(leaders.len());
    for who in leaders {
        ids.push(match who.parse::<Address>() {
            Ok(Address::Named { name, team: None }) => {
                let here = agent::named(&name, Some(team), None, client).await?;
                if here.is_empty() {
                    output.note(&format!(
                        "nobody called {name} is in {team}: those whom you make will lead by that \
                         name, and one that joins will not until you name it again"
                    ));
                }
                match here.iter().any(|agent| agent.origin != "operator") {
                    true => agent::find(&format!("{name}@{team}"), client).await?,
                    false => name.to_string(),
                }
            }
            _ => agent::find(who, client).await?,
        });
    }
    Ok(client.put_team(team.as_str(), &PutTeam { leaders: ids }).await?)
}

async fn show(team: &TeamView, client: &Client, output: &mut Output) -> Result<(), Failure> {
    if output.json() {
        return output.answer(team);
    }
    let mut addresses = Addresses::default();
    addresses.learn(client, ids(team)).await;
    match team.leaders.is_empty() {
        true => output.say(&format!("{} has no leaders", team.name)),
        false => output.say(&format!("{} is led by {}", team.name, led_by(team, &addresses))),
    }
}

async fn members(team: &Name, client: &Client, output: &mut Output) -> Result<(), Failure> {
    // An unknown team is an error, and one without members is not.
    client.team(team.as_str()).await?;
    let query = InstancesQuery { team: Some(team.to_string()), ..InstancesQuery::default() };
    let found: Vec<InstanceView> = agents::all(client, query).await?;
    if output.json() {
        return output.answer(&Instances { instances: found, cursor: None });
    }
    match found.is_empty() {
        true => output
            .say(&format!("nobody is in {team}; join with: posthaste join NAME --team {team}")),
        false => agents::show(found, output),
    }
}

fn ids(team: &TeamView) -> impl Iterator<Item = &str> {
    team.leaders.iter().map(String::as_str)
}

fn led_by(team: &TeamView, addresses: &Addresses) -> String {
    ids(team).map(|who| addresses.shown(who)).collect::<Vec<_>>().join(", ")
}
