//! `posthaste agents`: lists the agents.

mod tree;

use posthaste_api::Client;
use posthaste_api::instances::{InstanceView, Instances, InstancesQuery};

use super::Session;
use crate::cli::AgentsArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::Tone;
use crate::table::Cell;
use crate::when;

/// The largest page that the hub returns.
const PAGE: u32 = 1000;

const HEAD: [&str; 5] = ["ADDRESS", "STATUS", "ACTIVITY", "UNREAD", "LAST SEEN"];

pub(super) async fn run(
    args: AgentsArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    if args.prune {
        return prune(&client, output).await;
    }
    let team = args.team.clone();
    let status = args.all.then(|| "all".to_owned());
    let query = InstancesQuery { team: args.team, status, ..InstancesQuery::default() };
    let found = all(&client, query).await?;

    if output.json() {
        return output.answer(&Instances { instances: found, cursor: None });
    }
    if found.is_empty() {
        let (place, flag) = match team {
            Some(team) => (format!(" in {team}"), format!(" --team {team}")),
            None => (String::new(), String::new()),
        };
        output.say(&format!("nobody is here{place} yet"))?;
        return output.say(&format!("add an agent with: posthaste join alice{flag}"));
    }
    if args.tree {
        return output.say(&tree::tree(&found, when::now().timestamp()));
    }
    show(found, output)
}

/// Returns all agents that match the query, page by page.
pub(super) async fn all(
    client: &Client,
    mut query: InstancesQuery,
) -> Result<Vec<InstanceView>, Failure> {
    query.limit = Some(PAGE);
    let mut found = Vec::new();
    loop {
        let page = client.instances(&query).await?;
        found.extend(page.instances);
        query.cursor = page.cursor;
        if query.cursor.is_none() {
            return Ok(found);
        }
    }
}

/// Shows a row for each agent, by name; of one name the agent seen last comes first.
pub(super) fn show(mut agents: Vec<InstanceView>, output: &mut Output) -> Result<(), Failure> {
    agents.sort_by(|a, b| (&a.agent, &b.last_seen).cmp(&(&b.agent, &a.last_seen)));
    let now = when::now().timestamp();
    output.table(HEAD, 0, agents.iter().map(|agent| row(agent, now)))
}

async fn prune(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let pruned = client.prune().await?;
    if output.json() {
        return output.answer(&pruned);
    }
    if pruned.forgotten.is_empty() {
        return output.say("nobody to forget: all are here, or have mail or open work");
    }
    let now = when::now().timestamp();
    for gone in &pruned.forgotten {
        let seen = when::ago(&gone.last_seen, now);
        output.say(&format!("forgot {}, last seen {seen}", gone.address))?;
    }
    Ok(())
}

/// Formats `3`, or `3 +2 shared` where other agents could take two more as well.
pub(super) fn unread(agent: &InstanceView) -> String {
    match agent.unread_shared {
        0 => agent.unread.to_string(),
        shared => format!("{} +{shared} shared", agent.unread),
    }
}

fn row(agent: &InstanceView, now: jiff::Timestamp) -> [Cell; 5] {
    let mail = if agent.unread > 0 { Tone::Strong } else { Tone::Plain };
    [
        Cell::new(Tone::Who, &agent.address),
        Cell::state(&agent.status),
        agent.activity.replace('_', " ").into(),
        Cell::new(mail, unread(agent)),
        Cell::new(Tone::Faint, when::ago(&agent.last_seen, now)),
    ]
}
