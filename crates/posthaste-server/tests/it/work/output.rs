//! `GET /v1/instances/{id}/output`: what a worker wrote.

use posthaste_api::ErrorCode;
use posthaste_api::work::OutputQuery;

use super::assigning::assign;
use crate::house::refusal;
use crate::staff::house;

#[tokio::test]
async fn output_is_read_stretch_by_stretch_while_it_grows() {
    let (house, staff) = house().await;
    let (_, as_boss) = house.agent("boss").await;
    let given = assign(&as_boss, "worker", "count").await;
    let from = |from, most| OutputQuery { from: Some(from), most, ..OutputQuery::default() };
    staff.writes(&given.instance, "one line\ntwo ☃".as_bytes()).await;

    let first = as_boss.output(&given.instance, &from(0, Some(16))).await.expect("output");
    assert_eq!((&*first.text, first.next, first.total), ("one line\ntwo ☃", 16, 16));
    assert!(!first.ended);
    staff.writes(&given.instance, b" more").await;
    staff.answers(&given.instance, "done").await;
    let rest = as_boss.output(&given.instance, &from(first.next, None)).await.expect("output");
    assert_eq!((&*rest.text, rest.next, rest.ended), (" more", 21, true));
    let stderr = OutputQuery { stream: Some("stderr".into()), ..OutputQuery::default() };
    assert_eq!(as_boss.output(&given.instance, &stderr).await.expect("output").text, "");
}

#[tokio::test]
async fn output_that_is_no_text_is_read_byte_for_byte() {
    let (house, staff) = house().await;
    let given = assign(&house.operator(), "worker", "paint").await;
    let wrote = b"\x89PNG\r\n\x1a\n\xff\x00\xe2\x98 half a snowman ends here \xe2\x98";
    staff.writes(&given.instance, wrote).await;

    let (mut read, mut from) = (Vec::new(), 0);
    while from < wrote.len() as u64 {
        let query = OutputQuery { from: Some(from), most: Some(16), ..OutputQuery::default() };
        let (bytes, part) =
            house.operator().output_bytes(&given.instance, &query).await.expect("output");
        read.extend(bytes);
        from = part.next;
    }

    assert_eq!(read, wrote);
    let text = house.operator().output(&given.instance, &OutputQuery::default()).await;
    assert!(text.expect("output").text.contains('\u{fffd}'), "as text it is not the same");
}

#[tokio::test]
async fn output_is_for_those_above_and_only_workers_have_any() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let (_, as_peer) = house.agent("peer").await;
    let given = assign(&as_boss, "worker", "count").await;
    staff.writes(&given.instance, b"secret").await;
    let all = OutputQuery::default();

    let error = refusal(as_peer.output(&given.instance, &all).await);
    assert_eq!(error.code, ErrorCode::Forbidden);
    assert_eq!(
        house.operator().output(&given.instance, &all).await.expect("output").text,
        "secret"
    );
    let error = refusal(house.operator().output(&boss.instance, &all).await);
    assert_eq!(error.code, ErrorCode::NotFound);
    assert!(error.message.contains("came by itself"), "{}", error.message);
    let error = refusal(house.operator().output("00000000", &all).await);
    assert_eq!(error.code, ErrorCode::NotFound);
}

#[tokio::test]
async fn wrong_questions_about_output_are_refused() {
    let (house, _staff) = house().await;
    let given = assign(&house.operator(), "worker", "count").await;
    let most = |most| OutputQuery { most: Some(most), ..OutputQuery::default() };
    let stream = OutputQuery { stream: Some("stdin".into()), ..OutputQuery::default() };
    let encoding = OutputQuery { encoding: Some("hex".into()), ..OutputQuery::default() };
    for query in [stream, encoding, most(0), most(15), most(2 << 20)] {
        let error = refusal(house.operator().output(&given.instance, &query).await);
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{query:?}");
    }
}
