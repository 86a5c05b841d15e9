//! `POST /v1/hooks/{event}`, and who may call it: an agent without a token of its own.

use super::{Client, ClientError};
use crate::hooks::{HookAnswer, HookEvent, HookRequest};

impl Client {
    /// The operator's client, for this instance.
    pub fn acting_for(mut self, instance: impl Into<String>) -> Self {
        self.who.push(("x-posthaste-instance", instance.into()));
        self
    }

    /// A joiner's client: the hub finds the agent by its key, or makes it.
    pub fn known_by(mut self, agent: &str, team: Option<&str>, key: &str) -> Self {
        let team = team.map(|team| ("x-posthaste-team", team.to_owned()));
        let named = [("x-posthaste-agent", agent.to_owned()), ("x-posthaste-key", key.to_owned())];
        self.who.extend(named.into_iter().chain(team));
        self
    }

    /// `POST /v1/hooks/{event}`. How long it may take is the caller's to say: a program
    /// waits for it.
    pub async fn hook(
        &self,
        event: HookEvent,
        request: &HookRequest,
    ) -> Result<HookAnswer, ClientError> {
        let call = self.request(reqwest::Method::POST, &["v1", "hooks", event.as_str()])?;
        self.read_answer(call.json(request)).await
    }
}
