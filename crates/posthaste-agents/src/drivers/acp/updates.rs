//! The updates of a session: what the program shows of a turn.

use agent_client_protocol_schema::{
    ContentBlock, ContentChunk, Plan, SessionNotification, SessionUpdate, UsageUpdate,
};

use super::talk::Talk;
use super::turns::Sign;
use crate::conversation::Heard;

/// The longest id that is kept. A longer one counts as none.
const ID: usize = 200;

impl Talk {
    /// Takes an update; `None` if it is that of another session, of a sub-agent.
    pub(super) fn updated(&mut self, update: SessionNotification) -> Option<Vec<Heard>> {
        if self.session.as_ref().is_some_and(|own| *own != update.session_id) {
            return None;
        }
        Some(match update.update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                self.said(text(&chunk)?, id(&chunk).as_deref())
            }
            SessionUpdate::AgentThoughtChunk(chunk) => {
                let began = self.sees(Sign::Thought(id(&chunk).as_deref()));
                let shown = self.shown.add(text(&chunk)?, true);
                began.into_iter().chain(shown).collect()
            }
            SessionUpdate::ToolCall(call) => {
                self.answer.end_message();
                let rest = self.shown.rest();
                let began = self.sees(Sign::Act);
                rest.into_iter().chain(began).chain(self.calls.began(call)).collect()
            }
            SessionUpdate::ToolCallUpdate(update) => {
                self.calls.went_on(&update).into_iter().collect()
            }
            SessionUpdate::Plan(plan) => {
                let rest = self.shown.rest();
                rest.into_iter().chain([Heard::Thought(steps(&plan))]).collect()
            }
            SessionUpdate::UsageUpdate(usage) => {
                self.costs(&usage);
                Vec::new()
            }
            // The prompt itself, and news about commands, modes, options and titles.
            _ => Vec::new(),
        })
    }

    fn costs(&mut self, usage: &UsageUpdate) {
        let dollars = usage.cost.as_ref().filter(|cost| cost.currency == "USD");
        if let Some(cost) = dollars {
            // The state is kept as text, in which a fraction would not stay the same.
            self.cost = (cost.amount * 1e9).round() as u64;
        }
    }
}

fn id(chunk: &ContentChunk) -> Option<String> {
    let id = chunk.message_id.as_ref()?.to_string();
    (id.len() <= ID).then_some(id)
}

/// Returns the text of a chunk; `None` if it is an image or the like.
fn text(chunk: &ContentChunk) -> Option<&str> {
    match &chunk.content {
        ContentBlock::Text(text) => Some(&text.text),
        ContentBlock::ResourceLink(link) => Some(&link.uri),
        _ => None,
    }
}

fn steps(plan: &Plan) -> String {
    let steps: Vec<&str> = plan.entries.iter().map(|entry| entry.content.as_str()).collect();
    steps.join("\n")
}
