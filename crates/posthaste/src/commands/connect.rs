//! `posthaste connect`: joins an agent program to the hub by writing its
//! configuration, and proves that it works.
//!
//! Read [`wish`] for the text that is written, [`files`] for the way in which it is,
//! [`record`] for the data kept for an undo, and [`proof`] for the round trip.
//! `posthaste-bridges` holds what is special about each client.

use std::io::{BufRead, IsTerminal, Write};

use posthaste_api::{ApiError, ErrorCode};
use posthaste_bridges::clients::{Client, Scope, Server};
use posthaste_bridges::difference::{self, Kind};
use serde_json::json;

use super::{Session, member, name};
use crate::cli::{ConnectArgs, Global};
use crate::failure::{Failure, internal, invalid};
use crate::output::Output;
use crate::paint::{Text, Tone};
use files::Change;
use record::Record;
use wish::{Ground, Waking, Wish};

mod address;
pub(super) mod files;
pub(super) mod programs;
pub(super) mod proof;
pub(super) mod record;
mod undo;
pub(super) mod wish;

/// Replaces a token that does not exist yet, or must not be shown.
const HIDDEN: &str = "…";

pub(super) async fn run(
    args: ConnectArgs,
    global: &Global,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = args.client;
    let ground = Ground::here()?;
    let scope = args.scope.into();
    if args.undo {
        return undo::run(client, scope, &ground, session, output).await;
    }
    if args.wake {
        Waking::is_possible(client, &ground)?;
    }
    let program = programs::find(client.program());
    // A profile that wakes the program names its path.
    if program.is_none() && (args.wake || !args.print) {
        return Err(missing(client).into());
    }
    let known = Record::find(&session.folder, client, scope, &ground)?;
    let mut wish = Wish {
        scope: scope.as_str().to_owned(),
        name: args.name.as_deref().map(name).transpose()?.map(|name| name.to_string()),
        team: args.team.as_deref().map(name).transpose()?.map(|team| team.to_string()),
        http: args.http,
        // A hook belongs to one conversation, and over HTTP all conversations are one agent.
        hooks: !args.no_hooks && !args.http,
        program: programs::own()?,
        options: wish::options(global, session)?,
        wake: known.as_ref().and_then(|record| record.wish.wake.clone()),
    };
    if let (true, Some(program)) = (args.wake, &program) {
        let name = address::name(client, &wish).to_owned();
        wish.wake = Some(Waking::new(&name, program, session)?);
    }
    if programs::is_built(&wish.program) {
        let place = wish.program.display();
        output.note(&format!(
            "{place} lies in a build folder and may vanish; `posthaste install` copies it to a \
             place that stays, then connect with that one"
        ));
    }

    let server = wish.server(client, scope, &ground, session, known.as_ref()).await?;
    let edits = wish.edits(client, scope, &ground, &server);
    let changes = files::changes(&edits, known.as_ref())?;
    show(&changes, &server, args.print, output)?;
    if args.print {
        return told(client, &changes, "printed", None, output);
    }
    let new = changes.iter().any(Change::is_one);
    if new {
        consent(args.yes, output)?;
        let server = joined(client, &wish, server, &ground, session).await?;
        // The same edits, with the token that did not exist before.
        let edits = wish.edits(client, scope, &ground, &server);
        let changes = files::changes(&edits, known.as_ref())?;
        let record = Record::new(client, &wish, &ground, &changes, known);
        record.keep(&session.folder, &changes)?;
        for change in changes.iter().filter(|change| change.is_one()) {
            change.write(matches!(server, Server::Http { .. }))?;
        }
    }
    let word = if new { "connected" } else { "unchanged" };
    let proved = proof::of_configuration(client, scope, &ground, session, true).await;
    let proved = proved.map_err(|error| unproved(client, new, error))?;
    match address::make(client, &wish, session).await? {
        Some(true) => {
            if let Some(mut record) = Record::find(&session.folder, client, scope, &ground)? {
                record.made_names.push(address::name(client, &wish).to_owned());
                record.save(&session.folder)?;
            }
        }
        Some(false) => (),
        None => output.note(&format!(
            "the hub takes mail for `{}` once its first agent has come",
            address::name(client, &wish)
        )),
    }
    told(client, &changes, word, Some(&proved), output)?;
    if !output.json() {
        afterwards(client, scope, &wish, new, output)?;
    }
    Ok(())
}

