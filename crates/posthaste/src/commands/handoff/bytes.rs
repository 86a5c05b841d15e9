//! The bytes that a result was made from.
//!
//! A result is text: what is no UTF-8 is replaced, and the newlines at its end are taken
//! off. Where it is what the worker wrote to stdout, the bytes themselves are still there.

use posthaste_api::Client;
use posthaste_api::work::OutputQuery;

/// What is read at a time.
const STRETCH: usize = 256 * 1024;
/// More newlines at the end of a result are not looked for.
const NEWLINES: u64 = 4096;

/// What the worker wrote to stdout, if `result` is the text of it. A worker may also have
/// sent its result as a message, and an agent that came by itself has no output here.
pub(super) async fn behind(result: &str, worker: &str, client: &Client) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let from = bytes.len() as u64;
        let query = OutputQuery { from: Some(from), most: Some(STRETCH), ..OutputQuery::default() };
        let (more, part) = client.output_bytes(worker, &query).await.ok()?;
        let whole = part.dropped == 0 && part.total <= result.len() as u64 + NEWLINES;
        if !whole || (more.is_empty() && part.next < part.total) {
            return None;
        }
        bytes.extend(more);
        if part.next >= part.total {
            return is_text_of(result, &bytes).then_some(bytes);
        }
    }
}

fn is_text_of(result: &str, bytes: &[u8]) -> bool {
    String::from_utf8_lossy(bytes).trim_end_matches(['\n', '\r']) == result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_the_worker_sent_itself_is_not_its_stdout() {
        assert!(is_text_of("a\u{fffd}b", b"a\xffb\r\n\n"));
        assert!(is_text_of("", b""));
        assert!(!is_text_of("done", b"some talk on the way\n"));
    }
}
