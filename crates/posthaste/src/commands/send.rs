//! `posthaste send`: sends a message to one or several recipients, and reports what is
//! known.

use std::io::{self, Read};
use std::time::Duration;

use posthaste_api::messages::{MessageRef, Receipt, SendMany, SendOutcome, SendRequest, To};
use posthaste_api::{ApiError, ErrorCode};

use super::Session;
use crate::cli::SendArgs;
use crate::failure::{Failure, invalid};
use crate::output::Output;

/// The most bytes that are read; no hub takes as much in one message.
const MOST: u64 = 64 * 1024 * 1024;

pub(super) async fn run(
    args: SendArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut request = draft(args)?;
    let client = session.client()?;
    // A list with one name has the same answer as the name.
    if let To::Many(list) = &mut request.to
        && list.len() == 1
    {
        let to = list.remove(0);
        request.to = To::One(to);
    }
    match &request.to {
        To::One(to) => {
            let receipt = client.send(&request).await?;
            match output.json() {
                true => output.answer(&receipt),
                false => output.say(&told(to, &receipt)),
            }
        }
        To::Many(_) => show_many(&client.send_many(&request).await?, output),
    }
}

/// Shows all answers in order; the first failure is the result of the command.
fn show_many(answer: &SendMany, output: &mut Output) -> Result<(), Failure> {
    if output.json() {
        output.answer(answer)?;
    }
    let mut failed = None;
    for one in &answer.results {
        match &one.outcome {
            SendOutcome::Accepted(receipt) if !output.json() => {
                output.say(&told(&one.to, receipt))?;
            }
            SendOutcome::Accepted(_) => (),
            SendOutcome::Refused { error } => {
                failed.get_or_insert(error.code);
                if !output.json() {
                    // Earlier output comes first.
                    output.flush()?;
                    output.fail_about(&format!("not sent to {}", one.to), error);
                }
            }
        }
    }
    output.flush()?;
    failed.map_or(Ok(()), |code| Err(Failure::Shown(code)))
}

fn draft(args: SendArgs) -> Result<SendRequest, Failure> {
    let (to, message) = split(args.words)?;
    let message = if message == "-" { from_stdin()? } else { message };
    let metadata: serde_json::Map<_, _> =
        args.meta.into_iter().map(|(name, value)| (name, value.into())).collect();
    Ok(SendRequest {
        to: To::Many(to),
        priority: args.urgent.then(|| "urgent".to_owned()),
        kind: args.kind,
        label: args.label,
        thread_id: args.thread,
        in_reply_to: args.reply_to.map(MessageRef::Text),
        metadata: (!metadata.is_empty()).then_some(metadata),
        ttl_s: args.ttl.map(seconds),
        idempotency_key: args.key,
        ..SendRequest::new("", message)
    })
}

/// Splits a line: the first word names the recipients, and the rest is the text, with or
/// without quotes.
fn split(words: Vec<String>) -> Result<(Vec<String>, String), Failure> {
    let example = "for example: posthaste send bob the build is green; several with commas and \
                   without spaces: posthaste send bob,alice hello";
    let (to, text) = words.split_first().map_or(("", &[][..]), |(to, text)| (to.trim(), text));
    let names = to.split(',').map(|to| to.trim().to_owned());
    let names: Vec<String> = names.filter(|to| !to.is_empty()).collect();
    if names.is_empty() || text.is_empty() {
        let told = "a message needs somebody to go to, and then its text";
        return Err(invalid(told).hint(example).into());
    }
    if to.ends_with(',') {
        // The next word may be another name or the beginning of the text.
        let told = format!("`{to}` ends in a comma, so it is not clear where the text begins");
        return Err(invalid(told).hint(example).into());
    }
    Ok((names, text.join(" ")))
}

/// Rounds a lifetime up to whole seconds, so that half a second does not become none.
pub(super) fn seconds(ttl: Duration) -> u64 {
    ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)
}

/// Returns the rest of the line as a text; `-` alone reads stdin.
pub(super) fn text(words: Vec<String>) -> Result<String, Failure> {
    match words.as_slice() {
        [one] if one == "-" => from_stdin(),
        words => Ok(words.join(" ")),
    }
}

pub(super) fn from_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    match io::stdin().take(MOST + 1).read_to_string(&mut text) {
        Err(e) => return Err(invalid(format!("stdin cannot be read as text: {e}")).into()),
        Ok(read) if read as u64 > MOST => {
            return Err(ApiError::new(ErrorCode::TooLarge, "stdin has too much text").into());
        }
        Ok(_) => (),
    }
    let end = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text).len());
    if let Some(end) = end {
        text.truncate(end);
    }
    Ok(text)
}

