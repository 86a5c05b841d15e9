//! `posthaste poll`: shows the state of an agent, in counts and times.

use posthaste_api::instances::{InstanceView, UsageView};

use super::{Session, agent, needs};
use crate::cli::PollArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::{Text, Tone};
use crate::when;

pub(super) async fn run(
    args: &PollArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    let id = agent::find_to_read(&args.instance, &client, output).await?;
    let view = client.instance(&id).await?;
    if output.json() {
        return output.answer(&view);
    }
    output.paint(&told(&view, when::now().timestamp()))?;
    output.flush()?;
    if view.activity == "waiting_user"
        && let Some(need) = needs::awaited(&client, &view.instance, 0).await
    {
        output.note(&needs::waits(&need));
    }
    Ok(())
}

fn told(view: &InstanceView, now: jiff::Timestamp) -> Text {
    let mut lines = Vec::new();
    let mut add = |name: &str, what: Option<String>| {
        if let Some(what) = what {
            lines.push((format!("\n  {name:<10} "), what.replace(['\n', '\t'], " ")));
        }
    };
    add("label", view.label.clone());
    add("ended", view.why.clone());
    add("exit code", view.exit_code.map(|code| code.to_string()));
    add("works in", view.working_directory.clone());
    add("branch", view.branch.clone());
    add("timeout", view.timeout_s.map(when::how_long));
    add("started", view.started_at.as_ref().map(|at| when::ago(at, now)));
    add("last seen", Some(when::ago(&view.last_seen, now)));
    add("unread", Some(super::agents::unread(view)));
    add("model", view.usage.as_ref().map(usage));
    add("workers", view.usage_of_workers.as_ref().map(usage));
    for given in &view.assignments {
        let label = given.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
        let report = match given.report {
            Some(report) => format!("settled by message {report}"),
            None => "open".to_owned(),
        };
        add("task", Some(format!("{}{label} for {}: {report}", given.task, given.by)));
    }
    let head = Text::new().add(Tone::Who, &view.address).plain("  ");
    let head = head.add(Tone::of_state(&view.status), state(view));
    lines.into_iter().fold(head, |text, (name, what)| text.add(Tone::Faint, name).plain(what))
}

/// Formats `3 answers of a model, 12000 tokens in, 800 out, 0.0420 USD`.
fn usage(used: &UsageView) -> String {
    let UsageView { calls, input_tokens, output_tokens, cost_usd } = used;
    let cost = if *cost_usd > 0.0 { format!(", {cost_usd:.4} USD") } else { String::new() };
    let answers = if *calls == 1 { "answer" } else { "answers" };
    format!("{calls} {answers} of a model, {input_tokens} tokens in, {output_tokens} out{cost}")
}

/// Formats `running, busy`.
pub(super) fn state(view: &InstanceView) -> String {
    match view.activity.as_str() {
        "unknown" => view.status.clone(),
        activity => format!("{}, {}", view.status, activity.replace('_', " ")),
    }
}
