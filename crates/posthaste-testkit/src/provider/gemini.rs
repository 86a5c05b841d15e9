//! Gemini's `streamGenerateContent`.

use serde_json::{Value, json};

use super::Turn;
use super::read::{Asked, Heard, Open, Read, Said, list, object, text};

pub(super) fn read(asked: &Asked<'_>) -> Read<Heard> {
    let model = asked
        .path
        .strip_prefix("/v1beta/models/")
        .and_then(|rest| rest.strip_suffix(":streamGenerateContent?alt=sse"))
        .ok_or_else(|| format!("the path is {}", asked.path))?;
    let body = asked.body;
    let (mut said, mut open, mut before) = (Vec::new(), Open::default(), "");
    for content in list(body, "contents")? {
        let role = text(content, "role")?;
        let (mut texts, mut calls) = (Vec::new(), Vec::new());
        let mut results = 0;
        for part in list(content, "parts")? {
            match (role, part) {
                ("user" | "model", part) if part["text"].is_string() => {
                    texts.push(text(part, "text")?.to_owned());
                }
                ("model", part) if part["functionCall"].is_object() => {
                    let call = &part["functionCall"];
                    let name = text(call, "name")?;
                    if before != "user" {
                        return Err("a call comes right after a turn of the user".to_owned());
                    }
                    open.call(call["id"].as_str().unwrap_or(name), name)?;
                    if let Some(signature) = part["thoughtSignature"].as_str() {
                        said.push(Said::Thought(signature.to_owned()));
                    }
                    calls.push((name.to_owned(), object(call, "args")?.clone()));
                }
                ("user", part) if part["functionResponse"].is_object() => {
                    let result = &part["functionResponse"];
                    let name = text(result, "name")?;
                    let tool = open.result(result["id"].as_str().unwrap_or(name))?;
                    if tool != name {
                        return Err(format!("the result of {tool} names {name}"));
                    }
                    let given = object(result, "response")?;
                    said.push(Said::Result { tool, text: text(given, "content")?.to_owned() });
                    results += 1;
                }
                (role, part) => return Err(format!("a part of {role}: {part}")),
            }
        }
        match role {
            "model" => said.push(Said::Assistant { text: texts.join("\n\n"), calls }),
            "user" if results > 0 && !texts.is_empty() => {
                return Err("text beside the results of calls".to_owned());
            }
            "user" => {
                open.none()?;
                said.extend(texts.iter().map(|text| Said::user(text)));
            }
            other => return Err(format!("the role {other}")),
        }
        before = role;
    }
    open.none()?;
    let declared = list(body, "tools")?.iter().map(|tool| list(tool, "functionDeclarations"));
    let declared = declared.collect::<Read<Vec<_>>>()?.concat();
    let tool = |tool: &Value| {
        let (name, about) = (text(tool, "name")?, text(tool, "description")?);
        Ok((name.to_owned(), about.to_owned(), object(tool, "parametersJsonSchema")?.clone()))
    };
    let system = list(&body["systemInstruction"], "parts")?;
    Ok(Heard {
        model: model.to_owned(),
        has_key: asked.key("x-goog-api-key", "")?,
        system: system.iter().filter_map(|part| part["text"].as_str()).collect(),
        said,
        tools: declared.iter().map(tool).collect::<Read<_>>()?,
        max_tokens: body["generationConfig"]["maxOutputTokens"].as_u64(),
    })
}

pub(super) fn stream(turn: &Turn) -> Vec<String> {
    let usage = turn.usage;
    let chunk = |parts: Vec<Value>, reason: Option<&str>| {
        let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
        if let Some(reason) = reason {
            candidate["finishReason"] = json!(reason);
        }
        let chunk = json!({
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": usage.input,
                "cachedContentTokenCount": usage.cached,
                "candidatesTokenCount": usage.output,
                "totalTokenCount": usage.input + usage.output,
            },
            "modelVersion": "m",
        });
        format!("data: {chunk}\r\n\r\n")
    };
    let mut all: Vec<String> =
        turn.text.iter().map(|piece| chunk(vec![json!({ "text": piece })], None)).collect();
    if !turn.calls.is_empty() {
        let call = |call: &super::Call| {
            let args = serde_json::from_str(&call.arguments).unwrap_or(json!(call.arguments));
            let mut called = json!({ "name": call.name, "args": args });
            if let Some(id) = &call.id {
                called["id"] = json!(id);
            }
            json!({ "functionCall": called })
        };
        let mut calls: Vec<Value> = turn.calls.iter().map(call).collect();
        // The signature stands beside the first call.
        if let Some((_, signature)) = &turn.thought {
            calls[0]["thoughtSignature"] = json!(signature);
        }
        all.push(chunk(calls, None));
    }
    let reason = turn.finish.as_deref().unwrap_or("STOP");
    all.push(chunk(vec![json!({ "text": "" })], Some(reason)));
    all
}

pub(super) fn error(status: u16, message: &str) -> Value {
    json!({ "error": { "code": status, "message": message, "status": "SOME_STATUS" } })
}