/// Reports what is known, and no more: that the message is accepted, and how many agents
/// may read it right now.
pub(super) fn told(to: &str, receipt: &Receipt) -> String {
    let (active, waiting) = receipt
        .recipients
        .iter()
        .fold((0, 0), |(active, waiting), one| (active + one.active, waiting + one.waiting));
    let seq = receipt.seq;
    let mut told = match receipt.duplicate {
        true => format!("accepted before as {seq} for {to}"),
        false => format!("accepted {seq} for {to}"),
    };
    match receipt.recipients.as_slice() {
        [] => told.push_str(": nobody is there to get it"),
        [one] if one.mailbox == "human" => told.push_str(": it waits for the operator"),
        [one] if one.active == 0 => told.push_str(": nobody is active yet; it waits"),
        [_] => told.push_str(&format!(": {active} active, {waiting} waiting")),
        many => {
            let count = many.len();
            told.push_str(&format!(": {count} mailboxes, {active} active, {waiting} waiting"));
        }
    }
    if !receipt.durable {
        told.push_str(" (in memory only)");
    }
    if !receipt.skipped.is_empty() {
        told.push_str(&format!("\nleft out, mailbox full: {}", receipt.skipped.join(", ")));
    }
    told
}

#[cfg(test)]
mod tests {
    use posthaste_api::messages::{Recipient, SendOne};

    use super::*;
    use crate::output::tests::overheard;

    fn receipt(recipients: &[(&str, u32, u32)]) -> Receipt {
        Receipt {
            seq: 4711,
            id: "9f86d081884c7d65".into(),
            thread_id: "t-12345678".into(),
            recipients: recipients
                .iter()
                .map(|&(mailbox, active, waiting)| Recipient {
                    mailbox: mailbox.into(),
                    active,
                    waiting,
                })
                .collect(),
            duplicate: false,
            durable: true,
            skipped: vec![],
        }
    }

    #[test]
    fn the_sender_is_told_what_is_known_and_no_more() {
        let one = receipt(&[("n.bob", 1, 0)]);
        assert_eq!(told("bob", &one), "accepted 4711 for bob: 1 active, 0 waiting");
        let nobody = receipt(&[("n.bob", 0, 0)]);
        assert_eq!(told("bob", &nobody), "accepted 4711 for bob: nobody is active yet; it waits");
        let again = Receipt { duplicate: true, durable: false, ..one };
        assert_eq!(
            told("bob", &again),
            "accepted before as 4711 for bob: 1 active, 0 waiting (in memory only)"
        );
        let all = Receipt {
            skipped: vec!["i.00000003".into()],
            ..receipt(&[("i.1", 1, 1), ("i.2", 1, 0)])
        };
        assert_eq!(
            told("@everyone", &all),
            "accepted 4711 for @everyone: 2 mailboxes, 2 active, 1 waiting\n\
             left out, mailbox full: i.00000003"
        );
    }

    #[test]
    fn the_first_word_says_whom_it_is_for_and_the_rest_of_the_line_is_the_text() {
        let words = |line: &str| line.split('|').map(str::to_owned).collect::<Vec<_>>();
        for (line, to, text) in [
            ("bob|the|build|is|green", "bob", "the build is green"),
            ("bob|the build is green", "bob", "the build is green"),
            ("a,b|c,|hello,there", "a|b", "c, hello,there"),
            ("a, b|hello", "a|b", "hello"),
            ("bob|-", "bob", "-"),
            ("bob|", "bob", ""),
        ] {
            let (names, message) = split(words(line)).ok().expect("good");
            assert_eq!((names, message.as_str()), (words(to), text), "{line}");
        }
        for line in ["bob", ",|hello", "a,b", ",|,", "a,|b,c|hello", "bob,|the|build", "a,b, |c"] {
            assert_eq!(split(words(line)).err().map(|e| e.exit()), Some(2), "{line}");
        }
    }

    #[test]
    fn a_list_tells_every_answer_and_ends_with_the_first_failure() {
        let refused = |to: &str, code, message: &str| SendOne {
            to: to.into(),
            status: 404,
            outcome: SendOutcome::Refused { error: ApiError::new(code, message) },
        };
        let answer = SendMany {
            results: vec![
                refused("bbo", ErrorCode::NoRecipient, "nobody is called bbo"),
                SendOne {
                    to: "bob".into(),
                    status: 201,
                    outcome: SendOutcome::Accepted(receipt(&[("n.bob", 1, 0)])),
                },
                refused("full", ErrorCode::MailboxFull, "it is full"),
            ],
        };
        let (mut output, out, err) = overheard(false);
        let failure = show_many(&answer, &mut output).expect_err("one failed");
        assert_eq!(failure.exit(), ErrorCode::NoRecipient.exit());
        assert_eq!(out.text(), "accepted 4711 for bob: 1 active, 0 waiting\n");
        assert_eq!(
            err.text(),
            "error: not sent to bbo: nobody is called bbo\nerror: not sent to full: it is full\n"
        );
    }
}
