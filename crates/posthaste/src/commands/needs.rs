//! `posthaste needs`: shows what waits for the operator, and the remembered verdicts.
//!
//! On a terminal the text of an open request stands whole below its row: nobody should allow
//! what they cannot read. A pipe gets one line for each entry.

use posthaste_api::Client;
use posthaste_api::needs::{ForgetQuery, NeedView, Needs, NeedsQuery, RememberedView};

use super::{Session, name};
use crate::cli::{NeedsArgs, NeedsCommand};
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::{Text, Tone, wrapped};
use crate::table::Cell;
use crate::when;

/// The largest page that the hub returns.
const PAGE: u32 = 1000;
/// The spaces before a text below a row.
const INDENT: &str = "    ";

pub(super) async fn run(
    args: NeedsArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    match args.command {
        None if args.id.is_some() => {
            show(args.id.as_deref().unwrap_or_default(), &client, output).await
        }
        None => list(&args, &client, output).await,
        Some(NeedsCommand::Remembered) => remembered(&client, output).await,
        Some(NeedsCommand::Forget { profile, subject }) => {
            forget(&profile, subject, &client, output).await
        }
    }
}

async fn list(args: &NeedsArgs, client: &Client, output: &mut Output) -> Result<(), Failure> {
    let found = all(args, client).await?;
    if output.json() {
        return output.answer(&found);
    }
    if found.needs.is_empty() {
        return output.say(match (args.all, args.kind) {
            (true, _) => "nothing has needed you lately",
            (false, None) => "nothing needs you",
            (false, Some(_)) => "nothing of that kind needs you",
        });
    }
    let now = when::now().timestamp();
    let state = |need: &NeedView| Cell::from(state(need).replace('_', " "));
    if let Some(columns) = output.columns() {
        let below = |need: &NeedView| below(need, now, columns);
        return match args.all {
            true => {
                let rows = found.needs.iter().map(|need| {
                    let [id, kind, from, since, _] = row(need, now);
                    ([id, kind, state(need), from, since], below(need))
                });
                output.list(["ID", "KIND", "STATE", "FROM", "SINCE"], 0, rows)
            }
            false => {
                let rows = found.needs.iter().map(|need| {
                    let [id, kind, from, since, _] = row(need, now);
                    ([id, kind, from, since], below(need))
                });
                output.list(["ID", "KIND", "FROM", "SINCE"], 0, rows)
            }
        };
    }
    match args.all {
        true => {
            let head = ["ID", "KIND", "STATE", "FROM", "SINCE", "WHAT"];
            let rows = found.needs.iter().map(|need| {
                let [id, kind, from, since, what] = row(need, now);
                [id, kind, state(need), from, since, what]
            });
            output.table(head, 0, rows)?;
        }
        false => {
            let rows = found.needs.iter().map(|need| row(need, now));
            output.table(["ID", "KIND", "FROM", "SINCE", "WHAT"], 0, rows)?;
        }
    }
    output.flush()?;
    let mut told = Vec::new();
    for need in found.needs.iter().filter(|need| need.outcome.is_none()) {
        if !told.contains(&&*need.kind) {
            told.push(&*need.kind);
            output.note(&format!("{}: {}", need.kind, how(&need.kind, "ID")));
        }
    }
    Ok(())
}

fn state(need: &NeedView) -> &str {
    need.outcome.as_deref().unwrap_or("open")
}

/// Says how an entry of this kind and number is answered.
pub(super) fn how(kind: &str, id: &str) -> String {
    match kind {
        "permission" => format!(
            "posthaste answer {id} --allow or --deny; with --remember also from now on, unasked"
        ),
        "question" => format!("posthaste answer {id} TEXT, or --option with an offered answer"),
        "dead" => format!("posthaste answer {id} --allow to queue it again, or --deny"),
        _ => format!("posthaste answer {id} notes that you have seen it"),
    }
}

/// Says how this entry is answered, and until when.
fn how_this(need: &NeedView, now: jiff::Timestamp) -> String {
    let id = need.id.to_string();
    match (&*need.kind, &need.expires_at) {
        ("question", _) if need.options.is_empty() => format!("posthaste answer {id} TEXT"),
        (kind, Some(at)) => {
            format!("{}; denied {} if nobody answers", how(kind, &id), when::until(at, now))
        }
        (kind, None) => how(kind, &id),
    }
}

/// Returns the command that shows the rest of a text of which the hub kept the beginning.
fn rest(need: &NeedView) -> Option<String> {
    let shows = match (&*need.kind, need.message, &need.instance) {
        ("permission", _, Some(id)) => format!("logs {id}"),
        ("question" | "failed", Some(seq), _) => format!("read {seq}"),
        _ => return None,
    };
    need.text.ends_with('…').then(|| format!("the rest: posthaste {shows}"))
}

