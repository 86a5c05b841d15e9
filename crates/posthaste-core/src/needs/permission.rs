//! Permission requests: the hub's drivers ask, and only the operator answers.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use super::{Need, NeedKind, Outcome};
use crate::Hub;
use crate::address::InstanceId;
use crate::engine::Permission;
use crate::orchestration::AgentsConfig;
use crate::ports::StoreError;
use crate::time::Timestamp;

/// A request of an agent to do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionAsk {
    /// The driver's own name of the request, unique within the instance.
    pub request: String,
    /// What would be remembered: for example `Bash(git push)` or `Edit`; stable text
    /// without the details of one call.
    pub subject: String,
    /// One readable text for the operator: the tool and its arguments. Of a longer one the
    /// first `limits.need_text_chars` characters are kept.
    pub text: String,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Deny { why: String },
}

impl Verdict {
    /// Returns the verdict that a closed permission stands for: only the operator's yes
    /// allows.
    pub(crate) fn of(outcome: Outcome) -> Self {
        let why = match outcome {
            Outcome::Allowed => return Self::Allow,
            Outcome::TimedOut => "the operator did not answer in time",
            Outcome::Withdrawn => "the request was withdrawn",
            Outcome::Denied
            | Outcome::Answered
            | Outcome::Seen
            | Outcome::Requeued
            | Outcome::Dismissed => "the operator denied it",
        };
        Self::Deny { why: why.to_owned() }
    }
}

impl Hub {
    /// Asks the operator. Completes with the operator's verdict, with a remembered one at
    /// once, or with a denial when `agents.permission_timeout` has passed since the need
    /// was opened. May be dropped and called again with the same instance and request,
    /// also after a restart: then it waits for the same need. A request that was answered
    /// before gets the same verdict again. While the hub stops it does not complete: the
    /// request waits for the next start, and the caller drops the call.
    pub async fn permission(self: &Arc<Self>, who: InstanceId, ask: PermissionAsk) -> Verdict {
        let request = ask.request.clone();
        // Listen, then look.
        let mut closings = self.engine.closed_needs();
        let (id, since) = match self.engine.ask_permission(who, ask).await {
            Ok(Permission::Decided(verdict)) => return verdict,
            Ok(Permission::Waits(id, since)) => (id, since),
            Err(StoreError::Closed) => return pending().await,
            Err(error) => {
                let why = format!("the hub cannot keep the request: {error}");
                return Verdict::Deny { why };
            }
        };
        let deadline = since + self.permission_timeout();
        loop {
            if let Some(verdict) = self.engine.ledger(|l| l.verdict(who, &request)) {
                return verdict;
            }
            let left = deadline.since(self.clock.now());
            tokio::select! {
                changed = closings.changed() => {
                    if changed.is_err() {
                        return pending().await;
                    }
                }
                () = tokio::time::sleep(left) => {
                    match self.engine.close_need(id, Outcome::TimedOut, None, false).await {
                        // Now, or by somebody else a moment before.
                        Ok(_) => {}
                        Err(StoreError::Closed) => return pending().await,
                        // The sweep closes the need when the disk can be written again.
                        Err(_) => return Verdict::of(Outcome::TimedOut),
                    }
                }
            }
        }
    }

    /// Withdraws a request: the agent took it back, or its program ended.
    pub async fn withdraw_permission(self: &Arc<Self>, who: InstanceId, request: &str) {
        let Some(id) = self.engine.ledger(|l| l.open_request(who, request)) else { return };
        if let Err(error) = self.engine.close_need(id, Outcome::Withdrawn, None, false).await {
            // It is denied when its time is up.
            tracing::warn!(%error, need = %id, "a request was not withdrawn");
        }
    }

    /// Denies the requests that have waited for too long and that nobody waits for.
    pub(crate) async fn expire_permissions(&self) -> Result<(), StoreError> {
        let before = self.clock.now() - self.permission_timeout();
        for id in self.engine.ledger(|l| l.overdue_permissions(before)) {
            self.engine.close_need(id, Outcome::TimedOut, None, false).await?;
        }
        Ok(())
    }

    /// Returns when an open permission request is denied because nobody answered.
    pub fn expires_at(&self, need: &Need) -> Option<Timestamp> {
        let waits = need.kind == NeedKind::Permission && need.closed.is_none();
        waits.then(|| need.created_at + self.permission_timeout())
    }

    fn permission_timeout(&self) -> Duration {
        let config = self.staff.get().map(|staff| staff.config.permission_timeout);
        config.unwrap_or_else(|| AgentsConfig::default().permission_timeout)
    }
}
