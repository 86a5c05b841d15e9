//! Watches what a worker does.

use eventsource_stream::EventStreamError;
use futures_util::stream::StreamExt;
use tokio::time::timeout;

use super::events::{SILENCE, SseStream};
use super::{Client, ClientError};
use crate::stream::{self, END, GAP, StreamEntry, StreamQuery};

/// An item of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    Entry(Box<StreamEntry>),
    /// Older entries are kept no more.
    Gap,
    /// The worker has ended, or all that is there was sent.
    End,
}

/// An open stream of what a worker does. A new one that begins after
/// [`last`](Self::last) misses nothing.
pub struct Watching {
    stream: SseStream,
    client: Client,
    last: u64,
}

impl Client {
    /// `GET /v1/instances/{id}/stream`
    pub async fn watch(&self, id: &str, query: &StreamQuery) -> Result<Watching, ClientError> {
        let request = self.request(stream::STREAMED.of(id))?.query(query);
        let stream = self.sse(request).await?;
        Ok(Watching { stream, client: self.clone(), last: query.offset.unwrap_or(0) })
    }
}

impl Watching {
    /// Returns the number of the last entry that came; after the end, of the last one that
    /// is there.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the next item; `None` when the connection has ended.
    pub async fn next(&mut self) -> Result<Option<Watched>, ClientError> {
        loop {
            let Ok(next) = timeout(SILENCE, self.stream.next()).await else { return Ok(None) };
            let event = match next {
                None => return Ok(None),
                Some(Ok(event)) => event,
                Some(Err(EventStreamError::Transport(e))) => {
                    return Err(self.client.failed(e, false));
                }
                Some(Err(e)) => return Err(self.client.not_a_hub(200, e.to_string())),
            };
            match event.event.as_str() {
                crate::events::ALIVE => {}
                END => {
                    self.last = event.id.parse().unwrap_or(self.last);
                    return Ok(Some(Watched::End));
                }
                GAP => return Ok(Some(Watched::Gap)),
                _ => {
                    let unreadable =
                        |e: serde_json::Error| self.client.not_a_hub(200, e.to_string());
                    let entry: StreamEntry =
                        serde_json::from_str(&event.data).map_err(unreadable)?;
                    self.last = entry.no;
                    return Ok(Some(Watched::Entry(Box::new(entry))));
                }
            }
        }
    }
}
