//! The model that plays a file.

use std::path::Path;

use super::*;

fn script(file: &Path) -> Models {
    let section = json!({ "provider": "script", "file": file });
    models(serde_json::from_value(section).expect("a section"), quick())
}

fn written(text: &str) -> (tempfile::TempDir, Models) {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("steps.json");
    std::fs::write(&file, text).expect("written");
    let models = script(&file);
    (scratch, models)
}

fn answered(reply: &ModelReply) -> ChatMessage {
    let (content, tool_calls) = (reply.content.clone(), reply.tool_calls.clone());
    ChatMessage::Assistant { content, tool_calls }
}

#[tokio::test]
async fn a_script_says_that_it_is_one_and_goes_on_where_the_conversation_is() {
    let (_scratch, models) = written(
        r#"{"steps": [
            {"say": "I look.", "call": [{"name": "read", "arguments": {"path": "a"}}]},
            {"expect": "forty-\"two\"", "delay": "1ms", "say": "It is 42."}
        ]}"#,
    );
    models.check(Some("large")).expect("a good script");
    let mut request = hello();
    let first = ask(&models, &request).await.expect("step 1");
    assert_eq!(first.content.as_deref(), Some("[script] I look."));
    assert_eq!(first.tool_calls[0].name, "read");
    assert_eq!(first.tool_calls[0].arguments["path"], "a");
    // The same question gets the same answer: a hub that starts again asks again.
    assert_eq!(ask(&models, &request).await.expect("step 1"), first);

    request.messages.push(answered(&first));
    let tool_call_id = first.tool_calls[0].id.clone();
    request.messages.push(ChatMessage::Tool { tool_call_id, content: "forty-\"two\"".into() });
    // Mail of other agents looks like a call that the model made, and is no step.
    let mail = ToolCall {
        id: "mail_7".to_owned(),
        name: "check_inbox".to_owned(),
        arguments: serde_json::Map::new(),
    };
    request.messages.push(ChatMessage::Assistant { content: None, tool_calls: vec![mail] });
    let second = ask(&models, &request).await.expect("step 2");
    assert_eq!(second.content.as_deref(), Some("[script] It is 42."));
    assert_eq!(second.usage, ModelUsage::default());

    request.messages.push(answered(&second));
    let over = ask(&models, &request).await.expect_err("over");
    assert_eq!(over.kind, ModelErrorKind::Script);
    assert_eq!(over.why, "the script of the model large has 2 steps, and is over");
}

#[tokio::test]
async fn a_step_whose_expectation_is_not_met_says_which_and_what() {
    let (_scratch, models) = written(r#"{"steps": [{"expect": "the build\nis red", "say": "x"}]}"#);
    let error = ask(&models, &hello()).await.expect_err("not met");
    let why = "step 1 of the script of the model large expects \"the build\\nis red\", and the \
               request does not have it";
    assert_eq!((error.kind, error.why.as_str()), (ModelErrorKind::Script, why));
    let messages = vec![user("Look, the build\nis red!")];
    let request = ModelRequest { messages, ..ModelRequest::default() };
    assert!(ask(&models, &request).await.is_ok());
}

#[tokio::test]
async fn a_wrong_script_is_told_with_its_file_and_line_before_it_is_played() {
    for (text, told) in [
        ("{\"steps\": [\n{\"sya\": \"x\"}]}", "unknown field `sya`"),
        ("{\"steps\": [\n{\"say\": 5}]}", "line 2"),
        ("{\"steps\": [{}]}", "step 1 neither says nor calls anything"),
        ("{\"steps\": [{\"say\": \"x\"}, {\"say\": \"\"}]}", "step 2 neither says"),
        ("{}", "missing field `steps`"),
        ("{\"steps\": []}", "it has no steps"),
        ("steps", "line 1"),
    ] {
        let (scratch, models) = written(text);
        let refused = models.check(Some("large")).expect_err(text);
        let file = scratch.path().join("steps.json").display().to_string();
        let begins = format!("the script of the model large: {file}: ");
        assert!(refused.why.starts_with(&begins), "{}", refused.why);
        assert!(refused.why.contains(told), "{text}: {}", refused.why);
        let error = ask(&models, &hello()).await.expect_err(text);
        assert_eq!((error.kind, error.why), (ModelErrorKind::Script, refused.why));
    }
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let error = script(&scratch.path().join("gone")).check(None).expect_err("no file");
    assert!(error.why.contains("gone: No such file"), "{}", error.why);
}
