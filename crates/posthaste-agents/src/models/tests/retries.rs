//! Which errors are tried again, and when.

use std::time::SystemTime;

use posthaste_testkit::provider::{Ending, Reply, Turn};

use super::*;

#[tokio::test]
async fn what_may_pass_is_tried_again_until_it_works() {
    for format in ALL {
        let server = ProviderServer::start(format).await;
        server.plan(Reply::error(529, "overloaded"));
        server.plan(Reply::from(Turn::says(&["half ", "of "])).ends(Ending::Breaks(2)));
        server.plan(Reply::error(429, "slow down"));
        server.plan(Turn::says(&["at last"]));
        let models = models(config(&server, format), quick());
        let (answered, told) = asked(&models, &hello()).await;
        let reply = answered.unwrap_or_else(|error| panic!("{format:?}: {error:?}"));
        assert_eq!(reply.content.as_deref(), Some("at last"), "{format:?}");
        assert_eq!(server.heard().len(), 4, "{format:?}");
        let again: Vec<&String> = told.iter().filter(|told| told.starts_with("again: ")).collect();
        assert!(again[0].contains("(529): overloaded; trying again"), "{again:?}");
        assert!(again[1].contains("broke off"), "{again:?}");
        assert!(again[2].contains("limits our rate: slow down; trying again"), "{again:?}");
        // What was written of an answer that broke off does not stay on the screen.
        let before = told.iter().position(|told| told == again[1]).expect("told");
        assert_eq!(told[before - 1], "", "{told:?}");
    }
}

#[tokio::test]
async fn what_will_not_pass_is_not_tried_again() {
    for format in ALL {
        for status in [400, 401, 403, 404, 413, 422] {
            let server = ProviderServer::start(format).await;
            server.plan(Reply::error(status, "no"));
            let models = models(config(&server, format), quick());
            let error = ask(&models, &hello()).await.expect_err("refused");
            assert_eq!(server.heard().len(), 1, "{format:?} {status}");
            assert!(error.why.ends_with(": no"), "{format:?}: {}", error.why);
        }
    }
}

#[tokio::test]
async fn the_number_of_tries_is_the_configured_one() {
    for (attempts, sent, ends) in [(0, 1, "busy"), (1, 1, "busy"), (3, 3, "busy (3 tries)")] {
        let server = ProviderServer::start(Format::OpenAi).await;
        (0..5).for_each(|_| server.plan(Reply::error(500, "busy")));
        let limits = RunnerConfig { attempts, ..quick() };
        let models = models(config(&server, Format::OpenAi), limits);
        let error = ask(&models, &hello()).await.expect_err("busy");
        assert_eq!(server.heard().len(), sent);
        assert!(error.why.ends_with(ends), "{}", error.why);
    }
}

#[tokio::test]
async fn the_pause_doubles_and_ends_at_its_limit() {
    let server = ProviderServer::start(Format::OpenAi).await;
    let limits = RunnerConfig {
        retry_after: Duration::from_secs(1),
        retry_most: Duration::from_secs(30),
        ..RunnerConfig::default()
    };
    let models = models(config(&server, Format::OpenAi), limits);
    let between = |tries, from, to| {
        for _ in 0..50 {
            let pause = models.pause(tries, None).as_secs_f64();
            assert!((from..=to).contains(&pause), "after {tries}: {pause}");
        }
    };
    between(1, 0.75, 1.25);
    between(2, 1.5, 2.5);
    between(3, 3.0, 5.0);
    between(60, 30.0, 30.0);
    // A provider may ask for more, up to the same limit, and never for less.
    assert_eq!(models.pause(1, Some(Duration::from_secs(12))), Duration::from_secs(12));
    assert_eq!(models.pause(1, Some(Duration::from_secs(3600))), Duration::from_secs(30));
    assert!(models.pause(2, Some(Duration::ZERO)) >= Duration::from_millis(1500));
}

#[tokio::test]
async fn the_time_for_which_a_provider_asks_is_read_from_its_answer() {
    for format in ALL {
        for (header, value, wanted) in [
            ("retry-after", "7", Some(7_000)),
            ("retry-after", " 0.25 ", Some(250)),
            ("retry-after-ms", "40", Some(40)),
            ("retry-after", "soon", None),
            ("retry-after", "-5", None),
            ("x-other", "7", None),
        ] {
            let server = ProviderServer::start(format).await;
            server.plan(Reply::error(429, "slow down").header(header, value));
            let models = models(config(&server, format), quick());
            let model = models.all["large"].clone();
            let tried = models.attempt("large", &model, &hello(), &|_| {}).await;
            let (_, wait) = tried.expect_err("limited");
            assert_eq!(wait, wanted.map(Duration::from_millis), "{format:?} {header}: {value}");
        }
    }
}

