//! `posthaste inbox`: waits, shows messages, and only then acks them.
//!
//! Messages are acked after they have left the program. A closed pipe, a full disk or a
//! kill in between leaves them without proof, and they are delivered again, marked
//! `redelivered`.

use std::time::Duration;

use posthaste_api::ApiError;
use posthaste_api::client::ClientError;
use posthaste_api::inbox::Inbox;
use tokio::time::{Instant, sleep};

use super::Session;
use super::interrupt::Interrupt;
use crate::cli::InboxArgs;
use crate::failure::{Failure, invalid};
use crate::output::{Output, stdout_is_closed};
use crate::progress::{Progress, while_waiting};
use reader::Reader;
use show::{Known, show};

mod reader;
mod show;

/// The longest wait that the hub grants in one call.
const LONGEST_POLL: Duration = Duration::from_secs(600);
/// A shorter wait is not worth a call.
const MOMENT: Duration = Duration::from_millis(10);
/// The time between calls that a hub answers at once and without messages.
const PAUSE: Duration = Duration::from_millis(200);
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(10);

pub(super) async fn run(
    args: &InboxArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    if stdout_is_closed() {
        let told = invalid("stdout is closed, so no mail can be shown");
        return Err(told.hint("nothing was taken; give it a pipe, a file or a terminal").into());
    }
    let mut reader = Reader::new(session.client()?, args);
    if args.follow {
        follow(&mut reader, args.timeout, session, output).await
    } else {
        wait(&mut reader, args, session, output).await
    }
}

/// Waits once, as long as the caller says, in as many calls as the hub needs.
async fn wait(
    reader: &mut Reader,
    args: &InboxArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let patience = args.timeout;
    let deadline = Instant::now() + patience;
    let mut gone = false;
    let mut seen = Seen::default();
    let mut progress = Progress::for_viewer(output);
    let what = match args.wait_for {
        Some(_) => "waiting for reports",
        None => "waiting for mail",
    };
    loop {
        let asked = deadline.saturating_duration_since(Instant::now()).min(LONGEST_POLL);
        let called = Instant::now();
        let read = reader.read(asked, output);
        let answer = match while_waiting(&mut progress, what, read).await {
            Ok(answer) => answer,
            // A gather waits for workers, and those outlive a hub that was killed.
            Err(e) if e.is_passing() && args.wait_for.is_some() && Instant::now() < deadline => {
                if !std::mem::replace(&mut gone, true) {
                    output.note(&format!("{e}; waiting for it to come back"));
                }
                sleep(FIRST_RETRY.min(deadline.saturating_duration_since(Instant::now()))).await;
                reader.reconnect(session);
                continue;
            }
            Err(e) => return Err(e.into()),
        };
        let again = match answer.status.as_ref() {
            "complete" => false,
            "call_again" | "empty" => true,
            // The hub's longest wait is over; the caller's may not be.
            _ => called.elapsed() >= asked,
        };
        let late = deadline.saturating_duration_since(Instant::now()) < MOMENT;
        let over = late || !again;
        if over || !answer.messages.is_empty() {
            let known = reader.look_up(&answer).await?;
            show(&answer, &known, output)?;
            reader.prove(&answer, output).await.map_err(unproven)?;
            seen.add(&answer, &known);
        }
        if over {
            let complete = answer.status == "complete";
            if answer.messages.is_empty() {
                match late && !complete {
                    true => output.note(&format!("no mail within {}", seconds(patience))),
                    // The caller was told which reports were handed over before.
                    false if !answer.already.is_empty() => (),
                    false => output.note("nothing is open, so there is nothing to wait for"),
                }
            }
            return seen.ended(complete, gathers(args));
        }
        if called.elapsed() < PAUSE && answer.messages.is_empty() {
            sleep(PAUSE.min(deadline.saturating_duration_since(Instant::now()))).await;
        }
    }
}

/// Returns whether the wait is for several reports, and not for any message.
fn gathers(args: &InboxArgs) -> bool {
    args.wait_for.as_deref().is_some_and(|whom| whom != "any")
}

