//! Prompting terminals, reading them and ending them.

use posthaste_core::needs::{PermissionAsk, Verdict};
use posthaste_core::orchestration::TurnActivity;
use posthaste_core::registry::Status;
use serde_json::{Value, json};

use super::stage::{id, message, stage};
use crate::house::{OPERATOR, until};

#[tokio::test]
async fn input_is_work_and_the_answer_is_its_output() {
    let stage = stage().await;
    let id = id(&stage.session("dev", Value::Null).await);
    stage.works(&id).await;
    stage.becomes(&id, "idle").await;
    let output = format!("/terminals/{id}/output?mode=last");
    assert_eq!(stage.get(&output).await["output"], "");

    for (prompt, answer) in [("one", "first"), ("two", "second")] {
        let call = format!("POST /terminals/{id}/input?message={prompt}&sender_id=supervisor");
        let (status, done) = stage.call(&call, &Value::Null).await;
        assert_eq!((status, &done), (200, &json!({"success": true})));
        stage.becomes(&id, "processing").await;
        stage.reports(&id, answer).await;
        stage.becomes(&id, "completed").await;
        assert_eq!(stage.get(&output).await["output"], answer);
    }

    let told = stage.staff.has_told(2).await;
    let texts: Vec<&str> = told.iter().map(|(_, text, _)| &**text).collect();
    assert_eq!(texts, ["one", "two"]);
}

#[tokio::test]
async fn mail_to_an_idle_terminal_reaches_it_without_its_asking() {
    let stage = stage().await;
    let boss = id(&stage.session("dev", Value::Null).await);
    let worker = id(&stage.add("cao-dev", &boss, Value::Null).await);
    for id in [&boss, &worker] {
        stage.works(id).await;
    }

    let call = format!("POST /terminals/{worker}/inbox/messages?sender_id={boss}&message=psst");
    let (status, sent) = stage.call(&call, &Value::Null).await;

    assert_eq!((status, &sent["sender_id"]), (200, &json!(boss)), "{sent}");
    assert_eq!(stage.staff.has_told(1).await[0].1, "psst");
    let inbox = format!("/terminals/{worker}/inbox/messages");
    let listed = stage.get(&inbox).await;
    assert_eq!((&listed[0]["status"], &listed[0]["via"]), (&json!("delivered"), &json!("cao")));
}

#[tokio::test]
async fn a_message_to_the_giver_of_open_work_is_its_result() {
    let stage = stage().await;
    let boss = id(&stage.session("dev", Value::Null).await);
    stage.works(&boss).await;
    let worker = id(&stage.add("cao-dev", &boss, message("work")).await);
    stage.works(&worker).await;

    let call = format!("POST /terminals/{boss}/inbox/messages?sender_id={worker}&message=done");
    let (_, sent) = stage.call(&call, &Value::Null).await;

    let record = stage.house.record(sent["message_id"].as_u64().expect("a number")).await;
    assert_eq!(record.kind, "result");
    stage.becomes(&worker, "completed").await;
}

