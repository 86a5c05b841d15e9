//! `/v1/instances/{id}/output`: the output of a worker.

use axum::Router;
use axum::extract::State;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::work::{self as wire, OutputQuery, OutputView};
use posthaste_core::address::InstanceId;
use posthaste_core::ports::{Output, Stream};

use crate::App;
use crate::auth::Caller;
use crate::extract::{Json, Params, PathPart};
use crate::failure::{Failure, invalid, not_found};
use crate::routes::Routes;
use crate::words::params::within;

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::OUTPUT, output)
}

/// Bytes of one answer: the default, the fewest and the most.
const USUAL: usize = 64 * 1024;
const FEWEST: usize = 16;
const MOST: usize = 1024 * 1024;

/// `GET /v1/instances/{id}/output`
async fn output(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
    Params(query): Params<OutputQuery>,
) -> Result<Json<OutputView>, Failure> {
    let id: InstanceId = id.parse()?;
    let stream = match query.stream.as_deref() {
        None | Some("stdout") => Stream::Stdout,
        Some("stderr") => Stream::Stderr,
        Some(_) => return Err(invalid("stream", "it is `stdout` or `stderr`")),
    };
    let as_bytes = match query.encoding.as_deref() {
        None | Some("text") => false,
        Some("base64") => true,
        Some(_) => return Err(invalid("encoding", "it is `text` or `base64`")),
    };
    let most = within("most", query.most.unwrap_or(USUAL), FEWEST..=MOST)?;
    let from = query.from.unwrap_or(0);
    let worker = app.hub.instance(id).ok_or_else(|| not_found("instance"))?.instance;
    if !app.hub.is_above(caller, id) {
        let why = "only those above a worker, the leaders of its team and the human see its output";
        return Err(ApiError::new(ErrorCode::Forbidden, why).into());
    }
    if worker.work.is_none() {
        let why = format!("{} came by itself: its output is its own", worker.address);
        return Err(ApiError::new(ErrorCode::NotFound, why)
            .hint("only workers that the hub started have output here")
            .into());
    }
    // Read the status first: output that is written between the two is read next time.
    let ended = worker.status.has_ended();
    let kept = app.hub.output(id, stream, from, most).await.map_err(|error| {
        ApiError::new(ErrorCode::Internal, format!("its output cannot be read: {error}"))
    })?;
    // The worker waits in line, or has written nothing.
    let kept = kept.unwrap_or(Output { bytes: Vec::new(), next: from, total: 0, dropped: 0 });
    let shown = match as_bytes {
        true => encoded(kept, ended),
        false => view(kept, ended),
    };
    let talks = stream == Stream::Stdout && shown.total == 0;
    let transcript = talks && matches!(app.hub.transcript(id, u64::MAX, 0).await, Ok(Some(_)));
    Ok(Json(OutputView { transcript, ..shown }))
}

fn encoded(kept: Output, ended: bool) -> OutputView {
    let Output { bytes, next, total, dropped } = kept;
    let base64 = Some(BASE64_STANDARD.encode(bytes));
    let (text, transcript) = (String::new(), false);
    OutputView { text, base64, next, total, dropped, ended, transcript }
}

/// Shows output as text. An incomplete character at the end is left for the next answer.
fn view(kept: Output, ended: bool) -> OutputView {
    let Output { mut bytes, mut next, total, dropped } = kept;
    let more = !ended || next < total;
    if let (true, Some(cut)) = (more, half_a_character(&bytes)) {
        bytes.truncate(bytes.len() - cut);
        next -= cut as u64;
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    OutputView { text, base64: None, next, total, dropped, ended, transcript: false }
}

/// Counts the bytes at the end that begin a character and do not finish it.
fn half_a_character(bytes: &[u8]) -> Option<usize> {
    let tail = &bytes[bytes.len().saturating_sub(4)..];
    let begins = tail.iter().rposition(|b| b & 0xC0 != 0x80)?;
    let last = &tail[begins..];
    // If there is nothing but an incomplete character, it is shown: else the reader would
    // never come past it.
    let unfinished = std::str::from_utf8(last).is_err_and(|e| e.error_len().is_none());
    (unfinished && last.len() < bytes.len()).then_some(last.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(bytes: &[u8], ended: bool) -> (String, u64) {
        let length = bytes.len() as u64;
        let kept = Output { bytes: bytes.to_vec(), next: length, total: length, dropped: 0 };
        let view = view(kept, ended);
        (view.text, view.next)
    }

    #[test]
    fn a_character_is_never_torn_in_two() {
        let snow = "a☃".as_bytes();
        assert_eq!(stretch(snow, false), ("a☃".into(), 4));
        assert_eq!(stretch(&snow[..3], false), ("a".into(), 1), "the rest comes next time");
        assert_eq!(stretch(&snow[..2], false), ("a".into(), 1));
        assert_eq!(stretch(&snow[..2], true), ("a\u{fffd}".into(), 2), "there is no next time");
    }

    #[test]
    fn rubbish_is_replaced_and_never_holds_the_reader_up() {
        assert_eq!(stretch(b"\xff\xfe", false).1, 2);
        assert_eq!(stretch(b"\xe2\x98", false).1, 2, "or it would be read for ever");
        assert_eq!(stretch(b"", false), (String::new(), 0));
        assert_eq!(stretch(b"ok\x80\x80\x80\x80", false).1, 6);
    }
}
