//! Needs of the operator: asked, closed, and remembered verdicts.

use futures_util::FutureExt;
use tokio::sync::watch;

use super::commands::needs::{AskPermission, CloseNeed, ForgetVerdicts};
use super::line::unanswered;
use super::{Engine, Started};
use crate::address::{InstanceId, Name};
use crate::needs::{Need, NeedId, Outcome, PermissionAsk, Verdict};
use crate::ports::StoreError;
use crate::ports::store::NeedsLook;
use crate::time::Timestamp;

/// The state of a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    Decided(Verdict),
    /// The need is open, since then.
    Waits(NeedId, Timestamp),
}

impl Engine {
    /// Opens a need for the request, unless it is open or decided already. Durable when
    /// the future completes.
    pub fn ask_permission(&self, who: InstanceId, ask: PermissionAsk) -> Started<Permission> {
        let answer = self.shared.line.push(|tx| AskPermission::new(who, ask, tx));
        async move { answer.await.map_err(unanswered)? }.boxed()
    }

    /// Closes an open need. `false`: it was closed before. `remember` keeps the verdict on
    /// a permission for the asker's profile.
    pub fn close_need(
        &self,
        id: NeedId,
        outcome: Outcome,
        text: Option<String>,
        remember: bool,
    ) -> Started<bool> {
        let answer = self.shared.line.push(|tx| CloseNeed::new(id, outcome, text, remember, tx));
        async move { answer.await.map_err(unanswered)? }.boxed()
    }

    /// Forgets a remembered verdict of a profile, or all of them, and counts them.
    pub fn forget_verdicts(&self, profile: Name, subject: Option<String>) -> Started<usize> {
        let answer = self.shared.line.push(|tx| ForgetVerdicts::new(profile, subject, tx));
        async move { answer.await.map_err(unanswered)? }.boxed()
    }

    /// Returns needs, lowest number first.
    pub async fn needs(&self, look: NeedsLook) -> Result<Vec<Need>, StoreError> {
        self.shared.store.needs(look).await
    }

    /// Returns a receiver that changes whenever needs are closed.
    pub fn closed_needs(&self) -> watch::Receiver<u64> {
        self.shared.closed_needs.subscribe()
    }
}