/// Returns what stands below the row of an entry: its text, whole if somebody waits for
/// the answer, and how it is answered.
fn below(need: &NeedView, now: jiff::Timestamp, columns: usize) -> Text {
    let line = || {
        let line = Text::new().plain(INDENT).plain(need.text.trim_end()).line(Some(columns));
        Text::new().plain("\n").then(line)
    };
    if need.outcome.is_some() {
        return line();
    }
    let room = columns.saturating_sub(INDENT.len()).max(1);
    let block = |text: Text, tone: Tone, words: &str| {
        wrapped(words, room)
            .iter()
            .fold(text, |text, line| text.plain(format!("\n{INDENT}")).add(tone, line))
    };
    let mut text = match &*need.kind {
        "failed" | "dead" => line(),
        _ => block(Text::new(), Tone::Plain, &need.text),
    };
    for more in [rest(need), offered(need)].into_iter().flatten() {
        text = block(text, Tone::Plain, &more);
    }
    block(text, Tone::Faint, &how_this(need, now))
}

/// Returns the answers that a question offers.
fn offered(need: &NeedView) -> Option<String> {
    // The answers to dead mail are the same each time.
    let none = need.options.is_empty() || need.kind == "dead";
    (!none).then(|| format!("[{}]", need.options.join(" | ")))
}

/// Shows one entry, whole.
async fn show(id: &str, client: &Client, output: &mut Output) -> Result<(), Failure> {
    let need = client.need(id).await?;
    if output.json() {
        return output.answer(&need);
    }
    let now = when::now().timestamp();
    output.paint(&whole(&need, now))?;
    output.flush()?;
    if let Some(rest) = rest(&need) {
        output.note(&rest);
    }
    if need.outcome.is_none() {
        output.note(&how_this(&need, now));
    }
    Ok(())
}

fn whole(need: &NeedView, now: jiff::Timestamp) -> Text {
    let head = Text::new().add(Tone::Strong, need.id.to_string());
    let head = head.plain(format!("  {}, {}", kind(need), state(need).replace('_', " ")));
    let lines = [
        ("from", Some(need.from.clone())),
        ("since", Some(when::ago(&need.created_at, now))),
        ("message", need.message.map(|seq| seq.to_string())),
        ("remembers", need.subject.clone().filter(|_| need.outcome.is_none())),
        ("offered", offered(need)),
        ("answer", need.answer.clone()),
    ];
    let lines = lines.into_iter().filter_map(|(name, what)| Some((name, what?)));
    let text = lines.fold(head, |text, (name, what)| {
        text.add(Tone::Faint, format!("\n  {name:<10} ")).plain(what.replace(['\n', '\t'], " "))
    });
    text.plain(format!("\n\n{}", need.text.trim_end()))
}

/// Returns the first entry after this number for which an agent waits.
pub(super) async fn awaited(client: &Client, by: &str, after: u64) -> Option<NeedView> {
    // Only the operator may look.
    let open =
        client.needs(&NeedsQuery { limit: Some(PAGE), ..NeedsQuery::default() }).await.ok()?;
    let waits =
        |need: &NeedView| need.blocking && need.id > after && need.instance.as_deref() == Some(by);
    open.needs.into_iter().find(waits)
}

/// Says that an agent waits for the operator, and what to do.
pub(super) fn waits(need: &NeedView) -> String {
    let id = need.id;
    let answer = match &*need.kind {
        "permission" => "--allow or --deny",
        _ => "TEXT",
    };
    format!("it waits for you: posthaste needs {id}, then posthaste answer {id} {answer}")
}

/// Returns all that fit, page by page.
async fn all(args: &NeedsArgs, client: &Client) -> Result<Needs, Failure> {
    let mut query = NeedsQuery {
        kind: args.kind.map(|kind| kind.as_str().to_owned()),
        open: args.all.then_some(false),
        limit: Some(PAGE),
        cursor: None,
    };
    let mut found = client.needs(&query).await?;
    while let Some(cursor) = found.cursor.take() {
        query.cursor = Some(cursor);
        let more = client.needs(&query).await?;
        found.needs.extend(more.needs);
        (found.open, found.cursor) = (more.open, more.cursor);
    }
    Ok(found)
}

fn row(need: &NeedView, now: jiff::Timestamp) -> [Cell; 5] {
    let what = match offered(need) {
        None => need.text.clone(),
        Some(offered) => format!("{offered} {}", need.text),
    };
    [
        Cell::new(Tone::Strong, need.id.to_string()),
        kind(need).into(),
        Cell::new(Tone::Who, &need.from),
        Cell::new(Tone::Faint, when::ago(&need.created_at, now)),
        what.into(),
    ]
}

