//! The loop of an assistant.
//!
//! A turn asks the model, runs the tools that it calls, and looks into the inbox after each
//! round of tools and before an answer leaves, so that no message waits for the end. An
//! answer that a message overtakes is shown as a partial one, and the turn goes on.

use std::io::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::conversation::{self, LOST, is_empty, mend};
use crate::error::RunnerError;
use crate::fit::{fit, is_mail};
use crate::hub::{Answer, Hub};
use crate::prompt;
use crate::protocol::{
    CANCELLED, ChatMessage, Drained, EventNotice, Finish, Finished, LlmReply, LlmRequest, OfThread,
    ServiceContext, Start, ToolCall, ToolReply, ToolRequest,
};

/// The argument in which the hub hands on what a model wrote instead of a JSON object.
const UNREADABLE: &str = "_unreadable";

pub(crate) struct Agent<W> {
    hub: Hub<W>,
    system_prompt: String,
    context_chars: usize,
    stay: bool,
    turn_open: bool,
    conversation: Vec<ChatMessage>,
    /// The place of the model's last answer in the conversation: it has not seen what
    /// follows.
    last_round: usize,
}

/// The end of a turn without an answer.
enum Halt {
    Cancelled,
    Failed(String),
    /// The runner cannot go on at all.
    Dead(RunnerError),
}

impl From<RunnerError> for Halt {
    fn from(error: RunnerError) -> Self {
        Self::Dead(error)
    }
}

impl<W: Write> Agent<W> {
    pub(crate) fn new(hub: Hub<W>, start: Start) -> Self {
        let conversation = mend(start.conversation, LOST);
        let answers = |at: &usize| {
            let message = &conversation[*at];
            matches!(message, ChatMessage::Assistant { .. }) && !is_mail(message)
        };
        let last_round = (0..conversation.len()).rev().find(answers);
        let last_round = last_round.unwrap_or(conversation.len());
        Self {
            hub,
            system_prompt: start.profile.system_prompt,
            context_chars: start.limits.context_chars,
            stay: start.stay,
            turn_open: start.turn_open,
            conversation,
            last_round,
        }
    }

    /// Works until there is nothing more to do or the hub ends the runner.
    pub(crate) fn live(mut self) -> Result<(), RunnerError> {
        loop {
            if self.turn_open {
                self.turn()?;
                if !self.stay {
                    return Ok(());
                }
            }
            if !self.hub.wait_for_mail()? {
                return Ok(());
            }
            self.turn_open = match self.drain() {
                Ok(came) => came,
                // To the hub the turn had begun with the mail.
                Err(halt) => {
                    self.give_up(halt)?;
                    if !self.stay {
                        return Ok(());
                    }
                    false
                }
            };
        }
    }

    /// Works off one turn and tells the hub how it ended.
    fn turn(&mut self) -> Result<(), RunnerError> {
        self.work().or_else(|halt| self.give_up(halt))
    }

    /// Tells the hub that the turn ends without an answer.
    fn give_up(&mut self, halt: Halt) -> Result<(), RunnerError> {
        let mut end = Finish { thread_id: self.hub.thread_id(), ..Finish::default() };
        match halt {
            Halt::Dead(error) => return Err(error),
            Halt::Cancelled => {
                let torn = std::mem::take(&mut self.conversation);
                self.conversation = mend(torn, conversation::CANCELLED);
                end.cancelled = true;
            }
            Halt::Failed(reason) => end.failed = Some(reason),
        }
        // The next turn may be without the messages of this one.
        self.last_round = self.conversation.len();
        let mut told: Answer<Finished> = self.hub.call("on_finish", &end)?;
        if told.is_err() {
            told = self.hub.call("on_finish", &end)?;
        }
        match told {
            Ok(told) => self.conversation.extend(told.messages),
            Err(error) => {
                return Err(RunnerError::Refused { method: "on_finish", message: error.message });
            }
        }
        Ok(())
    }

