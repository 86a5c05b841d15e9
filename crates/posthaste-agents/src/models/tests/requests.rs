//! What the providers get to see.

use posthaste_testkit::provider::{Said, Turn};
use serde_json::Value;

use super::*;

fn assistant(content: &str, calls: &[(&str, &str, Value)]) -> ChatMessage {
    let call = |(id, name, with): &(&str, &str, Value)| ToolCall {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        arguments: with.as_object().cloned().unwrap_or_default(),
    };
    let content = Some(content.to_owned()).filter(|text| !text.is_empty());
    ChatMessage::Assistant { content, tool_calls: calls.iter().map(call).collect() }
}

fn result(id: &str, content: &str) -> ChatMessage {
    ChatMessage::Tool { tool_call_id: id.to_owned(), content: content.to_owned() }
}

/// A conversation as the hub keeps it: two turns, calls in pairs, mail of another agent.
fn long_talk() -> ModelRequest {
    let messages = vec![
        ChatMessage::System { content: "You are a post office.".to_owned() },
        user("Compare the two files."),
        assistant(
            "I read both.",
            &[("a", "read", json!({ "path": "one" })), ("b", "list", json!({ "deep": true }))],
        ),
        result("a", "ä \"quoted\" line"),
        result("b", "nothing"),
        assistant("They differ.", &[]),
        assistant("", &[("mail_7", "check_inbox", json!({}))]),
        result("mail_7", "{\"messages\":[]}"),
        user("And now?"),
        assistant("", &[]),
        user("Well?"),
    ];
    let schema = json!({
        "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"],
    });
    let tool = |name: &str, about: &str, input_schema: Value| ToolSpec {
        name: name.to_owned(),
        description: about.to_owned(),
        input_schema,
    };
    let none = json!({ "type": "object", "properties": {} });
    let tools = vec![tool("read", "Reads a file.", schema), tool("list", "Lists files.", none)];
    ModelRequest { messages, tools, ..ModelRequest::default() }
}

#[tokio::test]
async fn every_provider_gets_the_whole_conversation_in_its_own_format() {
    for format in ALL {
        let server = ProviderServer::start(format).await;
        server.plan(Turn::says(&["fine"]));
        let models = models(config(&server, format), quick());
        let request = long_talk();
        let reply = ask(&models, &request).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        assert_eq!(reply.content.as_deref(), Some("fine"), "{format:?}");

        let heard = server.heard();
        assert_eq!(heard.len(), 1, "{format:?}");
        let heard = &heard[0];
        assert_eq!(heard.model, "a-model", "{format:?}");
        assert!(heard.has_key, "{format:?}");
        assert_eq!(heard.system, "You are a post office.", "{format:?}");
        assert_eq!(heard.max_tokens, Some(500), "{format:?}");
        let calls = [("read", json!({ "path": "one" })), ("list", json!({ "deep": true }))];
        let said = [
            Said::user("Compare the two files."),
            Said::assistant("I read both.", &calls),
            Said::result("read", "ä \"quoted\" line"),
            Said::result("list", "nothing"),
            // The mail of an agent stands in the turn in which it was found.
            Said::assistant("They differ.", &[("check_inbox", json!({}))]),
            Said::result("check_inbox", "{\"messages\":[]}"),
            Said::user("And now?"),
            Said::user("Well?"),
        ];
        assert_eq!(heard.said, said, "{format:?}");
        let tools: Vec<_> = request
            .tools
            .iter()
            .map(|tool| (tool.name.clone(), tool.description.clone(), tool.input_schema.clone()))
            .collect();
        assert_eq!(heard.tools, tools, "{format:?}");
    }
}

