//! `posthaste tail`: shows events as they happen, over restarts of the hub.

use std::time::Duration;

use posthaste_api::client::{ClientError, Heard};
use posthaste_api::events::{CHAT, EventInstance, EventView, EventsQuery, ToolNews, WritingNews};
use posthaste_api::{ApiError, Client, ErrorCode};
use posthaste_core::address::Address;
use tokio::time::sleep;

use super::Session;
use super::addresses::Addresses;
use super::agent;
use super::interrupt::Interrupt;
use crate::cli::TailArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::{Text, Tone};
use crate::when;

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(10);
/// The longest piece of a text on one line.
const PIECE: usize = 120;

pub(super) async fn run(
    args: TailArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut interrupt = Interrupt::new()?;
    let mut query = interrupt.or(query(&args, &session.client()?)).await??;
    let mut outage = Outage::default();
    let mut left = args.count.map_or(u64::MAX, u64::from);
    let mut addresses = Addresses::default();
    loop {
        let following = follow(&mut query, &mut left, session, output, &mut outage, &mut addresses);
        match interrupt.or(following).await?? {
            End::Enough => return Ok(()),
            End::Line => {}
            End::Lost(e) => {
                if !std::mem::replace(&mut outage.told, true) {
                    output.note(&format!("{e}; trying again"));
                }
            }
        }
        let pause = outage.retry.map_or(FIRST_RETRY, |last| (last * 2).min(LAST_RETRY));
        outage.retry = Some(pause);
        interrupt.or(sleep(pause)).await?;
    }
}

/// A time without a hub.
#[derive(Default)]
struct Outage {
    /// The last pause between two attempts.
    retry: Option<Duration>,
    /// The outage has been reported.
    told: bool,
}

enum End {
    /// The requested number of events was shown.
    Enough,
    /// The hub stopped.
    Line,
    /// The connection broke, or there is no hub just now.
    Lost(ApiError),
}

async fn follow(
    query: &mut EventsQuery,
    left: &mut u64,
    session: &Session,
    output: &mut Output,
    outage: &mut Outage,
    addresses: &mut Addresses,
) -> Result<End, Failure> {
    let client = match session.client() {
        Ok(client) => client,
        // No hub runs on the folder.
        Err(Failure::Told(e)) if e.code == ErrorCode::Unavailable => return Ok(End::Lost(e)),
        Err(other) => return Err(other),
    };
    let mut following = match client.events(query).await {
        Ok(following) => following,
        Err(e) => return lost(e),
    };
    if std::mem::take(outage).told {
        output.note(&format!("the hub at {} is back", client.url()));
    }
    while *left > 0 {
        let heard = following.next().await;
        // Also when the connection broke: the next one goes on from there.
        query.after = following.last();
        // The requested past events have been shown, or are on their way.
        query.last = None;
        match heard {
            Err(e) => return lost(e),
            Ok(None) => return Ok(End::Line),
            Ok(Some(Heard::Reset(reset))) => output.note(&format!(
                "there is a gap: what happened before event {} is not kept any more",
                reset.oldest
            )),
            // What an agent says is told with its message, unless it is asked for.
            Ok(Some(Heard::Event(event))) if query.types.is_none() && is_said(&event.kind) => {}
            Ok(Some(Heard::Tool(_) | Heard::Writing(_))) if query.types.is_none() => {}
            Ok(Some(Heard::Tool(news))) => {
                show_call(&news, output)?;
                *left -= 1;
            }
            Ok(Some(Heard::Writing(news))) => {
                show_writing(&news, output)?;
                *left -= 1;
            }
            Ok(Some(Heard::Event(event))) => {
                show(&event, &client, addresses, output).await?;
                *left -= 1;
            }
        }
    }
    Ok(End::Enough)
}

/// A broken connection is no failure of the command, which tries again.
fn lost(error: ClientError) -> Result<End, Failure> {
    match error.is_passing() {
        true => Ok(End::Lost(error.into())),
        false => Err(error.into()),
    }
}

async fn query(args: &TailArgs, client: &Client) -> Result<EventsQuery, Failure> {
    let mut topics = Vec::new();
    for who in &args.agent {
        let ids = agent::find_all(who, client).await?.into_iter();
        topics.extend(ids.map(|id| format!("agent:{id}")));
    }
    topics.extend(args.team.iter().map(|team| format!("team:{team}")));
    for who in &args.session {
        match who.parse() {
            Ok(Address::Human) => topics.push("session:human".to_owned()),
            _ => {
                let ids = agent::find_all(who, client).await?.into_iter();
                topics.extend(ids.map(|id| format!("session:{id}")));
            }
        }
    }
    topics.extend(args.thread.iter().map(|thread| format!("thread:{thread}")));
    let joined = |list: &[String]| (!list.is_empty()).then(|| list.join(","));
    let (topics, types) = (joined(&topics), joined(&args.kind));
    Ok(EventsQuery { topics, types, after: args.after, last: args.last })
}

