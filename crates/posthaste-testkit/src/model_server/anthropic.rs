//! Anthropic's Messages API, for Claude Code.

use serde_json::{Value, json};

use super::{Answer, Tool, text_of, word};

pub(super) fn tools(request: &Value) -> Vec<Tool> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.map(|tool| Tool::new(word(&tool["name"]), &tool["description"])).collect()
}

pub(super) fn results(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().into_iter().flatten();
    let blocks = messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| text_of(&block["content"])).collect()
}

pub(super) fn message(answer: &Answer) -> Value {
    let (content, stop_reason) = match answer {
        Answer::Say(text) => (vec![json!({ "type": "text", "text": text })], "end_turn"),
        Answer::Call(calls) => (calls.iter().map(tool_use).collect(), "tool_use"),
    };
    json!({
        "id": format!("msg_{:016x}", rand::random::<u64>()),
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": { "input_tokens": 1, "output_tokens": 1 },
    })
}

fn tool_use((tool, input): &(Tool, Value)) -> Value {
    let name = match tool.server.as_str() {
        "" => tool.name.clone(),
        server => format!("{server}__{}", tool.name),
    };
    let id = format!("toolu_{:016x}", rand::random::<u64>());
    json!({ "type": "tool_use", "id": id, "name": name, "input": input })
}

/// Splits a message into the events of a stream: a block begins empty and is filled by one
/// delta.
pub(super) fn events(message: &Value) -> Vec<Value> {
    let mut begun = message.clone();
    begun["content"] = json!([]);
    begun["stop_reason"] = Value::Null;
    let mut events = vec![json!({ "type": "message_start", "message": begun })];
    for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
        let mut empty = block.clone();
        let delta = if block["type"] == "text" {
            empty["text"] = json!("");
            json!({ "type": "text_delta", "text": block["text"] })
        } else {
            empty["input"] = json!({});
            json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() })
        };
        events
            .push(json!({ "type": "content_block_start", "index": index, "content_block": empty }));
        events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let end = json!({ "stop_reason": message["stop_reason"], "stop_sequence": null });
    let usage = json!({ "output_tokens": 1 });
    events.push(json!({ "type": "message_delta", "delta": end, "usage": usage }));
    events.push(json!({ "type": "message_stop" }));
    events
}
