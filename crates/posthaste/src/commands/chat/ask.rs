//! One message and its answer: for scripts, and for a person who asks one thing.

use std::time::Duration;

use posthaste_api::chat::{ChatEntry, ChatSay, ChatView};
use posthaste_api::{ApiError, ErrorCode};
use tokio::time::{Instant, timeout_at};

use super::super::interrupt::Interrupt;
use super::super::{Session, needs};
use super::shown::{Shown, is_open};
use super::view::{Seen, Views};
use super::{ended, key, verdict};
use crate::cli::ChatArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::{Progress, while_waiting};

/// Number of messages that are looked at: more may come at a time than a person writes.
const LOOKED_AT: u32 = 200;

/// An agent begins its turn a moment after it has taken its mail: so long it may have nothing
/// to do.
const SETTLES: Duration = Duration::from_secs(1);

/// What is awaited.
struct Awaited {
    /// The last message before: everything after it is news.
    after: u64,
    /// The message that was sent; `None` after a verdict.
    sent: Option<u64>,
    /// It answers a question of a turn, whose last words name what began the turn.
    replies: bool,
}

impl Awaited {
    /// Returns whether what the agent says is for this caller: it names the message, or none.
    /// Others may talk to the agent at the same time.
    fn is_mine(&self, entry: &ChatEntry) -> bool {
        let names = |sent| entry.answers.contains(&sent) || entry.in_reply_to == Some(sent);
        let names_none = entry.answers.is_empty() && entry.in_reply_to.is_none();
        names_none || self.replies || self.sent.is_none_or(names)
    }
}

/// What a look has found.
enum Found {
    Nothing,
    /// The last answer.
    Answer(ChatEntry),
    /// The agent waits for the operator.
    Asks(ChatEntry),
    /// The message is dead.
    Failed(ChatEntry),
    /// The agent has nothing more to do, and said nothing.
    Idle,
}

pub(super) async fn run(
    id: &str,
    text: String,
    args: &ChatArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    let mut interrupt = Interrupt::new()?;
    let mut views = Views::new(id, session, LOOKED_AT);
    let mut shown = Shown::default();
    let before = loop {
        if let Seen::View(view) = interrupt.or(views.next()).await?? {
            break view;
        }
    };
    shown.news(&before);
    let after = before.entries.iter().filter_map(|entry| entry.seq).max().unwrap_or(0);
    let say = ChatSay { message: text, idempotency_key: Some(key()) };
    let said = interrupt.or(client.say(id, &say)).await??;
    verdict(&said, output);
    let replies = said.need.is_some();
    let awaited = Awaited { after, sent: said.receipt.map(|receipt| receipt.seq), replies };
    let mut heard = false;
    let deadline = Instant::now() + args.timeout;
    // Since when the agent has nothing more to do.
    let mut idle: Option<Instant> = None;
    loop {
        let until = idle.map_or(deadline, |since| deadline.min(since + SETTLES));
        let mut progress = Progress::for_viewer(output);
        let what = format!("{} works", before.address);
        let looked = while_waiting(&mut progress, &what, timeout_at(until, views.next()));
        let looked = match interrupt.or(looked).await {
            Ok(looked) => looked,
            Err(interrupted) => {
                drop(progress);
                output.note(&goes_on(&before, "you have left"));
                return Err(interrupted);
            }
        };
        drop(progress);
        let view = match looked {
            Err(_) if until < deadline => {
                if !heard {
                    let address = &before.address;
                    output.note(&format!("{address} has ended its turn without an answer"));
                }
                return Ok(());
            }
            Err(_) => {
                output.note(&goes_on(&before, "the time is up"));
                return Err(Failure::Incomplete);
            }
            Ok(Ok(Seen::View(view))) => view,
            Ok(Ok(Seen::Away(error))) => {
                output.note(&format!("{error}; trying again"));
                continue;
            }
            Ok(Err(failure)) => return Err(failure),
        };
        heard |= show(&view, &awaited, &mut shown, output)?;
        let found = found(&view, &awaited);
        if !matches!(found, Found::Idle) {
            idle = None;
        }
        match found {
            Found::Nothing => {}
            // The last words of a turn cover also what they do not name.
            Found::Answer(answer) if !heard && !output.json() => {
                speak(&answer, output)?;
                output.flush()?;
                return ended_well(&answer);
            }
            Found::Answer(answer) => return ended_well(&answer),
            Found::Idle if idle.is_none() && runs(id, session).await => idle = Some(Instant::now()),
            Found::Idle => {}
            Found::Asks(entry) => {
                output.note(&how(&entry, &view));
                return Err(Failure::Incomplete);
            }
            Found::Failed(entry) => {
                let why = entry.reason.unwrap_or_default();
                let told = format!("{} did not get the message: {why}", view.address);
                return Err(ApiError::new(ErrorCode::RecipientGone, told).into());
            }
        }
        match &*view.status {
            "starting" | "running" => {}
            "away" | "lost" => {
                output.note(&not_here(&view, &awaited));
                return Err(Failure::Incomplete);
            }
            _ => return Err(ended(&view)),
        }
    }
}