async fn show(
    event: &EventView,
    client: &Client,
    addresses: &mut Addresses,
    output: &mut Output,
) -> Result<(), Failure> {
    if output.json() {
        output.answer(event)?;
    } else {
        if let Some(EventInstance { instance, address: Some(address), .. }) = &event.instance {
            addresses.know(instance, address);
        }
        addresses.learn(client, whom(event)).await;
        let line = line(event, addresses, &when::now());
        // A pipe has no width, and a person may still read its lines.
        output.paint(&line.line(output.columns()))?;
    }
    output.flush()
}

fn is_said(kind: &str) -> bool {
    CHAT.iter().any(|(word, _)| *word == kind)
}

/// Shows `12:03:04 tool read_file done: {"path":"a"}`.
fn show_call(news: &ToolNews, output: &mut Output) -> Result<(), Failure> {
    let call = &news.entry;
    if output.json() {
        output.answer(news)?;
    } else {
        let time = when::time_of_day(&call.created_at, &when::now());
        let (name, state) = (call.name.as_deref(), call.state.as_deref());
        let line = Text::new()
            .add(Tone::Faint, format!("{time} "))
            .plain("tool ")
            .add(Tone::Who, name.unwrap_or_default())
            .plain(format!(" {}: {}", state.unwrap_or_default(), call.text));
        output.paint(&line.line(output.columns()))?;
    }
    output.flush()
}

/// Shows the answer that a model is writing, as far as it is.
fn show_writing(news: &WritingNews, output: &mut Output) -> Result<(), Failure> {
    if output.json() {
        output.answer(news)?;
    } else if !news.text.is_empty() {
        let line = Text::new().add(Tone::Faint, "writing ").plain(&news.text);
        output.paint(&line.line(output.columns()))?;
    }
    output.flush()
}

/// Returns every id in a line about this event.
fn whom(event: &EventView) -> impl Iterator<Item = &str> {
    let delivery = event.delivery.as_ref();
    let to = event.message.as_ref().filter(|_| delivery.is_none()).map(|m| m.to.as_str());
    let mailbox = delivery.map(|d| d.mailbox.as_str());
    let by = delivery.and_then(|d| d.by.as_deref());
    [to, mailbox, by].into_iter().flatten()
}

/// Formats `12:03:04 #17 message.accepted [4711] alice.1a2b3c4d@main → bob: the text`.
fn line(event: &EventView, addresses: &Addresses, now: &jiff::Zoned) -> Text {
    let time = when::time_of_day(&event.at, now);
    let head = Text::new()
        .add(Tone::Faint, format!("{time} #{} ", event.no))
        .add(Tone::of_state(&event.kind), format!("{} ", event.kind));
    match (&event.message, &event.delivery, &event.instance, &event.team) {
        (Some(m), None, ..) => {
            let piece: String = m.message.chars().take(PIECE).collect();
            let more = if piece.len() < m.message.len() { " …" } else { "" };
            head.add(Tone::Strong, format!("[{}] ", m.seq))
                .add(Tone::Who, &m.from)
                .plain(" → ")
                .add(Tone::Who, addresses.shown(&m.to))
                .plain(format!(": {piece}{more}"))
        }
        (Some(m), Some(d), ..) => {
            let mailbox = addresses.shown(&d.mailbox);
            // An agent that took its own message is named once.
            let by = d.by.as_ref().map(|by| addresses.shown(by)).filter(|by| *by != mailbox);
            let by = by.map_or(String::new(), |by| format!(" by {by}"));
            let why = d.reason.as_ref().or(d.proof.as_ref());
            let why = why.map_or(String::new(), |why| format!(" ({why})"));
            head.add(Tone::Strong, format!("[{}] ", m.seq))
                .plain("in ")
                .add(Tone::Who, mailbox)
                .plain(format!("{by}{why}"))
        }
        (None, _, Some(i), _) => {
            // The current status may differ from that at the event; only an end is final.
            let status = i.status.as_ref().filter(|_| event.kind == "instance.ended");
            let status = status.map_or(String::new(), |s| format!(" ({s})"));
            head.add(Tone::Who, i.address.as_ref().unwrap_or(&i.instance)).plain(status)
        }
        (None, _, None, Some(team)) => head.add(Tone::Who, team),
        (None, _, None, None) if event.need_id.is_some() => about_need(head, event),
        (None, _, None, None) => match (&event.profile, event.seq) {
            (Some(profile), _) => head.add(Tone::Who, profile),
            (None, Some(seq)) => head.plain(format!("[{seq}] is not kept any more")),
            (None, None) => head,
        },
    }
}

