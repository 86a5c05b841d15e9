//! What becomes of the answers of providers.

use std::sync::Arc;

use posthaste_testkit::provider::{Reply, Turn};
use tokio::sync::{Semaphore, mpsc};

use super::*;

async fn answer(format: Format, reply: impl Into<Reply>) -> (ModelReply, Vec<String>) {
    let server = ProviderServer::start(format).await;
    server.plan(reply);
    let models = models(config(&server, format), quick());
    let (answered, told) = asked(&models, &hello()).await;
    (answered.unwrap_or_else(|error| panic!("{format:?}: {error:?}")), told)
}

fn calls(reply: &ModelReply) -> Vec<(&str, String)> {
    let arguments = |call: &ToolCall| serde_json::Value::Object(call.arguments.clone()).to_string();
    reply.tool_calls.iter().map(|call| (call.name.as_str(), arguments(call))).collect()
}

#[tokio::test]
async fn a_text_grows_as_it_is_written() {
    for format in ALL {
        let (reply, told) = answer(format, Turn::says(&["Hel", "lo ", "wörld"])).await;
        assert_eq!(reply.content.as_deref(), Some("Hello wörld"), "{format:?}");
        assert_eq!(told, ["Hel", "Hello ", "Hello wörld", ""], "{format:?}");
    }
}

#[tokio::test]
async fn a_stream_may_be_torn_anywhere() {
    for format in ALL {
        let turn = Turn::says(&["Grüße ", "aus Köln ✓"]).calls("a", "read", "{\"ä\":\"ß\"}");
        let (reply, _) = answer(format, Reply::from(turn).torn()).await;
        assert_eq!(reply.content.as_deref(), Some("Grüße aus Köln ✓"), "{format:?}");
        assert_eq!(calls(&reply), [("read", "{\"ä\":\"ß\"}".to_owned())], "{format:?}");
    }
}

