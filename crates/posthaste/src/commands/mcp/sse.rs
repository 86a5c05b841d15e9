//! Server-sent events that carry messages: the data of each event is one message.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt, unfold};
use posthaste_api::sse;
use reqwest::Response;
use tokio::time::timeout;

/// Returns the messages of an answer, until it ends, breaks off, or is silent for this
/// long. A keep-alive ends the silence, and is no message.
pub(super) fn messages(answer: Response, silence: Duration) -> BoxStream<'static, String> {
    let pieces = unfold(answer, move |mut answer| async move {
        let piece = timeout(silence, answer.chunk()).await.ok()?.ok()??;
        Some((piece, answer))
    });
    data(pieces).boxed()
}

/// Returns the data of every event, as one line each.
pub(super) fn data(pieces: impl Stream<Item = Bytes>) -> impl Stream<Item = String> {
    let events = sse::events(pieces.map(Ok::<_, Infallible>));
    let events = events.take_while(|event| ready(event.is_ok()));
    events.filter_map(|event| {
        // Between the tokens of JSON a line ending is only space.
        let data = event.ok().map(|event| event.data.replace('\n', " "));
        ready(data.filter(|data| !data.trim().is_empty()))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use futures_util::FutureExt;
    use futures_util::stream::iter;

    use super::*;

    const STREAM: &[u8] = b": hello\n\nid: 1\nevent: message\ndata: {\"a\":\ndata: 1}\n\n\
        retry: 5\n\ndata:\n\ndata:[2]\r\n\r\ndata: never ended";

    /// Returns the messages of a stream that comes in pieces of this size.
    pub(in crate::commands::mcp) fn read(stream: &[u8], size: usize) -> Vec<String> {
        let pieces: Vec<Bytes> = stream.chunks(size).map(Bytes::copy_from_slice).collect();
        data(iter(pieces)).collect::<Vec<_>>().now_or_never().expect("nothing to wait for")
    }

    #[test]
    fn each_event_is_one_text_however_it_is_cut() {
        for size in 1..=STREAM.len() {
            assert_eq!(read(STREAM, size), ["{\"a\": 1}", "[2]"], "in pieces of {size}");
        }
    }
}
