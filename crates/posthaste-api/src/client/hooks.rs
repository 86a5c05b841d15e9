//! `POST /v1/hooks/{event}`.

use super::{Client, ClientError};
use crate::hooks::{self, HookAnswer, HookEvent, HookRequest};

impl Client {
    /// Makes the operator's client act for this instance.
    pub fn acting_for(mut self, instance: impl Into<String>) -> Self {
        self.who.push(("x-posthaste-instance", instance.into()));
        self
    }

    /// `POST /v1/hooks/{event}`. Has no time limit of its own: the caller sets one,
    /// because an agent program waits for its hook.
    pub async fn hook(
        &self,
        event: HookEvent,
        request: &HookRequest,
    ) -> Result<HookAnswer, ClientError> {
        let call = self.request(hooks::FIRE.of(event.as_str()))?;
        self.read_answer(call.json(request)).await
    }
}
