//! Server-sent events, as far as they carry messages: each event's data is one.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::stream::{BoxStream, Stream, StreamExt, unfold};
use reqwest::Response;
use tokio::time::timeout;

/// The messages of an answer, until it ends, breaks off, or says nothing for this long.
/// What only keeps the line alive is something said, and no message.
pub(super) fn messages(answer: Response, silence: Duration) -> BoxStream<'static, String> {
    let pieces = unfold(answer, move |mut answer| async move {
        let piece = timeout(silence, answer.chunk()).await.ok()?.ok()??;
        Some((piece, answer))
    });
    data(pieces).boxed()
}

/// The data of every event, as one line each.
pub(super) fn data(pieces: impl Stream<Item = Bytes>) -> impl Stream<Item = String> {
    let events = without_mark(pieces).map(Ok::<_, Infallible>).eventsource();
    let events = events.take_while(|event| ready(event.is_ok()));
    events.filter_map(|event| {
        // Between the words of JSON the end of a line is only space.
        let data = event.ok().map(|event| event.data.replace('\n', " "));
        ready(data.filter(|data| !data.trim().is_empty()))
    })
}

/// A stream may begin with a byte order mark, at which `eventsource-stream` 0.2 panics.
fn without_mark(pieces: impl Stream<Item = Bytes>) -> impl Stream<Item = Bytes> {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    // The beginning, as long as it may be a part of a mark.
    pieces.scan(Some(Vec::new()), |beginning, piece| {
        let Some(mut read) = beginning.take() else { return ready(Some(piece)) };
        read.extend_from_slice(&piece);
        let mut rest = read.as_slice();
        while let Some(more) = rest.strip_prefix(MARK) {
            rest = more;
        }
        ready(Some(match MARK.starts_with(rest) {
            true => {
                *beginning = Some(rest.to_vec());
                Bytes::new()
            }
            false => Bytes::copy_from_slice(rest),
        }))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use futures_util::FutureExt;
    use futures_util::stream::iter;

    use super::*;

    const STREAM: &[u8] = b": hello\n\nid: 1\nevent: message\ndata: {\"a\":\ndata: 1}\n\n\
        retry: 5\n\ndata:\n\ndata:[2]\r\n\r\ndata: never ended";

    /// What a stream that comes in pieces of this size carries.
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

    #[test]
    fn a_byte_order_mark_at_the_beginning_is_no_part_of_the_stream() {
        for marks in ["\u{feff}", "\u{feff}\u{feff}"] {
            let stream = [marks.as_bytes(), b"data: [1]\n\n"].concat();
            for size in 1..=stream.len() {
                assert_eq!(read(&stream, size), ["[1]"], "in pieces of {size}");
            }
        }
    }
}
