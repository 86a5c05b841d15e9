//! The end of a turn.
//!
//! A result leaves only when no mail has come since the runner looked: otherwise the result
//! is shown as a partial answer, and the turn goes on. Once in a turn the assistant is
//! reminded of what is open. What is left open then is closed by the final answer.

use posthaste_core::address::Address;
use posthaste_core::messaging::message::{Kind, Principal, Seq};
use posthaste_core::messaging::send::SendError;
use posthaste_core::orchestration::{SAID_NOTHING, Utterance};
use posthaste_core::ports::TranscriptKind;
use posthaste_runner::protocol::{self, Finish, Finished};
use serde_json::json;
use tokio::time::sleep;

use super::calls::{Fault, Served, value};
use super::dialogue::{cut_short, listed};
use super::record::{Mail, Record, Saying, notice};
use super::{Assistant, State};
use crate::conversation::TurnEnd;

const PROGRESS: &str = "progress";
const ANSWER: &str = "answer";
const HUMAN: &str = "human";
/// The reason for the end of a turn that the human has cancelled.
const CANCELLED: &str = "the user has cancelled it";
/// Number of messages that an answer names: its metadata has a limit.
const NAMED: usize = 200;

impl Assistant {
    pub(super) async fn finish(&self, key: String, finish: Finish) -> Served {
        let mut state = self.state.lock().await;
        let served = match finish {
            Finish { failed: Some(why), .. } => self.give_up(&mut state, &key, &why).await,
            Finish { cancelled: true, .. } => self.cancelled(&mut state, &key).await,
            Finish { result, .. } => {
                self.conclude(&mut state, &key, result.unwrap_or_default()).await
            }
        };
        served.unwrap_or_else(|fault| Err(fault).into())
    }

    async fn conclude(
        &self,
        state: &mut State,
        key: &str,
        result: String,
    ) -> Result<Served, Fault> {
        match state.dialogue.answer_to(key) {
            Some(Record::Given { .. }) => return self.refused(state, key),
            Some(Record::Notice { text, .. }) => return reminded(text),
            Some(Record::Finish { .. }) => return Ok(accepted(TurnEnd::Answer(result))),
            _ => {}
        }
        // What may have been said already is the end.
        if state.dialogue.saying().is_none() {
            let batch = self.hub.mail_now(self.who, self.mail_bytes()).await;
            if !batch.mail.is_empty() {
                self.keep_mail(state, batch).await;
            }
            // An earlier hub may have been killed when it had stored the mail.
            if !state.dialogue.not_given(key).is_empty() {
                // The result answers what was open before this mail came.
                if !result.trim().is_empty() {
                    self.show_partial(state, key, &result).await;
                }
                let given = Record::Given { call: key.to_owned() };
                state.keep(vec![given]).await;
                return self.refused(state, key);
            }
            if let Some(text) = self.reminder(state) {
                let record = Record::Notice { call: key.to_owned(), text: text.clone() };
                state.keep(vec![record]).await;
                return reminded(&text);
            }
        }
        // Who says nothing after the reminder means the answer that it held back.
        let result = match state.dialogue.held_back() {
            Some((_, held_back)) if result.trim().is_empty() => held_back,
            _ => result,
        };
        let said = match result.trim().is_empty() {
            false => Some((result.as_str(), json!({}))),
            // Somebody waits for a word.
            true if !state.dialogue.open().is_empty() => Some((SAID_NOTHING, json!({}))),
            true => None,
        };
        if let Some((text, more)) = said {
            self.answer_human(state, text, more).await?;
        }
        let finish =
            Record::Finish { call: key.to_owned(), result: Some(result.clone()), failed: None };
        state.keep(vec![finish]).await;
        Ok(accepted(TurnEnd::Answer(result)))
    }

    /// Returns the mail that came at the last look.
    fn refused(&self, state: &State, key: &str) -> Result<Served, Fault> {
        let messages = self.not_given(state, key);
        Ok(value(&Finished { accepted: false, messages }).into())
    }

