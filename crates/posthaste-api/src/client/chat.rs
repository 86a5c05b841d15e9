//! Talks to one agent as the operator.

use super::{Client, ClientError};
use crate::chat::{
    self, ChatCancelled, ChatQuery, ChatSaid, ChatSay, ChatStart, ChatStarted, ChatView,
};

impl Client {
    /// `POST /v1/chat`
    pub async fn start_chat(&self, request: &ChatStart) -> Result<ChatStarted, ClientError> {
        self.tell(&chat::START, request).await
    }

    /// `GET /v1/chat/{instance}`
    pub async fn chat(&self, agent: &str, query: &ChatQuery) -> Result<ChatView, ClientError> {
        self.ask_with(chat::READ.of(agent), query).await
    }

    /// `POST /v1/chat/{instance}`
    pub async fn say(&self, agent: &str, request: &ChatSay) -> Result<ChatSaid, ClientError> {
        self.tell(chat::SAY.of(agent), request).await
    }

    /// `POST /v1/chat/{instance}/cancel`
    pub async fn cancel_turn(&self, agent: &str) -> Result<ChatCancelled, ClientError> {
        self.ask(chat::CANCEL.of(agent)).await
    }
}
