//! `posthaste hook idle`: waits for mail while a program waits for its user.
//!
//! The program writes one line to stdin, keeps stdin open, and goes on: nobody waits for
//! this hook. When mail comes, the hook prints it, and the program begins a turn with it.
//! Then the program writes `begun`, and only then the hook acks the mail. A program that
//! has something else to do closes stdin or kills the hook; mail that it was given by
//! then comes again with its next prompt or at its next stop.

use std::io::{self, BufRead};
use std::time::Duration;

use posthaste_api::ErrorCode;
use posthaste_api::hooks::{HookAnswer, HookRequest};
use posthaste_api::inbox::SettleRequest;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::{Caller, Input, Session, ask, hub_that_lives, late, report, say};
use crate::cli::{Global, HookArgs};
use crate::config;
use crate::failure::{Failure, internal};

/// How long one call of the hub waits.
const WAIT: Duration = Duration::from_secs(300);
/// How long the hub may take beyond that, and for an ack.
const MARGIN: Duration = Duration::from_secs(10);
/// The pause before the next call after one that ended early. It grows while the hub
/// cannot be reached.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// What the program writes once it has begun the turn.
const BEGUN: &str = "begun";

pub(super) async fn run(args: &HookArgs, global: &Global) {
    let Ok(mut lines) = lines_of_stdin() else { return };
    let Some(first) = lines.recv().await else { return };
    let input = Input::read(first.as_bytes());
    if input.is_of_a_helper() {
        return;
    }
    let found = tokio::select! {
        found = mail(args, global, &input) => found,
        // The program is at work again, or has ended.
        _ = lines.recv() => None,
    };
    let Some((answer, caller)) = found else { return };
    let receipt = answer.receipt.clone();
    if say(args, &input, answer).is_err() || lines.recv().await.as_deref() != Some(BEGUN) {
        return;
    }
    let request = SettleRequest { receipt, ids: None };
    match timeout(MARGIN, caller.hub.ack(&request)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => report(args, global, error.into()),
        Err(_) => report(args, global, late("the hub did not take the ack", MARGIN).into()),
    }
}

/// Waits until mail comes, through restarts of the hub. `None`: there is nothing to wait
/// for.
async fn mail(args: &HookArgs, global: &Global, input: &Input) -> Option<(HookAnswer, Caller)> {
    let mut pause = PAUSE;
    // Each outage is reported once.
    let mut reported = false;
    loop {
        let began = Instant::now();
        match call(args, global, input).await {
            Ok(Called::Mail(mail)) => return Some(*mail),
            Ok(Called::Off) => return None,
            Ok(Called::Nothing) if began.elapsed() >= WAIT => continue,
            Ok(Called::Nothing) => (pause, reported) = (PAUSE, false),
            Err(failure) if is_driven(&failure) => return None,
            Err(failure) => {
                let ends = !may_pass(&failure);
                if !reported {
                    report(args, global, failure);
                }
                if ends {
                    return None;
                }
                reported = true;
            }
        }
        sleep(pause).await;
        if reported {
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

enum Called {
    Mail(Box<(HookAnswer, Caller)>),
    Nothing,
    /// The user does not want to be woken (`hooks.wake`).
    Off,
}

/// Waits in one call of the hub.
async fn call(args: &HookArgs, global: &Global, input: &Input) -> Result<Called, Failure> {
    // Both may change while this process runs.
    let (session, limits) = (Session::new(global)?, config::hooks(global)?);
    if !limits.wake {
        return Ok(Called::Off);
    }
    let request = HookRequest {
        client: Some(args.client.name().to_owned()),
        timeout: Some(WAIT.as_secs_f64()),
        ..HookRequest::default()
    };
    let until = Instant::now() + limits.patience;
    let hub = hub_that_lives(&session, until, &limits).await?;
    let asked = ask(args, &session, &hub, input, &request);
    match timeout(WAIT + MARGIN, asked).await {
        Ok(answered) => {
            let (answer, caller) = answered?;
            Ok(match answer.text {
                Some(_) => Called::Mail(Box::new((answer, caller))),
                None => Called::Nothing,
            })
        }
        Err(_) => Err(late("the hub did not answer", WAIT + MARGIN).into()),
    }
}

/// Returns whether the agent is a worker, whose turns the hub's driver begins. That is as
/// it should be, and nobody is told.
fn is_driven(failure: &Failure) -> bool {
    matches!(failure, Failure::Told(error) if error.code == ErrorCode::Conflict)
}

/// Returns whether the same call may succeed later.
fn may_pass(failure: &Failure) -> bool {
    let Failure::Told(error) = failure else { return false };
    matches!(
        error.code,
        ErrorCode::Unavailable
            | ErrorCode::Internal
            | ErrorCode::RateLimited
            | ErrorCode::RequestTimeout
            | ErrorCode::Unauthorized
    )
}

/// Reads the lines of stdin, on a thread of its own, which ends with the process. The
/// receiver ends with stdin.
fn lines_of_stdin() -> Result<mpsc::UnboundedReceiver<String>, Failure> {
    let (sender, lines) = mpsc::unbounded_channel();
    let read = move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("stdin".into()).spawn(read);
    thread.map(|_| lines).map_err(|e| internal(format!("no thread: {e}")).into())
}

#[cfg(test)]
mod tests {
    use posthaste_api::ApiError;

    use super::*;

    #[test]
    fn a_wait_outlives_a_hub_that_is_away_and_ends_when_the_hub_refuses() {
        let told = |code| Failure::from(ApiError::new(code, "x"));
        for code in [ErrorCode::Unavailable, ErrorCode::Internal, ErrorCode::Unauthorized] {
            assert!(may_pass(&told(code)), "{code:?}");
        }
        // The hub is too old to know the event.
        for code in [ErrorCode::InvalidArgument, ErrorCode::Forbidden] {
            assert!(!may_pass(&told(code)) && !is_driven(&told(code)), "{code:?}");
        }
        assert!(is_driven(&told(ErrorCode::Conflict)), "a worker of the hub is no failure");
    }
}
