//! OpenAI's Chat Completions.

use serde_json::{Value, json};

use super::Turn;
use super::read::{Asked, Heard, Open, Read, Said, list, object, text};

pub(super) fn read(asked: &Asked<'_>) -> Read<Heard> {
    asked.at("/v1/chat/completions")?;
    let body = asked.body;
    if body["stream"] != true || body["stream_options"]["include_usage"] != true {
        return Err("it wants no stream with its usage".to_owned());
    }
    let (mut system, mut said, mut open) = (String::new(), Vec::new(), Open::default());
    for (at, message) in list(body, "messages")?.iter().enumerate() {
        let role = text(message, "role")?;
        if role != "tool" {
            open.none()?;
        }
        match role {
            "system" if at == 0 => system = text(message, "content")?.to_owned(),
            "user" => said.push(Said::user(text(message, "content")?)),
            "assistant" => {
                let mut calls = Vec::new();
                for call in list(message, "tool_calls")? {
                    let function = object(call, "function")?;
                    if text(call, "type")? != "function" {
                        return Err("a call is no function".to_owned());
                    }
                    let name = text(function, "name")?;
                    let with = serde_json::from_str(text(function, "arguments")?);
                    open.call(text(call, "id")?, name)?;
                    calls.push((name.to_owned(), with.map_err(|error| error.to_string())?));
                }
                if let Some(thought) = message["reasoning_content"].as_str() {
                    said.push(Said::Thought(thought.to_owned()));
                }
                let text = message["content"].as_str().unwrap_or_default().to_owned();
                said.push(Said::Assistant { text, calls });
            }
            "tool" => {
                let tool = open.result(text(message, "tool_call_id")?)?;
                said.push(Said::Result { tool, text: text(message, "content")?.to_owned() });
            }
            other => return Err(format!("message {at} has the role {other}")),
        }
    }
    open.none()?;
    let tool = |tool: &Value| {
        let function = object(tool, "function")?;
        let (name, about) = (text(function, "name")?, text(function, "description")?);
        Ok((name.to_owned(), about.to_owned(), object(function, "parameters")?.clone()))
    };
    Ok(Heard {
        model: text(body, "model")?.to_owned(),
        has_key: asked.key("authorization", "Bearer ")?,
        system,
        said,
        tools: list(body, "tools")?.iter().map(tool).collect::<Read<_>>()?,
        max_tokens: body["max_tokens"].as_u64(),
    })
}

pub(super) fn stream(turn: &Turn) -> Vec<String> {
    let chunk = |delta: Value, reason: Value| {
        json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }],
            "usage": null,
        })
    };
    let mut all = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    if let Some((thought, _)) = &turn.thought {
        all.push(chunk(json!({ "reasoning_content": thought }), Value::Null));
    }
    for piece in &turn.text {
        all.push(chunk(json!({ "content": piece }), Value::Null));
    }
    for (index, call) in turn.calls.iter().enumerate() {
        let mut first = json!({
            "index": index, "type": "function",
            "function": { "name": call.name, "arguments": "" },
        });
        if let Some(id) = &call.id {
            first["id"] = json!(id);
        }
        all.push(chunk(json!({ "tool_calls": [first] }), Value::Null));
        // The arguments come in two halves, cut at a character.
        let middle = call.arguments.char_indices().nth(call.arguments.chars().count() / 2);
        let (a, b) = call.arguments.split_at(middle.map_or(0, |(at, _)| at));
        for half in [a, b] {
            let more = json!([{ "index": index, "function": { "arguments": half } }]);
            all.push(chunk(json!({ "tool_calls": more }), Value::Null));
        }
    }
    let usual = if turn.calls.is_empty() { "stop" } else { "tool_calls" };
    let reason = turn.finish.as_deref().unwrap_or(usual);
    all.push(chunk(json!({}), json!(reason)));
    let usage = turn.usage;
    all.push(json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [],
        "usage": {
            "prompt_tokens": usage.input, "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": { "cached_tokens": usage.cached },
        },
    }));
    let mut events: Vec<String> = all.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    events.push("data: [DONE]\n\n".to_owned());
    events
}

pub(super) fn error(message: &str) -> Value {
    json!({ "error": { "message": message, "type": "some_error", "code": null } })
}
