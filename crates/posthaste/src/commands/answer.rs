//! `posthaste answer`: answers what waits for the operator.

use posthaste_api::ErrorCode;
use posthaste_api::client::ClientError;
use posthaste_api::needs::{AnswerRequest, AnsweredNeed};

use super::{Session, needs, send};
use crate::cli::AnswerArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::quoted;

pub(super) async fn run(
    args: AnswerArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    let text = match args.text.is_empty() {
        true => None,
        false => Some(send::text(args.text)?),
    };
    let allow = match (args.allow, args.deny) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        (false, false) => None,
    };
    let request = AnswerRequest { text, option: args.option, allow, remember: args.remember };
    let answered = match client.answer_need(&args.id, &request).await {
        Err(ClientError::Api(error)) if error.code == ErrorCode::InvalidArgument => {
            // The hub does not say how this kind is answered.
            let kind = client.need(&args.id).await?.kind;
            return Err(error.hint(needs::how(&kind, &args.id)).into());
        }
        answered => answered?,
    };
    match output.json() {
        true => output.answer(&answered),
        false => output.say(&told(&answered, args.remember)),
    }
}

/// Says what became of it, in one line.
fn told(answered: &AnsweredNeed, remember: bool) -> String {
    let need = &answered.need;
    let message = need.message.unwrap_or_default();
    match (need.outcome.as_deref().unwrap_or_default(), &answered.sent) {
        (_, Some(sent)) => format!("answered {}: message {} is accepted", need.from, sent.seq),
        ("requeued", _) => format!("message {message} is queued again"),
        ("dismissed", _) => format!("message {message} stays dead"),
        ("seen", _) => format!("noted: you have seen that {} failed", need.from),
        (verdict @ ("allowed" | "denied"), _) => {
            let subject = need.subject.as_deref().unwrap_or_default();
            let profile = need.from.split('.').next().unwrap_or_default();
            let also = match remember {
                true => format!(
                    "; from now on {subject} is {verdict} for every {profile}\n\
                     undo: posthaste needs forget {profile} {}",
                    quoted(subject)
                ),
                false => String::new(),
            };
            format!("{verdict} for {}{also}", need.from)
        }
        (outcome, _) => format!("need {} is {}", need.id, outcome.replace('_', " ")),
    }
}
