//! Server-sent events out of the bytes of an answer.

use std::future::ready;

use bytes::Bytes;
use eventsource_stream::{Event, EventStreamError, Eventsource};
use futures_util::stream::{Stream, StreamExt};

/// The events of a stream, however it is cut into pieces.
pub fn events<E>(
    pieces: impl Stream<Item = Result<Bytes, E>>,
) -> impl Stream<Item = Result<Event, EventStreamError<E>>> {
    without_mark(pieces).eventsource()
}

/// A stream may begin with a byte order mark, at which `eventsource-stream` 0.2 panics.
fn without_mark<E>(
    pieces: impl Stream<Item = Result<Bytes, E>>,
) -> impl Stream<Item = Result<Bytes, E>> {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    // The beginning, as long as it may be a part of a mark.
    pieces.scan(Some(Vec::new()), |beginning, piece| {
        let (Ok(piece), Some(read)) = (&piece, beginning.as_mut()) else {
            return ready(Some(piece));
        };
        read.extend_from_slice(piece);
        while read.starts_with(MARK) {
            read.drain(..MARK.len());
        }
        let rest = match MARK.starts_with(read) {
            true => Bytes::new(),
            false => beginning.take().map(Bytes::from).unwrap_or_default(),
        };
        ready(Some(Ok(rest)))
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::FutureExt;
    use futures_util::stream::iter;

    use super::*;

    #[test]
    fn a_byte_order_mark_at_the_beginning_is_no_part_of_the_stream() {
        for marks in ["", "\u{feff}", "\u{feff}\u{feff}"] {
            let stream = [marks.as_bytes(), b"data: [1]\n\n"].concat();
            for size in 1..=stream.len() {
                let pieces = stream.chunks(size).map(|p| Ok::<_, Infallible>(p.to_vec().into()));
                let events = events(iter(pieces.collect::<Vec<_>>())).collect::<Vec<_>>();
                let events = events.now_or_never().expect("nothing to wait for");
                let data: Vec<_> = events.into_iter().map(|e| e.expect("an event").data).collect();
                assert_eq!(data, ["[1]"], "in pieces of {size}");
            }
        }
    }
}
