//! `posthaste chat`: talks to one agent, over restarts of the hub.
//!
//! The hub keeps the conversation; the command reads it again whenever something has
//! happened, and shows what is new. So a lost connection loses nothing.

mod ask;
mod shown;
mod talk;
mod view;

use std::io::{self, IsTerminal};

use posthaste_api::Client;
use posthaste_api::chat::{ChatSaid, ChatStart, ChatView};
use posthaste_core::address::Address;

use super::{Session, agent, assign, send};
use crate::cli::ChatArgs;
use crate::failure::{Failure, invalid};
use crate::output::Output;

pub(super) async fn run(
    args: ChatArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let message = match args.message.is_empty() {
        false => Some(send::text(args.message.clone())?),
        true if io::stdin().is_terminal() => None,
        true => Some(send::from_stdin()?),
    };
    if message.as_ref().is_some_and(|text| text.trim().is_empty()) {
        let told = invalid("there is no message");
        return Err(told.hint("write it after the agent's name, or into the pipe").into());
    }
    let client = session.client()?;
    let id = partner(&args, &client, output).await?;
    match message {
        Some(text) => ask::run(&id, text, &args, session, output).await,
        None => talk::run(&id, &args, session, output).await,
    }
}

/// Returns the agent that is meant, and starts one of that profile if none is here.
async fn partner(args: &ChatArgs, client: &Client, output: &mut Output) -> Result<String, Failure> {
    let text = &args.agent;
    let named = match text.parse::<Address>() {
        Ok(Address::Named { name, team }) => Some((name, team)),
        _ => None,
    };
    let starts = match &named {
        Some(_) if args.new => true,
        Some((name, team)) => agent::named(name, team.as_ref(), None, client).await?.is_empty(),
        None if args.new => {
            let told = invalid(format!("--new starts an agent of a profile, and `{text}` is none"));
            return Err(told.hint("`posthaste profiles` lists them").into());
        }
        None => false,
    };
    if !starts {
        return agent::find(text, client).await;
    }
    let request = ChatStart {
        agent: text.clone(),
        message: None,
        team: args.team.clone(),
        label: args.label.clone(),
        working_directory: assign::directory(args.dir.clone(), client.is_local())?,
        idempotency_key: Some(key()),
    };
    let started = client.start_chat(&request).await?;
    output.note(&format!(
        "started {}; it stays until you end it: posthaste stop {}",
        started.address, started.instance
    ));
    Ok(started.instance)
}

/// Makes a key, so that a repeated call is the same call.
fn key() -> String {
    format!("cli:{:032x}", rand::random::<u128>())
}

/// Says which verdict was given, if one was.
fn verdict(said: &ChatSaid, output: &mut Output) {
    if let (None, Some(need)) = (&said.receipt, &said.need) {
        let outcome = need.outcome.as_deref().unwrap_or("answered").replace('_', " ");
        output.note(&format!("{outcome}: {}", need.text));
    }
}

/// Returns the error of an agent that has ended.
fn ended(view: &ChatView) -> Failure {
    let told = invalid(format!("{} has ended: {}", view.address, view.status));
    told.hint(format!("posthaste logs {} shows what it did", view.instance)).into()
}
