//! OpenAI's Responses API, for Codex.

use serde_json::{Value, json};

use super::{Answer, Tool, text_of, word};

/// Lists the tools. The tools of an MCP server stand together under one namespace.
pub(super) fn tools(request: &Value) -> Vec<Tool> {
    let mut tools = Vec::new();
    for tool in request["tools"].as_array().into_iter().flatten() {
        let inner = tool["tools"].as_array();
        for one in inner.into_iter().flatten() {
            let mut found = Tool::new(word(&one["name"]), &one["description"]);
            found.server = word(&tool["name"]).to_owned();
            tools.push(found);
        }
        if inner.is_none() {
            tools.push(Tool::new(word(&tool["name"]), &tool["description"]));
        }
    }
    tools
}

pub(super) fn results(request: &Value) -> Vec<String> {
    let items = request["input"].as_array().into_iter().flatten();
    let outputs = items.filter(|item| item["type"] == "function_call_output");
    outputs.map(|item| text_of(&item["output"])).collect()
}

pub(super) fn response(answer: &Answer) -> Value {
    let output = match answer {
        Answer::Say(text) => {
            let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
            let id = format!("msg_{:016x}", rand::random::<u64>());
            vec![json!({
                "type": "message", "id": id, "role": "assistant",
                "status": "completed", "content": content,
            })]
        }
        Answer::Call(calls) => calls.iter().map(function_call).collect(),
    };
    json!({
        "id": format!("resp_{:016x}", rand::random::<u64>()),
        "object": "response",
        "status": "completed",
        "model": "scripted",
        "output": output,
        "usage": {
            "input_tokens": 1, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": 1, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": 2,
        },
    })
}

fn function_call((tool, arguments): &(Tool, Value)) -> Value {
    let id = rand::random::<u64>();
    let mut call = json!({
        "type": "function_call",
        "id": format!("fc_{id:016x}"),
        "call_id": format!("call_{id:016x}"),
        "name": tool.name,
        "arguments": arguments.to_string(),
        "status": "completed",
    });
    if !tool.server.is_empty() {
        call["namespace"] = json!(tool.server);
    }
    call
}

pub(super) fn events(response: &Value) -> Vec<Value> {
    let mut begun = response.clone();
    begun["status"] = json!("in_progress");
    begun["output"] = json!([]);
    let mut events = vec![json!({ "type": "response.created", "response": begun })];
    for (index, item) in response["output"].as_array().into_iter().flatten().enumerate() {
        let event = |kind: &str| json!({ "type": kind, "output_index": index, "item": item });
        events.push(event("response.output_item.added"));
        events.push(event("response.output_item.done"));
    }
    events.push(json!({ "type": "response.completed", "response": response }));
    events
}
