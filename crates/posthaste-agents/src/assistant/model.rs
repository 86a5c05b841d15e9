//! The model's turn of a conversation, within the budgets.

use std::sync::Arc;

use humantime_serde::re::humantime::format_duration;
use posthaste_core::ports::TranscriptKind;
use posthaste_runner::protocol::{self, LlmReply, LlmRequest, TokenUsage, ToolSpec};
use serde_json::Value;

use super::calls::{Fault, value};
use super::record::Record;
use super::{Assistant, State};
use crate::models::{ModelRequest, ModelUsage, Progress};

impl Assistant {
    pub(super) async fn ask_model(
        self: &Arc<Self>,
        key: String,
        request: LlmRequest,
    ) -> Result<Value, Fault> {
        let (cancel, thoughts, left) = {
            let state = self.state.lock().await;
            if let Some(known) = state.dialogue.answer_to(&key) {
                return reply(known);
            }
            self.within_budgets(&state)?;
            let left = self.limits.turn.saturating_sub(state.began.elapsed());
            (self.cancel.lock().clone(), state.dialogue.thoughts(), left)
        };
        let tools = self.offered(request.tools.as_deref()).await;
        let asked = ModelRequest { messages: request.messages, tools, thoughts };
        let told = |progress: Progress<'_>| match progress {
            Progress::Writing(text) => drop(self.writing.send_replace(text.to_owned())),
            Progress::Retrying(why) => self.tell(TranscriptKind::Note, why),
        };
        let model = self.spec.model.as_deref();
        let answered = tokio::select! {
            answered = self.models.ask(model, &asked, &told) => answered,
            () = cancel.cancelled() => {
                self.writing.send_replace(String::new());
                return Err(Fault::new(protocol::CANCELLED, "the turn was cancelled"));
            }
            () = tokio::time::sleep(left) => {
                self.writing.send_replace(String::new());
                return Err(self.beyond_budget(&self.turn_too_long()));
            }
        };
        self.writing.send_replace(String::new());
        let answered = match answered {
            Ok(answered) => answered,
            Err(error) => {
                self.tell(TranscriptKind::Note, &error.why);
                self.pay(error.spent).await?;
                return Err(Fault::new(protocol::MODEL_FAILED, error.why));
            }
        };
        if let Some(text) = answered.content.as_deref().filter(|text| !text.trim().is_empty()) {
            self.tell(TranscriptKind::Text, text);
        }
        let record = Record::Model {
            call: key,
            content: answered.content,
            tool_calls: answered.tool_calls,
            thoughts: answered.thoughts,
            usage: tokens(&answered.usage),
            cost_usd: answered.usage.cost_usd.unwrap_or_default(),
        };
        let mut state = self.state.lock().await;
        let answer = reply(&record);
        state.keep(vec![record]).await;
        self.usages.set(self.who, state.dialogue.spent());
        answer
    }

    /// Counts what the model used for no answer.
    async fn pay(&self, spent: ModelUsage) -> Result<(), Fault> {
        if spent.input_tokens + spent.output_tokens == 0 {
            return Ok(());
        }
        let paid =
            Record::Paid { usage: tokens(&spent), cost_usd: spent.cost_usd.unwrap_or_default() };
        let mut state = self.state.lock().await;
        state.keep(vec![paid]).await;
        self.usages.set(self.who, state.dialogue.spent());
        Ok(())
    }

    /// Returns the tools that the model is offered.
    async fn offered(&self, names: Option<&[String]>) -> Vec<ToolSpec> {
        let mut tools = self.tools().await;
        if let Some(names) = names {
            tools.retain(|tool| names.contains(&tool.name));
        }
        tools
    }

    /// Refuses a call beyond a budget, in a sentence that names the setting.
    fn within_budgets(&self, state: &State) -> Result<(), Fault> {
        let (turn, all) = (state.dialogue.spent_in_turn(), state.dialogue.spent());
        let limits = &self.limits;
        let tokens = turn.usage.input_tokens + turn.usage.output_tokens;
        // Summed only for those who want a limit.
        let session = if limits.session_cost_usd > 0.0 { (self.session_cost)() } else { 0.0 };
        let why = if turn.calls >= limits.iterations {
            format!("it asked its model {} times in one turn (runner.iterations)", turn.calls)
        } else if state.began.elapsed() >= limits.turn {
            self.turn_too_long()
        } else if tokens >= limits.turn_tokens {
            format!("its turn used {tokens} tokens (runner.turn_tokens)")
        } else if limits.cost_usd > 0.0 && all.cost_usd >= limits.cost_usd {
            format!("it has cost {:.4} USD (runner.cost_usd)", all.cost_usd)
        } else if limits.session_cost_usd > 0.0 && session >= limits.session_cost_usd {
            format!("its session has cost {session:.4} USD (runner.session_cost_usd)")
        } else {
            return Ok(());
        };
        Err(self.beyond_budget(&why))
    }

    fn turn_too_long(&self) -> String {
        format!("its turn took longer than {} (runner.turn)", format_duration(self.limits.turn))
    }

    fn beyond_budget(&self, why: &str) -> Fault {
        let why = format!("a budget is reached: {why}");
        self.tell(TranscriptKind::Note, &why);
        Fault::new(protocol::BUDGET_REACHED, why)
    }
}

fn tokens(usage: &ModelUsage) -> TokenUsage {
    TokenUsage { input_tokens: usage.input_tokens, output_tokens: usage.output_tokens }
}

fn reply(record: &Record) -> Result<Value, Fault> {
    let Record::Model { content, tool_calls, usage, .. } = record else {
        return Err(Fault::new(protocol::WRONG_PARAMS, "this id was used by another call"));
    };
    value(&LlmReply {
        role: "assistant".to_owned(),
        content: content.clone(),
        tool_calls: tool_calls.clone(),
        usage: usage.clone(),
    })
}
