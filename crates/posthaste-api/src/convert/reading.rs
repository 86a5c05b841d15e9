//! Converts history, trails and counts to wire types.

use posthaste_core::address::Mailbox;
use posthaste_core::history::{ReadError, Step, Trail};
use posthaste_core::messaging::message::{Principal, ThreadId};
use posthaste_core::ports::Marked;
use posthaste_core::stats;
use serde_json::json;

use super::nearest_hint;
use crate::error::{ApiError, ErrorCode};
use crate::stats::{AgentStats, AgentsStats, MailboxStats, Stuck, TeamStats, TeamsStats};
use crate::threads::{ThreadMessage, ThreadMessages, ThreadSummary};
use crate::trail::{StepView, TrailView};

impl From<ReadError> for ApiError {
    fn from(e: ReadError) -> Self {
        let message = e.to_string();
        match e {
            ReadError::NoSuchTeam { nearest, .. } => Self::new(ErrorCode::NotFound, message)
                .hint(nearest_hint(&nearest, "GET /v1/teams lists them"))
                .details(json!({ "nearest": nearest })),
            ReadError::NotALeader(_) => Self::new(ErrorCode::Forbidden, message)
                .hint("ask the operator to name you its leader, or leave `team` out: then you see your own mail"),
            ReadError::Store(e) => e.into(),
        }
    }
}

impl ThreadMessages {
    /// Shows a thread as `reader` sees it.
    pub fn new(thread: ThreadId, reader: Principal, read: Marked) -> Self {
        let marked_as_read = read.marked.len();
        let cursor = read.page.next.map(|seq| seq.to_string());
        let messages: Vec<ThreadMessage> = read
            .page
            .records
            .into_iter()
            .map(|record| ThreadMessage {
                read_at: record.read_at(reader).map(|at| at.to_string()),
                view: record.into(),
            })
            .collect();
        let summary = ThreadSummary { total_fetched: messages.len(), marked_as_read };
        Self { thread_id: thread.to_string(), messages, summary, cursor }
    }
}

impl From<Trail> for TrailView {
    fn from(trail: Trail) -> Self {
        Self {
            seq: trail.record.message.seq.0,
            id: trail.record.message.id.to_string(),
            verdict: trail.verdict,
            steps: trail.steps.into_iter().map(StepView::from).collect(),
        }
    }
}

impl From<Step> for StepView {
    fn from(step: Step) -> Self {
        Self {
            at: step.at.map(|at| at.to_string()),
            event: step.event.to_owned(),
            mailbox: step.mailbox.map(|m| m.to_string()),
            by: step.by,
            how: step.how.map(str::to_owned),
            message: step.message.map(|seq| seq.0),
            text: step.text,
        }
    }
}

impl From<stats::MailboxStats> for MailboxStats {
    fn from(s: stats::MailboxStats) -> Self {
        Self {
            agent_id: match &s.mailbox {
                Mailbox::Instance(id) => id.to_string(),
                key => key.to_string(),
            },
            total: s.total,
            unread: s.unread as u64,
            oldest_unread_age_sec: s.oldest_unread.as_secs(),
            mailbox: s.mailbox.to_string(),
            team: s.team.map(|team| team.to_string()),
            reader: s.reader.map(|id| id.to_string()),
        }
    }
}

impl From<stats::Counted<stats::AgentStats>> for AgentsStats {
    fn from(counted: stats::Counted<stats::AgentStats>) -> Self {
        let agents = counted.list.into_iter().map(|s| AgentStats {
            agent_id: s.view.instance.id.to_string(),
            address: s.view.instance.address.to_string(),
            team: s.view.instance.team.to_string(),
            status: s.view.instance.status.as_str().to_owned(),
            sent: s.sent,
            received: s.received,
            unread: s.view.unread as u64,
            waiting: s.waiting,
            last_seen: s.view.instance.last_seen.to_string(),
        });
        Self { since: counted.since.map(|t| t.to_string()), agents: agents.collect() }
    }
}

impl From<stats::Counted<stats::TeamStats>> for TeamsStats {
    fn from(counted: stats::Counted<stats::TeamStats>) -> Self {
        let teams = counted.list.into_iter().map(|s| TeamStats {
            team: s.team.to_string(),
            active: s.active as u64,
            sent: s.sent,
            received: s.received,
            unread: s.unread as u64,
            waiting: s.waiting,
            last_seen: s.last_seen.map(|t| t.to_string()),
        });
        Self { since: counted.since.map(|t| t.to_string()), teams: teams.collect() }
    }
}

impl From<stats::Stuck> for Stuck {
    fn from(s: stats::Stuck) -> Self {
        Self {
            kind: s.kind.as_str().to_owned(),
            mailbox: s.mailbox.to_string(),
            team: s.team.map(|team| team.to_string()),
            count: s.count as u64,
            seq: s.seq.0,
            age_sec: s.age.as_secs(),
            why: s.why,
            hint: s.hint,
        }
    }
}
