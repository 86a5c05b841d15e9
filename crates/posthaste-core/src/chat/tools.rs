//! The calls of tools between the messages of a conversation, from the transcript.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::watch;

use super::{ChatEntry, ChatKind, EntryState};
use crate::Hub;
use crate::address::InstanceId;
use crate::needs::clipped;
use crate::ports::{TranscriptEntry, TranscriptKind};
use crate::time::Timestamp;

/// Entries of a transcript that are read at a time.
const PAGE: usize = 500;
/// Characters of a call that are shown.
const DETAIL: usize = 200;
/// The tools that speak to the operator: their messages are entries of their own.
const SPEAKING: [&str; 4] = ["respondToUser", "respond_to_user", "askUser", "ask_user"];

impl Hub {
    /// Returns the calls of tools that began in this time, oldest first, and of many the
    /// last. A transcript that cannot be read has none.
    pub(super) async fn tools_of(
        self: &Arc<Self>,
        who: InstanceId,
        times: &Range<Timestamp>,
        lives: bool,
    ) -> Vec<ChatEntry> {
        let found = self.tool_entries(who, times).await.unwrap_or_else(|error| {
            tracing::warn!(%who, %error, "the transcript of an agent cannot be read");
            Vec::new()
        });
        let mut calls: Vec<ChatEntry> = Vec::new();
        for call in found.iter().filter_map(tool_call) {
            let same = calls
                .iter_mut()
                .rev()
                .find(|known| known.call.is_some() && known.call == call.call);
            match same {
                // The first entry says what is called.
                Some(known) => known.state = call.state,
                None => calls.push(call),
            }
        }
        calls.retain(|call| times.contains(&call.created_at));
        for call in &mut calls {
            if call.state == Some(EntryState::Running) && !lives {
                call.state = Some(EntryState::Failed);
            }
        }
        let most = self.limits.chat_tools;
        calls.drain(..calls.len().saturating_sub(most));
        calls
    }

    /// Reads a transcript from its end to the beginning of this time, or until it has
    /// enough entries of tools.
    async fn tool_entries(
        &self,
        who: InstanceId,
        times: &Range<Timestamp>,
    ) -> std::io::Result<Vec<TranscriptEntry>> {
        let Some(end) = self.transcript(who, u64::MAX, 0).await? else { return Ok(Vec::new()) };
        let (mut upto, mut found) = (end.last, Vec::new());
        // A call has two entries.
        let enough = self.limits.chat_tools.saturating_mul(2);
        while upto > 0 && found.len() < enough {
            let after = upto.saturating_sub(PAGE as u64);
            let Some(page) = self.transcript(who, after, PAGE).await? else { break };
            let is_over = page
                .entries
                .first()
                .is_none_or(|entry| entry.at < times.start || entry.no > after.saturating_add(1));
            let tools = page
                .entries
                .into_iter()
                .rev()
                .filter(|entry| entry.no <= upto && entry.kind == TranscriptKind::Tool);
            found.extend(tools);
            if is_over {
                break;
            }
            upto = after;
        }
        found.reverse();
        Ok(found)
    }

    /// Returns a receiver for the answer that the agent's model is writing; `None`: nobody
    /// knows.
    pub fn writing(&self, who: InstanceId) -> Option<watch::Receiver<String>> {
        self.staff.get()?.launcher.writing(who)
    }
}

/// Returns an entry of a transcript as an entry of the conversation; `None` if it is no
/// call of a tool that the operator is shown.
pub fn tool_call(entry: &TranscriptEntry) -> Option<ChatEntry> {
    let name = entry.name.clone();
    let speaks = name.as_deref().is_some_and(|name| SPEAKING.contains(&name));
    if entry.kind != TranscriptKind::Tool || speaks {
        return None;
    }
    let state = match entry.state.as_deref() {
        Some("began") => EntryState::Running,
        Some("failed") => EntryState::Failed,
        _ => EntryState::Done,
    };
    Some(ChatEntry {
        no: Some(entry.no),
        name,
        call: entry.id.clone(),
        state: Some(state),
        ..ChatEntry::new(ChatKind::Tool, clipped(&entry.text, DETAIL), entry.at)
    })
}
