//! `posthaste attach`: watches one worker, and talks to it.

mod conversation;
mod terminal;

use posthaste_api::ErrorCode;
use posthaste_api::client::ClientError;

use super::{Session, agent};
use crate::cli::AttachArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(super) async fn run(
    args: &AttachArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    let id = agent::find(&args.instance, &client).await?;
    match client.terminal(&id).await {
        Ok(terminal) => terminal::attach(terminal, args.read_only, output),
        // It has none, or has ended.
        Err(ClientError::Api(error)) if error.code == ErrorCode::NotFound => {
            let who = client.instance(&id).await?;
            conversation::attach(&who, args, session, output).await
        }
        Err(error) => Err(error.into()),
    }
}
