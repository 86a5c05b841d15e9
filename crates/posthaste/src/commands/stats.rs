//! `posthaste stats`: shows the mailboxes, and the messages that do not move.

use posthaste_api::Client;
use posthaste_api::instances::InstancesQuery;
use posthaste_api::stats::{AgentStats, MailboxStats, TeamStats};

use super::addresses::Addresses;
use super::{Session, agents as listing};
use crate::cli::StatsArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::{Text, Tone};
use crate::table::Cell;
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
    if list.is_empty() {
        return output.say("there are no mailboxes yet");
    }
    // People know an agent by its address, also one that has ended.
    let everybody = InstancesQuery { status: Some("all".into()), ..InstancesQuery::default() };
    let mut addresses = Addresses::default();
    for agent in listing::all(client, everybody).await? {
        addresses.know(&agent.instance, &agent.address);
    }
    let row = |s: &MailboxStats| {
        [
            Cell::new(Tone::Who, addresses.shown(&s.mailbox)),
            s.team.clone().unwrap_or_default().into(),
            s.total.to_string().into(),
            s.unread.to_string().into(),
            when::how_long(s.oldest_unread_age_sec).into(),
        ]
    };
    let head = ["MAILBOX", "TEAM", "TOTAL", "UNREAD", "OLDEST UNREAD"];
    output.table(head, 0, list.iter().map(row))
}

async fn agents(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let counted = client.agent_stats().await?;
    if output.json() {
        return output.answer(&counted);
    }
    if counted.agents.is_empty() {
        return output.say("nobody is here yet");
    }
    let now = when::now();
    let row = |s: &AgentStats| {
        [
            Cell::new(Tone::Who, &s.address),
            s.sent.to_string().into(),
            s.received.to_string().into(),
            s.unread.to_string().into(),
            s.waiting.to_string().into(),
            Cell::new(Tone::Faint, when::ago(&s.last_seen, now.timestamp())),
        ]
    };
    let head = ["ADDRESS", "SENT", "RECEIVED", "UNREAD", "WAITING", "LAST SEEN"];
    output.table(head, 0, counted.agents.iter().map(row))?;
    since(counted.since.as_deref(), output)
}

async fn teams(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let counted = client.team_stats().await?;
    if output.json() {
        return output.answer(&counted);
    }
    if counted.teams.is_empty() {
        return output.say("there are no teams yet");
    }
    let now = when::now();
    let row = |s: &TeamStats| {
        [
            Cell::new(Tone::Who, &s.team),
            s.active.to_string().into(),
            s.sent.to_string().into(),
            s.received.to_string().into(),
            s.unread.to_string().into(),
            s.waiting.to_string().into(),
            s.last_seen
                .as_deref()
                .map_or_else(String::new, |t| when::ago(t, now.timestamp()))
                .into(),
        ]
    };
    let head = ["TEAM", "ACTIVE", "SENT", "RECEIVED", "UNREAD", "WAITING", "LAST SEEN"];
    output.table(head, 0, counted.teams.iter().map(row))?;
    since(counted.since.as_deref(), output)
}

fn since(stamp: Option<&str>, output: &mut Output) -> Result<(), Failure> {
    match stamp {
        Some(stamp) => {
            let time = when::time_of_day(stamp, &when::now());
            output.note(&format!("counted since {time}, the oldest message that is kept"));
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
    let mut addresses = Addresses::default();
    addresses.learn(client, list.iter().map(|s| s.mailbox.as_str())).await;
    let now = when::now();
    for s in &list {
        let many = if s.count == 1 { String::new() } else { format!(" ({} in all)", s.count) };
        let why = when::in_words(&s.why, &now);
        let told = Text::new().add(Tone::Who, addresses.shown(&s.mailbox));
        let told = told.plain(format!(": message {}{many}: {why}\n", s.seq));
        output.paint(&told.add(Tone::Good, format!("    {}", s.hint)))?;
    }
    Ok(())
}