fn missing(client: &dyn Client) -> ApiError {
    let (title, program) = (client.title(), client.program());
    ApiError::new(ErrorCode::NotFound, format!("{title} is not here: no `{program}` on the PATH"))
        .hint(format!("install it with: npm install -g {}", client.package()))
}

fn unproved(client: &dyn Client, new: bool, error: ApiError) -> ApiError {
    let state = if new { "the configuration is written" } else { "the configuration is there" };
    let told = format!("{state}, but the round trip failed: {}", error.message);
    let undo = format!("posthaste connect {} --undo", client.name());
    let hint = match error.hint {
        Some(hint) => format!("{hint}; take it back with `{undo}`"),
        None => format!("take it back with `{undo}`"),
    };
    ApiError::new(error.code, told).hint(hint)
}

/// Shows the changes, in colours on a terminal.
fn show(
    changes: &[Change],
    server: &Server,
    always: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    if output.json() {
        return Ok(());
    }
    if always && !changes.iter().any(Change::is_one) {
        return output.say("nothing to change");
    }
    for change in changes {
        differs(change, server, output)?;
    }
    output.flush()
}

fn differs(change: &Change, server: &Server, output: &mut Output) -> Result<(), Failure> {
    for line in change.difference(server).lines() {
        let tone = match difference::kind(line) {
            Kind::Head => Tone::Strong,
            Kind::Added => Tone::Good,
            Kind::Removed => Tone::Bad,
            Kind::Same => Tone::Plain,
        };
        output.paint(&Text::new().add(tone, line))?;
    }
    Ok(())
}

/// Asks for consent on a terminal. Without an answer no file is changed.
fn consent(yes: bool, output: &mut Output) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let asks = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !asks || output.json() {
        return Err(invalid("nobody can be asked here, so nothing was changed")
            .hint("say --yes to change it, or --print to look only")
            .into());
    }
    output.flush()?;
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "Change it? [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|e| internal(format!("the answer cannot be read: {e}")))?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(ApiError::new(ErrorCode::Conflict, "nothing was changed").into()),
    }
}

/// Joins for the agent over HTTP, which does not join by itself: its token stands in the
/// file.
async fn joined(
    client: &dyn Client,
    wish: &Wish,
    server: Server,
    ground: &Ground,
    session: &Session,
) -> Result<Server, Failure> {
    match server {
        Server::Http { url, token } if token == HIDDEN => {
            let place = match wish.scope.as_str() {
                "project" => format!(":{}", ground.project.display()),
                _ => String::new(),
            };
            let agent = address::name(client, wish);
            let key = format!("connect:{}{place}", client.name());
            let whom = (agent, wish.team.as_deref());
            let token = member::join(session, &session.joining()?, whom, key).await?.token;
            Ok(Server::Http { url, token })
        }
        server => Ok(server),
    }
}

fn told(
    client: &dyn Client,
    changes: &[Change],
    word: &str,
    proved: Option<&proof::Proved>,
    output: &mut Output,
) -> Result<(), Failure> {
    if output.json() {
        let files: Vec<_> = changes
            .iter()
            .map(|change| json!({ "file": change.path, "changed": change.is_one() }))
            .collect();
        return output.answer(&json!({
            "client": client.name(),
            "status": word,
            "files": files,
            "proved": proved,
        }));
    }
    let title = client.title();
    match word {
        "connected" => output.say(&format!("{title} is connected."))?,
        "unchanged" => {
            output.say(&format!("{title} was connected already: nothing was changed."))?;
        }
        _ => (),
    }
    match proved {
        Some(proved) => output.say(&format!(
            "Proved: what is written there reached the hub, was offered {} tools, and was known as {}.",
            proved.tools, proved.address
        )),
        None => Ok(()),
    }
}

fn afterwards(
    client: &dyn Client,
    scope: Scope,
    wish: &Wish,
    new: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    if let Some(advice) = client.advice(scope, wish.hooks).filter(|_| new) {
        output.say(&format!("{advice}."))?;
    }
    if new && wish.http && scope == Scope::Project {
        output.note("the file holds a token of this machine's hub: keep it out of version control");
    }
    let place = if scope == Scope::Project { " --scope project" } else { "" };
    output.say(&format!("To undo: posthaste connect {}{place} --undo", client.name()))
}
