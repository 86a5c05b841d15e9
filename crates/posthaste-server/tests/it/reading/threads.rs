//! One conversation, as those read it who poll.

use posthaste_api::threads::{ThreadMessages, ThreadQuery};

use crate::house::{House, read, refusal, send, texts};

fn said(page: &ThreadMessages) -> Vec<&str> {
    page.messages.iter().map(|m| &*m.view.message).collect()
}

fn marking() -> ThreadQuery {
    ThreadQuery { mark_as_read: Some(true), ..ThreadQuery::default() }
}

fn unread() -> ThreadQuery {
    ThreadQuery { unread_only: Some(true), ..ThreadQuery::default() }
}

#[tokio::test]
async fn reading_a_thread_marks_nothing_unless_asked() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    send(&as_alice, &bob.instance, "one").await;
    send(&as_alice, &bob.instance, "two").await;

    let page = as_bob.thread(&alice.thread_id, &ThreadQuery::default()).await.expect("a page");
    assert_eq!(page.thread_id, alice.thread_id);
    assert_eq!(said(&page), ["one", "two"], "oldest first");
    assert_eq!((page.summary.total_fetched, page.summary.marked_as_read), (2, 0));
    assert!(page.messages.iter().all(|m| m.read_at.is_none()));
    assert_eq!(house.instance(&bob.instance).await.unread, 2);

    let page = as_bob.thread(&alice.thread_id, &marking()).await.expect("a page");
    assert_eq!((page.summary.total_fetched, page.summary.marked_as_read), (2, 2));
    assert!(page.messages.iter().all(|m| m.read_at.is_some()), "as it is after the mark");
    assert_eq!(page.messages[0].view.deliveries[0].proof.as_deref(), Some("auto"));
    assert_eq!(house.instance(&bob.instance).await.unread, 0);
    assert!(texts(&read(&as_bob).await).is_empty(), "read is read");

    let page = as_bob.thread(&alice.thread_id, &unread()).await.expect("a page");
    assert!(page.messages.is_empty());
    let page = as_alice.thread(&alice.thread_id, &ThreadQuery::default()).await.expect("a page");
    assert!(page.messages[1].read_at.is_some(), "the sender sees that it was read");
}

#[tokio::test]
async fn a_caller_marks_its_own_mail_and_nobody_elses() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let (_other, _) = house.agent("bob").await;
    let for_bob = send(&as_alice, &bob.instance, "for bob").await;
    let for_any = send(&as_alice, "bob", "for any bob").await;

    for by in [&as_alice, &house.operator()] {
        let page = by.thread(&alice.thread_id, &marking()).await.expect("a page");
        assert_eq!(page.summary.total_fetched, 2);
        assert_eq!(page.summary.marked_as_read, 0, "it was for bob");
        let page = by.thread(&alice.thread_id, &unread()).await.expect("a page");
        assert!(page.messages.is_empty(), "ones own messages are never unread");
    }
    assert_eq!(house.standing(for_bob.seq).await.state, "queued");

    let page = as_bob.thread(&alice.thread_id, &marking()).await.expect("a page");
    assert_eq!(page.summary.marked_as_read, 1);
    assert_eq!(house.standing(for_any.seq).await.state, "queued", "nobody holds it yet");
    assert_eq!(texts(&read(&as_bob).await), ["for any bob"]);
    let page = as_bob.thread(&alice.thread_id, &marking()).await.expect("a page");
    assert_eq!(page.summary.marked_as_read, 1, "now he holds it");
    assert_eq!(house.standing(for_any.seq).await.state, "acked");
}

#[tokio::test]
async fn the_last_unread_are_marked_and_the_older_stay_unread() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    for n in 0..5 {
        send(&as_alice, &bob.instance, &n.to_string()).await;
    }
    let two = ThreadQuery { last_n: Some(2), unread_only: Some(true), ..marking() };
    for expected in [vec!["3", "4"], vec!["1", "2"], vec!["0"], vec![]] {
        let page = as_bob.thread(&alice.thread_id, &two).await.expect("a page");
        assert_eq!(said(&page), expected);
        assert_eq!(page.summary.marked_as_read, expected.len());
    }
}

#[tokio::test]
async fn threads_do_not_mix() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (carol, as_carol) = house.agent("carol").await;
    let (bob, as_bob) = house.agent("bob").await;
    send(&as_alice, &bob.instance, "of alice").await;
    send(&as_carol, &bob.instance, "of carol").await;
    let page = as_bob.thread(&alice.thread_id, &marking()).await.expect("a page");
    assert_eq!(said(&page), ["of alice"]);
    let page = as_bob.thread(&carol.thread_id, &unread()).await.expect("a page");
    assert_eq!(said(&page), ["of carol"], "still unread");
    let page = as_bob.thread("t-0000dead", &unread()).await.expect("a page");
    assert!(page.messages.is_empty());
}

#[tokio::test]
async fn what_was_handed_out_and_then_marked_does_not_come_again() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let sent = send(&as_alice, &bob.instance, "seen twice is once too often").await;
    let inbox = read(&as_bob).await;
    assert_eq!(texts(&inbox).len(), 1);
    let page = as_bob.thread(&alice.thread_id, &marking()).await.expect("a page");
    assert_eq!(page.summary.marked_as_read, 1);
    let begin = posthaste_api::inbox::InboxQuery { begin: Some(true), ..crate::house::now() };
    let again = as_bob.inbox(&begin).await.expect("an answer");
    assert!(again.messages.is_empty(), "a beginning returns what is unproven");
    assert_eq!(house.standing(sent.seq).await.state, "acked");
}

#[tokio::test]
async fn a_thread_is_asked_for_within_its_limits() {
    let house = House::new().await;
    let (_, as_bob) = house.agent("bob").await;
    for last_n in [0, 201, u32::MAX] {
        let query = ThreadQuery { last_n: Some(last_n), ..ThreadQuery::default() };
        assert_eq!(refusal(as_bob.thread("t-00000001", &query).await).code.status(), 422);
    }
    for bad in ["x", "t-1", "00000001", "t-zzzzzzzz"] {
        let error = refusal(as_bob.thread(bad, &ThreadQuery::default()).await);
        assert_eq!(error.code.status(), 422, "{bad}");
    }
    let all = ThreadQuery { last_n: Some(200), since: Some(i64::MIN), ..ThreadQuery::default() };
    as_bob.thread("t-00000001", &all).await.expect("the edges are inside");
    assert_eq!(refusal(house.stranger().thread("t-00000001", &all).await).code.status(), 401);
}
