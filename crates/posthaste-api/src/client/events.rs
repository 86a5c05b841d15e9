//! Follows the events of a hub.

use std::time::Duration;

use eventsource_stream::{Event, EventStreamError};
use futures_util::stream::{BoxStream, StreamExt, unfold};
use reqwest::RequestBuilder;
use reqwest::header::CONTENT_TYPE;
use tokio::time::timeout;

use super::{Client, ClientError};
use crate::error::{ApiError, ErrorBody, ErrorCode};
use crate::events::{self, EventView, EventsQuery, Reset, TOOL, ToolNews, WRITING, WritingNews};
use crate::sse;

/// A hub sends something every 15 s; a longer silence means that the hub is gone.
pub(super) const SILENCE: Duration = Duration::from_secs(45);

/// Server-sent events as they come.
pub(super) type SseStream = BoxStream<'static, Result<Event, EventStreamError<reqwest::Error>>>;

/// An item of the stream of events.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    Event(Box<EventView>),
    /// A call of a tool by the agent of a followed thread.
    Tool(Box<ToolNews>),
    /// The answer that the model of the agent of a followed thread is writing.
    Writing(WritingNews),
    /// There is a gap: the hub no longer keeps the requested events.
    Reset(Reset),
}

/// An open stream of events. It ends when the hub stops or the connection breaks; a new
/// stream that begins after [`last`](Self::last) misses nothing.
pub struct Following {
    stream: SseStream,
    client: Client,
    last: Option<u64>,
}

impl Client {
    /// `GET /v1/events`
    pub async fn events(&self, query: &EventsQuery) -> Result<Following, ClientError> {
        let request = self.request(&events::FOLLOW)?.query(query);
        let stream = self.sse(request).await?;
        Ok(Following { stream, client: self.clone(), last: query.after })
    }

    /// Sends a request whose answer is a stream of events.
    pub(super) async fn sse(&self, request: RequestBuilder) -> Result<SseStream, ClientError> {
        let answer = request.send().await.map_err(|e| self.failed(e, false))?;
        if !answer.status().is_success() {
            return Err(self.refused(answer, false).await);
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let why = format!("it is {}, and no stream of events", kind.unwrap_or("of no type"));
            return Err(self.not_a_hub(answer.status().as_u16(), why));
        }
        let chunks = unfold(answer, |mut answer| async move {
            let chunk = answer.chunk().await.transpose()?;
            Some((chunk, answer))
        });
        Ok(sse::events(chunks).boxed())
    }
}

impl Following {
    /// Returns the number up to which all events have come.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Returns the next event; `None` when the stream has ended.
    pub async fn next(&mut self) -> Result<Option<Heard>, ClientError> {
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
            if let Ok(no) = event.id.parse() {
                self.last = Some(no);
            }
            let unreadable = |e: serde_json::Error| self.client.not_a_hub(200, e.to_string());
            match event.event.as_str() {
                // `alive` only tells the number that the hub has reached.
                "alive" => {}
                "reset" => {
                    let reset = serde_json::from_str(&event.data).map_err(unreadable)?;
                    return Ok(Some(Heard::Reset(reset)));
                }
                "error" => {
                    let told = serde_json::from_str::<ErrorBody>(&event.data).map(|b| b.error);
                    let told = told.unwrap_or_else(|_| {
                        ApiError::new(ErrorCode::Internal, "the hub could not go on")
                    });
                    return Err(told.into());
                }
                TOOL => {
                    let news = serde_json::from_str(&event.data).map_err(unreadable)?;
                    return Ok(Some(Heard::Tool(Box::new(news))));
                }
                WRITING => {
                    let news = serde_json::from_str(&event.data).map_err(unreadable)?;
                    return Ok(Some(Heard::Writing(news)));
                }
                _ => {
                    let event = serde_json::from_str(&event.data).map_err(unreadable)?;
                    return Ok(Some(Heard::Event(Box::new(event))));
                }
            }
        }
    }
}
