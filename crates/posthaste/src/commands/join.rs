//! `posthaste join` and `posthaste leave`: registers an agent, and ends it.

use posthaste_api::ErrorCode;
use posthaste_api::client::ClientError;
use posthaste_core::address::Name;

use super::{Session, member, name};
use crate::cli::{JoinArgs, LeaveArgs};
use crate::failure::Failure;
use crate::identity::{Acting, Identity};
use crate::output::Output;

pub(super) async fn join(
    args: JoinArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let agent = name(&args.name)?;
    let team = args.team.as_deref().map(name).transpose()?;
    let acting = Acting::new(agent.clone(), team.clone());
    let key = args.key.unwrap_or_else(|| format!("cli:{acting}"));
    let team = team.as_ref().map(Name::as_str);
    let joined = member::join(session, &session.joining()?, (agent.as_str(), team), key).await?;
    // A file that cannot be read is replaced.
    let before = session.folder.found(&acting).ok();
    session.folder.keep_identity(&acting, &Identity::from(&joined))?;
    if let Some((kept, who)) = before.filter(|(_, who)| who.instance != joined.instance) {
        let now = if kept == acting { String::new() } else { format!("; it is `--as {kept}`") };
        output.note(&format!("`--as {acting}` was {} until now{now}", who.address));
    }

    if args.print_token {
        return match output.json() {
            true => output.answer(&serde_json::json!({ "token": joined.token })),
            false => output.say(&joined.token),
        };
    }
    if output.json() {
        return output.answer(&joined);
    }
    let how = if joined.resumed { "joined again" } else { "joined" };
    output.say(&format!("{how} as {} (instance {})", joined.address, joined.instance))?;
    output.say(&format!("`--as {acting}` now works, for example: posthaste inbox --as {acting}"))
}

pub(super) async fn leave(
    args: &LeaveArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let (acting, who) = session.folder.found(&Acting::read(&args.name)?)?;
    let stranger = session.stranger()?;
    session.lives(&stranger)?;
    let client = stranger.with_token(who.token.reveal());
    let left = match client.leave(&who.instance).await {
        Ok(_) => true,
        // The instance has ended, or the hub never kept it: only the file is left.
        Err(ClientError::Api(e)) if gone(e.code) => false,
        Err(e) => return Err(e.into()),
    };
    session.folder.forget_identity(&acting)?;

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
