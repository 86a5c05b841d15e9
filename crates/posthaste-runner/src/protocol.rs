//! The words of the protocol between a hub and a runner.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The first letters of the ids of calls that bring mail of other agents.
pub const MAIL: &str = "mail_";

/// The model cannot be used.
pub const MODEL_FAILED: i64 = -32001;
/// A budget of the turn or of the instance is reached.
pub const BUDGET_REACHED: i64 = -32002;
/// The turn was cancelled.
pub const CANCELLED: i64 = -32003;
/// A line that is no JSON.
pub const NO_JSON: i64 = -32700;
/// JSON that is no request.
pub const NO_REQUEST: i64 = -32600;
pub const UNKNOWN_METHOD: i64 = -32601;
/// Wrong parameters, or the thread of somebody else.
pub const WRONG_PARAMS: i64 = -32602;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum ChatMessage {
    System {
        content: String,
    },
    User {
        content: String,
    },
    Assistant {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    Tool {
        tool_call_id: String,
        content: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub input_schema: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenUsage {
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
}

/// The parameters of `start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    pub thread_id: String,
    pub instance: String,
    pub address: String,
    pub profile: ProfileView,
    #[serde(default)]
    pub conversation: Vec<ChatMessage>,
    #[serde(default)]
    pub turn_open: bool,
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    pub limits: RunnerLimits,
    #[serde(default)]
    pub stay: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileView {
    pub name: String,
    pub system_prompt: String,
    #[serde(default)]
    pub model: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunnerLimits {
    pub context_chars: usize,
}

/// The parameters of `inbox` and `cancel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    pub thread_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The parameters of `on_llm_request`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LlmRequest {
    pub thread_id: String,
    pub messages: Vec<ChatMessage>,
    /// The names of the tools that the model may call; all of them if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}

/// The result of `on_llm_request`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LlmReply {
    /// Always `assistant`.
    pub role: String,
    #[serde(default)]
    pub content: Option<String>,
    #[serde(default)]
    pub tool_calls: Vec<ToolCall>,
    #[serde(default)]
    pub usage: TokenUsage,
}

/// The parameters of `on_tool_call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolRequest {
    pub thread_id: String,
    pub tool_name: String,
    #[serde(default)]
    pub arguments: Map<String, Value>,
    #[serde(default)]
    pub tool_call_id: String,
}

/// The result of `on_tool_call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolReply {
    pub content: Vec<TextBlock>,
    #[serde(rename = "isError", default)]
    pub is_error: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextBlock {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub text: String,
}

impl ToolReply {
    pub fn of(text: impl Into<String>, is_error: bool) -> Self {
        Self { content: vec![TextBlock { kind: "text".to_owned(), text: text.into() }], is_error }
    }

    /// Returns the text of all blocks.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().map(|block| block.text.as_str()).collect();
        texts.join("\n")
    }
}

/// The parameters of `on_aggregate_service_context` and `on_inbox_drain`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfThread {
    pub thread_id: String,
}

/// The result of `on_aggregate_service_context`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceContext {
    pub context_prompt: String,
    #[serde(default)]
    pub structured_state: Value,
}

/// The result of `on_inbox_drain`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Drained {
    #[serde(default)]
    pub messages: Vec<ChatMessage>,
}

/// The parameters of `on_event`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventNotice {
    pub thread_id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub message: String,
}

/// The parameters of `on_finish`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Finish {
    pub thread_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The reason why the turn ended without a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
}

/// The result of `on_finish`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    pub accepted: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<ChatMessage>,
}
