//! Keys: where they come from, and where they never go.

use std::io::{self, Write};
use std::sync::Arc;

use posthaste_testkit::provider::{Ending, Reply, Turn};
use tracing::instrument::WithSubscriber;
use tracing_subscriber::fmt::MakeWriter;

use super::*;

fn without_environment(model: ModelConfig) -> Models {
    Models::new(ModelsConfig::from([("large".to_owned(), model)]), quick(), &[])
}

#[tokio::test]
async fn a_key_comes_from_a_file_without_the_white_space_around_it() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("key");
    std::fs::write(&file, format!("\n  {KEY}\r\n\n")).expect("written");
    for format in ALL {
        let server = ProviderServer::start(format).await;
        server.plan(Turn::says(&["fine"]));
        let model = ModelConfig {
            api_key_env: None,
            api_key_file: Some(file.clone()),
            ..config(&server, format)
        };
        let models = without_environment(model);
        models.check(Some("large")).unwrap_or_else(|error| panic!("{error:?}"));
        ask(&models, &hello()).await.unwrap_or_else(|e| panic!("{format:?}: {e:?}"));
        assert!(server.heard()[0].has_key, "{format:?}");
    }
}

#[test]
fn a_key_may_stand_behind_the_mark_that_some_editors_write() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("key");
    std::fs::write(&file, format!("\u{feff}{KEY}\n")).expect("written");
    let section = json!({ "provider": "openai", "model": "m", "api_key_file": file });
    let model: ModelConfig = serde_json::from_value(section).expect("a section");
    let key = without_environment(model.clone()).key("large", &model).expect("a key");
    assert_eq!(key, KEY);
}

#[cfg(unix)]
#[test]
fn a_key_that_is_no_text_is_told_as_that() {
    use std::os::unix::ffi::OsStringExt;

    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("key");
    std::fs::write(&file, b"sk-\xff").expect("written");
    let in_file = json!({ "provider": "openai", "model": "m", "api_key_file": file });
    let in_variable = json!({ "provider": "openai", "model": "m", "api_key_env": "A_KEY" });
    let environment = [(OsString::from("A_KEY"), OsString::from_vec(b"sk-\xff".to_vec()))];
    for (section, place) in
        [(in_file, file.display().to_string()), (in_variable, "the variable A_KEY".to_owned())]
    {
        let model = serde_json::from_value(section).expect("a section");
        let all = ModelsConfig::from([("large".to_owned(), model)]);
        let error = Models::new(all, quick(), &environment).check(None).expect_err("no key");
        let why = format!("the model large has no key: {place} holds no text (UTF-8)");
        assert_eq!(error.why, why);
    }
}

#[tokio::test]
async fn a_key_that_changes_in_its_file_is_used_at_once() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("key");
    std::fs::write(&file, "old").expect("written");
    let server = ProviderServer::start(Format::OpenAi).await;
    let model = ModelConfig {
        api_key_env: None,
        api_key_file: Some(file.clone()),
        ..config(&server, Format::OpenAi)
    };
    let models = without_environment(model);
    ask(&models, &hello()).await.expect_err("the server knows another key");
    std::fs::write(&file, KEY).expect("written");
    server.plan(Turn::says(&["fine"]));
    ask(&models, &hello()).await.expect("an answer");
}

#[tokio::test]
async fn a_file_with_more_than_a_key_is_named() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("key");
    std::fs::write(&file, format!("{KEY}\nand a note\n")).expect("written");
    let server = ProviderServer::start(Format::OpenAi).await;
    let model = ModelConfig {
        api_key_env: None,
        api_key_file: Some(file),
        ..config(&server, Format::OpenAi)
    };
    let error = ask(&without_environment(model), &hello()).await.expect_err("no key");
    assert_eq!(error.kind, ModelErrorKind::NoKey);
    assert!(error.why.ends_with("key holds more than one word"), "{error:?}");
}

#[tokio::test]
async fn a_variable_with_more_than_a_key_is_named_and_its_value_is_not() {
    for value in [format!("{KEY}\nmore"), format!("{KEY}\u{7}"), format!("{KEY} {KEY}")] {
        let server = ProviderServer::start(Format::OpenAi).await;
        let environment = [(OsString::from("A_KEY"), OsString::from(value))];
        let all = ModelsConfig::from([("large".to_owned(), config(&server, Format::OpenAi))]);
        let models = Models::new(all, quick(), &environment);
        let error = ask(&models, &hello()).await.expect_err("no key");
        let why = "the model large has no key: the variable A_KEY holds more than one word";
        assert_eq!((error.kind, error.why.as_str()), (ModelErrorKind::NoKey, why));
        assert_eq!(models.check(None).expect_err("no key").why, why);
        assert_eq!(server.heard(), []);
    }
}

