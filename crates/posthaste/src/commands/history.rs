//! `posthaste history`: shows messages again, without leases.

use jiff::Zoned;
use posthaste_api::messages::{HistoryQuery, MessageView};
use posthaste_core::address::{Address, Mailbox};
use unicode_width::UnicodeWidthStr;

use super::Session;
use super::addresses::Addresses;
use crate::cli::HistoryArgs;
use crate::failure::{Failure, invalid};
use crate::output::Output;
use crate::paint::{self, Text, Tone};
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
        mailbox: args.mailbox.as_deref().map(mailbox).transpose()?,
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
    let mut addresses = Addresses::default();
    addresses.learn(&client, page.messages.iter().map(|message| message.to.as_str())).await;
    let now = when::now();
    let columns = output.columns();
    let shown = |message: &MessageView| line(message, &addresses, &now, columns);
    page.messages.iter().try_for_each(|message| output.paint(&shown(message)))
}

/// Returns the key of the mailbox that a person names as `posthaste stats` does, or by
/// its key.
fn mailbox(text: &str) -> Result<String, Failure> {
    let address = text.parse();
    let mailbox = match (text.parse(), address) {
        // A text in the form of a key may be the whole address of an agent named `n`.
        (_, Ok(Address::Exact { instance, .. })) => Mailbox::Instance(instance),
        (Ok(key), _) => key,
        (_, Ok(Address::Human)) => Mailbox::Human,
        (_, Ok(Address::Named { name, team: None })) => Mailbox::Name(name),
        (_, Ok(Address::Named { name, team: Some(team) })) => Mailbox::NameIn(name, team),
        (_, Ok(Address::Anyone { team: None })) => Mailbox::Anyone,
        (_, Ok(Address::Anyone { team: Some(team) })) => Mailbox::AnyoneIn(team),
        (Err(_), Ok(Address::Everyone { .. }) | Err(_)) => {
            let told = invalid(format!("`{text}` is not a mailbox"));
            let hint = "write a name, an address, @anyone or human: `posthaste stats` lists them";
            return Err(told.hint(hint).into());
        }
    };
    Ok(mailbox.to_string())
}

/// Formats `[4711] alice.1a2b3c4d@main to bob (acked, 12:03:04): the text`.
fn line(message: &MessageView, addresses: &Addresses, now: &Zoned, columns: Option<usize>) -> Text {
    let mut about = Vec::new();
    for state in ["queued", "leased", "acked", "dead"] {
        match message.deliveries.iter().filter(|d| d.state == state).count() {
            0 => {}
            1 => about.push(state.to_owned()),
            n => about.push(format!("{n} {state}")),
        }
    }
    let tone = about.last().map_or(Tone::Plain, |state| Tone::of_state(state));
    if message.kind != "text" {
        about.push(message.kind.clone());
    }
    about.push(when::time_of_day(&message.created_at, now));
    let head = Text::new()
        .add(Tone::Strong, format!("[{}] ", message.seq))
        .add(Tone::Who, &message.from)
        .plain(" to ")
        .add(Tone::Who, addresses.shown(&message.to))
        .add(tone, format!(" ({})", about.join(", ")))
        .line(None)
        .plain(": ");
    match columns {
        None => head.plain(indented(&message.message)),
        Some(columns) => {
            let body = beginning(&message.message, columns, head.width());
            let more = body.len() < message.message.trim_end().len();
            let head = head.plain(indented(body));
            match more {
                true => head.add(Tone::Faint, format!(" … (posthaste read {})", message.seq)),
                false => head,
            }
        }
    }
}

/// Number of terminal lines for a message, its head included.
const LINES: usize = 4;

/// Returns as much of a text as a terminal shows on so many lines, the first of which
/// begins at column `at`.
fn beginning(text: &str, columns: usize, at: usize) -> &str {
    let text = text.trim_end();
    let mut left = (columns * LINES).saturating_sub(at + MORE);
    let mut taken = 0;
    for (n, line) in text.split_inclusive('\n').enumerate() {
        if n >= LINES || left == 0 {
            break;
        }
        let fits = paint::clip_at(line, left);
        taken += fits;
        if fits < line.len() {
            break;
        }
        // The rest begins on a new line.
        let used = line.width().div_ceil(columns).max(1) * columns;
        left = left.saturating_sub(used);
    }
    text[..taken].trim_end()
}

/// Columns for the note that there is more.
const MORE: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(to: &str, text: &str) -> MessageView {
        serde_json::from_value(serde_json::json!({
            "seq": 7, "id": "9f86d081884c7d65", "thread_id": "t-12345678",
            "from": "alice.1a2b3c4d@main", "sender_id": "1a2b3c4d", "to": to, "type": "text",
            "priority": "normal", "message": text, "created_at": "2026-03-04T12:03:04Z",
            "via": "cli", "read": true, "deliveries": [{"mailbox": "i.a3f7b2c1", "state": "acked"}],
        }))
        .expect("a message of the hub")
    }

    fn shown(message: &MessageView, columns: Option<usize>) -> String {
        let noon: jiff::Timestamp = "2026-03-04T12:00:00Z".parse().expect("a time");
        let mut addresses = Addresses::default();
        addresses.know("a3f7b2c1", "bob.a3f7b2c1@main");
        line(message, &addresses, &noon.to_zoned(jiff::tz::TimeZone::UTC), columns).render(false)
    }

    #[test]
    fn an_id_is_shown_as_its_address() {
        let told = shown(&message("a3f7b2c1", "hello"), None);
        let expected = "[7] alice.1a2b3c4d@main to bob.a3f7b2c1@main (acked, 12:03:04): hello";
        assert_eq!(told, expected);
    }

    #[test]
    fn a_long_text_is_clipped_on_a_terminal_and_whole_in_a_pipe() {
        let long = message("bob", &"word ".repeat(200));
        assert!(shown(&long, None).len() > 1000);
        let told = shown(&long, Some(60));
        assert!(told.ends_with("word … (posthaste read 7)"), "{told}");
        assert!(told.len() <= 4 * 60, "{} columns: {told}", told.len());
        let short = message("bob", "two\nlines\n");
        assert!(shown(&short, Some(60)).ends_with("two\n    lines"));
        let many = message("bob", &"x\n".repeat(100));
        let told = shown(&many, Some(200));
        assert_eq!(told.lines().count(), 4, "{told}");
    }
}
