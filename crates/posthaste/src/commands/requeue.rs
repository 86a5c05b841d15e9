//! `posthaste requeue`: gives dead messages one more try.

use posthaste_api::messages::MessageView;

use super::addresses::Addresses;
use super::each::Each;
use super::{Session, read};
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
        match client.requeue(id).await {
            Ok(message) if output.json() => output.answer(&message)?,
            Ok(message) => {
                let mut addresses = Addresses::default();
                addresses.learn(&client, read::whom(&message)).await;
                output.say(&told(&message, &addresses))?;
            }
            Err(error) => each.failed(id, error.into(), session, output)?,
        }
    }
    each.end(output)
}

fn told(message: &MessageView, addresses: &Addresses) -> String {
    let queued = message.deliveries.iter().filter(|d| d.state == "queued");
    let boxes: Vec<String> = queued.map(|d| addresses.shown(&d.mailbox)).collect();
    format!("message {} is queued again for {}", message.seq, boxes.join(", "))
}