fn kind(need: &NeedView) -> &str {
    match &*need.kind {
        "question" if need.blocking => "question, waits",
        kind => kind,
    }
}

async fn remembered(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let found = client.remembered().await?;
    if output.json() {
        return output.answer(&found);
    }
    if found.remembered.is_empty() {
        return output.say("no verdict is remembered: you are asked each time");
    }
    let now = when::now().timestamp();
    let row = |verdict: &RememberedView| {
        [
            Cell::new(Tone::Who, &verdict.profile),
            if verdict.allow { "allow" } else { "deny" }.into(),
            verdict.subject.clone().into(),
            Cell::new(Tone::Faint, when::ago(&verdict.at, now)),
        ]
    };
    let rows = found.remembered.iter().map(row);
    output.table(["PROFILE", "VERDICT", "SUBJECT", "SINCE"], 2, rows)
}

async fn forget(
    profile: &str,
    subject: String,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let profile = name(profile)?;
    let query = ForgetQuery { subject: Some(subject.clone()) };
    let forgotten = client.forget_verdicts(profile.as_str(), &query).await?;
    match output.json() {
        true => output.answer(&forgotten),
        false => output.say(&format!("you are asked again when {profile} wants: {subject}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(kind: &str, text: &str) -> NeedView {
        NeedView {
            id: 23,
            kind: kind.into(),
            blocking: true,
            from: "mason.a3f7b2c1@main".into(),
            instance: Some("a3f7b2c1".into()),
            text: text.into(),
            options: Vec::new(),
            message: None,
            subject: Some("Bash(find)".into()),
            created_at: "2026-03-04T11:50:00Z".into(),
            expires_at: None,
            answered_at: None,
            outcome: None,
            answer: None,
            answer_message: None,
        }
    }

    fn noon() -> jiff::Timestamp {
        "2026-03-04T12:00:00Z".parse().expect("a time")
    }

    #[test]
    fn an_open_request_is_told_to_its_last_letter_and_when_it_is_denied() {
        let asked = format!("Bash {{\"command\":\"find . {}; rm -rf /\"}}", "-name x ".repeat(40));
        let expires_at = Some("2026-03-04T13:00:00Z".to_owned());
        let open = NeedView { expires_at, ..need("permission", &asked) };
        let told = below(&open, noon(), 60).render(false);
        assert!(told.lines().all(|line| line.len() <= 60), "{told}");
        assert!(told.replace("\n    ", "").starts_with(&asked), "{told}");
        let told = told.replace("\n    ", "");
        assert!(told.contains("posthaste answer 23 --allow or --deny"), "{told}");
        assert!(told.ends_with("denied in 60 min if nobody answers"), "{told}");
        assert!(whole(&open, noon()).render(false).ends_with(&asked));
        let closed = NeedView { outcome: Some("denied".into()), ..open };
        assert_eq!(below(&closed, noon(), 60).render(false).lines().count(), 2, "it is over");
    }

    #[test]
    fn a_request_that_the_hub_has_clipped_says_where_the_rest_is() {
        let told = below(&need("permission", "Write {\"text\":\"a…"), noon(), 60).render(false);
        assert!(told.contains("\n    the rest: posthaste logs a3f7b2c1\n"), "{told}");
        let asked = NeedView { message: Some(9), ..need("question", "shall I…") };
        assert_eq!(rest(&asked).as_deref(), Some("the rest: posthaste read 9"));
        assert_eq!(rest(&need("permission", "Edit x")), None);
    }

    #[test]
    fn a_failure_takes_two_lines_however_long_its_report_is() {
        let told = below(&need("failed", &"the disk is gone\n".repeat(99)), noon(), 60);
        assert_eq!(told.render(false).trim_start().lines().count(), 2);
    }

    #[test]
    fn every_kind_says_how_it_is_answered() {
        let told = |need: &NeedView| how_this(need, noon());
        assert_eq!(told(&need("question", "red?")), "posthaste answer 23 TEXT");
        let options = vec!["red".to_owned()];
        let offers = told(&NeedView { options, ..need("question", "red?") });
        assert!(offers.contains("TEXT, or --option"), "{offers}");
        assert!(told(&need("dead", "x")).contains("--allow to queue it again, or --deny"));
        assert_eq!(told(&need("failed", "x")), "posthaste answer 23 notes that you have seen it");
    }

    #[test]
    fn no_text_of_an_agent_moves_the_cursor() {
        let told = below(&need("question", "red\u{1b}[2J\rblue"), noon(), 60).render(false);
        assert!(!told.contains(['\u{1b}', '\r']), "{told:?}");
    }
}