    /// Returns the reminder of what is open, once in a turn.
    fn reminder(&self, state: &State) -> Option<String> {
        if state.dialogue.was_reminded() {
            return None;
        }
        let open = state.dialogue.open();
        let given = self.hub.given(Principal::Instance(self.who));
        let owed: Vec<String> = given
            .iter()
            .filter(|given| given.assignment.report.is_none())
            .map(|given| {
                let worker = given.assignment.worker.to_string();
                let worker = given.address.as_deref().unwrap_or(&worker);
                format!("- assignment {} to {worker}", given.assignment.task.0)
            })
            .collect();
        let mut parts = Vec::new();
        // One message is answered by the final answer itself.
        if open.len() > 1 {
            parts.push(format!(
                "these messages of the user are not answered:\n{}\nAnswer each that your final \
                 answer does not cover with respondToUser and inReplyTo",
                listed(&open)
            ));
        }
        if !owed.is_empty() {
            parts.push(format!(
                "these assignments have not reported:\n{}\nWait for them with \
                 check_inbox(wait_for=\"all\"), or say in your answer what is missing",
                owed.join("\n")
            ));
        }
        (!parts.is_empty()).then(|| {
            format!(
                "Before you finish: {}. Then give your final answer again, whole. You are \
                 reminded once.",
                parts.join("; and ")
            )
        })
    }

    /// Sends the last words of the turn to the human, unless they go there as the report on
    /// a task. They are written down first, so that a hub that was killed meanwhile sends
    /// the same ones, once.
    async fn answer_human(
        &self,
        state: &mut State,
        text: &str,
        more: serde_json::Value,
    ) -> Result<(), Fault> {
        let saying = match state.dialogue.saying() {
            Some(known) => known.clone(),
            None if !self.speaks_to_human(state) => return Ok(()),
            None => {
                let answers = answered_by(&state.dialogue.open());
                let mut metadata = json!({ "final": true, "answers": answers });
                if let (Some(all), Some(more)) = (metadata.as_object_mut(), more.as_object()) {
                    all.extend(more.clone());
                }
                let (text, in_reply_to) = (text.to_owned(), answers.first().copied());
                let saying = Saying { text, in_reply_to, metadata };
                let record = Record::Saying(saying.clone());
                state.keep(vec![record]).await;
                saying
            }
        };
        let key = format!("final:{}", state.dialogue.turns());
        self.say(&key, ANSWER, &saying.text, saying.in_reply_to, &saying.metadata).await
    }

    /// Returns whether the last words of the turn are for the human: the human talks to the
    /// assistant, and gets them by no report.
    fn speaks_to_human(&self, state: &State) -> bool {
        let is_talked_to = self.spec.parent == HUMAN || state.dialogue.is_for_human();
        let reports_to_human = self.spec.parent == HUMAN
            && self.hub.taken_on(self.who).iter().any(|taken| taken.report.is_none());
        is_talked_to && !reports_to_human
    }

    /// Shows a result while the work goes on. It answers everything that is open and that
    /// the model had seen. It stays in the conversation, so the work also goes on if it
    /// cannot be shown. Its key is that of the model's answer, if it is one, so that it is
    /// shown once, whichever step shows it.
    pub(super) async fn show_partial(&self, state: &mut State, call: &str, text: &str) {
        let key = format!("{}:partial", state.dialogue.writer_of(text).unwrap_or(call));
        if state.dialogue.was_shown(&key) {
            return;
        }
        let answers = answered_by(&state.dialogue.open_and_seen());
        let metadata = json!({ "partial": true, "answers": answers });
        let kind = if state.dialogue.was_for_human() { ANSWER } else { PROGRESS };
        let to = answers.first().copied();
        if let Err(fault) = self.say(&key, kind, text, to, &metadata).await {
            self.tell(TranscriptKind::Note, &format!("it was not shown: {}", fault.message));
            return;
        }
        state.keep(vec![Record::Said { answers, partial: Some(key) }]).await;
    }

    /// Sends words to the human; `progress` goes to the giver of the work.
    pub(super) async fn say(
        &self,
        key: &str,
        kind: &str,
        text: &str,
        in_reply_to: Option<u64>,
        metadata: &serde_json::Value,
    ) -> Result<(), Fault> {
        let to = match kind {
            PROGRESS => self.spec.parent.parse().unwrap_or(Address::Human),
            _ => Address::Human,
        };
        let said = Utterance {
            to,
            kind: Kind::read(kind).unwrap_or_default(),
            text: text.to_owned(),
            in_reply_to: in_reply_to.map(Seq),
            metadata: metadata.to_string(),
            key: format!("runner:{}:{key}", self.who),
        };
        loop {
            match self.hub.utter(self.who, said.clone()).await {
                Ok(_) => return Ok(()),
                // What the model has said is not lost because it talks a lot.
                Err(SendError::TooOften { retry_after, .. }) => sleep(retry_after).await,
                Err(error) => return Err(Fault::new(protocol::MODEL_FAILED, error.to_string())),
            }
        }
    }

