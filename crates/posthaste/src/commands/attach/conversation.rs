//! A worker whose driver holds a conversation with it: its transcript, and what a person
//! types as mail to it.

use std::io::{self, IsTerminal};

use posthaste_api::Client;
use posthaste_api::instances::InstanceView;
use posthaste_api::messages::SendRequest;
use posthaste_api::work::OutputQuery;
use tokio::sync::mpsc::{self, Receiver};

use super::super::Session;
use super::super::interrupt::Interrupt;
use super::super::logs::transcript::{Following, Seen, Shown};
use super::Leaving;
use crate::cli::AttachArgs;
use crate::failure::{Failure, internal, invalid, told};
use crate::output::Output;

/// Number of lines that may wait for the hub.
const AHEAD: usize = 16;
/// The note after a line that was typed to a busy agent.
const LATER: &str = "it gets this when its turn ends; begin with ! to send it at once";
/// The smallest piece of output that the hub returns.
const LEAST: usize = 16;

/// Shows the worker's conversation, and sends it what is typed, until it ends or the
/// person leaves.
pub(in super::super) async fn attach(
    who: &InstanceView,
    args: &AttachArgs,
    session: &Session,
    leaving: Leaving,
    output: &mut Output,
) -> Result<(), Failure> {
    let address = &who.address;
    let ended = matches!(&*who.status, "finished" | "failed" | "stopped");
    // What is typed is read in any case: else the shell would get it later.
    let mut lines = typed()?;
    let how = match leaving {
        Leaving::ByKeys => "Ctrl-D leaves",
        Leaving::ByTmux => "Ctrl-B D leaves",
    };
    if lines.is_some() && !args.read_only && !ended {
        output.note(&format!(
            "each line goes to {address} as a message, at once if it begins with `!`; {how}"
        ));
    }
    let mut interrupt = Interrupt::new()?;
    let mut shown = Shown::default();
    let following = Following::new(&who.instance, session, true);
    let mut following = following.of_last(Some(args.tail)).with_needs();
    loop {
        match interrupt.or(next(&mut following, &mut lines)).await {
            Ok(Next::Seen(seen)) => {
                if !shown.see(seen?, output)? {
                    let now = session.client()?.instance(&who.instance).await?;
                    let why = now.why.map(|why| format!(" ({why})")).unwrap_or_default();
                    output.note(&format!("{address} has ended: {}{why}", now.status));
                    return Ok(());
                }
            }
            Ok(Next::Typed(Some(_))) if args.read_only || ended => {}
            Ok(Next::Typed(Some(line))) => {
                let Some(request) = message(&line, &who.instance, args.urgent, session) else {
                    continue;
                };
                match interrupt.or(send(&who.instance, &request, session)).await? {
                    Ok(waits) if waits => output.note(LATER),
                    Ok(_) => {}
                    Err(failure) => output.fail(&told(failure)),
                }
            }
            Ok(Next::Typed(None)) if leaving == Leaving::ByTmux => {
                output.note(&format!("{address} goes on; {how}"));
                lines = typed()?;
            }
            Ok(Next::Typed(None)) => {
                output.note(&format!("{address} goes on"));
                return Ok(());
            }
            Err(_) if leaving == Leaving::ByTmux => {
                output.note(&format!(
                    "{address} goes on; {how}; to end it: posthaste stop {}",
                    who.instance
                ));
            }
            Err(interrupted) => {
                output.note(&format!(
                    "{address} goes on; to end it: posthaste stop {}",
                    who.instance
                ));
                return Err(interrupted);
            }
        }
    }
}

/// Returns whether the hub holds a conversation with this worker: else nobody would read
/// what is typed.
pub(super) async fn converses(id: &str, client: &Client) -> Result<bool, Failure> {
    let query = OutputQuery { most: Some(LEAST), ..OutputQuery::default() };
    Ok(client.output(id, &query).await?.transcript)
}

/// Returns the error of a worker with which there is no conversation.
pub(super) fn none(who: &InstanceView) -> Failure {
    let told = format!("the hub holds no conversation with {}", who.address);
    let hint = format!("to see what it writes: posthaste logs --follow {}", who.instance);
    invalid(told).hint(hint).into()
}

enum Next {
    Seen(Result<Seen, Failure>),
    /// A line of the person; `None` if there are no more.
    Typed(Option<String>),
}

async fn next(following: &mut Following<'_>, lines: &mut Option<Receiver<String>>) -> Next {
    let line = async {
        match lines {
            Some(lines) => lines.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        line = line => Next::Typed(line),
        seen = following.next() => Next::Seen(seen),
    }
}

/// Returns the lines that a person types; `None` if stdin is no terminal. A thread reads
/// them, because a read cannot be cancelled; the thread ends with the process.
pub(in super::super) fn typed() -> Result<Option<Receiver<String>>, Failure> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    let (sender, lines) = mpsc::channel(AHEAD);
    let read = move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("stdin".into()).spawn(read);
    thread.map_err(|e| internal(format!("no thread for stdin: {e}")))?;
    Ok(Some(lines))
}

/// Returns the message that a line means; `None` for an empty one. What the operator types
/// is work for the agent, which takes only directives for work.
fn message(line: &str, to: &str, urgent: bool, session: &Session) -> Option<SendRequest> {
    let (text, now) = match line.trim().strip_prefix('!') {
        Some(rest) => (rest.trim_start(), true),
        None => (line.trim(), urgent),
    };
    if text.is_empty() {
        return None;
    }
    let operator = session.token.is_none() && session.acting.is_none();
    Some(SendRequest {
        kind: operator.then(|| "directive".to_owned()),
        priority: now.then(|| "urgent".to_owned()),
        ..SendRequest::new(to, text)
    })
}

/// Sends a message. Returns whether the agent gets it only after its turn.
async fn send(to: &str, request: &SendRequest, session: &Session) -> Result<bool, Failure> {
    let client = session.client()?;
    // Before the message, which may begin a turn.
    let waits = match &request.priority {
        Some(_) => false,
        None => matches!(&*client.instance(to).await?.activity, "busy" | "quiet"),
    };
    client.send(request).await?;
    Ok(waits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{DataFolder, Token};

    #[test]
    fn a_line_is_work_for_the_agent_and_urgent_if_it_says_so() {
        let operator = Session {
            folder: DataFolder::new("/nowhere".into()),
            hub: None,
            acting: None,
            token: None,
        };
        let of = |line, urgent| {
            let request = message(line, "a3f7b2c1", urgent, &operator)?;
            Some((request.message, request.kind?, request.priority.is_some()))
        };
        let work = |text: &str, urgent| Some((text.to_owned(), "directive".to_owned(), urgent));
        assert_eq!(of("go on\n", false), work("go on", false));
        assert_eq!(of("! stop", false), work("stop", true));
        assert_eq!(of("go on", true), work("go on", true));
        assert_eq!(of("  ", false), None);
        assert_eq!(of(" ! ", false), None);
        let agent = Session { token: Some(Token::random()), ..operator };
        let request = message("hello", "a3f7b2c1", false, &agent).expect("a message");
        assert_eq!(request.kind, None, "an agent may not give work to everybody");
    }
}
