//! `posthaste join` and `posthaste leave`: becoming an agent, and ceasing to be
//! one.

use posthaste_api::ErrorCode;
use posthaste_api::client::ClientError;
use posthaste_core::address::Name;

use super::{Session, member, name};
use crate::cli::{JoinArgs, LeaveArgs};
use crate::failure::Failure;
use crate::identity::Identity;
use crate::output::Output;

pub(super) async fn join(
    args: JoinArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let agent = name(&args.name)?;
    let team = args.team.as_deref().map(name).transpose()?;
    let key = args.key.unwrap_or_else(|| match &team {
        Some(team) => format!("cli:{agent}@{team}"),
        None => format!("cli:{agent}"),
    });
    let team = team.as_ref().map(Name::as_str);
    let joined = member::join(session, &session.joining()?, (agent.as_str(), team), key).await?;
    session.folder.keep_identity(&agent, &Identity::from(&joined))?;

    if args.print_token {
        return output.say(&joined.token);
    }
    if output.json() {
        return output.answer(&joined);
    }
    let how = if joined.resumed { "joined again" } else { "joined" };
    output.say(&format!("{how} as {} (instance {})", joined.address, joined.instance))?;
    output.say(&format!("`--as {agent}` now works, for example: posthaste inbox --as {agent}"))
}

pub(super) async fn leave(
    args: &LeaveArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let agent = name(&args.name)?;
    let who = session.identity(&agent)?;
    let client = session.stranger()?.with_token(who.token.reveal());
    let left = match client.leave(&who.instance).await {
        Ok(_) => true,
        // It has ended, or the hub never kept it: what is left of it is the file.
        Err(ClientError::Api(e)) if gone(e.code) => false,
        Err(e) => return Err(e.into()),
    };
    session.folder.forget_identity(&agent)?;

    if output.json() {
        return output.answer(&serde_json::json!({ "instance": who.instance, "left": left }));
    }
    match left {
        true => output.say(&format!("{} has left", who.address)),
        false => output.say(&format!("{} had left before", who.address)),
    }
}

fn gone(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotFound
            | ErrorCode::Unauthorized
            | ErrorCode::RecipientGone
            | ErrorCode::Conflict
    )
}