    /// Ends a turn that failed. The human is told why, and what is left unanswered.
    async fn give_up(&self, state: &mut State, key: &str, why: &str) -> Result<Served, Fault> {
        if let Some(known) = state.dialogue.answer_to(key) {
            let told = match known {
                Record::Finish { failed: Some(told), .. } => told.clone(),
                _ => why.to_owned(),
            };
            return Ok(cut(TurnEnd::Failed(told.clone()), &told));
        }
        // What a reminder held back would be lost with the turn.
        if let Some((call, text)) = state.dialogue.held_back() {
            self.show_partial(state, &call, &text).await;
        }
        // The report on a task says it all, for then there is no other answer.
        let told = format!("{why}{}", self.left_behind(state));
        let text = format!("I had to stop: {told}");
        self.answer_human(state, &text, json!({ "failed": true })).await?;
        let failed = Some(told.clone());
        let finish = Record::Finish { call: key.to_owned(), result: None, failed };
        state.keep(vec![finish]).await;
        Ok(cut(TurnEnd::Failed(told.clone()), &told))
    }

    /// Returns what a turn leaves undone, as lines after the reason of its end.
    fn left_behind(&self, state: &State) -> String {
        let mut open = state.dialogue.open();
        // The task itself is not listed: its report is about it.
        open.retain(|mail| !mail.task);
        let mut left = String::new();
        if !open.is_empty() {
            left.push_str("\nNot answered:\n");
            left.push_str(&listed(&open));
        }
        let waiting = self.hub.context(Principal::Instance(self.who)).pending;
        if waiting > 0 {
            left.push_str(&format!("\nMessages that still wait in its mailbox: {waiting}"));
        }
        left
    }

    /// Ends a turn whose last words an earlier hub may have sent.
    pub(super) async fn end_said_turn(&self, state: &mut State) -> Result<(), Fault> {
        let Some(Saying { text, metadata, .. }) = state.dialogue.saying().cloned() else {
            return Ok(());
        };
        self.answer_human(state, &text, json!({})).await?;
        let call = format!("{}:said", state.dialogue.starts());
        let has_failed = metadata["failed"] == true || metadata["cancelled"] == true;
        let (result, failed) = if has_failed { (None, Some(text)) } else { (Some(text), None) };
        let finish = Record::Finish { call, result, failed };
        state.keep(vec![finish]).await;
        Ok(())
    }

    /// Ends a turn that waits for the answer to a question of an earlier runner.
    pub(crate) async fn cancel_question(&self) -> Result<(), Fault> {
        let mut state = self.state.lock().await;
        let key = format!("{}:question", state.dialogue.starts());
        self.cancelled(&mut state, &key).await?;
        self.note_waits(&state);
        Ok(())
    }

    async fn cancelled(&self, state: &mut State, key: &str) -> Result<Served, Fault> {
        let end = cut(TurnEnd::Interrupted, CANCELLED);
        if state.dialogue.answer_to(key).is_some() {
            return Ok(end);
        }
        self.answer_human(state, "(cancelled)", json!({ "cancelled": true })).await?;
        let failed = Some(CANCELLED.to_owned());
        let finish = Record::Finish { call: key.to_owned(), result: None, failed };
        state.keep(vec![finish]).await;
        Ok(end)
    }
}

/// Returns the numbers of the messages that an answer to all of these names.
fn answered_by(open: &[&Mail]) -> Vec<u64> {
    open.iter().take(NAMED).map(|mail| mail.seq).collect()
}

/// Accepts the end of a turn without an answer; the model is told of it.
fn cut(end: TurnEnd, why: &str) -> Served {
    let reply = value(&Finished { accepted: true, messages: vec![cut_short(why)] });
    Served { reply, end: Some(end) }
}

fn accepted(end: TurnEnd) -> Served {
    let reply = value(&Finished { accepted: true, messages: Vec::new() });
    Served { reply, end: Some(end) }
}

fn reminded(text: &str) -> Result<Served, Fault> {
    Ok(value(&Finished { accepted: false, messages: vec![notice(text)] }).into())
}
