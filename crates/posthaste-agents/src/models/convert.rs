//! Our conversation in genai's words, and its answers in ours.

use std::collections::HashMap;

use genai::chat::{
    ChatMessage as Said, ChatRequest, ContentPart, MessageContent, StreamEnd, Tool,
    ToolCall as Called, ToolResponse,
};
use posthaste_runner::protocol::{ChatMessage, ToolCall};
use serde_json::{Map, Value};

use super::{ModelReply, ModelRequest, ModelUsage, Price};

/// Stands for arguments that are no JSON object, so that the model can be told.
const UNREADABLE: &str = "_unreadable";
const MILLION: f64 = 1_000_000.0;

pub(super) fn request(request: &ModelRequest) -> ChatRequest {
    // Some providers want the name of the tool beside its result.
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut systems: Vec<&str> = Vec::new();
    let mut said: Vec<Said> = Vec::new();
    for message in &request.messages {
        match message {
            ChatMessage::System { content } => systems.push(content),
            ChatMessage::User { content } => said.push(Said::user(content.clone())),
            ChatMessage::Assistant { content, tool_calls } => {
                let mut parts: Vec<ContentPart> = Vec::new();
                if let Some(text) = content.as_deref().filter(|text| !text.is_empty()) {
                    parts.push(ContentPart::Text(text.to_owned()));
                }
                for call in tool_calls {
                    names.insert(&call.id, &call.name);
                    parts.push(ContentPart::ToolCall(Called {
                        call_id: call.id.clone(),
                        fn_name: call.name.clone(),
                        fn_arguments: Value::Object(call.arguments.clone()),
                        thought_signatures: None,
                    }));
                }
                if !parts.is_empty() {
                    said.push(Said::assistant(MessageContent::from_parts(parts)));
                }
            }
            ChatMessage::Tool { tool_call_id, content } => {
                let mut result = ToolResponse::new(tool_call_id.clone(), content.clone());
                if let Some(name) = names.get(tool_call_id.as_str()) {
                    result = result.with_fn_name(*name);
                }
                said.push(Said::from(result));
            }
        }
    }
    let tools: Vec<Tool> = request
        .tools
        .iter()
        .map(|tool| {
            Tool::new(tool.name.clone())
                .with_description(tool.description.clone())
                .with_schema(tool.input_schema.clone())
        })
        .collect();
    let mut asked = ChatRequest::new(said);
    if !systems.is_empty() {
        asked = asked.with_system(systems.join("\n\n"));
    }
    match tools.is_empty() {
        true => asked,
        false => asked.with_tools(tools),
    }
}

pub(super) fn reply(end: StreamEnd, price: Option<&Price>) -> Result<ModelReply, String> {
    let usage = end.captured_usage.clone().unwrap_or_default();
    let tokens = |count: Option<i32>| u64::try_from(count.unwrap_or_default()).unwrap_or_default();
    let (input, output) = (tokens(usage.prompt_tokens), tokens(usage.completion_tokens));
    let cached = usage.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens);
    let cached = tokens(cached).min(input);
    let cost_usd = price.map(|price| {
        let of_cached = price.cached_input.unwrap_or(price.input);
        ((input - cached) as f64 * price.input
            + cached as f64 * of_cached
            + output as f64 * price.output)
            / MILLION
    });
    let parts = end.captured_content.map(MessageContent::into_parts).unwrap_or_default();
    let (mut text, mut tool_calls) = (String::new(), Vec::new());
    for part in parts {
        match part {
            ContentPart::Text(more) => text.push_str(&more),
            ContentPart::ToolCall(call) => tool_calls.push(read_call(call)?),
            _ => {}
        }
    }
    // A provider may leave ids out, or give the same one twice.
    for (number, at) in (0..tool_calls.len()).enumerate() {
        let id = tool_calls[at].id.clone();
        if id.is_empty() || tool_calls[..at].iter().any(|call: &ToolCall| call.id == id) {
            tool_calls[at].id = format!("call_{:08x}_{number}", rand::random::<u32>());
        }
    }
    let content = Some(text).filter(|text| !text.is_empty());
    let usage = ModelUsage { input_tokens: input, output_tokens: output, cost_usd };
    Ok(ModelReply { content, tool_calls, usage })
}

fn read_call(call: Called) -> Result<ToolCall, String> {
    if call.fn_name.is_empty() {
        return Err("it called a tool without a name".to_owned());
    }
    let arguments = match call.fn_arguments {
        Value::Object(arguments) => arguments,
        Value::Null => Map::new(),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(arguments)) => arguments,
            _ if text.trim().is_empty() => Map::new(),
            _ => Map::from_iter([(UNREADABLE.to_owned(), Value::String(text))]),
        },
        other => Map::from_iter([(UNREADABLE.to_owned(), Value::String(other.to_string()))]),
    };
    Ok(ToolCall { id: call.call_id, name: call.fn_name, arguments })
}
