//! Reads without changing: threads, trails, counts, exports.

use std::time::Duration;

use reqwest::Response;

use super::{Client, ClientError};
use crate::messages::{ExportQuery, MessageView};
use crate::stats::{AgentsStats, MailboxStats, Stuck, TeamsStats};
use crate::threads::{ThreadMessages, ThreadQuery};
use crate::trail::TrailView;
use crate::{messages, stats, threads, trail};

/// Time limit of an export: as long as any should need.
const EXPORT: Duration = Duration::from_secs(24 * 60 * 60);

impl Client {
    /// `GET /v1/threads/{thread_id}/messages`
    pub async fn thread(
        &self,
        thread_id: &str,
        query: &ThreadQuery,
    ) -> Result<ThreadMessages, ClientError> {
        self.ask_with(threads::READ_THREAD.of(thread_id), query).await
    }

    /// `GET /v1/messages/{id or seq}/trail`
    pub async fn trail(&self, id: &str) -> Result<TrailView, ClientError> {
        self.ask(trail::TRAIL.of(id)).await
    }

    /// `GET /v1/stats/mailboxes`
    pub async fn mailbox_stats(&self) -> Result<Vec<MailboxStats>, ClientError> {
        self.ask(&stats::MAILBOXES).await
    }

    /// `GET /v1/stats/agents`
    pub async fn agent_stats(&self) -> Result<AgentsStats, ClientError> {
        self.ask(&stats::AGENTS).await
    }

    /// `GET /v1/stats/teams`
    pub async fn team_stats(&self) -> Result<TeamsStats, ClientError> {
        self.ask(&stats::TEAMS).await
    }

    /// `GET /v1/stats/stuck`
    pub async fn stuck(&self) -> Result<Vec<Stuck>, ClientError> {
        self.ask(&stats::STUCK).await
    }

    /// `GET /v1/export`, which is read message by message.
    pub async fn export(&self, query: &ExportQuery) -> Result<Export, ClientError> {
        let request = self.request(&messages::EXPORT)?.query(query).timeout(EXPORT);
        let answer = request.send().await.map_err(|e| self.failed(e, false))?;
        if !answer.status().is_success() {
            return Err(self.refused(answer, false).await);
        }
        Ok(Export { client: self.clone(), answer, read: Vec::new(), told: 0 })
    }
}

/// An export that is being read. The hub keeps the part that was not read yet.
pub struct Export {
    client: Client,
    answer: Response,
    read: Vec<u8>,
    /// The part of `read` before this place was returned already.
    told: usize,
}

impl Export {
    /// Returns the next message; `None` when the export is complete.
    pub async fn next(&mut self) -> Result<Option<MessageView>, ClientError> {
        let mut looked_at = self.told;
        loop {
            if let Some(end) = self.read[looked_at..].iter().position(|b| *b == b'\n') {
                let line = self.told..looked_at + end;
                self.told = line.end + 1;
                return self.message(&self.read[line]).map(Some);
            }
            // Only a part of a line is there: move it to the front and read on.
            self.read.drain(..std::mem::take(&mut self.told));
            looked_at = self.read.len();
            match self.answer.chunk().await.map_err(|e| self.client.failed(e, false))? {
                Some(more) => self.read.extend_from_slice(&more),
                None if self.read.is_empty() => return Ok(None),
                None => return self.message(&self.read).map(Some),
            }
        }
    }

    fn message(&self, line: &[u8]) -> Result<MessageView, ClientError> {
        let status = self.answer.status().as_u16();
        serde_json::from_slice(line).map_err(|e| self.client.not_a_hub(status, e.to_string()))
    }
}
