//! The calls of a runner.

use std::sync::Arc;

use posthaste_core::messaging::message::Principal;
use posthaste_core::orchestration::Assignment;
use posthaste_core::ports::TranscriptKind;
use posthaste_runner::protocol::{
    self, ChatMessage, Drained, EventNotice, Finish, LlmRequest, ProfileView, RunnerLimits,
    ServiceContext, ToolRequest,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::dialogue::listed;
use super::record::{Mail, Record, notice};
use super::{Assistant, SpecTask, State};
use crate::conversation::TurnEnd;

/// The answer to a call, and what follows from it for the turn.
#[derive(Debug, PartialEq)]
pub(crate) struct Served {
    pub(crate) reply: Result<Value, Fault>,
    pub(crate) end: Option<TurnEnd>,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(crate) code: i64,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<Result<Value, Fault>> for Served {
    fn from(reply: Result<Value, Fault>) -> Self {
        Self { reply, end: None }
    }
}

/// The notice to a model whose last answer an earlier hub did not hand on.
const REPEAT: &str = "You were interrupted before your last answer was sent. Give it again, whole.";

/// The methods that a runner may call, with the hub's own first step.
pub(crate) const START: &str = "start";
pub(crate) const METHODS: [&str; 6] = [
    "on_llm_request",
    "on_tool_call",
    "on_aggregate_service_context",
    "on_inbox_drain",
    "on_event",
    "on_finish",
];

impl Assistant {
    /// Answers a call; `id` names it among the calls of this runner, and `again` says that
    /// an earlier hub may have begun it.
    pub(crate) async fn serve(
        self: Arc<Self>,
        id: String,
        method: String,
        params: Value,
        again: bool,
    ) -> Served {
        let key = format!("{}:{id}", self.state.lock().await.dialogue.starts());
        match method.as_str() {
            START => self.start().await.unwrap_or_else(|fault| Err(fault).into()),
            "on_llm_request" => match read::<LlmRequest>(params) {
                Ok(request) => self.ask_model(key, request).await.into(),
                Err(fault) => Err(fault).into(),
            },
            "on_tool_call" => match read::<ToolRequest>(params) {
                Ok(request) => self.call_tool(key, request, again).await.into(),
                Err(fault) => Err(fault).into(),
            },
            "on_aggregate_service_context" => self.context().await.into(),
            "on_inbox_drain" => self.drain(&key).await.into(),
            "on_event" => match read::<EventNotice>(params) {
                Ok(event) => self.event(&key, event).await.into(),
                Err(fault) => Err(fault).into(),
            },
            "on_finish" => match read::<Finish>(params) {
                Ok(finish) => self.finish(key, finish).await,
                Err(fault) => Err(fault).into(),
            },
            other => {
                let why = format!("there is no method {other}");
                Err(Fault::new(protocol::UNKNOWN_METHOD, why)).into()
            }
        }
    }

    /// Makes the parameters of `start`, after the task is stored, and finds the end of a turn
    /// that an earlier hub has not reported.
    async fn start(&self) -> Result<Served, Fault> {
        let tools = self.tools().await;
        let mut state = self.state.lock().await;
        self.end_said_turn(&mut state).await?;
        let end = self.unreported(&state);
        let mut stored = Vec::new();
        if let Some(SpecTask { seq, text }) = &self.spec.task {
            stored.push(*seq);
            if !state.dialogue.has_mail(*seq) {
                self.tell(TranscriptKind::Prompt, text);
                let task = Record::Mail(self.task_mail(*seq, text));
                state.keep(vec![task]).await;
            }
        }
        if end.is_none() {
            // What waits already is in the first request.
            let batch = self.hub.mail_now(self.who, self.mail_bytes()).await;
            self.keep_mail(&mut state, batch).await;
        }
        if let Some((call, text)) = state.dialogue.overtaken() {
            self.show_partial(&mut state, &call, &text).await;
        }
        state.keep(vec![Record::Start]).await;
        self.note_waits(&state);
        self.stored(&stored).await;
        let turn_open = state.dialogue.is_turn_open();
        let mut conversation = state.dialogue.messages(self.message_chars());
        if turn_open && matches!(conversation.last(), Some(ChatMessage::Assistant { .. })) {
            // Its answer was not handed on, and not every model takes a request that ends so.
            conversation.push(notice(REPEAT));
        }
        let start = protocol::Start {
            thread_id: self.spec.thread.clone(),
            instance: self.who.to_string(),
            address: self.spec.address.clone(),
            profile: ProfileView {
                name: self.spec.profile.clone(),
                system_prompt: self.spec.instructions.clone(),
                model: self.spec.model.clone().unwrap_or_default(),
            },
            conversation,
            turn_open,
            tools,
            limits: RunnerLimits { context_chars: self.limits.context_chars },
            stay: self.spec.stay,
        };
        Ok(Served { reply: Ok(value(&start)?), end })
    }

    /// Returns how the last turn ended, if the giver of its task does not know that yet, or
    /// if the assistant has nothing to wait for.
    fn unreported(&self, state: &State) -> Option<TurnEnd> {
        let is_owed =
            |taken: &Assignment| taken.report.is_none() && state.dialogue.has_mail(taken.task.0);
        if self.spec.stay && !self.hub.taken_on(self.who).iter().any(is_owed) {
            return None;
        }
        Some(match state.dialogue.end()? {
            Ok(answer) => TurnEnd::Answer(answer.to_owned()),
            Err(why) => TurnEnd::Failed(why.to_owned()),
        })
    }

    fn task_mail(&self, seq: u64, text: &str) -> Mail {
        Mail {
            seq,
            from: self.spec.parent.clone(),
            kind: "directive".to_owned(),
            text: text.to_owned(),
            human: self.spec.parent == "human",
            task: true,
            label: None,
            in_reply_to: None,
            urgent: false,
            question: None,
        }
    }

    /// Takes all mail that waits, stores it, and returns what the runner has not been given.
    async fn drain(&self, key: &str) -> Result<Value, Fault> {
        let mut state = self.state.lock().await;
        if state.dialogue.answer_to(key).is_none() {
            let batch = self.hub.mail_now(self.who, self.mail_bytes()).await;
            self.keep_mail(&mut state, batch).await;
            let given = Record::Given { call: key.to_owned() };
            if !state.dialogue.not_given(key).is_empty() {
                state.keep(vec![given]).await;
            }
        }
        value(&Drained { messages: self.not_given(&state, key) })
    }

    /// Returns the mail that the runner has not been given before this call.
    pub(super) fn not_given(&self, state: &State, key: &str) -> Vec<ChatMessage> {
        let mail = state.dialogue.not_given(key);
        mail.into_iter().flat_map(|mail| mail.messages(self.message_chars())).collect()
    }

    async fn context(&self) -> Result<Value, Fault> {
        let context = self.hub.context(Principal::Instance(self.who));
        let state = self.state.lock().await;
        let open = state.dialogue.open();
        let mut context_prompt = context.prompt();
        if !open.is_empty() {
            context_prompt.push_str("\n# Messages of the user that are not answered yet\n");
            context_prompt.push_str(&listed(&open));
        }
        let running: Vec<String> =
            context.running.iter().map(|worker| worker.address.to_string()).collect();
        let owed = context.given.iter().filter(|given| given.assignment.report.is_none()).count();
        let open: Vec<u64> = open.iter().map(|mail| mail.seq).collect();
        let structured_state = json!({
            "running": running,
            "open_assignments": owed,
            "pending_messages": context.pending,
            "open_messages": open,
        });
        value(&ServiceContext { context_prompt, structured_state })
    }

    async fn event(&self, key: &str, event: EventNotice) -> Result<Value, Fault> {
        match event.kind.as_str() {
            "partial_response" if event.message.trim().is_empty() => {
                Err(Fault::new(protocol::WRONG_PARAMS, "an empty message is not shown"))
            }
            "partial_response" => {
                let mut state = self.state.lock().await;
                self.show_partial(&mut state, key, &event.message).await;
                Ok(json!({}))
            }
            "note" => {
                self.tell(TranscriptKind::Note, &event.message);
                Ok(json!({}))
            }
            other => {
                let why = format!("there is no event {other}: partial_response, note");
                Err(Fault::new(protocol::WRONG_PARAMS, why))
            }
        }
    }
}

pub(super) fn value(of: &impl serde::Serialize) -> Result<Value, Fault> {
    serde_json::to_value(of).map_err(|error| Fault::new(protocol::MODEL_FAILED, error.to_string()))
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Fault> {
    serde_json::from_value(params)
        .map_err(|error| Fault::new(protocol::WRONG_PARAMS, format!("params: {error}")))
}
