//! Fuzzes what comes from providers, and the files of scripts: each ends in an answer or in
//! one sentence.

use posthaste_testkit::fuzz;
use posthaste_testkit::provider::{Reply, Turn};

use super::*;

#[tokio::test]
async fn every_broken_answer_of_a_provider_is_an_answer_or_a_sentence() {
    for format in ALL {
        let server = ProviderServer::start(format).await;
        let limits = RunnerConfig { attempts: 1, answer_bytes: 1 << 20, ..quick() };
        let models = models(config(&server, format), limits);
        let plain = Turn::says(&["Grüße ", "aus Köln"]).used(40, 30, 20);
        let both = plain.clone().calls("a", "read", "{\"x\":1}").calls("b", "list", "{}");
        let examples = [plain, both].map(|turn| format.stream(&turn).concat());
        for case in fuzz::cases(300, &examples) {
            server.plan(Reply::text(200, format.kind(), case.bytes.clone()));
            match ask(&models, &hello()).await {
                Ok(reply) => {
                    let ids: std::collections::HashSet<&String> =
                        reply.tool_calls.iter().map(|call| &call.id).collect();
                    assert_eq!(ids.len(), reply.tool_calls.len(), "{reply:?}");
                    assert!(reply.tool_calls.iter().all(|call| !call.name.is_empty()));
                }
                Err(error) => {
                    assert!(error.why.contains("large"), "{}", error.why);
                    assert!(error.why.chars().count() < 400, "{}", error.why);
                    assert!(!error.why.contains('\n'), "{}", error.why);
                }
            }
        }
    }
}

#[tokio::test]
async fn every_broken_script_is_played_or_named() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("steps.json");
    let section = json!({ "provider": "script", "file": file });
    let models = models(serde_json::from_value(section).expect("a section"), quick());
    let example = r#"{"steps": [{"say": "a", "call": [{"name": "b", "arguments": {"c": 1}}]},
        {"expect": "d", "delay": "0s", "say": "e"}]}"#;
    for case in fuzz::cases(1_000, &[example]) {
        std::fs::write(&file, &case.bytes).expect("written");
        if let Err(error) = models.check(None) {
            let begins = format!("the script of the model large: {}: ", file.display());
            assert!(error.why.starts_with(&begins), "{}", error.why);
        }
    }
}
