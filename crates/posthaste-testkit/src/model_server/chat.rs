//! The Chat Completions API, for OpenCode, Copilot CLI and Qwen Code.

use serde_json::{Value, json};

use super::{Answer, Tool, text_of, word};

pub(super) fn tools(request: &Value) -> Vec<Tool> {
    let tools = request["tools"].as_array().into_iter().flatten();
    let functions = tools.map(|tool| &tool["function"]);
    functions.map(|one| Tool::flat(word(&one["name"]), &one["description"])).collect()
}

pub(super) fn results(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().into_iter().flatten();
    let results = messages.filter(|message| message["role"] == "tool");
    results.map(|message| text_of(&message["content"])).collect()
}

pub(super) fn completion(answer: &Answer) -> Value {
    let (message, reason) = match answer {
        Answer::Say(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        Answer::Call(calls) => {
            let calls: Vec<Value> = calls.iter().map(tool_call).collect();
            let message = json!({ "role": "assistant", "content": null, "tool_calls": calls });
            (message, "tool_calls")
        }
    };
    json!({
        "id": format!("chatcmpl-{:016x}", rand::random::<u64>()),
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{ "index": 0, "message": message, "finish_reason": reason }],
        "usage": { "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 },
    })
}

fn tool_call((tool, arguments): &(Tool, Value)) -> Value {
    let function = json!({ "name": tool.full_name(), "arguments": arguments.to_string() });
    let id = format!("call_{:016x}", rand::random::<u64>());
    json!({ "id": id, "type": "function", "function": function })
}

/// Splits a completion into two chunks: the whole message, then the finish reason.
pub(super) fn events(completion: &Value) -> Vec<Value> {
    let chunk = |delta: Value, reason: &Value| {
        let mut chunk = completion.clone();
        chunk["object"] = json!("chat.completion.chunk");
        chunk["choices"] = json!([{ "index": 0, "delta": delta, "finish_reason": reason }]);
        chunk
    };
    let choice = &completion["choices"][0];
    let mut delta = choice["message"].clone();
    let calls = delta["tool_calls"].as_array_mut();
    for (index, call) in calls.into_iter().flatten().enumerate() {
        call["index"] = json!(index);
    }
    vec![chunk(delta, &Value::Null), chunk(json!({}), &choice["finish_reason"])]
}
