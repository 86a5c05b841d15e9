//! `posthaste trail`: shows what happened to a message.

use jiff::Zoned;
use posthaste_api::trail::{StepView, TrailView};

use super::Session;
use crate::cli::TrailArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::{Text, Tone};
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
    output.paint(&told(&trail, &when::now()))
}

/// Returns the verdict, then each step.
fn told(trail: &TrailView, now: &Zoned) -> Text {
    let verdict = Text::new().add(Tone::Strong, format!("message {}: ", trail.seq));
    let verdict = verdict.plain(when::in_words(&trail.verdict, now));
    let step = |told: Text, step: &StepView| {
        let at = step.at.as_deref().map_or_else(String::new, |at| when::time_of_day(at, now));
        // A step is one line, also if a name contains line breaks.
        let text = when::in_words(&step.text, now).replace(['\n', '\t'], " ");
        told.add(Tone::Faint, format!("\n  {at:<8}  "))
            .add(Tone::of_state(&step.event), format!("{:<8}  ", step.event))
            .plain(text)
    };
    trail.steps.iter().fold(verdict, step)
}
