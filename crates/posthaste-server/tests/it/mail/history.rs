//! Reading again, which takes nothing.

use posthaste_api::ErrorCode;
use posthaste_api::messages::{History, HistoryQuery, ReadQuery, SendRequest};

use crate::house::{House, read, receipt_of, refusal, send, texts};

fn said(history: &History) -> Vec<&str> {
    history.messages.iter().map(|m| &*m.message).collect()
}

#[tokio::test]
async fn history_comes_in_pages_newest_last_and_ends() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    for n in 0..7 {
        send(&house.operator(), &bob.instance, &n.to_string()).await;
    }

    let mut pages = Vec::new();
    let mut query = HistoryQuery { last_n: Some(3), ..HistoryQuery::default() };
    loop {
        let page = house.operator().history(&query).await.expect("a page");
        pages.push(said(&page).concat());
        match page.cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => break,
        }
        assert!(pages.len() < 9, "pages end");
    }

    assert_eq!(pages, ["456", "123", "0"]);
    let all = house.operator().history(&HistoryQuery::default()).await.expect("a page");
    assert_eq!((said(&all).concat(), all.cursor), ("0123456".to_owned(), None));
}

#[tokio::test]
async fn history_shows_what_its_filters_name() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let (carol, _) = house.agent("carol").await;
    let operator = house.operator();
    send(&operator, &bob.instance, "acked").await;
    as_bob.ack(&receipt_of(&read(&as_bob).await)).await.expect("acked");
    send(&operator, &bob.instance, "leased").await;
    read(&as_bob).await;
    let cancelled = send(&operator, &bob.instance, "dead").await;
    operator.cancel(&cancelled.id).await.expect("cancelled");
    let threaded = SendRequest {
        thread_id: Some("t-00000000".into()),
        ..SendRequest::new(bob.instance.clone(), "queued, in a thread")
    };
    let last = operator.send(&threaded).await.expect("accepted");
    send(&operator, &carol.instance, "for carol").await;
    send(&operator, "bob", "for any bob").await;

    let some = |text: &str| Some(text.to_owned());
    let none = HistoryQuery::default();
    let all = ["acked", "leased", "dead", "queued, in a thread"];
    let own = Some(format!("i.{}", bob.instance));
    let cases = [
        (HistoryQuery { mailbox: own.clone(), ..none.clone() }, all.to_vec()),
        (HistoryQuery { mailbox: some(&bob.instance), ..none.clone() }, all.to_vec()),
        (HistoryQuery { mailbox: some("n.bob"), ..none.clone() }, vec!["for any bob"]),
        (HistoryQuery { mailbox: some("n.nobody"), ..none.clone() }, vec![]),
        (
            HistoryQuery { thread_id: some("t-00000000"), ..none.clone() },
            vec![all[3], "for any bob"],
        ),
        (HistoryQuery { thread_id: some(&carol.thread_id), ..none.clone() }, vec!["for carol"]),
        (HistoryQuery { status: some("acked"), ..none.clone() }, vec!["acked"]),
        (HistoryQuery { status: some("leased"), ..none.clone() }, vec!["leased"]),
        (HistoryQuery { status: some("dead"), ..none.clone() }, vec!["dead"]),
        (
            HistoryQuery { status: some("queued"), mailbox: own.clone(), ..none.clone() },
            vec![all[3]],
        ),
        (
            HistoryQuery { mailbox: own, last_n: Some(1), ..none.clone() },
            vec!["queued, in a thread"],
        ),
        (HistoryQuery { cursor: Some(cancelled.seq.to_string()), ..none.clone() }, all[..2].into()),
        (HistoryQuery { since: Some(i64::MAX), ..none.clone() }, vec![]),
    ];
    for (query, expected) in cases {
        let page = operator.history(&query).await.expect("a page");
        assert_eq!(said(&page), expected, "{query:?}");
    }

    // A time between is hard to hit by clock; one just before the message is not.
    let at: i64 = millis(&house.record(last.seq).await.created_at);
    let after = HistoryQuery { since: Some(at - 1), ..none.clone() };
    let page = operator.history(&after).await.expect("a page");
    assert!(said(&page).contains(&"queued, in a thread"));
    let strictly = HistoryQuery { since: Some(at), ..none };
    let page = operator.history(&strictly).await.expect("a page");
    assert!(!said(&page).contains(&"queued, in a thread"), "strictly after");
}

/// Milliseconds since 1970 of a time within the last hour, from its clock alone.
fn millis(text: &str) -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i64::try_from(now.expect("after 1970").as_millis()).expect("fits");
    let clock = text.split('T').nth(1).and_then(|t| t.strip_suffix('Z')).expect("RFC 3339, UTC");
    let parts: Vec<f64> = clock.split(':').map(|n| n.parse().expect("a number")).collect();
    #[expect(clippy::cast_possible_truncation, reason = "a day has few milliseconds")]
    let of_day = ((parts[0] * 60.0 + parts[1]) * 60_000.0 + parts[2] * 1000.0).round() as i64;
    const DAY: i64 = 86_400_000;
    let today = now - now % DAY + of_day;
    if today > now { today - DAY } else { today }
}

#[tokio::test]
async fn history_and_reading_again_take_nothing() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let sent = send(&as_alice, &bob.instance, "still here").await;

    for client in [&as_alice, &as_bob, &house.operator()] {
        let page = client.history(&HistoryQuery::default()).await.expect("a page");
        assert_eq!(said(&page), ["still here"]);
        for name in [sent.seq.to_string(), sent.id.to_string()] {
            let view = client.read(&name, &ReadQuery::default()).await.expect("readable");
            assert_eq!((view.seq, &*view.message), (sent.seq, "still here"));
            assert_eq!(view.deliveries[0].state, "queued");
        }
    }

    assert_eq!(house.instance(&bob.instance).await.unread, 1);
    let inbox = read(&as_bob).await;
    assert_eq!(texts(&inbox), ["still here"]);
    assert!(!inbox.messages[0].redelivered);
    as_bob.ack(&receipt_of(&inbox)).await.expect("acked");
    let view = as_bob.read(&sent.id, &ReadQuery::default()).await.expect("readable when settled");
    assert!(view.read);
}

#[tokio::test]
async fn one_sees_what_one_sent_or_may_read_and_nothing_else() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let (_, as_carol) = house.agent("carol").await;
    let private = send(&as_alice, &bob.instance, "between us").await;
    let open = send(&as_alice, "@anyone", "whoever is free").await;

    let none = HistoryQuery::default();
    let to_bob = HistoryQuery { mailbox: Some(bob.instance.clone()), ..none.clone() };
    let thread = HistoryQuery { thread_id: Some(alice.thread_id), ..none.clone() };
    for query in [&none, &thread] {
        let page = as_carol.history(query).await.expect("a page");
        assert_eq!(said(&page), ["whoever is free"], "{query:?}");
    }
    assert!(as_carol.history(&to_bob).await.expect("a page").messages.is_empty());
    assert_eq!(
        refusal(as_carol.read(&private.id, &ReadQuery::default()).await).code,
        ErrorCode::NotFound
    );
    let shown = as_carol.read(&open.id, &ReadQuery::default()).await.expect("she has a key");
    assert_eq!(shown.message, "whoever is free");

    let page = as_bob.history(&to_bob).await.expect("a page");
    assert_eq!(said(&page), ["between us"]);
    let page = house.operator().history(&none).await.expect("a page");
    assert_eq!(said(&page), ["between us", "whoever is free"]);
}
