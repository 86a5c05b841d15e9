//! `posthaste trail`: what happened to a message.

use jiff::Zoned;
use posthaste_api::trail::{StepView, TrailView};

use super::Session;
use crate::cli::TrailArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::when;

pub(super) async fn run(
    args: &TrailArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let trail = session.client()?.trail(&args.id).await?;
    if output.json() {
        return output.answer(&trail);
    }
    output.say(&told(&trail, &when::now()))
}

/// The verdict on top, then step by step.
fn told(trail: &TrailView, now: &Zoned) -> String {
    let verdict = format!("message {}: {}", trail.seq, when::in_words(&trail.verdict, now));
    let step = |step: &StepView| {
        let at = step.at.as_deref().map_or_else(String::new, |at| when::time_of_day(at, now));
        // A step is one line, whatever an agent is called.
        let text = when::in_words(&step.text, now).replace(['\n', '\t'], " ");
        format!("  {at:<8}  {:<8}  {text}", step.event)
    };
    let lines = trail.steps.iter().map(step);
    std::iter::once(verdict).chain(lines).collect::<Vec<_>>().join("\n")
}
