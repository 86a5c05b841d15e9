//! `POST /v1/handoff`: a worker, and the wait for its report.

use posthaste_api::ErrorCode;
use posthaste_api::inbox::SettleRequest;
use posthaste_api::messages::SendRequest;
use posthaste_api::work::HandoffRequest;
use tokio::io::AsyncWriteExt;

use crate::house::{now, read, refusal, request, send, texts, within};
use crate::staff::{house, only_worker};

fn work(timeout: f64) -> HandoffRequest {
    HandoffRequest {
        agent: "worker".into(),
        message: "count".into(),
        timeout: Some(timeout),
        ..HandoffRequest::default()
    }
}

#[tokio::test]
async fn a_handoff_answers_with_the_report_and_its_receipt_proves_it() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let caller = as_boss.clone();
    let call = tokio::spawn(async move { caller.handoff(&work(30.0)).await });
    let worker = only_worker(&house).await;
    house.waits(&boss.instance).await;

    staff.answers(&worker, "4711 words").await;

    let told = within("the answer", call).await.expect("no panic").expect("an answer");
    assert_eq!((&*told.status, &told.instance), ("complete", &worker));
    assert_eq!(
        (told.result.as_deref(), told.kind.as_deref()),
        (Some("4711 words"), Some("result"))
    );
    assert_eq!((told.exit_code, told.redelivered), (Some(0), false));
    let report = told.id.expect("a number");
    assert_eq!(house.standing(report).await.state, "leased", "handed over, not proved");
    let receipt = SettleRequest { receipt: told.receipt, ids: None };
    assert_eq!(as_boss.ack(&receipt).await.expect("acked").acked, 1);
    assert_eq!(house.standing(report).await.proof.as_deref(), Some("receipt"));
}

#[tokio::test]
async fn a_failed_worker_is_told_with_its_exit_code_and_its_last_words() {
    let (house, staff) = house().await;
    let operator = house.operator();
    let call = tokio::spawn(async move { operator.handoff(&work(30.0)).await });
    let worker = only_worker(&house).await;

    staff.fails(&worker, 3, "no such file").await;

    let told = within("the answer", call).await.expect("no panic").expect("an answer");
    assert_eq!((&*told.status, told.exit_code), ("failed", Some(3)));
    assert_eq!(told.kind.as_deref(), Some("system.agent_failed"));
    let text = told.result.expect("a text");
    assert!(text.contains("exit code 3") && text.contains("no such file"), "{text}");
}

#[tokio::test]
async fn when_the_time_is_up_the_work_goes_on_as_a_job() {
    let (house, staff) = house().await;
    let (_, as_boss) = house.agent("boss").await;
    let keyed = HandoffRequest { idempotency_key: Some("once".into()), ..work(0.0) };

    let told = as_boss.handoff(&keyed).await.expect("an answer");

    assert_eq!((&*told.status, told.result, told.receipt), ("job", None, None));
    assert!(told.note.expect("a note").contains("idempotency_key"));
    staff.answers(&told.instance, "at last").await;
    let again = as_boss.handoff(&keyed).await.expect("an answer");
    assert_eq!((&*again.status, again.result.as_deref()), ("complete", Some("at last")));
    assert!(again.duplicate && again.instance == told.instance && staff.began() == 1);
    let third = as_boss.handoff(&keyed).await.expect("an answer");
    assert_eq!(third.result.as_deref(), Some("at last"), "told again, as often as one asks");
    assert!(third.redelivered && third.receipt.is_none(), "another answer holds it");
}

#[tokio::test]
async fn a_question_ends_the_wait_and_waits_in_the_inbox() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let caller = as_boss.clone();
    let call = tokio::spawn(async move { caller.handoff(&work(60.0)).await });
    let worker = only_worker(&house).await;
    let token = staff.works(&worker).await.token.0;
    house.waits(&boss.instance).await;

    let question = SendRequest {
        kind: Some("question".into()),
        ..SendRequest::new(boss.instance.clone(), "which book?")
    };
    house.client(&token).send(&question).await.expect("accepted");

    let told = within("the answer", call).await.expect("no panic").expect("an answer");
    assert_eq!(told.status, "job");
    assert!(told.note.expect("a note").contains("read your inbox"));
    assert_eq!(texts(&read(&as_boss).await), ["which book?"]);
    staff.answers(&worker, "done").await;
    assert_eq!(texts(&read(&as_boss).await), ["done"], "the report comes by mail then");
}

#[tokio::test]
async fn a_client_that_hangs_up_loses_nothing() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let mut socket = house.dial().await;
    let body = r#"{"agent":"worker","message":"count","timeout":60}"#;
    let text = request(
        "POST /v1/handoff",
        Some(&boss.token),
        &[("Content-Type", "application/json")],
        body,
    );
    socket.write_all(text.as_bytes()).await.expect("sent");
    let worker = only_worker(&house).await;
    house.waits(&boss.instance).await;

    drop(socket);
    house.waits_no_more(&boss.instance).await;
    staff.answers(&worker, "for whoever is there").await;

    let inbox = read(&as_boss).await;
    assert_eq!(texts(&inbox), ["for whoever is there"]);
    assert!(!inbox.messages[0].redelivered, "nobody was shown it");
}

#[tokio::test]
async fn ordinary_mail_does_not_end_the_wait_and_is_not_taken() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let (_, as_peer) = house.agent("peer").await;
    let caller = as_boss.clone();
    let call = tokio::spawn(async move { caller.handoff(&work(30.0)).await });
    let worker = only_worker(&house).await;
    house.waits(&boss.instance).await;

    send(&as_peer, &boss.instance, "by the way").await;
    staff.answers(&worker, "done").await;

    let told = within("the answer", call).await.expect("no panic").expect("an answer");
    assert_eq!(told.result.as_deref(), Some("done"));
    assert_eq!(texts(&as_boss.inbox(&now()).await.expect("an answer")), ["by the way"]);
}

#[tokio::test]
async fn a_wait_beyond_the_limit_is_refused_and_starts_nothing() {
    let (house, staff) = house().await;

    let error = refusal(house.operator().handoff(&work(100_000.0)).await);

    assert_eq!(error.code, ErrorCode::InvalidArgument);
    assert!(error.message.contains("timeout"), "{}", error.message);
    assert_eq!(staff.began(), 0);
}