/// Adds `need 3 question of alice.1a2b3c4d@main: the text`, or what became of it.
fn about_need(head: Text, event: &EventView) -> Text {
    let id = event.need_id.unwrap_or_default();
    let head = head.add(Tone::Strong, format!("need {id} "));
    let Some(need) = &event.need else { return head.plain("is not kept any more") };
    let piece: String = need.text.chars().take(PIECE).collect();
    let outcome = need.outcome.as_ref().filter(|_| event.kind == "need.closed");
    let outcome = outcome.map_or(String::new(), |word| format!(" ({})", word.replace('_', " ")));
    head.plain(format!("{} of ", need.kind))
        .add(Tone::Who, &need.from)
        .plain(format!("{outcome}: {piece}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_it_is_about() {
        let noon: jiff::Timestamp = "2026-03-04T12:00:00Z".parse().expect("a time");
        let now = noon.to_zoned(jiff::tz::TimeZone::UTC);
        let mut addresses = Addresses::default();
        addresses.know("1a2b3c4d", "bob.1a2b3c4d@main");
        let told = |json: serde_json::Value| -> String {
            let event: EventView = serde_json::from_value(json).expect("an event of the hub");
            line(&event, &addresses, &now).line(None).render(false)
        };
        let joined = told(serde_json::json!({
            "no": 1, "type": "instance.joined", "at": "2026-03-04T12:00:00Z", "team": "main",
            "instance": {"instance": "1a2b3c4d", "address": "bob.1a2b3c4d@main", "status": "running"},
        }));
        assert_eq!(joined, "12:00:00 #1 instance.joined bob.1a2b3c4d@main");
        let ended = told(serde_json::json!({
            "no": 2, "type": "instance.ended", "at": "2026-03-04T12:00:00Z", "team": "main",
            "instance": {"instance": "1a2b3c4d", "address": "bob.1a2b3c4d@main", "status": "failed"},
        }));
        assert_eq!(ended, "12:00:00 #2 instance.ended bob.1a2b3c4d@main (failed)");
        let pruned = told(serde_json::json!({
            "no": 2, "type": "delivery.acked", "at": "2026-03-04T12:00:00Z", "seq": 7,
        }));
        assert_eq!(pruned, "12:00:00 #2 delivery.acked [7] is not kept any more");
        let closed = told(serde_json::json!({
            "no": 3, "type": "need.closed", "at": "2026-03-04T12:00:00Z", "need_id": 2,
            "need": {
                "id": 2, "kind": "question", "blocking": true, "from": "bob.1a2b3c4d@main",
                "text": "red or\nblue?", "created_at": "2026-03-04T12:00:00Z",
                "answered_at": "2026-03-04T12:00:00Z", "outcome": "answered",
            },
        }));
        let expected =
            "12:00:00 #3 need.closed need 2 question of bob.1a2b3c4d@main (answered): red or blue?";
        assert_eq!(closed, expected);
        let message = serde_json::json!({
            "seq": 7, "id": "9f86d081884c7d65", "thread_id": "t-12345678", "from": "human",
            "sender_id": "human", "to": "1a2b3c4d", "type": "text", "priority": "normal",
            "message": "two\nlines", "created_at": "2026-03-04T12:00:00Z", "via": "cli",
            "read": false, "deliveries": [],
        });
        let accepted = told(serde_json::json!({
            "no": 3, "type": "message.accepted", "at": "2026-03-04T12:00:00Z", "message": message,
        }));
        let expected = "12:00:00 #3 message.accepted [7] human → bob.1a2b3c4d@main: two lines";
        assert_eq!(accepted, expected, "an address instead of an id");
        let acked = told(serde_json::json!({
            "no": 4, "type": "delivery.acked", "at": "2026-03-04T12:00:00Z", "message": message,
            "delivery": {"mailbox": "n.bob", "state": "acked", "by": "1a2b3c4d", "proof": "receipt"},
        }));
        let expected = "12:00:00 #4 delivery.acked [7] in bob by bob.1a2b3c4d@main (receipt)";
        assert_eq!(acked, expected);
    }
}
