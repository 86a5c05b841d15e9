//! Looks at what waits for the operator, and answers it.

use super::{Client, ClientError};
use crate::needs::{
    self, AnswerRequest, AnsweredNeed, ForgetQuery, ForgottenVerdicts, NeedView, Needs, NeedsQuery,
    RememberedVerdicts,
};

impl Client {
    /// `GET /v1/needs`
    pub async fn needs(&self, query: &NeedsQuery) -> Result<Needs, ClientError> {
        self.ask_with(&needs::LIST, query).await
    }

    /// `GET /v1/needs/{id}`
    pub async fn need(&self, id: &str) -> Result<NeedView, ClientError> {
        self.ask(needs::SHOW.of(id)).await
    }

    /// `POST /v1/needs/{id}/answer`
    pub async fn answer_need(
        &self,
        id: &str,
        request: &AnswerRequest,
    ) -> Result<AnsweredNeed, ClientError> {
        self.tell(needs::ANSWER.of(id), request).await
    }

    /// `GET /v1/needs/remembered`
    pub async fn remembered(&self) -> Result<RememberedVerdicts, ClientError> {
        self.ask(&needs::REMEMBERED).await
    }

    /// `DELETE /v1/needs/remembered/{profile}`
    pub async fn forget_verdicts(
        &self,
        profile: &str,
        query: &ForgetQuery,
    ) -> Result<ForgottenVerdicts, ClientError> {
        self.ask_with(needs::FORGET.of(profile), query).await
    }
}