#[tokio::test]
async fn a_stream_with_both_line_ends_may_be_torn_between_them() {
    for format in ALL {
        let turn = Turn::says(&["Grüße ", "aus ", "Köln ✓"])
            .calls("a", "read", "{\"ä\":\"ß\"}")
            .thinks("I look first.", "signed-1")
            .used(40, 30, 20);
        let stream = format.stream(&turn).concat().replace("\r\n", "\n").replace('\n', "\r\n");
        let (whole, _) = answer(format, turn).await;
        // The pieces of a torn stream have seven bytes. Another length before it tears it at
        // other places, so that each place has its turn.
        for shift in 0..7 {
            let before = match format {
                Format::Ollama => " ".repeat(shift),
                _ => format!(":{}\r\n", "x".repeat(shift)),
            };
            let text = format!("{before}{stream}");
            let (reply, told) = answer(format, Reply::text(200, format.kind(), text).torn()).await;
            assert_eq!(reply, whole, "{format:?} {shift}");
            assert!(!told.iter().any(|told| told.starts_with("again")), "{format:?}: {told:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_whose_events_have_no_names_is_whole_or_none() {
    let format = Format::Anthropic;
    let turn = Turn::says(&["one ", "two"]).calls("a", "read", "{\"x\":1}").used(40, 30, 20);
    let events = format.stream(&turn);
    let data = |event: &String| {
        let (_, data) = event.split_once('\n').expect("a name and data");
        data.to_owned()
    };
    let nameless: String = events.iter().map(data).collect();
    let (reply, told) = answer(format, Reply::text(200, format.kind(), nameless)).await;
    assert_eq!(reply.content.as_deref(), Some("one two"));
    assert_eq!(calls(&reply), [("read", "{\"x\":1}".to_owned())]);
    assert!(!told.iter().any(|told| told.starts_with("again")), "{told:?}");

    // Arguments without the beginning of their call are not.
    let mut holey = events;
    let begins = |event: &String| event.contains("content_block_start") && event.contains("tool");
    holey.retain(|event| !begins(event));
    let server = ProviderServer::start(format).await;
    server.plan(Reply::text(200, format.kind(), holey.concat()));
    let models = models(config(&server, format), RunnerConfig { attempts: 1, ..quick() });
    let error = ask(&models, &hello()).await.expect_err("a hole");
    assert_eq!(error.kind, ModelErrorKind::Broken);
    assert!(error.why.contains("block 1 goes on without having begun"), "{error:?}");
}

#[tokio::test]
async fn a_text_is_seen_before_the_answer_is_complete() {
    for format in ALL {
        let server = ProviderServer::start(format).await;
        let gate = Arc::new(Semaphore::new(0));
        server.plan(Reply::from(Turn::says(&["one", " two"])).gated(&gate));
        let models = models(config(&server, format), quick());
        let (writing, mut written) = mpsc::unbounded_channel();
        let tell = |progress: Progress<'_>| {
            if let Progress::Writing(text) = progress {
                let _ = writing.send(text.to_owned());
            }
        };
        let request = hello();
        let asking = models.ask(Some("large"), &request, &tell);
        let watching = async {
            // Piece after piece, until the first word is there.
            let mut first = None;
            while first.is_none() {
                gate.add_permits(1);
                let soon = tokio::time::timeout(Duration::from_millis(50), written.recv()).await;
                first = soon.ok().flatten();
            }
            assert_eq!(first.as_deref(), Some("one"), "{format:?}");
            gate.add_permits(100);
        };
        let (reply, ()) = tokio::join!(asking, watching);
        assert_eq!(reply.expect("whole").content.as_deref(), Some("one two"), "{format:?}");
    }
}

#[tokio::test]
async fn several_calls_of_tools_come_in_their_order() {
    for format in ALL {
        let turn = Turn::says(&["I look."])
            .calls("a", "read", "{\"path\":\"x\"}")
            .calls("b", "list", "{}")
            .calls("c", "read", "{\"path\":\"y\"}");
        let (reply, _) = answer(format, turn).await;
        assert_eq!(reply.content.as_deref(), Some("I look."), "{format:?}");
        let expected = [
            ("read", "{\"path\":\"x\"}".to_owned()),
            ("list", "{}".to_owned()),
            ("read", "{\"path\":\"y\"}".to_owned()),
        ];
        assert_eq!(calls(&reply), expected, "{format:?}");
        let ids: Vec<&str> = reply.tool_calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["a", "b", "c"], "{format:?}");
    }
}

#[tokio::test]
async fn calls_without_an_id_or_with_the_same_one_get_ids_of_their_own() {
    for format in ALL {
        for id in [None, Some("same")] {
            let turn = Turn::says(&[]).calls(id, "read", "{\"n\":1}").calls(id, "read", "{}");
            let (reply, _) = answer(format, turn).await;
            assert_eq!(calls(&reply).len(), 2, "{format:?} {id:?}: {reply:?}");
            assert_eq!(reply.tool_calls[0].arguments["n"], 1, "{format:?} {id:?}");
            let [one, two] = [0, 1].map(|at| reply.tool_calls[at].id.clone());
            assert!(!one.is_empty() && !two.is_empty() && one != two, "{format:?} {id:?}");
        }
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_are_kept_for_the_model_to_read() {
    for format in ALL {
        for (wrong, kept) in
            [("{\"path\":", "{\"path\":"), ("[1,2]", "[1,2]"), ("7", "7"), ("soon", "soon")]
        {
            let (reply, _) = answer(format, Turn::says(&[]).calls("a", "read", wrong)).await;
            let read = &reply.tool_calls[0].arguments["_unreadable"];
            assert_eq!(read, kept, "{format:?} {wrong}: {reply:?}");
        }
        let (reply, _) = answer(format, Turn::says(&[]).calls("a", "read", "null")).await;
        assert!(reply.tool_calls[0].arguments.is_empty(), "{format:?}");
    }
    // These formats send arguments as text, which may be empty.
    for format in [Format::OpenAi, Format::Anthropic] {
        let (reply, _) = answer(format, Turn::says(&[]).calls("a", "read", "")).await;
        assert!(reply.tool_calls[0].arguments.is_empty(), "{format:?}");
    }
}

#[tokio::test]
async fn a_finish_reason_that_nobody_knows_ends_an_answer_like_any_other() {
    for format in ALL {
        let (reply, _) = answer(format, Turn::says(&["done"]).finished("BECAUSE")).await;
        assert_eq!(reply.content.as_deref(), Some("done"), "{format:?}");
    }
}

#[tokio::test]
async fn tokens_are_counted_and_paid_in_the_same_way_for_every_provider() {
    for format in ALL {
        // 1000 tokens at 2 USD a million, 3000 cached ones at 0.5, 200 at 10.
        let (reply, _) = answer(format, Turn::says(&["done"]).used(4000, 3000, 200)).await;
        assert_eq!(
            (reply.usage.input_tokens, reply.usage.output_tokens),
            (4000, 200),
            "{format:?}"
        );
        let cost = reply.usage.cost_usd.expect("it has a price");
        assert!((cost - 0.0055).abs() < 1e-9, "{format:?}: {cost}");
    }
}

#[tokio::test]
async fn tokens_are_counted_wherever_an_answer_tells_them() {
    let format = Format::OpenAi;
    let used = json!({ "prompt_tokens": 4000, "completion_tokens": 200 });
    let begun = json!({ "prompt_tokens": 4000, "completion_tokens": 7 });
    let chunk = |delta: &str, reason: Option<&str>, usage: &serde_json::Value| {
        let delta = json!({ "role": "assistant", "content": delta });
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        format!("data: {}\n\n", json!({ "choices": [choice], "usage": usage }))
    };
    let null = serde_json::Value::Null;
    for (what, pieces) in [
        // Some tell it with every piece, one after the last, some with an empty choice.
        ("at the end", [chunk("done", None, &null), chunk("", Some("stop"), &used)]),
        ("in each", [chunk("done", None, &begun), chunk("", Some("stop"), &used)]),
        ("after", [chunk("done", Some("stop"), &null), chunk("", None, &used)]),
    ] {
        let stream = format!("{}data: [DONE]\n\n", pieces.concat());
        let (reply, _) = answer(format, Reply::text(200, format.kind(), stream)).await;
        let tokens = (reply.usage.input_tokens, reply.usage.output_tokens);
        assert_eq!(tokens, (4000, 200), "{what}");
    }
}

#[tokio::test]
async fn an_error_that_is_empty_is_none() {
    let format = Format::OpenAi;
    let turn = Turn::says(&["one ", "two"]).calls("a", "read", "{\"x\":1}").used(40, 30, 20);
    let (whole, _) = answer(format, turn.clone()).await;
    let stream = format.stream(&turn).concat();
    for empty in ["null", "\"\"", "{}", "false"] {
        let stream = stream.replace("data: {", &format!("data: {{\"error\":{empty},"));
        let (reply, told) = answer(format, Reply::text(200, format.kind(), stream)).await;
        assert_eq!(reply, whole, "{empty}");
        assert_eq!(told, ["one ", "one two", ""], "{empty}");
    }
}

#[tokio::test]
async fn absurd_numbers_of_tokens_are_counted_without_harm() {
    for format in ALL {
        let most = u64::MAX / 4;
        let (reply, _) = answer(format, Turn::says(&["done"]).used(most, 3, most)).await;
        let most = 2 * u64::from(u32::MAX);
        assert!((most / 2..=most).contains(&reply.usage.input_tokens), "{format:?}: {reply:?}");
        assert_eq!(reply.usage.output_tokens, most / 2, "{format:?}");
    }
}

#[tokio::test]
async fn without_a_price_there_is_no_cost_and_without_a_cached_one_all_input_costs_the_same() {
    let server = ProviderServer::start(Format::Anthropic).await;
    let section = config(&server, Format::Anthropic);
    let same = Price { cached_input: None, input: 2.0, output: 10.0 };
    for (price, cost) in [(None, None), (Some(same), Some(0.01))] {
        server.plan(Turn::says(&["done"]).used(4000, 3000, 200));
        let models = models(ModelConfig { price, ..section.clone() }, quick());
        let reply = ask(&models, &hello()).await.expect("an answer");
        assert_eq!(reply.usage.cost_usd, cost);
    }
}

#[tokio::test]
async fn a_model_that_says_nothing_is_asked_once_more_and_both_are_paid() {
    for format in ALL {
        let server = ProviderServer::start(format).await;
        server.plan(Turn::says(&[]).used(100, 0, 1));
        server.plan(Turn::says(&["here"]).used(100, 0, 9));
        let models = models(config(&server, format), quick());
        let (reply, told) = asked(&models, &hello()).await;
        let reply = reply.unwrap_or_else(|error| panic!("{format:?}: {error:?}"));
        assert_eq!(reply.content.as_deref(), Some("here"), "{format:?}");
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (200, 10), "{format:?}");
        assert!(told.contains(&"again: the model large said nothing".to_owned()), "{told:?}");

        // Twice nothing is an answer, and no reason to go on for ever.
        server.plan(Turn::says(&[]));
        server.plan(Turn::says(&[]));
        let reply = ask(&models, &hello()).await.expect("an empty answer");
        assert_eq!((reply.content, reply.tool_calls.len()), (None, 0), "{format:?}");
        assert_eq!(server.heard().len(), 4, "{format:?}");
    }
}
