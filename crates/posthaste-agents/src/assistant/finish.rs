//! The end of a turn.
//!
//! A result leaves only when no mail has come since the runner looked: otherwise the result
//! is shown as a partial answer, and the turn goes on. Once in a turn the assistant is
//! reminded of what is open. What is left open then is closed by the final answer.

use posthaste_core::address::Address;
use posthaste_core::messaging::message::{Kind, Principal, Seq};
use posthaste_core::orchestration::Utterance;
use posthaste_runner::protocol::{self, Finish, Finished};
use serde_json::json;

use super::calls::{Fault, Served, value};
use super::dialogue::listed;
use super::record::{Mail, Record, notice};
use super::{Assistant, State};
use crate::conversation::TurnEnd;

const PROGRESS: &str = "progress";
const ANSWER: &str = "answer";

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
            Some(Record::Given { .. }) => return refused(state, key),
            Some(Record::Notice { text, .. }) => return reminded(text),
            Some(Record::Finish { .. }) => return Ok(accepted(TurnEnd::Answer(result))),
            _ => {}
        }
        let batch = self.hub.mail_now(self.who).await.map_err(|error| {
            Fault::new(protocol::MODEL_FAILED, format!("the mail cannot be read: {error}"))
        })?;
        if !batch.mail.is_empty() {
            // The result answers what was open before this mail came.
            if !result.trim().is_empty() {
                self.show_partial(state, key, &result).await?;
            }
            self.keep_mail(state, batch).await.map_err(|error| Fault::disk(&error))?;
            let given = Record::Given { call: key.to_owned() };
            state.keep(vec![given]).map_err(|error| Fault::disk(&error))?;
            return refused(state, key);
        }
        drop(batch);
        if let Some(text) = self.reminder(state) {
            let record = Record::Notice { call: key.to_owned(), text: text.clone() };
            state.keep(vec![record]).map_err(|error| Fault::disk(&error))?;
            return reminded(&text);
        }
        self.answer_human(state, key, &result, json!({})).await?;
        let finish =
            Record::Finish { call: key.to_owned(), result: Some(result.clone()), failed: None };
        state.keep(vec![finish]).map_err(|error| Fault::disk(&error))?;
        Ok(accepted(TurnEnd::Answer(result)))
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
                format!("- assignment {} to {}", given.assignment.task.0, given.assignment.worker)
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

    /// Sends the final answer to the human, unless it goes there as the report on a task.
    async fn answer_human(
        &self,
        state: &State,
        key: &str,
        result: &str,
        more: serde_json::Value,
    ) -> Result<(), Fault> {
        let reports_to_human = self.spec.parent == "human"
            && self.hub.taken_on(self.who).iter().any(|taken| taken.report.is_none());
        if reports_to_human || !state.dialogue.is_for_human() || result.trim().is_empty() {
            return Ok(());
        }
        let open = state.dialogue.open();
        let answers: Vec<u64> = open.iter().map(|mail| mail.seq).collect();
        let mut metadata = json!({ "final": true, "answers": answers });
        if let (Some(all), Some(more)) = (metadata.as_object_mut(), more.as_object()) {
            all.extend(more.clone());
        }
        self.say(key, ANSWER, result, open.first().copied(), metadata).await
    }

    /// Shows a result while the work goes on. It answers everything that is open and that
    /// the model had.
    pub(super) async fn show_partial(
        &self,
        state: &mut State,
        key: &str,
        text: &str,
    ) -> Result<(), Fault> {
        let open = state.dialogue.open_to_model();
        let answers: Vec<u64> = open.iter().map(|mail| mail.seq).collect();
        let for_human = state.dialogue.is_for_human();
        let first = open.first().copied();
        let metadata = json!({ "partial": true, "answers": answers });
        let kind = if for_human { ANSWER } else { PROGRESS };
        self.say(&format!("{key}:partial"), kind, text, first, metadata).await?;
        state.keep(vec![Record::Said { answers }]).map_err(|error| Fault::disk(&error))
    }

    /// Sends words to the human; `progress` goes to the giver of the work.
    pub(super) async fn say(
        &self,
        key: &str,
        kind: &str,
        text: &str,
        answers: Option<&Mail>,
        metadata: serde_json::Value,
    ) -> Result<(), Fault> {
        let to = match kind {
            PROGRESS => self.spec.parent.parse().unwrap_or(Address::Human),
            _ => Address::Human,
        };
        let said = Utterance {
            to,
            kind: Kind::read(kind).unwrap_or_default(),
            text: text.to_owned(),
            in_reply_to: answers.map(|mail| Seq(mail.seq)),
            metadata: metadata.to_string(),
            key: format!("runner:{}:{key}", self.who),
        };
        let sent = self.hub.utter(self.who, said).await;
        sent.map(drop).map_err(|error| Fault::new(protocol::MODEL_FAILED, error.to_string()))
    }

    /// Ends a turn that failed. The human is told why, and what is left unanswered.
    async fn give_up(&self, state: &mut State, key: &str, why: &str) -> Result<Served, Fault> {
        let end = accepted(TurnEnd::Failed(why.to_owned()));
        if state.dialogue.answer_to(key).is_some() {
            return Ok(end);
        }
        let open = state.dialogue.open();
        let mut text = format!("I had to stop: {why}");
        if !open.is_empty() {
            text.push_str("\nNot answered:\n");
            text.push_str(&listed(&open));
        }
        let waiting = self.hub.context(Principal::Instance(self.who)).pending;
        if waiting > 0 {
            text.push_str(&format!("\nMessages that still wait in my mailbox: {waiting}"));
        }
        self.answer_human(state, key, &text, json!({ "failed": true })).await?;
        let failed = Some(why.to_owned());
        let finish = Record::Finish { call: key.to_owned(), result: None, failed };
        state.keep(vec![finish]).map_err(|error| Fault::disk(&error))?;
        Ok(end)
    }

    async fn cancelled(&self, state: &mut State, key: &str) -> Result<Served, Fault> {
        let end = accepted(TurnEnd::Interrupted);
        if state.dialogue.answer_to(key).is_some() {
            return Ok(end);
        }
        self.answer_human(state, key, "(cancelled)", json!({ "cancelled": true })).await?;
        let failed = Some("cancelled".to_owned());
        let finish = Record::Finish { call: key.to_owned(), result: None, failed };
        state.keep(vec![finish]).map_err(|error| Fault::disk(&error))?;
        Ok(end)
    }
}

fn accepted(end: TurnEnd) -> Served {
    let reply = value(&Finished { accepted: true, messages: Vec::new() });
    Served { reply, end: Some(end) }
}

/// Returns the mail that came at the last look.
fn refused(state: &State, key: &str) -> Result<Served, Fault> {
    let mail = state.dialogue.not_given(key);
    let messages = mail.into_iter().flat_map(Mail::messages).collect();
    Ok(value(&Finished { accepted: false, messages }).into())
}

fn reminded(text: &str) -> Result<Served, Fault> {
    Ok(value(&Finished { accepted: false, messages: vec![notice(text)] }).into())
}
