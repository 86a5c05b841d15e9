//! Shows an answer of the inbox to a person or a program.

use posthaste_api::inbox::{Already, Entry, Inbox, Missing};

use crate::commands::addresses::Addresses;
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::{Text, Tone};
use crate::terminal::indented;
use crate::when;

/// Details that an answer refers to and does not contain.
#[derive(Default)]
pub(super) struct Known {
    /// The addresses of missing instances.
    pub(super) addresses: Addresses,
    /// Reports of failed workers among those that were handed over before.
    pub(super) failed: Vec<u64>,
}

/// Shows the answer, and returns when it has left the program.
pub(super) fn show(answer: &Inbox<'_>, known: &Known, output: &mut Output) -> Result<(), Failure> {
    if output.json() {
        output.answer(answer)?;
        return output.flush();
    }
    let now = when::now();
    for entry in &answer.messages {
        output.paint(&line(entry, &now))?;
    }
    output.flush()?;
    if !answer.missing.is_empty() {
        let missing: Vec<String> = answer.missing.iter().map(|who| absent(who, known)).collect();
        output.note(&format!("still missing: {}", missing.join(", ")));
    }
    if !answer.already.is_empty() {
        let already: Vec<String> =
            answer.already.iter().map(|report| before(report, known)).collect();
        output.note(&format!("handed over before: {}", already.join(", ")));
    }
    if answer.remaining > 0 {
        output.note(&format!("{} more waiting", answer.remaining));
    }
    Ok(())
}

/// Formats `[4711] alice.1a2b3c4d@main (peer, 12:03:04): the text`.
fn line(entry: &Entry<'_>, now: &jiff::Zoned) -> Text {
    let mut about = vec![entry.relation.to_string()];
    if entry.kind != "text" {
        about.push(entry.kind.to_string());
    }
    if entry.urgent {
        about.push("urgent".to_owned());
    }
    if let Some(label) = &entry.label {
        about.push(format!("label {label}"));
    }
    if let Some(id) = entry.in_reply_to {
        about.push(format!("answers {id}"));
    }
    about.push(when::time_of_day(&entry.created_at, now));
    if entry.late {
        about.push("late".to_owned());
    }
    if entry.redelivered {
        about.push("redelivered".to_owned());
    }
    let tone =
        if entry.urgent || entry.kind == "system.agent_failed" { Tone::Bad } else { Tone::Faint };
    let head = Text::new()
        .add(Tone::Strong, format!("[{}] ", entry.id))
        .add(Tone::Who, &entry.from)
        .add(tone, format!(" ({})", about.join(", ")));
    let clipped = match (entry.truncated, entry.total_chars) {
        (true, Some(total)) => format!("\n    (clipped: it has {total} characters)"),
        (true, None) => "\n    (clipped)".to_owned(),
        (false, _) => String::new(),
    };
    // The head is one line, also if a label contains line breaks.
    head.line(None).plain(format!(": {}{clipped}", indented(&entry.message)))
}

fn absent(missing: &Missing, known: &Known) -> String {
    let address = || missing.instance.as_deref().map(|id| known.addresses.shown(id));
    let who = missing.label.clone().or_else(address).unwrap_or_else(|| "somebody".to_owned());
    format!("{who} ({})", missing.status)
}

fn before(report: &Already, known: &Known) -> String {
    let label = report.label.as_ref().map(|label| format!(" {label}")).unwrap_or_default();
    let failed = if known.failed.contains(&report.id) { " failed" } else { "" };
    format!("[{}]{label}{failed}", report.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::overheard;

    fn entry(message: &str) -> Entry<'static> {
        serde_json::from_value(serde_json::json!({
            "id": 4711, "uid": "9f86d081884c7d65", "from": "alice.1a2b3c4d@main",
            "sender_id": "1a2b3c4d", "relation": "peer", "to": "bob", "message": message,
            "type": "text", "thread_id": "t-12345678", "created_at": "2026-03-04T12:03:04.567Z",
        }))
        .expect("an entry of the hub")
    }

    fn noon() -> jiff::Zoned {
        let noon: jiff::Timestamp = "2026-03-04T12:00:00Z".parse().expect("a time");
        noon.to_zoned(jiff::tz::TimeZone::UTC)
    }

    #[test]
    fn a_message_is_one_line_with_its_sender_and_its_time() {
        let shown = line(&entry("the build is green"), &noon());
        assert_eq!(
            shown.render(false),
            "[4711] alice.1a2b3c4d@main (peer, 12:03:04): the build is green"
        );
    }

    #[test]
    fn what_is_special_about_a_message_stands_in_its_head() {
        let special = Entry {
            kind: "question".into(),
            urgent: true,
            label: Some("ci\nfake".into()),
            in_reply_to: Some(4700),
            redelivered: true,
            ..entry("two\nlines")
        };
        assert_eq!(
            line(&special, &noon()).render(false),
            "[4711] alice.1a2b3c4d@main (peer, question, urgent, label ci fake, answers 4700, \
             12:03:04, redelivered): two\n    lines"
        );
    }

    #[test]
    fn who_is_missing_and_what_still_waits_is_said_beside_the_mail() {
        let answer = Inbox {
            messages: vec![entry("\x1b[31mred")],
            total: 1,
            status: "partial".into(),
            waited_s: 1.0,
            missing: vec![Missing {
                instance: Some("0000000a".into()),
                label: None,
                status: "running".into(),
            }],
            already: vec![
                Already { seq: 7, id: 7, label: Some("docs".into()) },
                Already { seq: 8, id: 8, label: None },
            ],
            remaining: 3,
            settled: vec![],
            receipt: Some("r".into()),
        };
        let mut known = Known { failed: vec![8], ..Known::default() };
        known.addresses.know("0000000a", "bob.0000000a@main");
        let (mut output, out, err) = overheard(false);
        assert!(show(&answer, &known, &mut output).is_ok());
        assert!(out.text().ends_with("): \\u{1b}[31mred\n"), "{}", out.text());
        assert_eq!(
            err.text(),
            "note: still missing: bob.0000000a@main (running)\n\
             note: handed over before: [7] docs, [8] failed\nnote: 3 more waiting\n"
        );
        let (mut output, out, _) = overheard(true);
        assert!(show(&answer, &known, &mut output).is_ok());
        assert_eq!(out.text().lines().count(), 1);
        assert!(out.text().contains(r#""status":"partial""#));
    }
}
