//! `GET /v1/instances/{id}/stream`: what a worker does, live.

use posthaste_api::ErrorCode;
use posthaste_api::client::{Watched, Watching};
use posthaste_api::stream::StreamQuery;
use posthaste_core::ports::TranscriptKind;

use super::assigning::assign;
use crate::house::{refusal, within};
use crate::staff::house;

fn after(offset: u64) -> StreamQuery {
    StreamQuery { offset: Some(offset), ..StreamQuery::default() }
}

/// The number, the kind and the text of the next entry.
async fn next(watching: &mut Watching) -> (u64, String, String) {
    match within("an entry", watching.next()).await.expect("no error") {
        Some(Watched::Entry(entry)) => (entry.no, entry.kind, entry.text),
        other => panic!("no entry: {other:?}"),
    }
}

fn entry(no: u64, kind: &str, text: &str) -> (u64, String, String) {
    (no, kind.to_owned(), text.to_owned())
}

#[tokio::test]
async fn the_work_of_a_worker_is_watched_live_and_taken_up_again_by_number() {
    let (house, staff) = house().await;
    let (_, as_boss) = house.agent("boss").await;
    let given = assign(&as_boss, "worker", "count").await;
    staff.notes(&given.instance, TranscriptKind::Prompt, "count").await;
    let mut watching = as_boss.watch(&given.instance, &after(0)).await.expect("a stream");
    assert_eq!(next(&mut watching).await, entry(1, "prompt", "count"));

    staff.notes(&given.instance, TranscriptKind::Text, "one").await;
    assert_eq!(next(&mut watching).await, entry(2, "text", "one"));
    drop(watching);
    staff.notes(&given.instance, TranscriptKind::Text, "two").await;
    let mut again = as_boss.watch(&given.instance, &after(2)).await.expect("a stream");
    assert_eq!(next(&mut again).await, entry(3, "text", "two"));

    staff.answers(&given.instance, "done").await;
    staff.notes(&given.instance, TranscriptKind::Answer, "done").await;
    assert_eq!(next(&mut again).await, entry(4, "answer", "done"));
    let end = within("its end", again.next()).await.expect("no error");
    assert_eq!(end, Some(Watched::End));
}

#[tokio::test]
async fn a_worker_without_a_conversation_is_watched_by_its_output() {
    let (house, staff) = house().await;
    let given = assign(&house.operator(), "worker", "count").await;
    staff.writes(&given.instance, b"one\n").await;
    let mut watching = house.operator().watch(&given.instance, &after(0)).await.expect("a stream");
    assert_eq!(next(&mut watching).await, entry(4, "output", "one\n"));
    staff.writes(&given.instance, b"two\n").await;
    assert_eq!(next(&mut watching).await, entry(8, "output", "two\n"));
}

#[tokio::test]
async fn what_is_there_is_all_for_whoever_does_not_follow() {
    let (house, staff) = house().await;
    let given = assign(&house.operator(), "worker", "count").await;
    staff.notes(&given.instance, TranscriptKind::Text, "one").await;
    let query = StreamQuery { follow: Some(false), ..after(0) };
    let mut watching = house.operator().watch(&given.instance, &query).await.expect("a stream");
    assert_eq!(next(&mut watching).await, entry(1, "text", "one"));
    let end = within("its end", watching.next()).await.expect("no error");
    assert_eq!(end, Some(Watched::End));
}

#[tokio::test]
async fn a_follower_may_begin_with_the_last_entries_and_goes_on_after_the_end() {
    let (house, staff) = house().await;
    let given = assign(&house.operator(), "worker", "count").await;
    for text in ["one", "two", "three"] {
        staff.notes(&given.instance, TranscriptKind::Text, text).await;
    }
    let last = |tail| StreamQuery { tail: Some(tail), follow: Some(false), ..after(0) };
    let operator = house.operator();
    let mut watching = operator.watch(&given.instance, &last(2)).await.expect("a stream");
    assert_eq!(next(&mut watching).await, entry(2, "text", "two"));
    assert_eq!(next(&mut watching).await, entry(3, "text", "three"));
    let later = StreamQuery { offset: Some(2), ..last(9) };
    let mut watching = operator.watch(&given.instance, &later).await.expect("a stream");
    assert_eq!(next(&mut watching).await, entry(3, "text", "three"));

    let mut none = operator.watch(&given.instance, &last(0)).await.expect("a stream");
    assert_eq!(within("its end", none.next()).await.expect("no error"), Some(Watched::End));
    assert_eq!(none.last(), 3, "the next stream begins here");
}

#[tokio::test]
async fn only_those_above_watch_and_only_workers_are_watched() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let (_, as_peer) = house.agent("peer").await;
    let given = assign(&as_boss, "worker", "count").await;
    staff.notes(&given.instance, TranscriptKind::Text, "secret").await;
    let refused = |watching: Result<Watching, _>| refusal(watching.map(drop)).code;
    let watched = as_peer.watch(&given.instance, &after(0)).await;
    assert_eq!(refused(watched), ErrorCode::Forbidden);
    let watched = house.operator().watch(&boss.instance, &after(0)).await;
    assert_eq!(refused(watched), ErrorCode::NotFound);
    let watched = house.operator().watch("00000000", &after(0)).await;
    assert_eq!(refused(watched), ErrorCode::NotFound);
    let watched = house.operator().watch("no id", &after(0)).await;
    assert_eq!(refused(watched), ErrorCode::InvalidAddress);
}
