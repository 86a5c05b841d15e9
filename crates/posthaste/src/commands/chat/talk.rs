//! A conversation on a terminal: each line is a message, also while the agent works.

use posthaste_api::chat::{ChatSay, ChatView};
use posthaste_api::{ApiError, ErrorCode};
use tokio::sync::mpsc::Receiver;

use super::super::Session;
use super::super::attach::conversation::typed;
use super::super::interrupt::Interrupt;
use super::shown::{Shown, meant};
use super::view::{Seen, Views};
use super::{key, verdict};
use crate::cli::ChatArgs;
use crate::failure::{Failure, invalid, told};
use crate::output::Output;
use crate::paint::{Text, Tone};

const HELP: &str = "\
Each line is a message to the agent, at once, also while it works.
  NUMBER              choose one of the answers that a question offers
  yes, no             allow or deny what it asks permission for
  /answer [ID] TEXT   answer its question, or the one with this number
  /cancel             end its turn, and not the agent; Ctrl-C as well
  /help               this text
  /quit               leave; the agent goes on. Ctrl-D as well";

/// The bytes of a line that a terminal hands on at most; it drops the rest without a word.
const MOST_TYPED: usize = 4_095;

enum Next {
    Seen(Result<Seen, Failure>),
    /// A line of the person; `None` if there are no more.
    Typed(Option<String>),
}

pub(super) async fn run(
    id: &str,
    args: &ChatArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut lines = typed()?;
    let mut interrupt = Interrupt::new()?;
    let mut views = Views::new(id, session, args.last);
    let (mut shown, mut last): (Shown, Option<Box<ChatView>>) = (Shown::default(), None);
    loop {
        match interrupt.or(next(&mut views, &mut lines)).await {
            Ok(Next::Seen(Ok(Seen::Away(error)))) => output.note(&format!("{error}; trying again")),
            Ok(Next::Seen(Ok(Seen::View(view)))) => {
                if last.is_none() && !output.json() {
                    let address = &view.address;
                    output.note(&format!("you talk to {address}; /help says how, Ctrl-D leaves"));
                }
                show(&view, &mut shown, output)?;
                // Notes do not go the same way.
                output.flush()?;
                if !matches!(&*view.status, "starting" | "running" | "away" | "lost") {
                    output.note(&format!("{} has ended: {}", view.address, view.status));
                    return Ok(());
                }
                last = Some(view);
            }
            Ok(Next::Seen(Err(failure))) => return Err(failure),
            Ok(Next::Typed(None)) => return leave(last.as_deref(), output),
            Ok(Next::Typed(Some(line))) if line.len() >= MOST_TYPED => output.fail(&cut(id)),
            Ok(Next::Typed(Some(line))) => match line.trim() {
                "" => {}
                "/quit" => return leave(last.as_deref(), output),
                // Among lines of JSON it is a note.
                "/help" if output.json() => output.note(HELP),
                "/help" => output.say(HELP)?,
                "/cancel" => cancel(id, session, output).await,
                _ => {
                    let message = meant(&line, last.as_deref());
                    let say = ChatSay { message, idempotency_key: Some(key()) };
                    let sent =
                        async { session.client()?.say(id, &say).await.map_err(Failure::from) };
                    match interrupt.or(sent).await? {
                        Ok(said) => verdict(&said, output),
                        Err(failure) => output.fail(&told(failure)),
                    }
                }
            },
            Err(interrupted) => {
                let works = last.as_ref().is_some_and(|view| view.working);
                if !works || cancelled(id, session).await.is_err() {
                    leave(last.as_deref(), output)?;
                    return Err(interrupted);
                }
                output.note("its turn is cancelled; Ctrl-C again leaves");
            }
        }
        output.flush()?;
    }
}

async fn next(views: &mut Views<'_>, lines: &mut Option<Receiver<String>>) -> Next {
    let line = async {
        match lines {
            Some(lines) => lines.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        line = line => Next::Typed(line),
        seen = views.next() => Next::Seen(seen),
    }
}

/// Makes the error of a line that has perhaps lost its end.
fn cut(id: &str) -> ApiError {
    invalid(format!("the terminal cuts lines at {MOST_TYPED} bytes: this one was not sent"))
        .hint(format!("send it from a file: posthaste chat {id} - < FILE"))
}

/// Shows what is new.
fn show(view: &ChatView, shown: &mut Shown, output: &mut Output) -> Result<(), Failure> {
    for news in shown.news(view) {
        match output.json() {
            true => output.answer(news.entry)?,
            false => {
                if let Some(text) = shown.text(&news) {
                    output.paint(&text)?;
                }
            }
        }
    }
    if shown.begins_to_work(view) && !output.json() {
        let words = format!("… {} works", view.address);
        output.paint(&Text::new().add(Tone::Faint, words))?;
    }
    Ok(())
}

async fn cancel(id: &str, session: &Session, output: &mut Output) {
    match cancelled(id, session).await {
        Ok(()) => output.note("its turn is cancelled"),
        Err(failure) => output.fail(&told(failure)),
    }
}

async fn cancelled(id: &str, session: &Session) -> Result<(), Failure> {
    Ok(session.client()?.cancel_turn(id).await.map(drop)?)
}

fn leave(view: Option<&ChatView>, output: &mut Output) -> Result<(), Failure> {
    let Some(view) = view else {
        return Err(ApiError::new(ErrorCode::Unavailable, "the hub has not answered yet").into());
    };
    let (address, id) = (&view.address, &view.instance);
    output.note(&format!("{address} goes on; to end it: posthaste stop {id}"));
    Ok(())
}
