//! Anthropic's Messages.

use serde_json::{Value, json};

use super::Turn;
use super::read::{Asked, Heard, Open, Read, Said, list, object, text};

pub(super) fn read(asked: &Asked<'_>) -> Read<Heard> {
    asked.at("/v1/messages")?;
    let body = asked.body;
    if body["stream"] != true || !asked.headers.contains_key("anthropic-version") {
        return Err("it wants no stream, or names no version".to_owned());
    }
    let max_tokens = body["max_tokens"].as_u64().ok_or("max_tokens is missing")?;
    let (mut said, mut open) = (Vec::new(), Open::default());
    for (at, message) in list(body, "messages")?.iter().enumerate() {
        let role = text(message, "role")?;
        if at == 0 && role != "user" {
            return Err("the first message is not the user's".to_owned());
        }
        let plain = [json!({ "type": "text", "text": message["content"] })];
        let blocks = match &message["content"] {
            Value::Array(blocks) => blocks.as_slice(),
            _ => &plain,
        };
        let (mut texts, mut calls) = (Vec::new(), Vec::new());
        for block in blocks {
            match (role, text(block, "type")?) {
                ("assistant", "thinking") if texts.is_empty() && calls.is_empty() => {
                    text(block, "thinking")?;
                    said.push(Said::Thought(text(block, "signature")?.to_owned()));
                }
                ("user" | "assistant", "text") => texts.push(text(block, "text")?.to_owned()),
                ("assistant", "tool_use") => {
                    let (id, name) = (text(block, "id")?, text(block, "name")?);
                    open.call(id, name)?;
                    calls.push((name.to_owned(), object(block, "input")?.clone()));
                }
                ("user", "tool_result") => {
                    let tool = open.result(text(block, "tool_use_id")?)?;
                    said.push(Said::Result { tool, text: text(block, "content")?.to_owned() });
                }
                (role, kind) => return Err(format!("a {kind} of {role}")),
            }
        }
        match role {
            "assistant" => {
                said.push(Said::Assistant { text: texts.join("\n\n"), calls });
            }
            _ => {
                // All results of a turn stand in the next message.
                open.none()?;
                said.extend(texts.iter().map(|text| Said::user(text)));
            }
        }
    }
    open.none()?;
    let tool = |tool: &Value| {
        let (name, about) = (text(tool, "name")?, text(tool, "description")?);
        Ok((name.to_owned(), about.to_owned(), object(tool, "input_schema")?.clone()))
    };
    let system = match &body["system"] {
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        plain => plain.as_str().unwrap_or_default().to_owned(),
    };
    Ok(Heard {
        model: text(body, "model")?.to_owned(),
        has_key: asked.key("x-api-key", "")?,
        system,
        said,
        tools: list(body, "tools")?.iter().map(tool).collect::<Read<_>>()?,
        max_tokens: Some(max_tokens),
    })
}

pub(super) fn stream(turn: &Turn) -> Vec<String> {
    let usage = turn.usage;
    // This format counts cached tokens beside the others.
    let used = json!({
        "input_tokens": usage.input - usage.cached,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": usage.cached,
        "output_tokens": 1,
    });
    let mut all = vec![
        json!({ "type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": used,
        } }),
        json!({ "type": "ping" }),
    ];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        let mut events =
            vec![json!({ "type": "content_block_start", "index": index, "content_block": start })];
        events.extend(
            deltas.into_iter().map(
                |delta| json!({ "type": "content_block_delta", "index": index, "delta": delta }),
            ),
        );
        events.push(json!({ "type": "content_block_stop", "index": index }));
        index += 1;
        events
    };
    if let Some((thought, signature)) = &turn.thought {
        let start = json!({ "type": "thinking", "thinking": "", "signature": "" });
        let deltas = vec![
            json!({ "type": "thinking_delta", "thinking": thought }),
            json!({ "type": "signature_delta", "signature": signature }),
        ];
        all.extend(block(start, deltas));
    }
    if !turn.text.is_empty() {
        let delta = |piece: &String| json!({ "type": "text_delta", "text": piece });
        let deltas = turn.text.iter().map(delta).collect();
        all.extend(block(json!({ "type": "text", "text": "" }), deltas));
    }
    for call in &turn.calls {
        let start = json!({
            "type": "tool_use", "id": call.id.as_deref().unwrap_or(""), "name": call.name,
            "input": {},
        });
        let delta = json!({ "type": "input_json_delta", "partial_json": call.arguments });
        all.extend(block(start, vec![delta]));
    }
    let usual = if turn.calls.is_empty() { "end_turn" } else { "tool_use" };
    let reason = turn.finish.as_deref().unwrap_or(usual);
    all.push(json!({
        "type": "message_delta",
        "delta": { "stop_reason": reason, "stop_sequence": null },
        "usage": { "output_tokens": usage.output },
    }));
    all.push(json!({ "type": "message_stop" }));
    let line = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    all.iter().map(line).collect()
}

pub(super) fn error(message: &str) -> Value {
    json!({ "type": "error", "error": { "type": "some_error", "message": message } })
}
