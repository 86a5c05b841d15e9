//! The bytes behind a result.
//!
//! A result is text: invalid UTF-8 is replaced, newlines at the end are removed, and text
//! beyond the longest message is cut. If the result is the worker's stdout, the bytes
//! themselves still exist.

use posthaste_agents::{CLIPPED, NOT_WHOLE};
use posthaste_api::Client;
use posthaste_api::work::OutputQuery;

/// Number of bytes read at a time.
const STRETCH: usize = 256 * 1024;
/// The most newlines at the end of a result that are considered.
const NEWLINES: u64 = 4096;

/// Returns the worker's stdout, if `result` is the text of it. A worker may also have
/// sent its result as a message, and an agent that connected by itself has no output
/// here.
pub(super) async fn behind(result: &str, worker: &str, client: &Client) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let from = bytes.len() as u64;
        let query = OutputQuery { from: Some(from), most: Some(STRETCH), ..OutputQuery::default() };
        let (more, part) = client.output_bytes(worker, &query).await.ok()?;
        let is_too_long = part.total > result.len() as u64 + NEWLINES;
        let is_other = is_too_long && beginning(result).is_none();
        if part.dropped > 0 || is_other || (more.is_empty() && part.next < part.total) {
            return None;
        }
        bytes.extend(more);
        if part.next >= part.total {
            return is_text_of(result, &bytes).then_some(bytes);
        }
    }
}

/// Returns whether the hub's note at the end of this result says that the worker wrote
/// more.
pub(super) fn is_cut(result: &str) -> bool {
    let last = result.lines().next_back().unwrap_or_default();
    last.starts_with(CLIPPED) || last.starts_with(NOT_WHOLE)
}

/// Returns the text before the hub's note that it cut the result.
fn beginning(result: &str) -> Option<&str> {
    let (beginning, last) = result.rsplit_once('\n')?;
    last.starts_with(CLIPPED).then_some(beginning)
}

fn is_text_of(result: &str, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let is_begun = || beginning(result).is_some_and(|beginning| text.starts_with(beginning));
    text.trim_end_matches(['\n', '\r']) == result || is_begun()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_the_worker_sent_itself_is_not_its_stdout() {
        assert!(is_text_of("a\u{fffd}b", b"a\xffb\r\n\n"));
        assert!(is_text_of("", b""));
        assert!(!is_text_of("done", b"some talk on the way\n"));
        let cut = format!("a\u{fffd}b\nc\n{CLIPPED}it wrote 9 bytes]");
        assert!(is_text_of(&cut, b"a\xffb\nc\nd\ne\n") && is_cut(&cut));
        assert!(!is_text_of(&cut, b"b\xffa\nc\nd\ne\n"));
        assert!(is_text_of(&cut, cut.as_bytes()), "a worker may write such a line itself");
    }
}
