//! `posthaste agents`: who is here.

mod tree;

use posthaste_api::Client;
use posthaste_api::instances::{InstanceView, Instances, InstancesQuery};

use super::Session;
use crate::cli::AgentsArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::table;
use crate::when;

/// The largest page that the hub gives.
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
    let mut query = InstancesQuery {
        team: args.team,
        status: args.all.then(|| "all".to_owned()),
        limit: Some(PAGE),
        ..InstancesQuery::default()
    };
    let mut found = Vec::new();
    loop {
        let page = client.instances(&query).await?;
        found.extend(page.instances);
        query.cursor = page.cursor;
        if query.cursor.is_none() {
            break;
        }
    }

    if output.json() {
        return output.answer(&Instances { instances: found, cursor: None });
    }
    if found.is_empty() {
        let place = query.team.map(|team| format!(" in {team}")).unwrap_or_default();
        output.say(&format!("nobody is here{place} yet"))?;
        return output.say("add an agent with: posthaste join alice");
    }
    let now = when::now().timestamp();
    if args.tree {
        return output.say(&tree::tree(&found, now));
    }
    output.say(&table(HEAD, found.iter().map(|agent| row(agent, now))))
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

/// `3`, or `3 +2 shared` where others could take two more as well.
pub(super) fn unread(agent: &InstanceView) -> String {
    match agent.unread_shared {
        0 => agent.unread.to_string(),
        shared => format!("{} +{shared} shared", agent.unread),
    }
}

fn row(agent: &InstanceView, now: jiff::Timestamp) -> [String; 5] {
    [
        // A cell is one line, whatever an agent is called.
        agent.address.replace(['\n', '\t'], " "),
        agent.status.clone(),
        agent.activity.replace('_', " "),
        unread(agent),
        when::ago(&agent.last_seen, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_stand_under_their_heads() {
        let row = ["alice.a3f7b2c1@main", "running", "waiting inbox", "3", "just now"];
        assert_eq!(
            table(HEAD, [row.map(str::to_owned)]),
            "ADDRESS              STATUS   ACTIVITY       UNREAD  LAST SEEN\n\
             alice.a3f7b2c1@main  running  waiting inbox  3       just now"
        );
    }
}
