//! Cancelling the running turn of an agent.

use super::ChatError;
use crate::Hub;
use crate::address::InstanceId;
use crate::needs::{NeedKind, Outcome};
use crate::orchestration::TurnActivity;

impl Hub {
    /// Cancels the running turn of an agent, and not the agent. A question on which the
    /// turn waited is withdrawn: nobody waits for its answer.
    pub async fn chat_cancel(&self, who: InstanceId) -> Result<(), ChatError> {
        let view = self.instance(who).ok_or_else(|| ChatError::NoSuchAgent(who.to_string()))?;
        let worker = view.instance;
        let address = worker.address.to_string();
        if worker.status.has_ended() {
            return Err(ChatError::Ended { address, status: worker.status.as_str() });
        }
        let busy =
            matches!(self.turn_activity(who), Some(TurnActivity::Busy | TurnActivity::Asking));
        let staff = self.staff.get().filter(|_| worker.work.is_some());
        match staff {
            Some(staff) if staff.launcher.writing(who).is_none() => {
                return Err(ChatError::CannotCancel { address });
            }
            Some(staff) if busy && staff.launcher.cancel(who) => {}
            Some(_) => return Err(ChatError::Idle { address }),
            None => return Err(ChatError::CannotCancel { address }),
        }
        for need in self.open_needs_of(who).await? {
            if need.kind == NeedKind::Question && need.blocking {
                self.engine.close_need(need.id, Outcome::Withdrawn, None, false).await?;
            }
        }
        Ok(())
    }
}
