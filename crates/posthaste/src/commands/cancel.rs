//! `posthaste cancel`: cancels the deliveries of messages that no reader holds yet.

use posthaste_api::messages::{DeliveryView, MessageView};

use super::Session;
use super::each::Each;
use crate::cli::MessagesArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(super) async fn run(
    args: &MessagesArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    let mut each = Each::default();
    for id in &args.ids {
        match client.cancel(id).await {
            Ok(message) if output.json() => output.answer(&message)?,
            Ok(message) => output.say(&told(&message))?,
            Err(error) => each.failed(id, error.into(), session, output)?,
        }
    }
    each.end(output)
}

/// Returns the result for each delivery: one that was read earlier is not cancelled.
fn told(message: &MessageView) -> String {
    let taken = |d: &&DeliveryView| d.reason.as_deref() == Some("cancelled");
    let (seq, count) = (message.seq, message.deliveries.iter().filter(taken).count());
    let seen = message.deliveries.iter().any(|d| d.maybe_seen);
    match message.deliveries.len() {
        all if all == count && seen => {
            format!("message {seq} is taken back; it may have been seen")
        }
        all if all == count => format!("message {seq} is taken back: nobody has read it"),
        all => format!("message {seq} is taken back in {count} of {all} mailboxes"),
    }
}
