//! What follows from the worker's output.

use std::collections::HashMap;
use std::future::poll_fn;
use std::task::Poll;

use futures_util::future::BoxFuture;
use posthaste_core::needs::{PermissionAsk, Verdict};
use posthaste_core::orchestration::TurnActivity;
use posthaste_core::ports::{TranscriptEntry, TranscriptKind};
use tokio::time::Instant;

use super::kept::{Asked, Piece};
use super::{NO_TOKEN, Session};
use crate::conversation::{Heard, PromptNo, ToolState, ToolUse, TurnEnd};
use crate::frames::LINE;

/// Completes when the operator has decided on one of these requests.
pub(super) async fn verdict(
    open: &mut HashMap<String, BoxFuture<'static, Verdict>>,
) -> (String, Verdict) {
    poll_fn(|context| {
        let decided =
            open.iter_mut().find_map(|(request, verdict)| match verdict.as_mut().poll(context) {
                Poll::Ready(verdict) => Some((request.clone(), verdict)),
                Poll::Pending => None,
            });
        decided.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// The number of the prompt with the task.
const TASK: PromptNo = 1;
/// The rest after failed turns is doubled so many times at most.
const LONGEST_REST: u32 = 6;

impl Session {
    /// Takes output that begins at this offset, line by line. What was heard before is
    /// left out.
    pub(super) async fn take_output(&mut self, at: u64, bytes: &[u8]) {
        let have = self.kept.heard + self.line.len() as u64;
        let known = usize::try_from(have.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut rest = bytes.get(known..).unwrap_or_default();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            if self.assistant.is_some() && self.stop.is_asked() {
                return;
            }
            self.line.extend(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.kept.heard += line.len() as u64 + 1;
            self.dirty = true;
            match std::mem::take(&mut self.kept.skips) {
                true => {}
                false => self.take_line(&line).await,
            }
        }
        self.line.extend(rest);
        if self.line.len() > LINE {
            // The keeper would wait for a confirmation, and the line would never end.
            self.kept.heard += self.line.len() as u64;
            self.dirty = true;
            if !std::mem::replace(&mut self.kept.skips, true) {
                self.note(&format!("a line of more than {LINE} bytes was left out"));
                if self.talk.stores_mail() {
                    // It may have been a call, for whose answer the runner would wait for ever.
                    self.stop.fail(&format!("its runner wrote a line of more than {LINE} bytes"));
                }
            }
            self.line.clear();
        }
    }

    async fn take_line(&mut self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        for heard in self.talk.heard(line) {
            self.act(heard).await;
        }
        self.note_activity();
    }

    /// Sends what the conversation says at its beginning; all else comes by lines.
    pub(super) fn send(&mut self, heard: Heard) {
        match heard {
            Heard::Send(bytes) => self.write(bytes),
            Heard::SendWithToken(text) => match &self.token {
                Some(token) => self.kept.unsent.push(Piece::with_token(text, token)),
                None => self.stop.fail(NO_TOKEN),
            },
            _ => {}
        }
    }

    pub(super) async fn act(&mut self, heard: Heard) {
        match heard {
            Heard::Send(_) => self.send(heard),
            Heard::SendWithToken(_) => {
                self.get_token().await;
                self.send(heard);
            }
            Heard::Began(no) => self.began(no).await,
            Heard::NotTaken(no) => self.not_taken(no),
            Heard::TurnEnded(end) => self.turn_ended(end).await,
            Heard::Text(text) => self.tell(TranscriptKind::Text, &text),
            Heard::Thought(text) => self.tell(TranscriptKind::Thought, &text),
            Heard::Tool(tool) => self.tell_tool(tool),
            Heard::Asks(request) => {
                self.kept.requests += 1;
                let asked = Asked::new(self.kept.requests, request);
                let entry = self.entry(TranscriptKind::Permission, &asked.text);
                let (name, id) = (Some(asked.subject.clone()), Some(asked.request.clone()));
                self.transcript.add(self.kept.heard, TranscriptEntry { name, id, ..entry });
                self.ask(&asked);
                self.kept.asked.push(asked);
            }
            Heard::Withdrew(request) => {
                let at = self.kept.asked.iter().position(|asked| asked.request == request);
                let Some(asked) = at.map(|at| self.kept.asked.remove(at)) else { return };
                // A request that has not been asked is not asked any more.
                self.verdicts.remove(&asked.name());
                self.hub.withdraw_permission(self.who, &asked.name()).await;
            }
            Heard::Calls(call) => self.take_call(call),
            Heard::Usage(usage) => {
                let cost = usage.cost_usd.map(|cost| format!(", {cost:.4} USD"));
                let tokens = if usage.input_tokens == 1 { "token" } else { "tokens" };
                self.note(&format!(
                    "{} {tokens} in, {} out{}",
                    usage.input_tokens,
                    usage.output_tokens,
                    cost.unwrap_or_default()
                ));
            }
            Heard::ConversationId(id) => {
                if self.kept.conversation.as_ref() != Some(&id) {
                    self.note(&format!("its conversation is {id}"));
                    self.kept.conversation = Some(id);
                }
            }
            Heard::Screen(screen) => {
                self.tell(TranscriptKind::Screen, &screen);
                self.screen = Some(screen);
            }
            Heard::Unknown(line) => self.tell(TranscriptKind::Unknown, &line),
            Heard::Fails(why) => self.stop.fail(&why),
        }
    }

    fn tell_tool(&self, tool: ToolUse) {
        let state = match tool.state {
            ToolState::Began => "began",
            ToolState::Done => "done",
            ToolState::Failed => "failed",
        };
        let entry = TranscriptEntry {
            name: Some(tool.name),
            id: Some(tool.id),
            state: Some(state.to_owned()),
            ..self.entry(TranscriptKind::Tool, &tool.detail)
        };
        self.transcript.add(self.kept.heard, entry);
    }

    /// Acks the mail of a prompt: the worker's model was given it.
    async fn began(&mut self, no: PromptNo) {
        let Some(prompt) = self.kept.prompts.iter_mut().find(|prompt| prompt.no == no) else {
            return;
        };
        if std::mem::replace(&mut prompt.began, true) {
            return;
        }
        let seqs = prompt.seqs();
        if let Some(handed) = self.holds.remove(&no) {
            handed.written();
        }
        self.hub.turn_began(self.who, seqs).await;
    }

    /// Returns the mail of a prompt that the program did not take, marked: it comes in
    /// another way.
    fn not_taken(&mut self, no: PromptNo) {
        if self.kept.terminal && no == TASK {
            self.stop.fail("its program did not take its task: it gave no sign of it");
            return;
        }
        self.kept.prompts.retain(|prompt| prompt.no != no);
        self.holds.remove(&no);
    }

    pub(super) async fn turn_ended(&mut self, end: TurnEnd) {
        let prompts = std::mem::take(&mut self.kept.prompts);
        let unproven: Vec<_> = prompts.into_iter().filter(|prompt| !prompt.began).collect();
        let end = match end {
            // In a terminal a person may have done it.
            TurnEnd::Interrupted if !self.kept.cut && !self.kept.terminal => {
                TurnEnd::Failed("its program ended the turn without an answer".to_owned())
            }
            end => end,
        };
        match end {
            TurnEnd::Answer(answer) => {
                self.tell(TranscriptKind::Answer, &answer);
                self.kept.last_answer = Some(answer.clone());
                self.kept.failures = 0;
                // A runner may end its turn before it hears that it was cancelled.
                self.kept.cut &= !self.talk.stores_mail();
                let unseen = unproven.iter().flat_map(|prompt| prompt.seqs()).collect();
                self.hub.turn_ended(self.who, answer, unseen).await;
            }
            TurnEnd::Interrupted if self.talk.stores_mail() => {
                self.kept.cut = false;
                if self.owes_a_report() {
                    self.stop.fail("its turn was cancelled");
                }
            }
            TurnEnd::Interrupted => self.note("its turn was interrupted"),
            TurnEnd::Failed(why) => {
                self.note(&format!("its turn failed: {why}"));
                self.kept.cut &= !self.talk.stores_mail();
                for prompt in &unproven {
                    self.hub.mail_refused(self.who, prompt.seqs()).await;
                    if let Some(handed) = self.holds.remove(&prompt.no) {
                        handed.written();
                    }
                }
                if self.owes_a_report() {
                    self.stop.fail(&why);
                }
                if !self.talk.stores_mail() {
                    self.rest();
                }
            }
        }
        // Mail that was written and never shown goes back, marked.
        self.holds.clear();
    }

    /// Returns whether the worker has an assignment that it has not reported on.
    pub(super) fn owes_a_report(&self) -> bool {
        self.hub.taken_on(self.who).iter().any(|taken| taken.report.is_none())
    }

    /// Takes no mail for a while after a failed turn, and longer after each further one:
    /// what failed may work later, and each try counts as a refusal of the mail.
    fn rest(&mut self) {
        let longer = 1 << self.kept.failures.min(LONGEST_REST);
        self.kept.failures += 1;
        self.rests_until = Some(Instant::now() + self.retry_after * longer);
    }

    /// Asks the operator. A verdict that was remembered comes at once.
    pub(super) fn ask(&mut self, asked: &Asked) {
        let (name, Asked { subject, text, .. }) = (asked.name(), asked.clone());
        let (hub, who) = (std::sync::Arc::clone(&self.hub), self.who);
        let ask = PermissionAsk { request: name.clone(), subject, text };
        self.verdicts.insert(name, Box::pin(async move { hub.permission(who, ask).await }));
        self.hub.note_activity(self.who, Some(TurnActivity::Asking));
    }

    /// Tells the program the verdict on the request of this name, if it still waits for it.
    pub(super) fn answer(&mut self, name: &str, verdict: &Verdict) {
        let at = self.kept.asked.iter().position(|asked| asked.name() == name);
        let Some(asked) = at.map(|at| self.kept.asked.remove(at)) else { return };
        self.dirty = true;
        let (allow, why) = match verdict {
            Verdict::Allow => (true, ""),
            Verdict::Deny { why } => (false, why.as_str()),
        };
        if let Some(bytes) = self.talk.answer(&asked.request, allow, why) {
            let told = if allow { "allowed" } else { "denied" };
            self.note(format!("{told}: {}", asked.subject).trim_end_matches(": "));
            self.write(bytes);
        }
        self.note_activity();
    }
}
