//! Converts the conversation of the operator to wire types.

use posthaste_core::chat::{self, Chat, ChatError, ChatKind, Said, Started};
use serde_json::json;

use crate::chat::{ChatEntry, ChatSaid, ChatStarted, ChatView};
use crate::error::{ApiError, ErrorCode};

/// The most candidates that a hint lists.
const LISTED: usize = 8;

impl From<Chat> for ChatView {
    fn from(chat: Chat) -> Self {
        let i = chat.view.instance;
        Self {
            instance: i.id.to_string(),
            address: i.address.to_string(),
            thread_id: i.thread.to_string(),
            status: i.status.as_str().to_owned(),
            working: chat.working,
            writing: chat.writing,
            open: chat.open.into_iter().map(|seq| seq.0).collect(),
            entries: chat.entries.into_iter().map(ChatEntry::from).collect(),
            before: chat.next.map(|seq| seq.0),
        }
    }
}

impl From<chat::ChatEntry> for ChatEntry {
    fn from(entry: chat::ChatEntry) -> Self {
        let asks = matches!(entry.kind, ChatKind::Question | ChatKind::Permission);
        Self {
            seq: entry.seq.map(|seq| seq.0),
            no: entry.no,
            kind: entry.kind.as_str().to_owned(),
            text: entry.text,
            in_reply_to: entry.in_reply_to.map(|seq| seq.0),
            answers: entry.answers.into_iter().map(|seq| seq.0).collect(),
            quote: entry.quote,
            state: entry.state.map(|state| state.as_str().to_owned()),
            reason: entry.reason.map(str::to_owned),
            options: entry.options,
            blocking: asks.then_some(entry.blocking),
            need: entry.need.map(|need| need.0),
            name: entry.name,
            call: entry.call,
            created_at: entry.created_at.to_string(),
        }
    }
}

impl From<Started> for ChatStarted {
    fn from(started: Started) -> Self {
        let i = started.instance;
        Self {
            instance: i.id.to_string(),
            address: i.address.to_string(),
            thread_id: i.thread.to_string(),
            status: i.status.as_str().to_owned(),
            receipt: started.said.and_then(|said| said.sent).map(Into::into),
            duplicate: started.duplicate,
        }
    }
}

impl From<Said> for ChatSaid {
    fn from(said: Said) -> Self {
        Self { receipt: said.sent.map(Into::into), need: said.need.map(Into::into) }
    }
}

impl From<ChatError> for ApiError {
    fn from(e: ChatError) -> Self {
        let message = e.to_string();
        match e {
            ChatError::NotOne(_) => Self::new(ErrorCode::InvalidAddress, message)
                .hint("write 8 hex digits, an address, or the name of one agent"),
            ChatError::NoSuchAgent(_) => Self::new(ErrorCode::NotFound, message)
                .hint("`posthaste agents --all` lists them; old ones are forgotten"),
            ChatError::NobodyHere { .. } => Self::new(ErrorCode::NotFound, message)
                .hint("POST /v1/chat starts one; `posthaste agents` lists who is here"),
            ChatError::Several { candidates, .. } => {
                let mut listed: Vec<&str> =
                    candidates.iter().take(LISTED).map(String::as_str).collect();
                if candidates.len() > LISTED {
                    listed.push("…");
                }
                Self::new(ErrorCode::Conflict, message)
                    .hint(format!("say which: {}", listed.join(", ")))
                    .details(json!({ "candidates": candidates }))
            }
            ChatError::Ended { .. } => Self::new(ErrorCode::RecipientGone, message)
                .hint("POST /v1/chat starts another one"),
            ChatError::NothingAsked { .. } => Self::new(ErrorCode::Conflict, message)
                .hint("leave `/answer` out to send it as a message"),
            ChatError::NeedOfAnother { .. } => Self::new(ErrorCode::Conflict, message)
                .hint("`posthaste needs` says whose it is; `posthaste answer` answers any"),
            ChatError::YesOrNo(id) => Self::new(ErrorCode::InvalidArgument, message)
                .hint(format!("`/answer {id} yes` or `/answer {id} no`"))
                .details(json!({ "field": "message" })),
            ChatError::Idle { .. } => Self::new(ErrorCode::Conflict, message)
                .hint("to end the agent itself: `posthaste stop`"),
            ChatError::CannotCancel { .. } => Self::new(ErrorCode::Conflict, message)
                .hint("urgent mail interrupts it, and `posthaste stop` ends it"),
            ChatError::KeyOfAnother { .. } => {
                Self::new(ErrorCode::KeyReused, message).hint("use a new key for another agent")
            }
            ChatError::Address(e) => e.into(),
            ChatError::Start(e) => e.into(),
            ChatError::Registry(e) => e.into(),
            ChatError::Send(e) => e.into(),
            ChatError::Answer(e) => e.into(),
            ChatError::Store(e) => e.into(),
        }
    }
}