#[tokio::test]
async fn siblings_find_each_other_and_what_they_tell() {
    let stage = stage().await;
    let one = id(&stage.session("one", Value::Null).await);
    let two = id(&stage.add("cao-one", &one, Value::Null).await);
    let grouped = |tail: &str| json!({"group": ["shop", tail]});
    let red = id(&stage.session("red", grouped("red")).await);
    let blue = id(&stage.session("blue", grouped("blue")).await);

    let call = format!("PATCH /terminals/{two}/metadata");
    let (status, shown) = stage.call(&call, &json!({"metadata": {"does": "bricks"}})).await;
    assert_eq!((status, &shown["metadata"]), (200, &json!({"does": "bricks"})), "{shown}");

    let siblings = async |of: &str, query: &str| {
        let list = stage.get(&format!("/terminals/{of}/siblings?{query}")).await;
        let list = list.as_array().expect("a list").clone();
        list.into_iter().map(|s| (id(&s), s["metadata"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(siblings(&one, "").await, [(two.clone(), json!({"does": "bricks"}))]);
    assert_eq!(siblings(&two, "").await, [(one, Value::Null)]);
    assert_eq!(siblings(&red, "cross_session=true").await, []);
    assert_eq!(siblings(&red, "cross_session=true&depth=1").await, [(blue, Value::Null)]);
    assert_eq!(siblings(&red, "depth=1").await, [], "another session");
    let (status, _) =
        stage.call(&format!("GET /terminals/{red}/siblings?depth=0"), &Value::Null).await;
    assert_eq!(status, 422);
    let large = json!({"metadata": {"x": "y".repeat(5000)}});
    let (status, answer) = stage.call(&call, &large).await;
    assert_eq!(status, 422, "{answer}");
    assert_eq!(
        stage.get(&format!("/terminals/{two}")).await["metadata"],
        json!({"does": "bricks"})
    );
}

#[tokio::test]
async fn a_terminal_that_exits_stays_readable_until_it_is_deleted() {
    let stage = stage().await;
    let terminal = id(&stage.session("dev", Value::Null).await);
    stage.works(&terminal).await;
    stage.staff.writes(&terminal, b"what it wrote\n").await;

    let (status, _) = stage.call(&format!("POST /terminals/{terminal}/exit"), &Value::Null).await;
    assert_eq!(status, 200);
    until("it has ended", async || {
        stage.house.instance(&terminal).await.status == Status::Stopped.as_str()
    })
    .await;
    let output = stage.get(&format!("/terminals/{terminal}/output")).await;
    assert_eq!(output, json!({"output": "what it wrote\n", "mode": "full"}));
    let input = format!("POST /terminals/{terminal}/input?message=more");
    let (status, _) = stage.call(&input, &Value::Null).await;
    assert!(matches!(status, 409 | 410), "{status}");

    let delete = format!("DELETE /terminals/{terminal}");
    assert_eq!(stage.call(&delete, &Value::Null).await, (200, json!({"success": true})));
    let (status, answer) = stage.call(&delete, &Value::Null).await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("not_found")));
}

#[tokio::test]
async fn a_terminal_whose_worker_failed_is_an_error() {
    let stage = stage().await;
    let terminal = id(&stage.session("dev", message("work")).await);
    stage.staff.fails(&terminal, 3, "oh no").await;
    stage.becomes(&terminal, "error").await;
    let directory = stage.get(&format!("/terminals/{terminal}/working-directory")).await;
    assert_eq!(directory["working_directory"], "/scratch");
}

#[tokio::test]
async fn ids_have_one_form_and_words_are_checked() {
    let stage = stage().await;
    let known = id(&stage.session("dev", Value::Null).await);
    for bad in ["bob", "1234567", "ABCDEF01", "inst-12345678"] {
        for call in [
            format!("GET /terminals/{bad}"),
            format!("DELETE /terminals/{bad}"),
            format!("POST /terminals/{bad}/exit"),
            format!("GET /terminals/{bad}/output"),
            format!("POST /terminals/{bad}/input?message=x"),
        ] {
            let (status, answer) = stage.call(&call, &Value::Null).await;
            assert_eq!(status, 422, "{call}: {answer}");
            assert!(answer["detail"].is_string(), "{call}: {answer}");
        }
    }
    for (call, expected) in [
        (format!("GET /terminals/{known}/output?mode=some"), 422),
        (format!("POST /terminals/{known}/input"), 422),
        ("GET /terminals/00000000".to_owned(), 404),
        ("GET /workflows".to_owned(), 404),
        ("GET /skills/x".to_owned(), 404),
    ] {
        let (status, answer) = stage.call(&call, &Value::Null).await;
        assert_eq!(status, expected, "{call}: {answer}");
    }
}

#[tokio::test]
async fn the_operator_answers_what_a_terminal_asks_and_no_supervisor_does() {
    let stage = stage().await;
    let boss = id(&stage.session("dev", Value::Null).await);
    stage.works(&boss).await;
    let worker = id(&stage.add("cao-dev", &boss, message("work")).await);
    stage.works(&worker).await;
    let who = worker.parse().expect("an instance");
    for (words, expected) in [("yes", true), ("not+that", false)] {
        let hub = std::sync::Arc::clone(&stage.house.hub);
        hub.note_activity(who, Some(TurnActivity::Asking));
        let asks = tokio::spawn(async move {
            let (request, subject) = (format!("r{expected}"), "Bash(rm)".to_owned());
            let text = "rm -r build".to_owned();
            hub.permission(who, PermissionAsk { request, subject, text }).await
        });
        until("the operator is asked", async || stage.house.hub.open_needs() == 1).await;
        stage.becomes(&worker, "waiting_user_answer").await;

        let call = format!("POST /terminals/{worker}/input?message={words}");
        let (status, _) = stage.call(&format!("{call}&sender_id={boss}"), &Value::Null).await;
        assert_eq!(status, 403, "a supervisor is not the user");
        let (status, _) = stage.call(&call, &Value::Null).await;
        assert_eq!(status, 403, "nor is a program without a token");
        let (status, done) = stage.house.call(&call, Some(OPERATOR), "").await;
        assert_eq!(status, 200, "{done}");

        let verdict = asks.await.expect("no panic");
        assert_eq!(verdict == Verdict::Allow, expected, "{verdict:?}");
    }
}
