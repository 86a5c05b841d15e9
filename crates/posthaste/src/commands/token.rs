//! `posthaste token`: shows or replaces the two tokens of the hub on this machine.

use posthaste_api::{ApiError, Client, ErrorCode};
use serde_json::json;

use super::Session;
use crate::cli::TokenArgs;
use crate::failure::Failure;
use crate::identity::{DataFolder, Key, Running, Token};
use crate::output::Output;

pub(super) async fn run(
    args: &TokenArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let key = match args.new {
        Some(key) => key,
        None if args.operator => Key::Operator,
        None => Key::Join,
    };
    let token = if args.new.is_some() {
        replace(key, &session.folder, output).await?
    } else {
        session.folder.key(key)?.ok_or_else(|| {
            let told = format!("there is no {key} in {}", session.folder.path().display());
            ApiError::new(ErrorCode::NotFound, told)
                .hint("`posthaste up` makes it, or name the hub's folder with --data")
        })?
    };
    if output.json() {
        return output.answer(&json!({ "token": token.reveal() }));
    }
    output.say(token.reveal())
}

/// Replaces a token, at once where a hub runs: the caller is not locked out, and the old
/// token is invalid from then on.
async fn replace(key: Key, folder: &DataFolder, output: &mut Output) -> Result<Token, Failure> {
    // A file that holds no token is replaced like any other.
    let kept = |key| folder.key(key).ok().flatten();
    let (old, operator, new) = (kept(key), kept(Key::Operator), Token::random());
    folder.put_key(key, &new)?;
    let Some(hub) = folder.running() else {
        output.note(&format!("the new {key} counts from the next start of the hub"));
        return Ok(new);
    };
    match (told(&hub, operator.as_ref()).await, old) {
        (Ok(()), _) => {
            output.note(&format!(
                "the hub at {} takes the new {key} from now on, and the old one no longer",
                hub.url
            ));
            Ok(new)
        }
        // The hub did not know the old token either.
        (Err(error), _) if error.code == ErrorCode::Unauthorized => {
            output.note(&format!("the new {key} counts from the next start of the hub"));
            Ok(new)
        }
        (Err(error), Some(old)) => {
            folder.put_key(key, &old)?;
            let message = format!(
                "the {key} is still the old one: the hub could not be told of a new one: {error}"
            );
            Err(ApiError { message, ..error }.into())
        }
        (Err(error), None) => Err(error.into()),
    }
}

/// Tells the hub to read its tokens again, as the operator with the token that the hub
/// still knows.
async fn told(hub: &Running, operator: Option<&Token>) -> Result<(), ApiError> {
    let Some(operator) = operator else {
        let why = "there is no operator's token that the hub could know";
        return Err(ApiError::new(ErrorCode::Unauthorized, why));
    };
    let client = Client::new(&hub.url)?.as_command_line().with_token(operator.reveal());
    client.reload_tokens().await?;
    Ok(())
}
