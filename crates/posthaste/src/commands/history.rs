//! `posthaste history`: reading again, which takes nothing.

use jiff::Zoned;
use posthaste_api::messages::{HistoryQuery, MessageView};

use super::Session;
use crate::cli::HistoryArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::indented;
use crate::when;

pub(super) async fn run(
    args: HistoryArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut query = HistoryQuery {
        last_n: Some(args.last),
        team: args.team,
        thread_id: args.thread,
        mailbox: args.mailbox,
        from: args.from,
        label: args.label,
        kind: args.kind,
        status: args.status,
        ..HistoryQuery::default()
    };
    let client = session.client()?;
    let mut page = client.history(&query).await?;
    // A page ends early where it would be too large, or where there was much to search.
    while let Some(cursor) = page.cursor.take() {
        let found = u32::try_from(page.messages.len()).unwrap_or(args.last);
        let Some(missing @ 1..) = args.last.checked_sub(found) else {
            page.cursor = Some(cursor);
            break;
        };
        query = HistoryQuery { cursor: Some(cursor), last_n: Some(missing), ..query };
        let before = client.history(&query).await?;
        page.messages.splice(..0, before.messages);
        page.cursor = before.cursor;
    }
    if output.json() {
        return output.answer(&page);
    }
    if page.messages.is_empty() {
        output.note("no such messages");
    }
    let now = when::now();
    page.messages.iter().try_for_each(|message| output.say(&line(message, &now)))
}

/// `[4711] alice.1a2b3c4d@main to bob (acked, 12:03:04): the text`
fn line(message: &MessageView, now: &Zoned) -> String {
    let mut about = Vec::new();
    for state in ["queued", "leased", "acked", "dead"] {
        match message.deliveries.iter().filter(|d| d.state == state).count() {
            0 => {}
            1 => about.push(state.to_owned()),
            n => about.push(format!("{n} {state}")),
        }
    }
    if message.kind != "text" {
        about.push(message.kind.clone());
    }
    about.push(when::time_of_day(&message.created_at, now));
    let about = about.join(", ");
    let head = format!("[{}] {} to {} ({about})", message.seq, message.from, message.to);
    format!("{}: {}", head.replace(['\n', '\t'], " "), indented(&message.message))
}
