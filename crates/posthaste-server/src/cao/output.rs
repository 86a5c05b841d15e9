//! What a terminal answered, and what it wrote.

use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::address::InstanceId;
use posthaste_core::messaging::message::{Kind, Principal};
use posthaste_core::ports::{HistoryQuery, Stream, TranscriptEntry, TranscriptKind};

use crate::App;
use crate::failure::Failure;

/// Most bytes of a whole output: its end.
const BYTES: u64 = 256 * 1024;
/// Most entries of a transcript: its end.
const ENTRIES: usize = 1000;
/// Behind every entry and every byte: a look that takes nothing.
const BEHIND: u64 = u64::MAX / 2;

/// Returns the last answer of a terminal: of its last turn, of its last report, or the end
/// of what it wrote.
pub(super) async fn last(app: &App, id: InstanceId) -> Result<String, Failure> {
    let answers = |entry: &&TranscriptEntry| entry.kind == TranscriptKind::Answer;
    let entries = transcript(app, id).await?;
    if let Some(answer) = entries.iter().flatten().rev().find(answers) {
        return Ok(answer.text.clone());
    }
    let reports = HistoryQuery {
        from: Some(id.to_string()),
        kind: Some(Kind::RESULT.as_str().to_owned()),
        last: 1,
        ..HistoryQuery::default()
    };
    let mut reports = app.hub.history(Principal::Operator, reports).await?.records;
    match reports.pop() {
        Some(report) => Ok(report.message.body.as_str().to_owned()),
        None if entries.is_some() => Ok(String::new()),
        None => written(app, id).await,
    }
}

/// Returns all that a terminal wrote: the conversation, or its stdout.
pub(super) async fn full(app: &App, id: InstanceId) -> Result<String, Failure> {
    let Some(entries) = transcript(app, id).await? else { return written(app, id).await };
    let told = |entry: TranscriptEntry| match entry.kind {
        TranscriptKind::Prompt => Some(format!("> {}", entry.text)),
        TranscriptKind::Tool => {
            Some(format!("[{}] {}", entry.name.unwrap_or_default(), entry.text))
        }
        TranscriptKind::Text
        | TranscriptKind::Permission
        | TranscriptKind::Screen
        | TranscriptKind::Note => Some(entry.text),
        // The last text of a turn was told as a text already.
        TranscriptKind::Answer | TranscriptKind::Thought | TranscriptKind::Unknown => None,
    };
    let lines: Vec<String> = entries.into_iter().filter_map(told).collect();
    Ok(lines.join("\n"))
}

/// Returns the end of the transcript; `None` if the terminal has no conversation with the
/// hub.
async fn transcript(app: &App, id: InstanceId) -> Result<Option<Vec<TranscriptEntry>>, Failure> {
    let Some(look) = app.hub.transcript(id, BEHIND, 0).await.map_err(unreadable)? else {
        return Ok(None);
    };
    let from = look.last.saturating_sub(ENTRIES as u64);
    let page = app.hub.transcript(id, from, ENTRIES).await.map_err(unreadable)?;
    Ok(page.map(|page| page.entries))
}

/// Returns the end of a terminal's stdout.
async fn written(app: &App, id: InstanceId) -> Result<String, Failure> {
    let read = |from, most| app.hub.output(id, Stream::Stdout, from, most);
    let Some(look) = read(BEHIND, 0).await.map_err(unreadable)? else {
        return Ok(String::new());
    };
    let from = look.total.saturating_sub(BYTES);
    let kept = read(from, BYTES as usize).await.map_err(unreadable)?;
    Ok(kept.map(|kept| String::from_utf8_lossy(&kept.bytes).into_owned()).unwrap_or_default())
}

fn unreadable(error: std::io::Error) -> Failure {
    let why = format!("the output of the terminal cannot be read: {error}");
    ApiError::new(ErrorCode::Internal, why).into()
}
