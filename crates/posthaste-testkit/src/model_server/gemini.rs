//! The `generateContent` API, for Gemini CLI.

use serde_json::{Value, json};

use super::{Answer, Tool, word};

pub(super) fn tools(request: &Value) -> Vec<Tool> {
    let tools = request["tools"].as_array().into_iter().flatten();
    let all = tools.flat_map(|tool| tool["functionDeclarations"].as_array().into_iter().flatten());
    all.map(|one| Tool::flat(word(&one["name"]), &one["description"])).collect()
}

pub(super) fn results(request: &Value) -> Vec<String> {
    let contents = request["contents"].as_array().into_iter().flatten();
    let parts = contents.flat_map(|content| content["parts"].as_array().into_iter().flatten());
    let results = parts.filter_map(|part| part.get("functionResponse"));
    results.map(|result| text(&result["response"])).collect()
}

/// Returns the result of a tool, which stands under a key of the agent program's choice.
fn text(response: &Value) -> String {
    let given = ["output", "error"].iter().find_map(|key| response[key].as_str());
    given.map_or_else(|| response.to_string(), str::to_owned)
}

pub(super) fn response(answer: &Answer) -> Value {
    let parts: Vec<Value> = match answer {
        Answer::Say(text) => vec![json!({ "text": text })],
        Answer::Call(calls) => calls.iter().map(function_call).collect(),
    };
    json!({
        "candidates": [{
            "index": 0,
            "content": { "role": "model", "parts": parts },
            "finishReason": "STOP",
        }],
        "usageMetadata": {
            "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2,
        },
        "modelVersion": "scripted",
    })
}

fn function_call((tool, arguments): &(Tool, Value)) -> Value {
    let id = format!("{:016x}", rand::random::<u64>());
    json!({ "functionCall": { "id": id, "name": tool.full_name(), "args": arguments } })
}
