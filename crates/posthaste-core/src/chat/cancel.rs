//! Cancelling the running turn of an agent.

use super::ChatError;
use crate::Hub;
use crate::address::InstanceId;
use crate::needs::{NeedKind, Outcome};
use crate::orchestration::TurnActivity;
use crate::ports::StoreError;
use crate::registry::Instance;

impl Hub {
    /// Returns whether an agent answers the operator's messages by messages of its own, and
    /// its turns can be cancelled.
    pub(super) async fn answers_operator(&self, agent: &Instance) -> Result<bool, StoreError> {
        let Some(staff) = self.staff.get().filter(|_| agent.work.is_some()) else {
            return Ok(false);
        };
        let job = self.job_of(agent).await?;
        Ok(job.is_some_and(|job| staff.launcher.answers_operator(&job)))
    }

    /// Cancels the running turn of an agent, and not the agent. A question on which the
    /// turn waited is withdrawn: nobody waits for its answer.
    pub async fn chat_cancel(&self, who: InstanceId) -> Result<(), ChatError> {
        let view = self.instance(who).ok_or_else(|| ChatError::NoSuchAgent(who.to_string()))?;
        let agent = view.instance;
        let address = agent.address.to_string();
        if agent.status.has_ended() {
            return Err(ChatError::Ended { address, status: agent.status.as_str() });
        }
        if !self.answers_operator(&agent).await? {
            return Err(ChatError::CannotCancel { address });
        }
        let busy =
            matches!(self.turn_activity(who), Some(TurnActivity::Busy | TurnActivity::Asking));
        let cancelled = busy && self.staff.get().is_some_and(|staff| staff.launcher.cancel(who));
        if !cancelled {
            return Err(ChatError::Idle { address });
        }
        for need in self.open_needs_of(who).await? {
            if need.kind == NeedKind::Question && need.blocking {
                self.engine.close_need(need.id, Outcome::Withdrawn, None, false).await?;
            }
        }
        Ok(())
    }
}
