//! Providers that break.

use posthaste_testkit::provider::{Ending, Reply, Turn};

use super::*;

/// Asks once, and returns the error.
async fn error(format: Format, reply: Reply, limits: RunnerConfig) -> ModelError {
    let server = ProviderServer::start(format).await;
    server.plan(reply);
    let models = models(config(&server, format), RunnerConfig { attempts: 1, ..limits });
    ask(&models, &hello()).await.expect_err(&format!("{format:?} fails"))
}

#[tokio::test]
async fn each_refusal_says_what_is_wrong_and_where_it_is_set() {
    for format in ALL {
        for (status, kind, why) in [
            (401, ModelErrorKind::Refused, "refuses our key (models.large): not you"),
            (403, ModelErrorKind::Refused, "refuses our key (models.large): not you"),
            (
                404,
                ModelErrorKind::Refused,
                "does not know the model or the address (models.large): not you",
            ),
            (400, ModelErrorKind::Refused, "refuses the request (400): not you"),
            (422, ModelErrorKind::Refused, "refuses the request (422): not you"),
            (301, ModelErrorKind::Refused, "refuses the request (301): not you"),
            (429, ModelErrorKind::RateLimited, "limits our rate: not you"),
            (408, ModelErrorKind::Unreachable, "cannot answer now (408): not you"),
            (500, ModelErrorKind::Unreachable, "cannot answer now (500): not you"),
            (503, ModelErrorKind::Unreachable, "cannot answer now (503): not you"),
            (529, ModelErrorKind::Unreachable, "cannot answer now (529): not you"),
        ] {
            let error = error(format, Reply::error(status, "not\nyou"), quick()).await;
            assert_eq!(error.kind, kind, "{format:?} {status}: {}", error.why);
            let whole = format!("the provider of the model large {why}");
            assert_eq!(error.why, whole, "{format:?} {status}");
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_because_it_would_carry_the_key_elsewhere() {
    for format in ALL {
        let elsewhere = ProviderServer::start(format).await;
        let reply = Reply::error(307, "over there").header("location", &elsewhere.base_url());
        let error = error(format, reply, quick()).await;
        assert_eq!(error.kind, ModelErrorKind::Refused, "{format:?}: {}", error.why);
        assert_eq!(elsewhere.heard(), [], "{format:?}");
    }
}

#[tokio::test]
async fn an_error_that_is_a_whole_page_is_one_short_line() {
    let page = format!("<html>\n{}</html>", "<p>Bad Gateway</p>\n".repeat(5_000));
    for format in ALL {
        let error = error(format, Reply::text(502, "text/html", page.as_str()), quick()).await;
        assert!(error.why.contains("cannot answer now (502): <html> <p>Bad"), "{}", error.why);
        assert!(error.why.len() < 400 && !error.why.contains('\n'), "{}", error.why);
    }
}

#[tokio::test]
async fn an_answer_in_another_format_is_named_as_one() {
    for format in ALL {
        for (kind, text) in [
            ("text/html", "<html>\n<body>Please log in</body>\n</html>\n"),
            ("application/json", "{\"hello\": \"you\"}"),
            ("text/event-stream", "data: this is no JSON\n\n"),
            ("text/event-stream", ""),
        ] {
            let error = error(format, Reply::text(200, kind, text), quick()).await;
            assert_eq!(error.kind, ModelErrorKind::Broken, "{format:?} {text}: {}", error.why);
            assert!(error.why.contains("large"), "{format:?} {text}: {}", error.why);
        }
        let error = error(format, Reply::text(200, "text/html", ""), quick()).await;
        assert!(error.why.contains("are provider and base_url right?"), "{}", error.why);
    }
}

#[tokio::test]
async fn half_an_answer_is_no_answer() {
    for format in ALL {
        for ending in [Ending::Breaks(2), Ending::Early(2)] {
            let turn = Turn::says(&["I will ", "not ", "finish ", "this"]);
            let reply = Reply::from(turn).ends(ending);
            let error = error(format, reply, quick()).await;
            assert_eq!(error.kind, ModelErrorKind::Broken, "{format:?} {ending:?}");
            let why = &error.why;
            assert!(why.contains("broke off"), "{format:?} {ending:?}: {why}");
        }
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_told_in_the_providers_words() {
    for (format, event) in [
        (Format::OpenAi, "data: {\"error\":{\"message\":\"too busy\"}}\n\n"),
        (
            Format::Anthropic,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"too busy\"}}\n\n",
        ),
        (Format::Gemini, "data: {\"error\":{\"code\":503,\"message\":\"too busy\"}}\n\n"),
    ] {
        let reply = Reply::text(200, "text/event-stream", event);
        let error = error(format, reply, quick()).await;
        assert_eq!(error.why, "the provider of the model large broke off: too busy", "{format:?}");
    }
}

#[tokio::test]
async fn an_error_with_the_status_of_success_is_told_in_the_providers_words() {
    let plain = json!({ "error": { "message": "top up", "type": "x" } });
    for (format, error) in [
        (Format::OpenAi, plain.clone()),
        (Format::OpenAi, json!({ "error": "top up" })),
        (Format::Anthropic, json!({ "type": "error", "error": { "message": "top up" } })),
        (Format::Gemini, plain.clone()),
        (Format::Gemini, json!([{ "error": { "code": 429, "message": "top up" } }])),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let server = ProviderServer::start(format).await;
        let model = config(&server, format);
        let model = ModelConfig { base_url: Some(format!("http://{address}/v1")), ..model };
        let models = models(model, RunnerConfig { attempts: 1, ..quick() });
        for text in [error.to_string(), format!("{error:#}")] {
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n{text}",
                text.len()
            );
            let request = hello();
            let serving = async {
                loop {
                    serve(&listener, &answer).await;
                }
            };
            let error = tokio::select! {
                answered = ask(&models, &request) => answered.expect_err("an error"),
                () = serving => unreachable!("it serves for ever"),
            };
            assert_eq!(error.kind, ModelErrorKind::Broken, "{format:?}: {error:?}");
            let why = "the provider of the model large broke off: top up";
            assert_eq!(error.why, why, "{format:?} {text}");
        }
    }
}

#[tokio::test]
async fn a_provider_that_is_silent_ends_with_the_time_of_the_try() {
    for format in ALL {
        for pieces in [0, 2] {
            let server = ProviderServer::start(format).await;
            server.plan(Reply::from(Turn::says(&["a", "b", "c"])).ends(Ending::Silent(pieces)));
            let timeout = Duration::from_millis(200);
            let model = ModelConfig { timeout, ..config(&server, format) };
            let models = models(model, RunnerConfig { attempts: 1, ..quick() });
            let error = ask(&models, &hello()).await.expect_err("too slow");
            assert_eq!(error.kind, ModelErrorKind::Slow, "{format:?}");
            let why = "the model large took longer than 200ms (models.large.timeout)";
            assert_eq!(error.why, why, "{format:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_stopped_at_its_limit_and_not_tried_again() {
    for format in ALL {
        let server = ProviderServer::start(format).await;
        server.plan(Reply::from(Turn::says(&["and ", "so on "])).ends(Ending::Endless(2)));
        let limits = RunnerConfig { answer_bytes: 100_000, ..quick() };
        let models = models(config(&server, format), limits);
        let error = ask(&models, &hello()).await.expect_err("too long");
        assert_eq!(error.kind, ModelErrorKind::TooLong, "{format:?}");
        let why = "the answer of the model large is over 100000 bytes (runner.answer_bytes)";
        assert_eq!(error.why, why, "{format:?}");
        assert_eq!(server.heard().len(), 1, "{format:?}");
    }
}

#[tokio::test]
async fn a_line_or_an_error_without_an_end_is_stopped_by_the_time_of_the_try() {
    for format in ALL {
        for status in [200, 500] {
            let server = ProviderServer::start(format).await;
            let endless = Reply::text(status, format.kind(), "data: and so on");
            server.plan(endless.ends(Ending::Endless(1)));
            let timeout = Duration::from_millis(200);
            let model = ModelConfig { timeout, ..config(&server, format) };
            let models = models(model, RunnerConfig { attempts: 1, ..quick() });
            let error = ask(&models, &hello()).await.expect_err("endless");
            assert_eq!(error.kind, ModelErrorKind::Slow, "{format:?} {status}: {}", error.why);
        }
    }
}

#[tokio::test]
async fn a_huge_answer_below_the_limit_comes_whole() {
    for format in ALL {
        let server = ProviderServer::start(format).await;
        let piece = "0123456789".repeat(10_000);
        server.plan(Turn::says(&[piece.as_str(); 20]));
        let models = models(config(&server, format), quick());
        let reply = ask(&models, &hello()).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        assert_eq!(reply.content.map(|text| text.len()), Some(2_000_000), "{format:?}");
    }
}

#[tokio::test]
async fn a_call_at_an_absurd_place_of_the_list_is_one_call() {
    let call = json!({
        "index": 4_000_000_000_u64, "id": "a", "type": "function",
        "function": { "name": "read", "arguments": "{}" },
    });
    let chunk = json!({ "choices": [{ "delta": { "tool_calls": [call] } }] });
    let end = json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] });
    let stream = format!("data: {chunk}\n\ndata: {end}\n\ndata: [DONE]\n\n");
    let server = ProviderServer::start(Format::OpenAi).await;
    server.plan(Reply::text(200, "text/event-stream", stream));
    let models = models(config(&server, Format::OpenAi), quick());
    let reply = ask(&models, &hello()).await.expect("an answer");
    assert_eq!(reply.tool_calls.len(), 1);
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_named_with_the_number_of_tries() {
    for format in ALL {
        // The port was bound a moment ago, and is free now.
        let server = ProviderServer::start(format).await;
        let model = config(&server, format);
        drop(server);
        let models = models(model, quick());
        let (answered, told) = asked(&models, &hello()).await;
        let error = answered.expect_err("nobody listens");
        assert_eq!(error.kind, ModelErrorKind::Unreachable, "{format:?}: {}", error.why);
        let begins = "the provider of the model large cannot be reached: ";
        assert!(error.why.starts_with(begins), "{format:?}: {}", error.why);
        assert!(error.why.ends_with("(4 tries)"), "{format:?}: {}", error.why);
        let again = told.iter().filter(|told| told.starts_with("again: ")).count();
        assert_eq!(again, 3, "{format:?}: {told:?}");
    }
}

#[tokio::test]
async fn an_answer_that_a_filter_withholds_is_one_sentence_and_not_tried_again() {
    for (format, reason) in [
        (Format::OpenAi, "content_filter"),
        (Format::Anthropic, "refusal"),
        (Format::Gemini, "SAFETY"),
    ] {
        let server = ProviderServer::start(format).await;
        server.plan(Turn::says(&[]).finished(reason));
        let models = models(config(&server, format), quick());
        let error = ask(&models, &hello()).await.expect_err("withheld");
        assert_eq!(error.kind, ModelErrorKind::Withheld, "{format:?}: {error:?}");
        let why = format!("the provider of the model large withholds the answer: {reason}");
        assert_eq!((error.why, server.heard().len()), (why, 1), "{format:?}");
    }
    let server = ProviderServer::start(Format::Gemini).await;
    let blocked = r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":4}}"#;
    server.plan(Reply::text(200, "text/event-stream", format!("data: {blocked}\r\n\r\n")));
    let models = models(config(&server, Format::Gemini), quick());
    let error = ask(&models, &hello()).await.expect_err("withheld");
    assert!(error.why.ends_with("withholds the answer: PROHIBITED_CONTENT"), "{error:?}");
    assert_eq!(server.heard().len(), 1);
}

#[tokio::test]
async fn the_words_with_which_a_model_refuses_are_its_answer() {
    let server = ProviderServer::start(Format::OpenAi).await;
    let chunk = |delta: &str, reason: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n"
        )
    };
    let pieces = [
        chunk(r#"{"role":"assistant","content":null,"refusal":"I do "}"#, "null"),
        chunk(r#"{"refusal":"not do that."}"#, "null"),
        chunk("{}", "\"stop\""),
        "data: [DONE]\n\n".to_owned(),
    ];
    server.plan(Reply::text(200, "text/event-stream", pieces.concat()));
    let models = models(config(&server, Format::OpenAi), quick());
    let reply = ask(&models, &hello()).await.expect("an answer");
    assert_eq!(reply.content.as_deref(), Some("I do not do that."));
}

#[tokio::test]
async fn an_answer_that_was_cut_at_its_longest_says_so() {
    for (format, reason) in [
        (Format::OpenAi, "length"),
        (Format::Anthropic, "max_tokens"),
        (Format::Gemini, "MAX_TOKENS"),
        (Format::Ollama, "length"),
    ] {
        let server = ProviderServer::start(format).await;
        server.plan(Turn::says(&["half an ans"]).finished(reason));
        server.plan(Turn::says(&[]).finished(reason));
        let models = models(config(&server, format), quick());
        let reply = ask(&models, &hello()).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        let text = reply.content.unwrap_or_default();
        assert!(text.starts_with("half an ans\n\n[posthaste] "), "{format:?}: {text}");
        assert!(text.contains("models.large.max_tokens"), "{format:?}: {text}");
        let error = ask(&models, &hello()).await.expect_err("nothing was said");
        assert_eq!(error.kind, ModelErrorKind::UsedUp, "{format:?}: {error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_a_filter_has_cut_says_so() {
    for (format, reason) in [
        (Format::OpenAi, "content_filter"),
        (Format::Anthropic, "refusal"),
        (Format::Gemini, "SAFETY"),
        (Format::Gemini, "RECITATION"),
    ] {
        let server = ProviderServer::start(format).await;
        server.plan(Turn::says(&["half an ans"]).finished(reason));
        let models = models(config(&server, format), quick());
        let reply = ask(&models, &hello()).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        let whole = format!(
            "half an ans\n\n[posthaste] The answer ends here because the provider of the model \
             withholds the rest: {reason}."
        );
        assert_eq!(reply.content, Some(whole), "{format:?}");
    }
}

#[tokio::test]
async fn an_answer_with_nothing_but_a_strange_end_names_it_and_is_tried_again() {
    for (format, reason) in [
        (Format::Gemini, "MALFORMED_FUNCTION_CALL"),
        (Format::OpenAi, "error"),
        (Format::Anthropic, "pause_turn"),
        (Format::Ollama, "unload"),
    ] {
        let server = ProviderServer::start(format).await;
        server.plan(Turn::says(&[]).finished(reason));
        server.plan(Turn::says(&["at last"]));
        let models = models(config(&server, format), quick());
        let (answered, told) = asked(&models, &hello()).await;
        let reply = answered.unwrap_or_else(|error| panic!("{format:?}: {error:?}"));
        assert_eq!(reply.content.as_deref(), Some("at last"), "{format:?}");
        let why = format!(
            "again: the answer of the model large broke off before it said anything: {reason}; \
             trying again"
        );
        assert!(told.contains(&why), "{format:?}: {told:?}");
    }
}

#[tokio::test]
async fn an_error_at_the_end_of_a_stream_of_ollama_is_told() {
    let server = ProviderServer::start(Format::Ollama).await;
    server.plan(Reply::text(200, "application/x-ndjson", "{\"error\":\"the model crashed\"}\n"));
    let models = models(config(&server, Format::Ollama), RunnerConfig { attempts: 1, ..quick() });
    let error = ask(&models, &hello()).await.expect_err("it crashed");
    assert!(error.why.contains("the model crashed"), "{error:?}");
}
