//! `posthaste attach`: watches one worker, and talks to it.

pub(super) mod conversation;
mod terminal;

use std::time::Duration;

use posthaste_api::client::ClientError;
use posthaste_api::{Client, ErrorCode};
use tokio::time::sleep;

use super::{Session, agent};
use crate::cli::AttachArgs;
use crate::failure::Failure;
use crate::output::Output;

/// The way in which a person leaves a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// Ctrl-D and Ctrl-C end the command.
    ByKeys,
    /// The command stays in its window of tmux, from which the person detaches.
    ByTmux,
}

/// The time between two looks at a worker that has not started.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) async fn run(
    args: &AttachArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    let id = agent::find_to_read(&args.instance, &client, output).await?;
    until_started(&id, &client, output).await?;
    match client.terminal(&id).await {
        Ok(terminal) => terminal::attach(terminal, args.read_only, output),
        // It has none, or has ended.
        Err(ClientError::Api(error)) if error.code == ErrorCode::NotFound => {
            let who = client.instance(&id).await?;
            if !conversation::converses(&id, &client).await? {
                return Err(conversation::none(&who));
            }
            conversation::attach(&who, args, session, Leaving::ByKeys, output).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits for a worker that is in line, or about to start.
async fn until_started(id: &str, client: &Client, output: &mut Output) -> Result<(), Failure> {
    let mut told = false;
    while client.instance(id).await?.status == "starting" {
        if !std::mem::replace(&mut told, true) {
            output.note("it has not started yet; this waits until it has");
        }
        sleep(PAUSE).await;
    }
    Ok(())
}
