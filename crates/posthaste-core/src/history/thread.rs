//! One thread for polling readers: the last messages, and a mark on those that were
//! unread.
//!
//! The mark is an explicit proof, at the caller's own risk, as `ack=auto` is, but it is
//! committed before the answer and not after it: the answer says when each message was
//! read, and no door says so before it is true. An answer that gets lost on its way loses
//! no text: the same call without `unread_only` returns the messages again for as long as
//! settled mail is kept.

use crate::Hub;
use crate::messaging::message::{Principal, ThreadId};
use crate::ports::{HistoryQuery, Marked, StoreError, ThreadSummary};
use crate::time::Timestamp;

/// A request for messages of a thread. Filters are joined by AND.
#[derive(Debug, Clone)]
pub struct ThreadAsk {
    pub thread: ThreadId,
    /// Only messages that are addressed to the caller and not read yet.
    pub unread_only: bool,
    /// Number of the newest messages.
    pub last: usize,
    /// Strictly after this time.
    pub since: Option<Timestamp>,
    /// Ack the messages that are shown and addressed to the caller.
    pub mark: bool,
}

impl Hub {
    /// Returns the counts of a thread, without any text.
    pub async fn thread_summary(
        &self,
        by: Principal,
        thread: ThreadId,
    ) -> Result<ThreadSummary, StoreError> {
        self.engine.thread_summary(thread, by).await
    }

    /// Returns the last messages of a thread that the caller may see, oldest first. Only
    /// the caller's own mail is acked: that of its own mailbox, and one-of mail that it
    /// holds.
    pub async fn read_thread(&self, by: Principal, ask: ThreadAsk) -> Result<Marked, StoreError> {
        let query = HistoryQuery {
            thread: Some(ask.thread),
            unread_by: ask.unread_only.then_some(by),
            since: ask.since,
            last: ask.last,
            bytes: Some(self.limits.answer_bytes),
            of: by.instance(),
            ..HistoryQuery::default()
        };
        if !ask.mark {
            let page = self.engine.history(query).await?;
            return Ok(Marked { page, marked: Vec::new() });
        }
        let marked = self.engine.mark_read(by, query).await?;
        self.desk.lock().marked(by, &marked.marked);
        Ok(marked)
    }
}
