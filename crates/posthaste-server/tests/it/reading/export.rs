//! Everything, one message per line.

use posthaste_api::ErrorCode;
use posthaste_api::client::Client;
use posthaste_api::messages::{ExportQuery, MessageView};
use posthaste_core::Limits;

use crate::house::{House, OPERATOR, read, receipt_of, refusal, send};

async fn exported(by: &Client, after: Option<u64>) -> Vec<MessageView> {
    let mut export = by.export(&ExportQuery { after }).await.expect("an export");
    let mut all = Vec::new();
    while let Some(message) = export.next().await.expect("a line") {
        all.push(message);
    }
    all
}

fn said(all: &[MessageView]) -> String {
    all.iter().map(|m| &*m.message).collect()
}

#[tokio::test]
async fn an_export_has_every_message_with_its_deliveries_oldest_first() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let operator = house.operator();
    assert!(exported(&operator, None).await.is_empty(), "nothing yet");
    for n in 0..3 {
        send(&operator, &bob.instance, &n.to_string()).await;
    }
    as_bob.ack(&receipt_of(&read(&as_bob).await)).await.expect("acked");
    send(&operator, "@everyone", "line\nline \u{2028} \"end\"").await;

    let all = exported(&operator, None).await;
    assert_eq!(said(&all), "012line\nline \u{2028} \"end\"");
    assert_eq!(all.iter().map(|m| m.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let states: Vec<&str> = all.iter().map(|m| &*m.deliveries[0].state).collect();
    assert_eq!(states, ["acked", "acked", "acked", "queued"]);
    assert_eq!(exported(&operator, Some(2)).await, all[2..], "it goes on where it was");
    assert!(exported(&operator, Some(i64::MAX as u64)).await.is_empty());
}

#[tokio::test]
async fn an_export_of_many_parts_has_each_message_once() {
    // Two messages fill a part.
    let house = House::with(Limits { answer_bytes: 30, ..Limits::default() }).await;
    let (bob, _) = house.agent("bob").await;
    let operator = house.operator();
    for n in 10..60 {
        send(&operator, &bob.instance, &n.to_string().repeat(7)).await;
    }
    let all = exported(&operator, None).await;
    let numbers: Vec<u64> = all.iter().map(|m| m.seq).collect();
    assert_eq!(numbers, (1..=50).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_export_is_for_the_operator_and_its_number_is_checked() {
    let house = House::new().await;
    let (_, as_bob) = house.agent("bob").await;
    let error = refusal(as_bob.export(&ExportQuery::default()).await.map(drop));
    assert_eq!(error.code, ErrorCode::Forbidden);
    let error = refusal(house.stranger().export(&ExportQuery::default()).await.map(drop));
    assert_eq!(error.code, ErrorCode::Unauthorized);
    for bad in ["-1", "x", "1.5", "", "9223372036854775808", "99999999999999999999"] {
        let call = format!("GET /v1/export?after={bad}");
        let (status, answer) = house.call(&call, Some(OPERATOR), "").await;
        assert_eq!((status, &answer["error"]["code"]), (422, &"invalid_argument".into()), "{bad}");
    }
}

#[tokio::test]
async fn an_export_that_nobody_reads_to_its_end_harms_nobody() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let operator = house.operator();
    let long = "x".repeat(900_000);
    for _ in 0..12 {
        send(&operator, &bob.instance, &long).await;
    }
    let mut left = operator.export(&ExportQuery::default()).await.expect("an export");
    assert_eq!(left.next().await.expect("a line").map(|m| m.seq), Some(1));
    // Much is still on its way, and the hub serves others.
    send(&operator, &bob.instance, "the last").await;
    assert_eq!(read(&as_bob).await.messages.len(), 4, "as much as fits");
    drop(left);
    let all = exported(&operator, Some(11)).await;
    assert_eq!(all.iter().map(|m| m.seq).collect::<Vec<_>>(), [12, 13]);
}
