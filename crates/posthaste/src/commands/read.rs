//! `posthaste read`: shows one whole message, without a lease.

use jiff::Zoned;
use posthaste_api::messages::{DeliveryView, MessageView, ReadQuery};

use super::Session;
use super::addresses::Addresses;
use crate::cli::ReadArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::{Text, Tone};
use crate::when;

pub(super) async fn run(
    args: &ReadArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    let message = client.read(&args.id, &ReadQuery::default()).await?;
    if output.json() {
        return output.answer(&message);
    }
    if output.is_raw(args.raw) {
        return output.raw(message.message.as_bytes());
    }
    let mut addresses = Addresses::default();
    addresses.learn(&client, whom(&message)).await;
    output.paint(&head(&message, &addresses, &when::now()))?;
    output.say(&format!("\n{}", message.message.trim_end_matches('\n')))
}

/// Returns every id in the head of a message.
pub(super) fn whom(message: &MessageView) -> impl Iterator<Item = &str> {
    let deliveries = message.deliveries.iter();
    let each = deliveries.flat_map(|d| [Some(d.mailbox.as_str()), d.by.as_deref()]);
    each.flatten().chain([message.to.as_str()])
}

fn head(message: &MessageView, addresses: &Addresses, now: &Zoned) -> Text {
    let mut rows = vec![
        ("from", Tone::Who, message.from.clone()),
        ("to", Tone::Who, addresses.shown(&message.to)),
        ("sent", Tone::Plain, when::time_of_day(&message.created_at, now)),
    ];
    let optional = [
        ("type", (message.kind != "text").then(|| message.kind.clone())),
        ("priority", (message.priority != "normal").then(|| message.priority.clone())),
        ("label", message.label.clone()),
        ("answers", message.in_reply_to.map(|seq| format!("message {seq}"))),
        ("expires", message.expires_at.as_deref().map(|at| when::time_of_day(at, now))),
    ];
    let given = optional.into_iter().filter_map(|(name, value)| Some((name, value?)));
    rows.extend(given.map(|(name, value)| (name, Tone::Plain, value)));
    rows.push(("thread", Tone::Plain, message.thread_id.clone()));
    rows.push(("id", Tone::Plain, message.id.clone()));
    for delivery in &message.deliveries {
        let (state, told) = (&*delivery.state, stands(delivery, addresses, now));
        rows.push((state, Tone::of_state(state), told));
    }
    let text = Text::new().add(Tone::Strong, format!("message {}", message.seq));
    rows.into_iter().fold(text, |text, (name, tone, value)| {
        // One line each, also if a label contains line breaks.
        let value = value.replace(['\n', '\t'], " ");
        text.add(Tone::Faint, format!("\n  {name:<9} ")).add(tone, value)
    })
}

/// Formats the state of a delivery: `bob.a3f7b2c1@main, by receipt, 12:03:04`.
fn stands(delivery: &DeliveryView, addresses: &Addresses, now: &Zoned) -> String {
    let mut told = vec![addresses.shown(&delivery.mailbox)];
    if let Some(by) = &delivery.by {
        let by = addresses.shown(by);
        if by != told[0] {
            told.push(format!("taken by {by}"));
        }
    }
    told.extend(delivery.proof.as_ref().map(|proof| format!("proved by {proof}")));
    told.extend(delivery.reason.clone());
    let at = delivery.settled_at.as_ref().or(delivery.leased_at.as_ref());
    told.extend(at.map(|at| when::time_of_day(at, now)));
    told.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_says_from_whom_to_whom_and_where_each_delivery_stands() {
        let noon: jiff::Timestamp = "2026-03-04T12:00:00Z".parse().expect("a time");
        let message: MessageView = serde_json::from_value(serde_json::json!({
            "seq": 7, "id": "9f86d081884c7d65", "thread_id": "t-12345678",
            "from": "alice.1a2b3c4d@main", "sender_id": "1a2b3c4d", "to": "a3f7b2c1",
            "type": "question", "priority": "normal", "message": "ready?", "label": "ci\nfake",
            "created_at": "2026-03-04T12:03:04Z", "via": "cli", "read": true,
            "deliveries": [{"mailbox": "i.a3f7b2c1", "state": "acked", "by": "a3f7b2c1",
                            "proof": "receipt", "settled_at": "2026-03-04T12:03:05Z"}],
        }))
        .expect("a message of the hub");
        let mut addresses = Addresses::default();
        addresses.know("a3f7b2c1", "bob.a3f7b2c1@main");
        let told = head(&message, &addresses, &noon.to_zoned(jiff::tz::TimeZone::UTC));
        assert_eq!(
            told.render(false),
            "message 7\n  from      alice.1a2b3c4d@main\n  to        bob.a3f7b2c1@main\n  \
             sent      12:03:04\n  type      question\n  label     ci fake\n  \
             thread    t-12345678\n  id        9f86d081884c7d65\n  \
             acked     bob.a3f7b2c1@main, proved by receipt, 12:03:05"
        );
    }
}
