//! `/v1/instances/{id}/stream`: what a worker does, live.
//!
//! The follower pulls entries at its own pace, so a slow one costs the hub nothing and
//! loses nothing that is kept.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::Event as SseEvent;
use futures_util::Stream as Events;
use futures_util::stream::unfold;
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::events::ALIVE;
use posthaste_api::stream::{self as wire, END, GAP, StreamEntry, StreamQuery};
use posthaste_core::address::InstanceId;
use posthaste_core::messaging::message::Principal;
use posthaste_core::ports::{Stream, TranscriptEntry};
use tokio::sync::watch;

use super::events::{FollowerSlot, Followers};
use crate::App;
use crate::auth::{self, Caller};
use crate::extract::{Params, PathPart};
use crate::failure::{Failure, invalid, not_found};
use crate::routes::Routes;

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::STREAMED, stream)
}

/// Interval at which a follower is told that the hub is alive.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// The time between two looks at the output of a worker without a conversation.
const LOOK: Duration = Duration::from_millis(300);
/// Most entries, and most bytes of output, that are fetched at a time.
const ENTRIES: usize = 200;
const BYTES: usize = 64 * 1024;

/// `GET /v1/instances/{id}/stream`
async fn stream(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
    headers: HeaderMap,
    Params(query): Params<StreamQuery>,
) -> Result<Sse<impl Events<Item = Result<SseEvent, Infallible>>>, Failure> {
    let id: InstanceId = id.parse()?;
    let worker = app.hub.instance(id).ok_or_else(|| not_found("instance"))?.instance;
    if !app.hub.is_above(caller, id) {
        let why = "only those above a worker, the leaders of its team and the human see its work";
        return Err(ApiError::new(ErrorCode::Forbidden, why).into());
    }
    if worker.work.is_none() {
        let why = format!("{} came by itself: what it does is its own", worker.address);
        let hint = "only workers that the hub started can be watched here";
        return Err(ApiError::new(ErrorCode::NotFound, why).hint(hint).into());
    }
    let after = match headers.get("last-event-id") {
        Some(no) => no.to_str().ok().and_then(|no| no.trim().parse().ok()).ok_or_else(|| {
            invalid("Last-Event-ID", "it is the number of an entry, from an `id:` line")
        })?,
        None => query.offset.unwrap_or(0),
    };
    let room = Followers::enter(&app, caller)?;
    let follows = query.follow.unwrap_or(true);
    let watcher = Watcher {
        app,
        headers,
        caller,
        id,
        after,
        tail: query.tail,
        follows,
        next: VecDeque::from([SseEvent::default().event(ALIVE).data("{}")]),
        over: false,
        _room: room,
    };
    Ok(Sse::new(unfold(watcher, |mut watcher| async move {
        watcher.next().await.map(|line| (Ok(line), watcher))
    })))
}

struct Watcher {
    app: App,
    /// The token in them is checked again before each look: it may have ended.
    headers: HeaderMap,
    caller: Principal,
    id: InstanceId,
    after: u64,
    /// Number of entries to begin with, until the first look.
    tail: Option<u64>,
    follows: bool,
    next: VecDeque<SseEvent>,
    over: bool,
    _room: FollowerSlot,
}

impl Watcher {
    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(line) = self.next.pop_front() {
                return Some(line);
            }
            let known = auth::caller(&self.app, &self.headers);
            if self.over || !known.is_ok_and(|caller| caller == self.caller) {
                return None;
            }
            // Before the look: an end, or an entry, that comes after it is found next time.
            let ended =
                self.app.hub.instance(self.id).is_none_or(|v| v.instance.status.has_ended());
            let news = self.app.hub.transcript_news(self.id);
            let found = self.look().await;
            match found {
                Ok(true) => continue,
                Ok(false) if ended || !self.follows => {
                    self.over = true;
                    let id = self.after.to_string();
                    return Some(SseEvent::default().id(id).event(END).data("{}"));
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(who = %self.id, %error, "the work of a worker cannot be read");
                    return None;
                }
            }
            if !self.wait(news).await? {
                return Some(SseEvent::default().event(ALIVE).data("{}"));
            }
        }
    }

    /// Fetches what is new. Returns whether there is anything.
    async fn look(&mut self) -> std::io::Result<bool> {
        if let Some(tail) = self.tail {
            let page = self.app.hub.transcript(self.id, u64::MAX, 0).await?;
            let last = page.map_or(0, |page| page.last);
            (self.after, self.tail) = (self.after.max(last.saturating_sub(tail)), None);
        }
        let Some(page) = self.app.hub.transcript(self.id, self.after, ENTRIES).await? else {
            return self.look_at_output().await;
        };
        if self.after.saturating_add(1) < page.oldest {
            self.after = page.oldest - 1;
            self.next.push_back(SseEvent::default().event(GAP).data("{}"));
        }
        for entry in page.entries {
            self.after = entry.no;
            let entry = view(entry);
            self.tell(&entry);
        }
        Ok(!self.next.is_empty())
    }

    async fn look_at_output(&mut self) -> std::io::Result<bool> {
        let kept = self.app.hub.output(self.id, Stream::Stdout, self.after, BYTES).await?;
        let Some(kept) = kept.filter(|kept| !kept.bytes.is_empty()) else { return Ok(false) };
        self.after = kept.next;
        let text = String::from_utf8_lossy(&kept.bytes).into_owned();
        let (no, kind) = (self.after, "output".to_owned());
        self.tell(&StreamEntry { no, at: None, kind, text, name: None, id: None, state: None });
        Ok(true)
    }

    fn tell(&mut self, entry: &StreamEntry) {
        let line = SseEvent::default().id(entry.no.to_string()).event(&entry.kind);
        self.next.extend(line.json_data(entry));
    }

    /// Waits for news. Returns whether to look again; `None` when the hub stops.
    async fn wait(&self, news: Option<watch::Receiver<u64>>) -> Option<bool> {
        let changed = async {
            match news {
                Some(mut news) => drop(news.wait_for(|last| *last > self.after).await),
                None => tokio::time::sleep(LOOK).await,
            }
        };
        tokio::select! {
            () = self.app.hub.stopped() => None,
            () = changed => Some(true),
            () = tokio::time::sleep(ALIVE_EVERY) => Some(false),
        }
    }
}

fn view(entry: TranscriptEntry) -> StreamEntry {
    let TranscriptEntry { no, at, kind, text, name, id, state } = entry;
    let kind = kind.as_str().to_owned();
    StreamEntry { no, at: Some(at.to_string()), kind, text, name, id, state }
}
