//! Assigns work.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{Client, ClientError, PATIENCE};
use crate::instances::{Pruned, Stopped, StoppedAll};
use crate::terminal::TerminalView;
use crate::work::{
    AssignRequest, Assigned, ContextView, HandedOff, HandoffRequest, OutputQuery, OutputView,
};
use crate::{instances, terminal, work};

/// The hub's wait for a report when the request does not name one, in seconds.
const DEFAULT_WAIT: f64 = 600.0;

impl Client {
    /// `POST /v1/assign`
    pub async fn assign(&self, request: &AssignRequest) -> Result<Assigned, ClientError> {
        self.tell(&work::ASSIGN, request).await
    }

    /// `POST /v1/handoff`: answers when there is a report, or when the time is over.
    pub async fn handoff(&self, request: &HandoffRequest) -> Result<HandedOff, ClientError> {
        let wait = Duration::try_from_secs_f64(request.timeout.unwrap_or(DEFAULT_WAIT));
        let wait = wait.unwrap_or_default().saturating_add(PATIENCE);
        let call = self.request(&work::HANDOFF)?.json(request);
        self.read_answer(call.timeout(wait)).await
    }

    /// `DELETE /v1/instances/{id}`, with the number of stopped instances.
    pub async fn stop(&self, id: &str) -> Result<Stopped, ClientError> {
        self.ask(instances::STOP.of(id)).await
    }

    /// `POST /v1/stop`
    pub async fn stop_all(&self) -> Result<StoppedAll, ClientError> {
        self.ask(&instances::STOP_ALL).await
    }

    /// `POST /v1/instances/prune`
    pub async fn prune(&self) -> Result<Pruned, ClientError> {
        self.ask(&instances::PRUNE).await
    }

    /// `GET /v1/instances/{id}/output`
    pub async fn output(&self, id: &str, query: &OutputQuery) -> Result<OutputView, ClientError> {
        self.ask_with(work::OUTPUT.of(id), query).await
    }

    /// `GET /v1/instances/{id}/output` for the unchanged bytes, which need not be text.
    pub async fn output_bytes(
        &self,
        id: &str,
        query: &OutputQuery,
    ) -> Result<(Vec<u8>, OutputView), ClientError> {
        let query = OutputQuery { encoding: Some("base64".to_owned()), ..query.clone() };
        let mut view = self.output(id, &query).await?;
        let encoded = view.base64.take().unwrap_or_default();
        let bytes = BASE64_STANDARD.decode(encoded);
        Ok((bytes.map_err(|e| self.not_a_hub(200, e.to_string()))?, view))
    }

    /// `GET /v1/instances/{id}/terminal`
    pub async fn terminal(&self, id: &str) -> Result<TerminalView, ClientError> {
        self.ask(terminal::TERMINAL.of(id)).await
    }

    /// `GET /v1/context`
    pub async fn context(&self) -> Result<ContextView, ClientError> {
        self.ask(&work::CONTEXT).await
    }
}
