//! Answers to a terminal that waits for its user.
//!
//! CAO types the answer into the terminal. Here what a terminal asks is a need of the
//! operator's, and the operator alone answers it, with a token: a supervisor that could
//! allow what its worker asks for would give it more than it may itself, and a worker that
//! could would need no permission.

use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::address::InstanceId;
use posthaste_core::messaging::message::{Principal, Via};
use posthaste_core::needs::{Answer, Need, NeedId, NeedKind};
use posthaste_core::ports::store::NeedsLook;

use crate::App;
use crate::failure::Failure;

/// Most open needs that are looked at.
const MOST: usize = 1000;

/// Words that allow what a terminal asks for; any other word denies it.
const YES: [&str; 6] = ["1", "y", "yes", "allow", "approve", "ok"];

/// Answers the oldest thing that a terminal asks its user.
pub(super) async fn answer(
    app: &App,
    terminal: InstanceId,
    by: Option<Principal>,
    text: String,
) -> Result<(), Failure> {
    if by != Some(Principal::Operator) {
        let why = "only the human answers what a terminal asks its user, with the operator's token";
        return Err(ApiError::new(ErrorCode::Forbidden, why)
            .hint("`posthaste needs` lists it for the human, and `posthaste answer` answers it")
            .into());
    }
    let look = NeedsLook::After { after: NeedId(0), kind: None, open_only: true, most: MOST };
    let asks = |need: &Need| {
        need.from.instance == Some(terminal)
            && matches!(need.kind, NeedKind::Question | NeedKind::Permission)
    };
    let Some(need) = app.hub.needs(look).await?.into_iter().find(asks) else {
        let why = "the terminal does not ask any more";
        return Err(ApiError::new(ErrorCode::Conflict, why).into());
    };
    let answer = match need.kind {
        NeedKind::Permission => {
            let allow = YES.contains(&text.trim().to_ascii_lowercase().as_str());
            Answer { allow: Some(allow), ..Answer::default() }
        }
        _ => match chosen(&need.options, &text) {
            Some(option) => Answer { option: Some(option), ..Answer::default() },
            None => Answer { text: Some(text), ..Answer::default() },
        },
    };
    app.hub.answer_need(need.id, answer, Via::Cao).await?;
    Ok(())
}

/// Returns the offered answer that a text names, by its words or by its number from 1.
fn chosen(options: &[String], text: &str) -> Option<String> {
    let text = text.trim();
    let by_number = text.parse::<usize>().ok().and_then(|n| options.get(n.checked_sub(1)?));
    by_number.or_else(|| options.iter().find(|option| *option == text)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offered_answer_is_chosen_by_its_words_or_its_number() {
        let options = ["red".to_owned(), "blue".to_owned()];
        assert_eq!(chosen(&options, "2"), Some("blue".to_owned()));
        assert_eq!(chosen(&options, " red "), Some("red".to_owned()));
        for other in ["0", "3", "green", ""] {
            assert_eq!(chosen(&options, other), None, "{other}");
        }
    }
}