#[tokio::test]
async fn a_call_that_a_model_made_can_be_told_to_it_again() {
    for format in ALL {
        let server = ProviderServer::start(format).await;
        let twice = Turn::says(&[]).calls("x", "read", "{}").calls("y", "list", "{\"n\":1}");
        server.plan(twice);
        server.plan(Turn::says(&["done"]));
        let models = models(config(&server, format), quick());
        let mut request = long_talk();
        request.messages = vec![user("Go.")];
        let reply = ask(&models, &request).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        let ids: Vec<String> = reply.tool_calls.iter().map(|call| call.id.clone()).collect();
        request
            .messages
            .push(ChatMessage::Assistant { content: reply.content, tool_calls: reply.tool_calls });
        request.messages.extend(ids.iter().map(|id| result(id, "ok")));
        ask(&models, &request).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        let calls = [("read", json!({})), ("list", json!({ "n": 1 }))];
        let said = [
            Said::user("Go."),
            Said::assistant("", &calls),
            Said::result("read", "ok"),
            Said::result("list", "ok"),
        ];
        assert_eq!(server.heard()[1].said, said, "{format:?}");
    }
}

#[tokio::test]
async fn calls_whose_names_or_ids_providers_refuse_are_told_to_them_in_plain_ones() {
    let long = "n".repeat(100);
    let names = ["multi_tool_use.parallel", "lies das", "größe", long.as_str(), "own.tool"];
    // Two that differ only in what is not allowed, one as the first would become, one too long.
    let ids = ["a.b", "a b", "a_b_0", long.as_str(), "functions.x:0"];
    let calls: Vec<(&str, &str, Value)> =
        ids.iter().zip(names).map(|(id, name)| (*id, name, json!({}))).collect();
    let mut messages = vec![user("Go."), assistant("", &calls)];
    messages.extend(ids.iter().map(|id| result(id, &format!("of {id}"))));
    let none = json!({ "type": "object", "properties": {} });
    let own = ToolSpec {
        name: "own.tool".to_owned(),
        description: "A tool.".to_owned(),
        input_schema: none,
    };
    let request = ModelRequest { messages, tools: vec![own], ..ModelRequest::default() };
    for format in ALL {
        let server = ProviderServer::start(format).await;
        server.plan(Turn::says(&["fine"]));
        let models = models(config(&server, format), quick());
        ask(&models, &request).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        let cut = "n".repeat(64);
        // The name of a tool that the model has is as the tool says it.
        let names = ["multi_tool_use_parallel", "lies_das", "gr__e", cut.as_str(), "own.tool"];
        let calls: Vec<(&str, Value)> = names.iter().map(|name| (*name, json!({}))).collect();
        let mut said = vec![Said::user("Go."), Said::assistant("", &calls)];
        let results =
            names.iter().zip(ids).map(|(name, id)| Said::result(name, &format!("of {id}")));
        said.extend(results);
        // The server of the test finds the call of each result by its id.
        assert_eq!(server.heard()[0].said, said, "{format:?}");
    }
}

