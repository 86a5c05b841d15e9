//! What the followers of a thread hear beside events: the calls of tools by the thread's
//! agent, and the answer that its model is writing.
//!
//! Neither is kept as an event, so these lines have no number; who comes back reads the
//! conversation instead.

use std::time::Duration;

use axum::response::sse::Event as SseEvent;
use posthaste_api::events::{TOOL, ToolNews, WRITING, WritingNews};
use posthaste_core::Hub;
use posthaste_core::address::InstanceId;
use posthaste_core::chat::tool_call;
use posthaste_core::messaging::message::ThreadId;
use posthaste_core::time::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// The shortest time between two lines of `writing`.
const COALESCE: Duration = Duration::from_millis(100);
/// The time between two looks at an agent that has not begun to work.
const LOOK: Duration = Duration::from_millis(300);
/// Most entries of a transcript that are read at a time.
const ENTRIES: usize = 200;

/// One followed thread.
pub(super) struct Live {
    thread: ThreadId,
    who: InstanceId,
    tools: bool,
    writes: bool,
    /// The number of the last entry of the transcript that was looked at.
    after: u64,
    news: Option<watch::Receiver<u64>>,
    writing: Option<watch::Receiver<String>>,
    /// The text that was told last.
    told: String,
    /// When the next text may be told.
    quiet_until: Instant,
}

impl Live {
    /// Begins to follow a thread's agent, from now on.
    pub(super) async fn of(
        hub: &Hub,
        thread: ThreadId,
        who: InstanceId,
        (tools, writes): (bool, bool),
    ) -> Self {
        let page = hub.transcript(who, u64::MAX, 0).await.ok().flatten();
        let after = page.map_or(0, |page| page.last);
        let (news, writing) = (None, None);
        let (told, quiet_until) = (String::new(), Instant::now());
        Self { thread, who, tools, writes, after, news, writing, told, quiet_until }
    }

    /// Returns the calls of tools since the last look, with their times.
    pub(super) async fn calls(&mut self, hub: &Hub) -> Vec<(Timestamp, SseEvent)> {
        self.listen(hub);
        let mut lines = Vec::new();
        while self.tools {
            let page = match hub.transcript(self.who, self.after, ENTRIES).await {
                Ok(page) => page.unwrap_or_default(),
                Err(error) => {
                    tracing::warn!(who = %self.who, %error, "a transcript cannot be followed");
                    (self.tools, self.news) = (false, None);
                    break;
                }
            };
            let Some(last) = page.entries.last() else {
                self.after = self.after.max(page.last);
                break;
            };
            self.after = last.no;
            for call in page.entries.iter().filter_map(tool_call) {
                let at = call.created_at;
                let news = ToolNews { thread_id: self.thread.to_string(), entry: call.into() };
                lines
                    .extend(SseEvent::default().event(TOOL).json_data(news).map(|line| (at, line)));
            }
        }
        lines
    }

    /// Returns the text that the model is writing, if it is another one and its time has
    /// come.
    pub(super) fn text(&mut self) -> Option<SseEvent> {
        let now = Instant::now();
        let text =
            self.writing.as_mut().map_or_else(String::new, |w| w.borrow_and_update().clone());
        if !self.writes || text == self.told || now < self.quiet_until {
            return None;
        }
        (self.told, self.quiet_until) = (text.clone(), now + COALESCE);
        let news = WritingNews { thread_id: self.thread.to_string(), text };
        SseEvent::default().event(WRITING).json_data(news).ok()
    }

    /// Finds the agent's transcript and its model, which are there once it has begun to
    /// work.
    fn listen(&mut self, hub: &Hub) {
        if self.tools && self.news.as_ref().is_none_or(|news| news.has_changed().is_err()) {
            self.news = hub.transcript_news(self.who);
        }
        if self.writes && self.writing.as_ref().is_none_or(|writing| writing.has_changed().is_err())
        {
            self.writing = hub.writing(self.who);
        }
    }

    /// Completes when there may be something to tell.
    pub(super) async fn changed(&mut self, hub: &Hub) {
        let works = hub
            .instance(self.who)
            .is_some_and(|view| view.instance.work.is_some() && !view.instance.status.has_ended());
        let missing = self.tools && self.news.is_none() || self.writes && self.writing.is_none();
        let look = works && missing;
        let after = self.after;
        let calls = async {
            match &mut self.news {
                Some(news) => drop(news.wait_for(|last| *last > after).await),
                None if look => sleep(LOOK).await,
                None => std::future::pending().await,
            }
        };
        let (told, quiet_until) = (&self.told, self.quiet_until);
        let text = async {
            match &mut self.writing {
                Some(writing) => {
                    drop(writing.wait_for(|text| text != told).await);
                    sleep_until(quiet_until).await;
                }
                None if !told.is_empty() => sleep_until(quiet_until).await,
                None if look => sleep(LOOK).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = calls => {}
            () = text => {}
        }
    }
}
