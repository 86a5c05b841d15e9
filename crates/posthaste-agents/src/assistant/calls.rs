//! The calls of a runner.

use std::sync::Arc;

use posthaste_core::messaging::message::Principal;
use posthaste_runner::protocol::{
    self, Drained, EventNotice, Finish, LlmRequest, ProfileView, RunnerLimits, ServiceContext,
    ToolRequest,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::dialogue::listed;
use super::record::{Mail, Record};
use super::{Assistant, SpecTask};
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

    /// Makes the error of a conversation that cannot be written.
    pub(super) fn disk(error: &std::io::Error) -> Self {
        let why = format!("the hub cannot store the conversation: {error}");
        Self::new(protocol::MODEL_FAILED, why)
    }
}

impl From<Result<Value, Fault>> for Served {
    fn from(reply: Result<Value, Fault>) -> Self {
        Self { reply, end: None }
    }
}

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
            START => self.start().await.into(),
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

    /// Makes the parameters of `start`, after the task is stored.
    async fn start(&self) -> Result<Value, Fault> {
        let tools = self.tools().await;
        let mut state = self.state.lock().await;
        let mut new = vec![Record::Start];
        let mut stored = Vec::new();
        if let Some(SpecTask { seq, text }) = &self.spec.task {
            stored.push(*seq);
            if !state.dialogue.has_mail(*seq) {
                new.insert(0, Record::Mail(self.task_mail(*seq, text)));
            }
        }
        state.keep(new).map_err(|error| Fault::disk(&error))?;
        self.stored(&stored).await;
        let start = protocol::Start {
            thread_id: self.spec.thread.clone(),
            instance: self.who.to_string(),
            address: self.spec.address.clone(),
            profile: ProfileView {
                name: self.spec.profile.clone(),
                system_prompt: self.spec.instructions.clone(),
                model: self.spec.model.clone().unwrap_or_default(),
            },
            conversation: state.dialogue.messages(),
            turn_open: state.dialogue.is_turn_open(),
            tools,
            limits: RunnerLimits { context_chars: self.limits.context_chars },
            stay: self.spec.stay,
        };
        value(&start)
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
        }
    }

    /// Takes all mail that waits, stores it, and returns what the runner has not been given.
    async fn drain(&self, key: &str) -> Result<Value, Fault> {
        let mut state = self.state.lock().await;
        if state.dialogue.answer_to(key).is_none() {
            let batch = self.hub.mail_now(self.who).await.map_err(|error| {
                Fault::new(protocol::MODEL_FAILED, format!("the mail cannot be read: {error}"))
            })?;
            self.keep_mail(&mut state, batch).await.map_err(|error| Fault::disk(&error))?;
            let given = Record::Given { call: key.to_owned() };
            if !state.dialogue.not_given(key).is_empty() {
                state.keep(vec![given]).map_err(|error| Fault::disk(&error))?;
            }
        }
        let mail = state.dialogue.not_given(key);
        let messages = mail.into_iter().flat_map(Mail::messages).collect();
        value(&Drained { messages })
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
                self.show_partial(&mut state, key, &event.message).await?;
                Ok(json!({}))
            }
            "note" => {
                self.tell(posthaste_core::ports::TranscriptKind::Note, &event.message);
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
