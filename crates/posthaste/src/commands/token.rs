//! `posthaste token`: the two tokens of the hub on this machine.

use posthaste_api::{ApiError, ErrorCode};
use serde_json::json;

use super::Session;
use crate::cli::TokenArgs;
use crate::failure::Failure;
use crate::identity::Key;
use crate::output::Output;

pub(super) fn run(args: &TokenArgs, session: &Session, output: &mut Output) -> Result<(), Failure> {
    let key = match args.new {
        Some(key) => key,
        None if args.operator => Key::Operator,
        None => Key::Join,
    };
    let token = if args.new.is_some() {
        let token = session.folder.replace_key(key)?;
        output.note(&format!("the new {key} counts from the next start of the hub"));
        token
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