/// The messages that one wait has shown, in all its answers.
#[derive(Default)]
struct Seen {
    mail: bool,
    /// A report says that its worker failed.
    failed: bool,
}

impl Seen {
    fn add(&mut self, answer: &Inbox<'_>, known: &Known) {
        self.mail |= !answer.messages.is_empty();
        self.failed |=
            !known.failed.is_empty() || answer.messages.iter().any(|entry| is_failure(&entry.kind));
    }

    /// Returns the result for the script that asked: messages or none, all or not all,
    /// done or failed.
    fn ended(&self, complete: bool, gathers: bool) -> Result<(), Failure> {
        match (gathers, complete) {
            (false, _) if self.mail => Ok(()),
            (false, _) => Err(Failure::NoMail),
            (true, false) => Err(Failure::Incomplete),
            (true, true) if self.failed => Err(Failure::WorkerFailed),
            (true, true) => Ok(()),
        }
    }
}

fn is_failure(kind: &str) -> bool {
    kind == "system.agent_failed"
}

/// Reads for ever, over restarts of the hub, until Ctrl-C.
async fn follow(
    reader: &mut Reader,
    patience: Duration,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut interrupt = Interrupt::new()?;
    let poll = patience.clamp(Duration::from_secs(1), LONGEST_POLL);
    let mut retry = None;
    loop {
        let called = Instant::now();
        // After an outage a short read tells at once whether the hub is back.
        let patience = if retry.is_some() { Duration::ZERO } else { poll };
        // A dropped read acks nothing: its messages are delivered again, marked.
        let pause = match interrupt.or(reader.read(patience, output)).await? {
            Ok(answer) => {
                if retry.take().is_some() {
                    output.note(&format!("the hub at {} is back", reader.url()));
                }
                if answer.messages.is_empty() {
                    PAUSE.saturating_sub(called.elapsed())
                } else {
                    let known = reader.look_up(&answer).await.unwrap_or_default();
                    show(&answer, &known, output)?;
                    // Messages that could not be acked now are acked before the next read.
                    if let Err(e) = interrupt.or(reader.prove(&answer, output)).await?
                        && !e.is_passing()
                    {
                        return Err(unproven(e));
                    }
                    Duration::ZERO
                }
            }
            Err(e) if e.is_passing() => {
                if retry.is_none() {
                    output.note(&format!("{e}; trying again"));
                }
                reader.reconnect(session);
                let pause = retry.map_or(FIRST_RETRY, |last: Duration| (last * 2).min(LAST_RETRY));
                *retry.insert(pause)
            }
            Err(e) => return Err(e.into()),
        };
        interrupt.or(sleep(pause)).await?;
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", (time.as_secs_f64() * 10.0).round() / 10.0)
}

/// Returns the error that messages were shown and still count as unread.
fn unproven(error: ClientError) -> Failure {
    let error = ApiError::from(error);
    let message = format!("shown, but the hub could not be told: {}", error.message);
    let hint = "the same mail comes again, marked as redelivered".to_owned();
    Failure::Told(ApiError { message, hint: Some(hint), ..error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_wait_has_an_exit_status_of_its_own() {
        let ended = |mail, failed, complete, gathers| {
            Seen { mail, failed }.ended(complete, gathers).map_or_else(|e| e.exit(), |()| 0)
        };
        assert_eq!(ended(true, false, true, false), 0, "mail");
        assert_eq!(ended(true, true, true, false), 0, "a failure is mail, too");
        assert_eq!(ended(false, false, false, false), 7, "no mail");
        assert_eq!(ended(true, false, true, true), 0, "all have reported");
        assert_eq!(ended(false, false, true, true), 0, "nothing was open");
        assert_eq!(ended(true, true, false, true), 8, "some have reported");
        assert_eq!(ended(false, false, false, true), 8, "none has");
        assert_eq!(ended(true, true, true, true), 9, "all have, and one has failed");
    }

    #[test]
    fn a_time_without_mail_is_told_shortly() {
        assert_eq!(seconds(Duration::from_secs(60)), "60 s");
        assert_eq!(seconds(Duration::from_millis(1540)), "1.5 s");
    }
}
