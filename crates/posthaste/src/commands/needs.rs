//! `posthaste needs`: shows what waits for the operator, and the remembered verdicts.

use posthaste_api::Client;
use posthaste_api::needs::{ForgetQuery, NeedView, Needs, NeedsQuery, RememberedView};

use super::{Session, name};
use crate::cli::{NeedsArgs, NeedsCommand};
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::Tone;
use crate::table::Cell;
use crate::when;

/// The largest page that the hub returns.
const PAGE: u32 = 1000;

pub(super) async fn run(
    args: NeedsArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    match args.command {
        None => list(&args, &client, output).await,
        Some(NeedsCommand::Remembered) => remembered(&client, output).await,
        Some(NeedsCommand::Forget { profile, subject }) => {
            forget(&profile, subject, &client, output).await
        }
    }
}

async fn list(args: &NeedsArgs, client: &Client, output: &mut Output) -> Result<(), Failure> {
    let found = all(args, client).await?;
    if output.json() {
        return output.answer(&found);
    }
    if found.needs.is_empty() {
        return output.say(match (args.all, args.kind) {
            (true, _) => "nothing has needed you lately",
            (false, None) => "nothing needs you",
            (false, Some(_)) => "nothing of that kind needs you",
        });
    }
    let now = when::now().timestamp();
    match args.all {
        true => {
            let head = ["ID", "KIND", "STATE", "FROM", "SINCE", "WHAT"];
            let rows = found.needs.iter().map(|need| {
                let [id, kind, from, since, what] = row(need, now);
                let state = need.outcome.as_deref().unwrap_or("open");
                [id, kind, Cell::from(state.replace('_', " ")), from, since, what]
            });
            output.table(head, 0, rows)?;
        }
        false => {
            let rows = found.needs.iter().map(|need| row(need, now));
            output.table(["ID", "KIND", "FROM", "SINCE", "WHAT"], 0, rows)?;
        }
    }
    output.flush()?;
    if found.open > 0 {
        output.note("answer with: posthaste answer ID, and TEXT, --option, --allow or --deny");
    }
    Ok(())
}

/// Returns all that fit, page by page.
async fn all(args: &NeedsArgs, client: &Client) -> Result<Needs, Failure> {
    let mut query = NeedsQuery {
        kind: args.kind.map(|kind| kind.as_str().to_owned()),
        open: args.all.then_some(false),
        limit: Some(PAGE),
        cursor: None,
    };
    let mut found = client.needs(&query).await?;
    while let Some(cursor) = found.cursor.take() {
        query.cursor = Some(cursor);
        let more = client.needs(&query).await?;
        found.needs.extend(more.needs);
        (found.open, found.cursor) = (more.open, more.cursor);
    }
    Ok(found)
}

fn row(need: &NeedView, now: jiff::Timestamp) -> [Cell; 5] {
    let kind = match &*need.kind {
        "question" if need.blocking => "question, waits".to_owned(),
        kind => kind.to_owned(),
    };
    let what = match need.options.as_slice() {
        // The answers to dead mail are the same each time.
        [] => need.text.clone(),
        _ if need.kind == "dead" => need.text.clone(),
        offered => format!("[{}] {}", offered.join(" | "), need.text),
    };
    [
        Cell::new(Tone::Strong, need.id.to_string()),
        kind.into(),
        Cell::new(Tone::Who, &need.from),
        Cell::new(Tone::Faint, when::ago(&need.created_at, now)),
        what.into(),
    ]
}

async fn remembered(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let found = client.remembered().await?;
    if output.json() {
        return output.answer(&found);
    }
    if found.remembered.is_empty() {
        return output.say("no verdict is remembered: you are asked each time");
    }
    let now = when::now().timestamp();
    let row = |verdict: &RememberedView| {
        [
            Cell::new(Tone::Who, &verdict.profile),
            if verdict.allow { "allow" } else { "deny" }.into(),
            verdict.subject.clone().into(),
            Cell::new(Tone::Faint, when::ago(&verdict.at, now)),
        ]
    };
    let rows = found.remembered.iter().map(row);
    output.table(["PROFILE", "VERDICT", "SUBJECT", "SINCE"], 2, rows)
}

async fn forget(
    profile: &str,
    subject: String,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let profile = name(profile)?;
    let query = ForgetQuery { subject: Some(subject.clone()) };
    let forgotten = client.forget_verdicts(profile.as_str(), &query).await?;
    match output.json() {
        true => output.answer(&forgotten),
        false => output.say(&format!("you are asked again when {profile} wants: {subject}")),
    }
}