    /// Works until the hub accepts an answer as the end of the turn.
    fn work(&mut self) -> Result<(), Halt> {
        loop {
            let reply = self.ask_model()?;
            self.last_round = self.conversation.len();
            let (content, tool_calls) = (reply.content, reply.tool_calls);
            let said = content.clone().unwrap_or_default();
            let calls = tool_calls.clone();
            let answer = ChatMessage::Assistant { content, tool_calls };
            if !is_empty(&answer) {
                self.conversation.push(answer);
            }
            if !calls.is_empty() {
                for call in calls {
                    self.use_tool(call)?;
                }
                self.drain()?;
                continue;
            }
            if self.drain()? {
                self.show(said)?;
                continue;
            }
            let thread_id = self.hub.thread_id();
            let end = Finish { thread_id, result: Some(said), ..Finish::default() };
            let told: Finished = self.insist("on_finish", &end)?;
            // A refusal that brings nothing leaves nothing to go on with.
            let is_over = told.accepted || told.messages.is_empty();
            self.conversation.extend(told.messages);
            if is_over {
                return Ok(());
            }
        }
    }

    fn ask_model(&mut self) -> Result<LlmReply, Halt> {
        let of = OfThread { thread_id: self.hub.thread_id() };
        // The model can do without the context.
        let context: Answer<ServiceContext> = self.call("on_aggregate_service_context", &of)?;
        let context = context.ok().map(|context| context.context_prompt);
        let content = prompt::system(&self.system_prompt, context.as_deref());
        let mut messages = Vec::with_capacity(1 + self.conversation.len());
        messages.push(ChatMessage::System { content });
        messages.extend_from_slice(&self.conversation);
        let messages = fit(&messages, self.context_chars, 1 + self.last_round);
        let request = LlmRequest { thread_id: of.thread_id, messages, tools: None };
        let reply = self.call("on_llm_request", &request)?;
        reply.map_err(|error| Halt::Failed(error.message))
    }

    /// Calls one tool. A call that fails has a result, too, for the model to read.
    fn use_tool(&mut self, call: ToolCall) -> Result<(), Halt> {
        let ToolCall { id, name, arguments } = call;
        let content = if arguments.contains_key(UNREADABLE) {
            format!("the arguments were no JSON object; call {name} again with a JSON object")
        } else {
            let request = ToolRequest {
                thread_id: self.hub.thread_id(),
                tool_name: name,
                arguments,
                tool_call_id: id.clone(),
            };
            match self.call::<ToolReply>("on_tool_call", &request)? {
                Ok(reply) => reply.text(),
                Err(error) => error.message,
            }
        };
        self.conversation.push(ChatMessage::Tool { tool_call_id: id, content });
        Ok(())
    }

    /// Takes over all that waits in the inbox, and returns whether there was anything.
    fn drain(&mut self) -> Result<bool, Halt> {
        self.hub.looks();
        let of = OfThread { thread_id: self.hub.thread_id() };
        let Drained { messages } = self.insist("on_inbox_drain", &of)?;
        let came = !messages.is_empty();
        self.conversation.extend(messages);
        Ok(came)
    }

    /// Shows the user an answer while the work goes on. It stays in the conversation, so
    /// that the work also goes on if it cannot be shown.
    fn show(&mut self, message: String) -> Result<(), Halt> {
        if message.trim().is_empty() {
            return Ok(());
        }
        let thread_id = self.hub.thread_id();
        let event = EventNotice { thread_id, kind: "partial_response".to_owned(), message };
        let shown: Answer<serde_json::Value> = self.call("on_event", &event)?;
        if shown.is_err() {
            let _: Answer<serde_json::Value> = self.call("on_event", &event)?;
        }
        Ok(())
    }

    /// Calls the hub, unless the turn is cancelled.
    fn call<R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<Answer<R>, Halt> {
        if self.hub.is_cancelled()? {
            return Err(Halt::Cancelled);
        }
        match self.hub.call(method, params)? {
            Err(error) if error.code == CANCELLED => Err(Halt::Cancelled),
            answer => Ok(answer),
        }
    }

    /// Makes a call without which there is no next step: once more if it fails, and then
    /// the runner ends.
    fn insist<R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<R, Halt> {
        if let Ok(answer) = self.call(method, params)? {
            return Ok(answer);
        }
        self.call(method, params)?
            .map_err(|error| RunnerError::Refused { method, message: error.message }.into())
    }
}