/// Returns whether the hub runs this agent, and so knows when its turns end.
async fn runs(id: &str, session: &Session) -> bool {
    let Ok(client) = session.client() else { return false };
    client.instance(id).await.is_ok_and(|instance| instance.started_at.is_some())
}

fn ended_well(answer: &ChatEntry) -> Result<(), Failure> {
    match answer.state {
        Some(_) => Err(Failure::WorkerFailed),
        None => Ok(()),
    }
}

/// Shows what is new: in JSON everything, else what the agent says to this caller. Returns
/// whether it has said something.
fn show(
    view: &ChatView,
    awaited: &Awaited,
    shown: &mut Shown,
    output: &mut Output,
) -> Result<bool, Failure> {
    let mut heard = false;
    for news in shown.news(view) {
        let entry = news.entry;
        let says = match &*entry.kind {
            "partial" | "answer" => awaited.is_mine(entry),
            "question" => true,
            "permission" => is_open(entry),
            _ => false,
        };
        let later = entry.seq.is_none_or(|seq| seq > awaited.after);
        let is_news = says && later && news.is_new;
        heard |= is_news && matches!(&*entry.kind, "partial" | "answer");
        match output.json() {
            true => output.answer(entry)?,
            false if is_news => speak(entry, output)?,
            false => {}
        }
    }
    output.flush()?;
    Ok(heard)
}

fn speak(entry: &ChatEntry, output: &mut Output) -> Result<(), Failure> {
    let end = if entry.text.ends_with('\n') { "" } else { "\n" };
    output.agent_text(&format!("{}{end}", entry.text), false)
}

fn found(view: &ChatView, awaited: &Awaited) -> Found {
    let entries = &view.entries;
    let since = awaited.sent.unwrap_or(awaited.after);
    let own = entries.iter().find(|entry| entry.seq.is_some() && entry.seq == awaited.sent);
    if let Some(own) = own.filter(|own| own.state.as_deref() == Some("failed") && !was_had(own)) {
        return Found::Failed(own.clone());
    }
    let unanswered = awaited.sent.is_some_and(|sent| view.open.contains(&sent));
    let is_answer =
        |entry: &&ChatEntry| entry.kind == "answer" && entry.seq.is_some_and(|seq| seq > since);
    let answers = || entries.iter().rev().filter(is_answer);
    // It is the answer of all that the agent had, if this message is settled.
    let settled =
        own.is_some_and(|own| matches!(own.state.as_deref(), Some("answered" | "failed")));
    let answer = answers().find(|entry| awaited.is_mine(entry));
    let answer = answer.or_else(|| answers().next().filter(|_| settled));
    if let Some(answer) = answer.filter(|_| !unanswered || !view.working) {
        return Found::Answer(answer.clone());
    }
    let waits = |entry: &&ChatEntry| is_open(entry) && entry.blocking == Some(true);
    if let Some(asked) = entries.iter().find(waits) {
        return Found::Asks(asked.clone());
    }
    // What answered a question is never open.
    let is_over = match own {
        Some(own) => settled || own.state.as_deref() == Some("read") && !unanswered,
        None => awaited.sent.is_none(),
    };
    match is_over && !view.working {
        true => Found::Idle,
        false => Found::Nothing,
    }
}

/// Returns whether the agent has had a message that failed: then its last words, or its end,
/// say more than the message.
fn was_had(own: &ChatEntry) -> bool {
    let had = ["turn_failed", "turn_cancelled", "agent_ended"];
    own.reason.as_deref().is_some_and(|why| had.contains(&why))
}

/// Says how what the agent asks is answered.
fn how(entry: &ChatEntry, view: &ChatView) -> String {
    let (id, need) = (&view.instance, entry.need.unwrap_or_default());
    let kind = if entry.kind == "permission" { "permission" } else { "question" };
    let offered = match entry.options.is_empty() {
        true => String::new(),
        false => format!(" [{}]", entry.options.join(" | ")),
    };
    // A plain yes may be about a request that comes only now.
    let words = match kind {
        "permission" => format!("/answer {need} yes"),
        _ => "TEXT".to_owned(),
    };
    let other = needs::how(kind, &need.to_string());
    format!("it waits for you{offered}: posthaste chat {id} {words}; or {other}")
}

/// Says what becomes of the message to an agent that is not here.
fn not_here(view: &ChatView, awaited: &Awaited) -> String {
    let (address, status, id) = (&view.address, &view.status, &view.instance);
    let is_own = |entry: &&ChatEntry| entry.seq.is_some() && entry.seq == awaited.sent;
    let own = view.entries.iter().find(is_own).and_then(|own| own.state.as_deref());
    let message = match own {
        Some("queued") => "the message is queued until it comes back",
        _ => "it may go on when it comes back",
    };
    format!(
        "{address} is not here now ({status}): {message}; to see what it says: posthaste chat {id}"
    )
}

fn goes_on(view: &ChatView, why: &str) -> String {
    let (address, id) = (&view.address, &view.instance);
    format!("{why} and {address} goes on; to see what it says: posthaste chat {id}")
}

#[cfg(test)]
mod tests;
