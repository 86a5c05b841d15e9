//! Ollama's `/api/chat`.

use serde_json::{Value, json};

use super::Turn;
use super::read::{Asked, Heard, Read, Said, list, object, text};

pub(super) fn read(asked: &Asked<'_>) -> Read<Heard> {
    asked.at("/api/chat")?;
    let body = asked.body;
    if body["stream"] != true {
        return Err("it wants no stream".to_owned());
    }
    let (mut system, mut said) = (String::new(), Vec::new());
    // This format has no ids: results come in the order of the calls.
    let mut open: Vec<String> = Vec::new();
    for (at, message) in list(body, "messages")?.iter().enumerate() {
        let role = text(message, "role")?;
        if role != "tool" && !open.is_empty() {
            return Err(format!("the call of {} has no result", open[0]));
        }
        match role {
            "system" if at == 0 => system = text(message, "content")?.to_owned(),
            "user" => said.push(Said::user(text(message, "content")?)),
            "assistant" => {
                let mut calls = Vec::new();
                for call in list(message, "tool_calls")? {
                    let function = object(call, "function")?;
                    let name = text(function, "name")?.to_owned();
                    open.push(name.clone());
                    calls.push((name, object(function, "arguments")?.clone()));
                }
                let text = message["content"].as_str().unwrap_or_default().to_owned();
                said.push(Said::Assistant { text, calls });
            }
            "tool" if !open.is_empty() => {
                let (tool, text) = (open.remove(0), text(message, "content")?.to_owned());
                said.push(Said::Result { tool, text });
            }
            other => return Err(format!("message {at} has the role {other}")),
        }
    }
    if !open.is_empty() {
        return Err("a call has no result".to_owned());
    }
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
        max_tokens: body["options"]["num_predict"].as_u64(),
    })
}

pub(super) fn stream(turn: &Turn) -> Vec<String> {
    let line = |message: Value| json!({ "model": "m", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false });
    let said = |text: &str| json!({ "role": "assistant", "content": text });
    let mut all: Vec<Value> = turn.text.iter().map(|piece| line(said(piece))).collect();
    if !turn.calls.is_empty() {
        let call = |call: &super::Call| {
            let with = serde_json::from_str(&call.arguments).unwrap_or(json!(call.arguments));
            let mut called = json!({ "function": { "name": call.name, "arguments": with } });
            if let Some(id) = &call.id {
                called["id"] = json!(id);
            }
            called
        };
        let mut message = said("");
        message["tool_calls"] = turn.calls.iter().map(call).collect();
        all.push(line(message));
    }
    let (usage, mut last) = (turn.usage, line(said("")));
    last["done"] = json!(true);
    last["done_reason"] = json!(turn.finish.as_deref().unwrap_or("stop"));
    last["prompt_eval_count"] = json!(usage.input);
    last["prompt_eval_cached_count"] = json!(usage.cached);
    last["eval_count"] = json!(usage.output);
    all.push(last);
    all.iter().map(|line| format!("{line}\n")).collect()
}

pub(super) fn error(message: &str) -> Value {
    json!({ "error": message })
}