#[tokio::test]
async fn a_missing_key_is_named_before_anybody_is_asked() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let empty = scratch.path().join("empty");
    std::fs::write(&empty, " \n").expect("written");
    let gone = scratch.path().join("gone");
    for format in ALL {
        let server = ProviderServer::start(format).await;
        let in_variable = config(&server, format);
        let in_file = |file| ModelConfig {
            api_key_env: None,
            api_key_file: Some(file),
            ..in_variable.clone()
        };
        for (model, told) in [
            (
                in_variable.clone(),
                "the variable A_KEY is not set where the hub was started".to_owned(),
            ),
            (in_file(empty.clone()), format!("{} is empty", empty.display())),
            (in_file(gone.clone()), format!("{}: No such file", gone.display())),
        ] {
            let models = without_environment(model);
            let error = ask(&models, &hello()).await.expect_err("no key");
            assert_eq!(error.kind, ModelErrorKind::NoKey, "{format:?}");
            let begins = "the model large has no key: ";
            assert!(error.why.starts_with(begins) && error.why.contains(&told), "{}", error.why);
            assert!(!error.why.contains("tries"), "{}", error.why);
            let refused = models.check(Some("large")).expect_err("no key");
            assert_eq!(refused.why, error.why);
        }
        assert_eq!(server.heard(), [], "{format:?}");
    }
}

#[test]
fn the_usual_variable_of_a_provider_is_used_if_nothing_else_is_said() {
    for (provider, variable) in [
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ] {
        let section = json!({ "provider": provider, "model": "m" });
        let model: ModelConfig = serde_json::from_value(section).expect("a section");
        let models = without_environment(model.clone());
        assert_eq!(models.key_variables(), [variable]);
        let error = models.check(Some("large")).expect_err("no key");
        assert!(error.why.contains(&format!("the variable {variable} is not set")), "{error:?}");
        for (value, is_key) in [("k", true), (" \n", false)] {
            let environment = [(OsString::from(variable), OsString::from(value))];
            let all = ModelsConfig::from([("large".to_owned(), model.clone())]);
            let models = Models::new(all, quick(), &environment);
            assert_eq!(models.check(None).is_ok(), is_key, "{provider} {value:?}");
        }
    }
    let section = json!({ "provider": "ollama", "model": "m" });
    let model = serde_json::from_value(section).expect("a section");
    without_environment(model).check(None).expect("Ollama needs no key");
}

#[test]
fn a_model_that_is_not_configured_is_told_with_those_that_are() {
    let none = Models::new(ModelsConfig::new(), quick(), &[]);
    for name in [None, Some("large")] {
        let error = none.check(name).expect_err("none");
        assert_eq!(error.why, "no language model is configured");
        assert!(error.hint.is_some_and(|hint| hint.contains("[models.NAME]")));
    }
    let section = json!({ "provider": "ollama", "model": "m" });
    let model: ModelConfig = serde_json::from_value(section).expect("a section");
    let all = ["one", "two"].map(|name| (name.to_owned(), model.clone()));
    let two = Models::new(ModelsConfig::from(all), quick(), &[]);
    let error = two.check(Some("three")).expect_err("unknown");
    assert_eq!(error.why, "no model is called `three`; configured: one, two");
    let error = two.check(None).expect_err("two");
    assert_eq!(error.why, "its profile names no `model`; configured: one, two");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_key_in_the_reason_of_a_filter_or_of_an_end_is_taken_out() {
    let blocked = json!({ "promptFeedback": { "blockReason": format!("BLOCKED {KEY}") } });
    for (format, reply) in [
        (Format::Gemini, Reply::text(200, "text/event-stream", format!("data: {blocked}\n\n"))),
        (Format::OpenAi, Reply::from(Turn::says(&[]).finished(KEY))),
        (Format::Ollama, Reply::from(Turn::says(&[]).finished(KEY))),
    ] {
        let server = ProviderServer::start(format).await;
        server.plan(reply);
        let models = models(config(&server, format), RunnerConfig { attempts: 1, ..quick() });
        let error = ask(&models, &hello()).await.expect_err("no answer");
        assert!(error.why.contains("[key]") && !error.why.contains(&KEY[..8]), "{}", error.why);
    }
}

#[tokio::test]
async fn neither_the_key_nor_a_text_of_the_provider_reaches_a_log_or_an_error() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    let work = async {
        tracing::warn!("the log is read");
        // Long enough for the key to be cut by a naive shortening.
        let padded = format!("{} {KEY} SECRET-WORD", "x".repeat(185));
        let known = format!("you sent {KEY}, SECRET-WORD");
        for format in ALL {
            let stream = "data: SECRET-WORD {\n\n";
            let begun = Turn::says(&["SECRET-WORD ", "SECRET-WORD"]);
            for reply in [
                Reply::error(401, &padded),
                Reply::error(429, &known),
                Reply::error(500, &known),
                Reply::text(502, "text/plain", known.as_str()),
                Reply::text(200, "text/event-stream", stream),
                Reply::from(begun).ends(Ending::Breaks(2)),
            ] {
                let server = ProviderServer::start(format).await;
                server.plan(reply);
                let limits = RunnerConfig { attempts: 1, ..quick() };
                let models = models(config(&server, format), limits);
                let (answered, told) = asked(&models, &hello()).await;
                let error = answered.expect_err("it fails");
                for text in told.iter().chain([&error.why]) {
                    assert!(!text.contains(&KEY[..8]), "{format:?}: {text}");
                }
            }
        }
    };
    work.with_subscriber(subscriber).await;
    let log = String::from_utf8_lossy(&log.0.lock()).into_owned();
    assert!(log.contains("the log is read"), "{log}");
    for secret in [KEY, "SECRET-WORD"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}
