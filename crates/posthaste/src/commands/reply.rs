//! `posthaste reply`: answers the sender of a message.

use posthaste_api::messages::{MessageRef, ReadQuery, SendRequest};
use posthaste_api::{ApiError, ErrorCode};

use super::{Session, send};
use crate::cli::ReplyArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(super) async fn run(
    args: ReplyArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    // Only the sender and the type matter here.
    let head = ReadQuery { max_chars: Some(1), ..ReadQuery::default() };
    let answered = client.read(&args.id, &head).await?;
    if answered.sender_id == "system" {
        let told = format!("message {} is from the hub itself, which reads no mail", answered.seq);
        return Err(ApiError::new(ErrorCode::InvalidArgument, told).into());
    }
    let kind = args.kind.or_else(|| (answered.kind == "question").then(|| "answer".to_owned()));
    let request = SendRequest {
        priority: args.urgent.then(|| "urgent".to_owned()),
        kind,
        label: args.label,
        in_reply_to: Some(MessageRef::Seq(answered.seq)),
        ttl_s: args.ttl.map(send::seconds),
        idempotency_key: args.key,
        ..SendRequest::new(&answered.from, send::text(args.text)?)
    };
    let receipt = client.send(&request).await?;
    match output.json() {
        true => output.answer(&receipt),
        false => output.say(&send::told(&answered.from, &receipt)),
    }
}
