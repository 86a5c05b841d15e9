//! `posthaste stats`: what lies in the mailboxes, and what does not move.

use posthaste_api::Client;
use posthaste_api::stats::{AgentStats, MailboxStats, Stuck, TeamStats};

use super::Session;
use crate::cli::StatsArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::table;
use crate::when;

pub(super) async fn run(
    args: &StatsArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    match args {
        StatsArgs { stuck: true, .. } => stuck(&client, output).await,
        StatsArgs { agents: true, .. } => agents(&client, output).await,
        StatsArgs { teams: true, .. } => teams(&client, output).await,
        StatsArgs { .. } => mailboxes(&client, output).await,
    }
}

async fn mailboxes(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let list = client.mailbox_stats().await?;
    if output.json() {
        return output.answer(&list);
    }
    // People know an agent by its address.
    let here = client.agent_stats().await?.agents;
    let name = |s: &MailboxStats| match here.iter().find(|a| a.agent_id == s.agent_id) {
        Some(agent) => agent.address.clone(),
        None => s.mailbox.clone(),
    };
    let row = |s: &MailboxStats| {
        [
            name(s),
            s.team.clone().unwrap_or_default(),
            s.total.to_string(),
            s.unread.to_string(),
            when::how_long(s.oldest_unread_age_sec),
        ]
    };
    let head = ["MAILBOX", "TEAM", "TOTAL", "UNREAD", "OLDEST UNREAD"];
    output.say(&table(head, list.iter().map(row)))
}

async fn agents(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let counted = client.agent_stats().await?;
    if output.json() {
        return output.answer(&counted);
    }
    let now = when::now();
    let row = |s: &AgentStats| {
        [
            s.address.clone(),
            s.sent.to_string(),
            s.received.to_string(),
            s.unread.to_string(),
            s.waiting.to_string(),
            when::ago(&s.last_seen, now.timestamp()),
        ]
    };
    let head = ["ADDRESS", "SENT", "RECEIVED", "UNREAD", "WAITING", "LAST SEEN"];
    output.say(&table(head, counted.agents.iter().map(row)))?;
    since(counted.since.as_deref(), output)
}

async fn teams(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let counted = client.team_stats().await?;
    if output.json() {
        return output.answer(&counted);
    }
    let now = when::now();
    let row = |s: &TeamStats| {
        [
            s.team.clone(),
            s.active.to_string(),
            s.sent.to_string(),
            s.received.to_string(),
            s.unread.to_string(),
            s.waiting.to_string(),
            s.last_seen.as_deref().map_or_else(String::new, |t| when::ago(t, now.timestamp())),
        ]
    };
    let head = ["TEAM", "ACTIVE", "SENT", "RECEIVED", "UNREAD", "WAITING", "LAST SEEN"];
    output.say(&table(head, counted.teams.iter().map(row)))?;
    since(counted.since.as_deref(), output)
}

fn since(stamp: Option<&str>, output: &mut Output) -> Result<(), Failure> {
    match stamp {
        Some(stamp) => {
            let time = when::time_of_day(stamp, &when::now());
            output.note(&format!("counted since {time}: what is older is pruned"));
        }
        None => output.note("nothing was sent yet"),
    }
    Ok(())
}

async fn stuck(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let list = client.stuck().await?;
    if output.json() {
        return output.answer(&list);
    }
    if list.is_empty() {
        return output.say("nothing is stuck");
    }
    let now = when::now();
    let told = |s: &Stuck| {
        let many = if s.count == 1 { String::new() } else { format!(" ({} in all)", s.count) };
        let why = when::in_words(&s.why, &now);
        format!("{}: message {}{many}: {why}\n    {}", s.mailbox, s.seq, s.hint)
    };
    output.say(&list.iter().map(told).collect::<Vec<_>>().join("\n"))
}