#[tokio::test]
async fn a_provider_may_name_the_date_of_the_next_try() {
    let format = Format::OpenAi;
    let server = ProviderServer::start(format).await;
    let models = models(config(&server, format), quick());
    let model = models.all["large"].clone();
    let now = SystemTime::now();
    for (date, from, to) in [
        (httpdate::fmt_http_date(now + Duration::from_secs(3600)), 3000, 3600),
        ("Sun, 06 Nov 1994 08:49:37 GMT".to_owned(), 0, 0),
    ] {
        server.plan(Reply::error(503, "later").header("retry-after", &date));
        let tried = models.attempt("large", &model, &hello(), &|_| {}).await;
        let (_, wait) = tried.expect_err("not now");
        let wait = wait.unwrap_or_default().as_secs();
        assert!((from..=to).contains(&wait), "{date}: {wait}");
    }
}

/// Each try of these tests uses 1000 tokens in and 100 out: 0.003 USD.
fn used(turn: Turn) -> Turn {
    turn.used(1000, 0, 100)
}

#[track_caller]
fn is_paid(spent: &ModelUsage, times: u64, format: Format) {
    let tokens = (spent.input_tokens, spent.output_tokens);
    assert_eq!(tokens, (1000 * times, 100 * times), "{format:?}");
    let cost = spent.cost_usd.expect("it has a price");
    assert!((cost - 0.003 * times as f64).abs() < 1e-9, "{format:?}: {cost}");
}

#[tokio::test]
async fn an_answer_that_is_none_is_paid_all_the_same() {
    for (format, reason, kind) in [
        (Format::OpenAi, "length", ModelErrorKind::UsedUp),
        (Format::Anthropic, "max_tokens", ModelErrorKind::UsedUp),
        (Format::Gemini, "MAX_TOKENS", ModelErrorKind::UsedUp),
        (Format::Ollama, "length", ModelErrorKind::UsedUp),
        (Format::OpenAi, "content_filter", ModelErrorKind::Withheld),
        (Format::Anthropic, "refusal", ModelErrorKind::Withheld),
        (Format::Gemini, "SAFETY", ModelErrorKind::Withheld),
    ] {
        let server = ProviderServer::start(format).await;
        server.plan(used(Turn::says(&[])).finished(reason));
        let models = models(config(&server, format), quick());
        let error = ask(&models, &hello()).await.expect_err("no answer");
        assert_eq!(error.kind, kind, "{format:?}");
        is_paid(&error.spent, 1, format);
    }
}

#[tokio::test]
async fn every_try_is_paid_whatever_becomes_of_the_request() {
    let format = Format::OpenAi;
    let nameless = || used(Turn::says(&[])).calls("a", "", "{}");
    let silent = || used(Turn::says(&[]));
    let server = ProviderServer::start(format).await;
    let models = models(config(&server, format), RunnerConfig { attempts: 3, ..quick() });

    server.plan(nameless());
    server.plan(nameless());
    server.plan(used(Turn::says(&["at last"])));
    let reply = ask(&models, &hello()).await.expect("an answer");
    is_paid(&reply.usage, 3, format);

    (0..3).for_each(|_| server.plan(nameless()));
    let error = ask(&models, &hello()).await.expect_err("tools without names");
    is_paid(&error.spent, 3, format);

    server.plan(silent());
    server.plan(Reply::error(401, "no more"));
    let error = ask(&models, &hello()).await.expect_err("refused");
    is_paid(&error.spent, 1, format);
}

#[tokio::test]
async fn a_try_that_broke_off_is_paid_as_far_as_its_provider_has_told() {
    for format in ALL {
        let turn = used(Turn::says(&["half ", "of it"]));
        let mut events = format.stream(&turn);
        let last = events.pop().expect("an end");
        let failing = match format {
            Format::OpenAi | Format::Anthropic => events.concat(),
            // These tell tokens together with the end.
            Format::Gemini | Format::Ollama => {
                let last = last.replace("\"finishReason\"", "\"other\"");
                format!("{}{}", events.concat(), last.replace("\"done\":true", "\"done\":false"))
            }
        };
        let broken = "data: {\n\n";
        let errors = [
            Reply::text(200, format.kind(), failing.clone()),
            Reply::text(200, format.kind(), failing.clone()).ends(Ending::Silent(1)),
            Reply::text(200, format.kind(), format!("{failing}{broken}")),
        ];
        for (which, reply) in errors.into_iter().enumerate() {
            let server = ProviderServer::start(format).await;
            server.plan(reply);
            let timeout = Duration::from_millis(500);
            let model = ModelConfig { timeout, ..config(&server, format) };
            let models = models(model, RunnerConfig { attempts: 1, ..quick() });
            let error = ask(&models, &hello()).await.expect_err("no whole answer");
            assert_eq!(error.spent.input_tokens, 1000, "{format:?} {which}: {error:?}");
            assert_eq!(error.spent.output_tokens, 100, "{format:?} {which}: {error:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_over_its_limit_is_paid_as_far_as_its_provider_has_told() {
    let format = Format::Anthropic;
    let server = ProviderServer::start(format).await;
    let turn = used(Turn::says(&["and ", "so on "]));
    server.plan(Reply::from(turn).ends(Ending::Endless(4)));
    let limits = RunnerConfig { answer_bytes: 100_000, ..quick() };
    let models = models(config(&server, format), limits);
    let error = ask(&models, &hello()).await.expect_err("too long");
    assert_eq!((error.kind, error.spent.input_tokens), (ModelErrorKind::TooLong, 1000));
}
