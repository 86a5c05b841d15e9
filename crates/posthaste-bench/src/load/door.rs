//! What a sender goes through: the same message in other words.

use crate::agents::Agent;
use crate::answers;
use crate::http::{Answer, Conn};
use crate::mcp::{self, Era};
use crate::requests::Send;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Rest,
    /// `tools/call` of `send_message`.
    Mcp(Era),
}

impl Door {
    /// What a client does before its first send, and the send itself.
    pub(crate) async fn enter(
        self,
        conn: &mut Conn,
        sender: &Agent,
        number: usize,
    ) -> anyhow::Result<Send> {
        match self {
            Self::Rest => Ok(Send::new(&sender.token, number)),
            Self::Mcp(era) => Ok(mcp::Client::start(conn, sender, era).await?.send()),
        }
    }

    /// Whether the hub has taken the message over.
    pub(crate) fn has_taken(self, answer: &Answer<'_>) -> bool {
        match self {
            Self::Rest => answer.status == 201,
            Self::Mcp(_) => answer.status == 200 && answers::is_sent(answer.body),
        }
    }
}