#[tokio::test]
async fn the_ids_that_providers_see_are_plain_different_and_short() {
    let ids = ["a.b", "a b", "a_b_0", "call#read#0", "ä"];
    let long = ["x", "y"].map(|end| format!("{}{end}", "i".repeat(80)));
    let ids: Vec<&str> = ids.into_iter().chain(long.iter().map(String::as_str)).collect();
    let calls: Vec<(&str, &str, Value)> = ids.iter().map(|id| (*id, "read", json!({}))).collect();
    let messages = vec![user("Go."), assistant("", &calls)];
    let request = ModelRequest { messages, ..ModelRequest::default() };
    let section = json!({ "provider": "openai", "model": "m" });
    let model: ModelConfig = serde_json::from_value(section).expect("a section");
    let asked = convert::request(&request, &model);
    let seen: Vec<String> =
        asked.messages[1].content.tool_calls().iter().map(|call| call.call_id.clone()).collect();
    assert_eq!(seen.len(), ids.len());
    assert_eq!(seen[2], "a_b_0");
    for (at, id) in seen.iter().enumerate() {
        assert!(id.len() <= 40, "{id}");
        assert!(id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'), "{id}");
        assert!(!seen[..at].contains(id), "{id} twice");
    }
}

#[tokio::test]
async fn texts_without_a_word_are_left_out_or_told_as_such() {
    let messages = vec![
        ChatMessage::System { content: " \n".to_owned() },
        user(" \n\t"),
        assistant("\n\n", &[("a", "read", json!({}))]),
        result("a", " "),
        assistant(" ", &[]),
        user(""),
    ];
    let request = ModelRequest { messages, ..ModelRequest::default() };
    for format in ALL {
        let server = ProviderServer::start(format).await;
        server.plan(Turn::says(&["fine"]));
        let models = models(config(&server, format), quick());
        ask(&models, &request).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        let said = [
            Said::user("(an empty message)"),
            Said::assistant("", &[("read", json!({}))]),
            Said::result("read", "(an empty result)"),
            Said::user("(an empty message)"),
        ];
        let heard = &server.heard()[0];
        assert_eq!((heard.said.as_slice(), heard.system.as_str()), (&said[..], ""), "{format:?}");
    }
}

#[tokio::test]
async fn the_id_of_a_call_of_an_earlier_answer_is_not_used_again() {
    let server = ProviderServer::start(Format::OpenAi).await;
    server.plan(Turn::says(&[]).calls("call_0", "read", "{}"));
    let models = models(config(&server, Format::OpenAi), quick());
    let messages =
        vec![user("Go."), assistant("", &[("call_0", "list", json!({}))]), result("call_0", "ok")];
    let request = ModelRequest { messages, ..ModelRequest::default() };
    let reply = ask(&models, &request).await.expect("an answer");
    assert_ne!(reply.tool_calls[0].id, "call_0");
}

#[tokio::test]
async fn the_thoughts_of_a_model_go_back_to_it_with_its_calls() {
    for format in [Format::OpenAi, Format::Anthropic, Format::Gemini] {
        let server = ProviderServer::start(format).await;
        let call = Turn::says(&[]).calls("x", "read", "{}").thinks("I look first.", "signed-1");
        server.plan(call);
        server.plan(Turn::says(&["done"]));
        server.plan(Turn::says(&["done"]));
        let model = config(&server, format);
        let models = models(model.clone(), quick());
        let mut request = ModelRequest { messages: vec![user("Go.")], ..ModelRequest::default() };
        let reply = ask(&models, &request).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        let thoughts = reply.thoughts.unwrap_or_else(|| panic!("{format:?}: no thoughts"));
        // They are kept in a file meanwhile.
        let kept = serde_json::to_string(&thoughts).expect("JSON");
        let id = reply.tool_calls[0].id.clone();
        request.thoughts.insert(id.clone(), serde_json::from_str(&kept).expect("thoughts"));
        let (content, tool_calls) = (reply.content, reply.tool_calls);
        request.messages.push(ChatMessage::Assistant { content, tool_calls });
        request.messages.push(result(&id, "ok"));
        ask(&models, &request).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        let thought = match format {
            Format::OpenAi => "I look first.",
            _ => "signed-1",
        };
        let said = [
            Said::user("Go."),
            Said::Thought(thought.to_owned()),
            Said::assistant("", &[("read", json!({}))]),
            Said::result("read", "ok"),
        ];
        assert_eq!(server.heard()[1].said, said, "{format:?}");

        // Another model could not read them.
        let other = ModelConfig { model: "another".to_owned(), ..model };
        let models = super::models(other, quick());
        ask(&models, &request).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        let heard = &server.heard()[2].said;
        assert!(!heard.iter().any(|said| matches!(said, Said::Thought(_))), "{format:?}");
    }
}

#[tokio::test]
async fn an_endpoint_of_ones_own_needs_no_key_unless_one_is_named() {
    for format in ALL {
        let server = ProviderServer::start(format).await;
        server.plan(Turn::says(&["fine"]));
        let model = ModelConfig { api_key_env: None, ..config(&server, format) };
        let models = models(model, quick());
        assert_eq!(models.key_variables(), Vec::<&str>::new(), "{format:?}");
        ask(&models, &hello()).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        assert!(!server.heard()[0].has_key, "{format:?}");
    }
}

#[tokio::test]
async fn the_name_of_a_model_is_sent_as_it_stands_whatever_its_end_says() {
    for provider in ["openai", "anthropic", "gemini", "ollama"] {
        for name in ["qwen3-max", "mistral-medium", "m-high", "m-low", "m-none", "r1-zero", "a-b"] {
            for effort in [None, Some("low")] {
                let section = json!({ "provider": provider, "model": name, "effort": effort });
                let model = serde_json::from_value(section).expect("a section");
                let (head, body) = wired(model).await;
                match provider {
                    "gemini" => {
                        let path = format!("POST /v1/models/{name}:streamGenerateContent?alt=sse ");
                        assert!(head.starts_with(&path), "{head}");
                        assert_eq!(body["model"], Value::Null);
                    }
                    _ => assert_eq!(body["model"], name, "{provider}"),
                }
                let asked = [
                    &body["reasoning_effort"],
                    &body["output_config"],
                    &body["thinking"],
                    &body["generationConfig"]["thinkingConfig"],
                    &body["think"],
                ];
                let is_asked = asked.iter().any(|effort| !effort.is_null());
                assert_eq!(is_asked, effort.is_some(), "{provider} {name}: {body}");
            }
        }
    }
}

#[tokio::test]
async fn each_provider_is_asked_for_an_effort_in_its_own_words() {
    let efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    let budget = |tokens: u32| json!({ "thinkingBudget": tokens });
    for (provider, key, asked) in [
        ("openai", "/reasoning_effort", efforts.map(|effort| json!(effort))),
        (
            "ollama",
            "/think",
            [
                json!(false),
                json!("low"),
                json!("low"),
                json!("medium"),
                json!("high"),
                json!("max"),
                json!("max"),
            ],
        ),
        (
            "gemini",
            "/generationConfig/thinkingConfig",
            [0, 1000, 1000, 8000, 24000, 24000, 24000].map(budget),
        ),
        (
            "anthropic",
            "/thinking/budget_tokens",
            [
                Value::Null,
                json!(1024),
                json!(1024),
                json!(8000),
                json!(24000),
                json!(24000),
                json!(24000),
            ],
        ),
    ] {
        for (effort, asked) in efforts.into_iter().zip(asked) {
            let section = json!({ "provider": provider, "model": "m", "effort": effort });
            let model = serde_json::from_value(section).expect("a section");
            let (_, body) = wired(model).await;
            let found = body.pointer(key).unwrap_or(&Value::Null);
            assert_eq!(found, &asked, "{provider} {effort}: {body}");
        }
    }
}

#[tokio::test]
async fn a_request_without_a_key_has_no_header_for_one() {
    for provider in ["openai", "anthropic", "gemini", "ollama"] {
        let section = json!({ "provider": provider, "model": "m" });
        let model = serde_json::from_value(section).expect("a section");
        let (head, _) = wired(model).await;
        let head = head.to_lowercase();
        for header in ["authorization", "x-api-key", "x-goog-api-key"] {
            assert!(!head.contains(header), "{provider}: {head}");
        }
        assert_eq!(head.contains("anthropic-version: "), provider == "anthropic", "{head}");
    }
}

#[tokio::test]
async fn a_model_is_probed_with_one_word() {
    let server = ProviderServer::start(Format::OpenAi).await;
    server.plan(Turn::says(&["ready"]));
    let models = models(config(&server, Format::OpenAi), quick());
    let reply = models.probe("large").await.expect("an answer");
    assert_eq!(reply.content.as_deref(), Some("ready"));
    assert_eq!(server.heard()[0].tools, []);
}
