//! `posthaste stop`: ends workers and all workers below them.

use posthaste_api::instances::Stopped;

use super::each::Each;
use super::{Session, agent};
use crate::cli::StopArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(super) async fn run(
    args: &StopArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    if args.all {
        let all = client.stop_all().await?;
        return match (output.json(), all.stopped) {
            (true, _) => output.answer(&all),
            (false, 0) => output.say("nothing was running for you"),
            (false, n) => output.say(&format!("{n} asked to end, or ended")),
        };
    }
    let mut each = Each::default();
    for word in &args.instances {
        let stopped = match agent::find(word, &client).await {
            Ok(id) => client.stop(&id).await.map_err(Failure::from),
            Err(error) => Err(error),
        };
        match stopped {
            Ok(stopped) if output.json() => output.answer(&stopped)?,
            Ok(stopped) => output.say(&told(&stopped))?,
            Err(error) => each.failed(word, error, session, output)?,
        }
    }
    each.end(output)
}

/// Returns the present state: a process that was asked to end may take its time.
fn told(stopped: &Stopped) -> String {
    let who = &stopped.instance;
    let below = match stopped.stopped.saturating_sub(1) {
        0 => String::new(),
        1 => ", and 1 below it".to_owned(),
        n => format!(", and {n} below it"),
    };
    match who.ended_at {
        Some(_) => format!("{} has ended: {}{below}", who.address, who.status),
        None => format!("{} was asked to end and is {} now{below}", who.address, who.status),
    }
}
