//! Contents, as Gemini CLI asks for them.

use serde_json::{Value, json};

use super::{Answer, Tool, word};

/// The model's part of a path: `/v1beta/models/NAME:streamGenerateContent`.
pub(super) fn asks(path: &str) -> Option<bool> {
    let (_, verb) = path.strip_prefix("/v1beta/models/")?.rsplit_once(':')?;
    match verb {
        "streamGenerateContent" => Some(true),
        "generateContent" => Some(false),
        _ => None,
    }
}

pub(super) fn tools(request: &Value) -> Vec<Tool> {
    let groups = request["tools"].as_array().into_iter().flatten();
    let tools = groups.flat_map(|group| group["functionDeclarations"].as_array());
    tools.flatten().map(|tool| named(word(&tool["name"]), &tool["description"])).collect()
}

/// Splits `mcp_hub_check_inbox`; a tool of the program's own has no server.
fn named(full_name: &str, description: &Value) -> Tool {
    let mut tool = Tool::new(full_name, description);
    let of_server = full_name.strip_prefix("mcp_").and_then(|rest| rest.split_once('_'));
    if let Some((server, name)) = of_server {
        (tool.server, tool.name) = (format!("mcp_{server}"), name.to_owned());
    }
    tool
}

pub(super) fn results(request: &Value) -> Vec<String> {
    let contents = request["contents"].as_array().into_iter().flatten();
    let parts = contents.flat_map(|content| content["parts"].as_array().into_iter().flatten());
    let results = parts.filter_map(|part| part.get("functionResponse"));
    results.map(|result| word(&result["response"]["output"]).to_owned()).collect()
}

pub(super) fn response(answer: &Answer) -> Value {
    let parts = match answer {
        Answer::Say(text) => vec![json!({ "text": text })],
        Answer::Call(calls) => calls.iter().map(function_call).collect(),
    };
    json!({
        "candidates": [{
            "content": { "role": "model", "parts": parts },
            "finishReason": "STOP",
            "index": 0,
        }],
        "usageMetadata": {
            "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2,
        },
        "modelVersion": "scripted",
        "responseId": format!("{:016x}", rand::random::<u64>()),
    })
}

fn function_call((tool, arguments): &(Tool, Value)) -> Value {
    let name = match tool.server.as_str() {
        "" => tool.name.clone(),
        server => format!("{server}_{}", tool.name),
    };
    json!({ "functionCall": { "name": name, "args": arguments } })
}
