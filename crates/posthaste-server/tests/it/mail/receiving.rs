//! What a reader gets.

use posthaste_api::inbox::{Inbox, InboxQuery};
use posthaste_api::messages::{ReadQuery, SendRequest};
use posthaste_core::Limits;

use crate::house::{House, ids, now, read, receipt_of, send, texts, wait, within};

#[tokio::test]
async fn mail_that_was_handed_out_shows_who_holds_it() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let sent = send(&house.operator(), &bob.instance, "for bob").await;
    let before = house.standing(sent.seq).await;
    assert_eq!((&*before.state, before.by, before.leased_at), ("queued", None, None));

    let inbox = read(&as_bob).await;

    assert_eq!((ids(&inbox), inbox.total, &*inbox.status), (vec![sent.seq], 1, "complete"));
    let held = house.standing(sent.seq).await;
    assert_eq!((&*held.state, held.by.as_deref()), ("leased", Some(&*bob.instance)));
    assert!(held.leased_at.is_some() && held.settled_at.is_none());
    assert!(!house.record(sent.seq).await.read, "handed out is not read");
    assert_eq!(house.instance(&bob.instance).await.unread, 1);
    assert!(read(&as_bob).await.messages.is_empty(), "a healthy reader never sees it twice");
}

#[tokio::test]
async fn time_up_is_an_empty_answer_and_no_error() {
    let house = House::new().await;
    let (_, as_bob) = house.agent("bob").await;

    let inbox = as_bob.inbox(&wait(0.1)).await.expect("an answer");

    assert_eq!((inbox.total, &*inbox.status, inbox.receipt), (0, "empty", None));
    assert!(inbox.waited_s >= 0.1, "{}", inbox.waited_s);
}

#[tokio::test]
async fn the_urgent_comes_first_then_the_oldest() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let urgent = |text: &str| SendRequest {
        priority: Some("urgent".into()),
        ..SendRequest::new(bob.instance.clone(), text)
    };
    let operator = house.operator();
    send(&operator, &bob.instance, "1").await;
    operator.send(&urgent("2")).await.expect("accepted");
    send(&operator, &bob.instance, "3").await;
    operator.send(&urgent("4")).await.expect("accepted");

    assert_eq!(texts(&read(&as_bob).await), ["2", "4", "1", "3"]);
}

#[tokio::test]
async fn what_follows_within_the_window_is_in_the_same_answer() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let (_, as_alice) = house.agent("alice").await;
    let query = InboxQuery { batch_window: Some(1.0), ..wait(60.0) };
    let waiting = tokio::spawn(async move { as_bob.inbox(&query).await });
    house.waits(&bob.instance).await;

    for text in ["first", "second", "third"] {
        send(&as_alice, &bob.instance, text).await;
    }

    let inbox = within("the window", waiting).await.expect("no panic").expect("an answer");
    assert_eq!(texts(&inbox), ["first", "second", "third"]);
}

#[tokio::test]
async fn fifty_workers_reach_one_supervisor_in_one_read() {
    let house = House::new().await;
    let (boss, as_boss) = house.agent("boss").await;
    let mut workers = Vec::new();
    for _ in 0..50 {
        workers.push(house.agent("worker").await);
    }
    let query = InboxQuery { wait_for: Some("50".into()), ..wait(60.0) };
    let gathering = tokio::spawn(async move { as_boss.inbox(&query).await });
    house.waits(&boss.instance).await;

    let sends = workers.iter().map(|(worker, client)| {
        let (client, to, id) = (client.clone(), boss.instance.clone(), worker.instance.clone());
        tokio::spawn(async move { (id, send(&client, &to, "done").await.seq) })
    });
    let mut sent = Vec::new();
    for send in sends.collect::<Vec<_>>() {
        sent.push(send.await.expect("no panic"));
    }

    let inbox = within("all fifty", gathering).await.expect("no panic").expect("an answer");
    assert_eq!((inbox.total, &*inbox.status, inbox.remaining), (50, "complete", 0));
    assert!(inbox.messages.iter().all(|m| m.message == "done"));
    let mut got: Vec<(String, u64)> =
        inbox.messages.iter().map(|m| (m.sender_id.to_string(), m.id)).collect();
    got.sort();
    sent.sort();
    assert_eq!(got, sent, "the same words, told apart by sender and number");
}

#[tokio::test]
async fn a_gather_says_who_is_missing_when_time_is_up() {
    let house = House::new().await;
    let (boss, as_boss) = house.agent("boss").await;
    let (ann, as_ann) = house.agent("ann").await;
    let (ben, _) = house.agent("ben").await;
    send(&as_ann, &boss.instance, "here").await;
    let all = |from: String, seconds| InboxQuery {
        wait_for: Some("all".into()),
        from: Some(from),
        ..wait(seconds)
    };

    let query = all(format!("{},{},label-x", ann.instance, ben.instance), 0.05);
    let partial = as_boss.inbox(&query).await.expect("an answer");

    assert_eq!((texts(&partial), &*partial.status), (vec!["here"], "partial"));
    let missing: Vec<_> = partial
        .missing
        .iter()
        .map(|m| (m.instance.as_deref(), m.label.as_deref(), &*m.status))
        .collect();
    assert_eq!(
        missing,
        [(Some(&*ben.instance), None, "running"), (None, Some("label-x"), "waiting")]
    );
}

#[tokio::test]
async fn a_gather_of_all_ends_when_the_last_has_sent() {
    let house = House::new().await;
    let (boss, as_boss) = house.agent("boss").await;
    let (ann, as_ann) = house.agent("ann").await;
    let (_, as_ben) = house.agent("ben").await;
    let (_, as_cid) = house.agent("cid").await;
    let query = InboxQuery {
        wait_for: Some("all".into()),
        from: Some(format!("{},ben", ann.instance)),
        ..wait(60.0)
    };
    let reader = as_boss.clone();
    let gathering = tokio::spawn(async move { reader.inbox(&query).await });
    house.waits(&boss.instance).await;

    send(&as_ann, &boss.instance, "ann, first").await;
    send(&as_ann, &boss.instance, "ann, again").await;
    send(&as_cid, &boss.instance, "cid was not asked").await;
    assert_eq!(house.instance(&boss.instance).await.activity, "waiting_inbox");
    send(&as_ben, &boss.instance, "ben").await;

    let inbox = within("both", gathering).await.expect("no panic").expect("an answer");
    assert_eq!(texts(&inbox), ["ann, first", "ann, again", "ben"]);
    assert_eq!((&*inbox.status, inbox.missing.len()), ("complete", 0));
    let nothing_open = InboxQuery { wait_for: Some("all".into()), ..wait(60.0) };
    let rest = as_boss.inbox(&nothing_open).await.expect("an answer");
    assert_eq!((texts(&rest), &*rest.status), (vec!["cid was not asked"], "complete"));
    let rest = within("at once", as_boss.inbox(&nothing_open)).await.expect("an answer");
    assert_eq!((rest.total, &*rest.status), (0, "complete"), "nobody is waited for");
}

#[tokio::test]
async fn a_question_ends_a_gather_whoever_was_asked_for() {
    let house = House::new().await;
    let (boss, as_boss) = house.agent("boss").await;
    let (_, as_ann) = house.agent("ann").await;
    house.agent("ben").await;
    let gathers = [
        InboxQuery { wait_for: Some("2".into()), ..wait(60.0) },
        InboxQuery { wait_for: Some("all".into()), from: Some("ben".into()), ..wait(60.0) },
    ];
    for query in gathers {
        let reader = as_boss.clone();
        let gathering = tokio::spawn(async move { reader.inbox(&query).await });
        house.waits(&boss.instance).await;
        let question = SendRequest {
            kind: Some("question".into()),
            ..SendRequest::new(boss.instance.clone(), "which?")
        };
        as_ann.send(&question).await.expect("accepted");

        let inbox = within("a question", gathering).await.expect("no panic").expect("an answer");
        assert_eq!((texts(&inbox), &*inbox.status), (vec!["which?"], "partial"));
        house.waits_no_more(&boss.instance).await;
    }
}

#[tokio::test]
async fn a_long_message_is_clipped_and_read_on_in_parts() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    // One to four bytes each, so that a cut at a byte would show.
    let long: String = "aé漢🦀".chars().cycle().take(1001).collect();
    let sent = send(&house.operator(), &bob.instance, &long).await;

    let query = InboxQuery { max_chars: Some(333), ..now() };
    let inbox = as_bob.inbox(&query).await.expect("an answer");

    let entry = &inbox.messages[0];
    assert!(entry.truncated);
    assert_eq!((entry.total_chars, entry.next_offset), (Some(1001), Some(333)));
    let mut whole = entry.message.to_string();
    assert_eq!(whole.chars().count(), 333);
    let mut next = entry.next_offset;
    let mut parts = 0;
    while let Some(offset) = next {
        let query = ReadQuery { offset: Some(offset), max_chars: Some(200) };
        let view = as_bob.read(&sent.seq.to_string(), &query).await.expect("readable");
        let part = view.part.expect("a part says so");
        assert_eq!((part.offset, part.total_chars), (offset, 1001));
        whole.push_str(&view.message);
        next = part.next_offset;
        parts += 1;
    }
    assert_eq!((whole == long, parts), (true, 4));

    let query = ReadQuery { offset: Some(999), ..ReadQuery::default() };
    let rest = as_bob.read(&sent.id, &query).await.expect("readable");
    assert_eq!(rest.message, long.chars().skip(999).collect::<String>());
    let uncut = as_bob.read(&sent.id, &ReadQuery::default()).await.expect("readable");
    assert_eq!((uncut.message == long, uncut.part), (true, None));
}

#[tokio::test]
async fn short_messages_leave_their_room_to_the_long() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let operator = house.operator();
    send(&operator, &bob.instance, "short").await;
    send(&operator, &bob.instance, &"x".repeat(1_400)).await;
    send(&operator, &bob.instance, &"y".repeat(1_400)).await;

    let query = InboxQuery { max_chars: Some(605), ..now() };
    let inbox = as_bob.inbox(&query).await.expect("an answer");

    let got: Vec<_> = inbox.messages.iter().map(|m| (m.message.len(), m.truncated)).collect();
    assert_eq!(got, [(5, false), (300, true), (300, true)]);
}

#[tokio::test]
async fn what_does_not_fit_stays_queued_and_is_counted() {
    let limits = Limits { answer_messages: 3, answer_bytes: 100, ..Limits::default() };
    let house = House::with(limits).await;
    let (bob, as_bob) = house.agent("bob").await;
    for text in ["1", "2", "3", "4", &"5".repeat(80), &"6".repeat(80), &"7".repeat(200)] {
        send(&house.operator(), &bob.instance, text).await;
    }

    let mut answers = Vec::new();
    loop {
        let inbox = read(&as_bob).await;
        if inbox.messages.is_empty() {
            break;
        }
        let first: String = texts(&inbox).iter().map(|t| &t[..1]).collect();
        answers.push((first, inbox.remaining));
    }

    // Three at a time, then by size, and one that is too large all alone.
    let told: Vec<_> = answers.iter().map(|(first, left)| (&**first, *left)).collect();
    assert_eq!(told, [("123", 4), ("45", 2), ("6", 1), ("7", 0)]);
}

#[tokio::test]
async fn a_filter_takes_what_it_names_and_leaves_the_rest() {
    let house = House::new().await;
    let (boss, as_boss) = house.agent("boss").await;
    let (ann, as_ann) = house.agent("ann").await;
    let (ben, as_ben) = house.agent("ben").await;
    let labelled = SendRequest {
        label: Some("cellar".into()),
        ..SendRequest::new(boss.instance.clone(), "ann, labelled")
    };
    let threaded = SendRequest {
        thread_id: Some(boss.thread_id.clone()),
        ..SendRequest::new(boss.instance.clone(), "ben, in a thread")
    };
    send(&as_ann, &boss.instance, "ann, plain").await;
    as_ann.send(&labelled).await.expect("accepted");
    send(&as_ben, &boss.instance, "ben, plain").await;
    as_ben.send(&threaded).await.expect("accepted");

    let some = |text: &str| Some(text.to_owned());
    let cases = [
        (InboxQuery { from: some(&ann.instance), ..now() }, vec!["ann, plain", "ann, labelled"]),
        (InboxQuery { from: some("ben"), ..now() }, vec!["ben, plain", "ben, in a thread"]),
        (
            InboxQuery { from: some(&format!("cellar, {}", ben.address)), ..now() },
            vec!["ann, labelled", "ben, plain", "ben, in a thread"],
        ),
        (InboxQuery { from: some("carl"), ..now() }, vec![]),
        (InboxQuery { label: some("cellar"), ..now() }, vec!["ann, labelled"]),
        (InboxQuery { thread_id: some(&boss.thread_id), ..now() }, vec!["ben, in a thread"]),
        (InboxQuery { from: some("ann"), thread_id: some(&boss.thread_id), ..now() }, vec![]),
        (now(), vec!["ann, plain", "ann, labelled", "ben, plain", "ben, in a thread"]),
    ];
    for (query, expected) in cases {
        let inbox = as_boss.inbox(&query).await.expect("an answer");
        assert_eq!(texts(&inbox), expected, "{query:?}");
        if !expected.is_empty() {
            as_boss.nack(&receipt_of(&inbox)).await.expect("given back");
        }
    }
}

#[tokio::test]
async fn a_filtered_wait_sleeps_through_other_mail() {
    let house = House::new().await;
    let (boss, as_boss) = house.agent("boss").await;
    let (_, as_ann) = house.agent("ann").await;
    let (_, as_ben) = house.agent("ben").await;
    let query = InboxQuery { from: Some("ben".into()), ..wait(60.0) };
    let reader = as_boss.clone();
    let waiting = tokio::spawn(async move { reader.inbox(&query).await });
    house.waits(&boss.instance).await;

    send(&as_ann, &boss.instance, "not you").await;
    send(&as_ben, &boss.instance, "you").await;

    let inbox = within("ben's mail", waiting).await.expect("no panic").expect("an answer");
    assert_eq!(texts(&inbox), ["you"]);
    assert_eq!(texts(&read(&as_boss).await), ["not you"]);
}

#[tokio::test]
async fn auto_consumes_what_was_written() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let sent = send(&house.operator(), &bob.instance, "at my own risk").await;

    let query = InboxQuery { ack: Some("auto".into()), ..now() };
    let inbox = as_bob.inbox(&query).await.expect("an answer");

    assert_eq!(texts(&inbox), ["at my own risk"]);
    let acked = house.becomes(sent.seq, "acked").await;
    assert_eq!((acked.proof.as_deref(), acked.by.as_deref()), (Some("auto"), Some(&*bob.instance)));
    let begun = InboxQuery { begin: Some(true), ..now() };
    assert!(as_bob.inbox(&begun).await.expect("an answer").messages.is_empty());
}

#[tokio::test]
async fn an_answer_counts_as_written_however_the_connection_ends() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let line = format!("Host: localhost\r\nAuthorization: Bearer {}", bob.token);
    for head in [
        format!("GET /v1/inbox?timeout=0&ack=auto HTTP/1.1\r\n{line}\r\nConnection: close\r\n\r\n"),
        format!("GET /v1/inbox?timeout=0&ack=auto HTTP/1.0\r\n{line}\r\n\r\n"),
    ] {
        let sent = send(&house.operator(), &bob.instance, "goodbye").await;
        let (status, answer) = house.raw(&head).await;
        assert_eq!((status, &answer["messages"][0]["message"]), (200, &"goodbye".into()), "{head}");
        house.becomes(sent.seq, "acked").await;
    }
}

#[tokio::test]
async fn many_readers_of_one_agent_never_get_the_same_message() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    for n in 0..40 {
        send(&house.operator(), &bob.instance, &format!("{n:0100}")).await;
    }

    let one = InboxQuery { max_chars: Some(100), ..now() };
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let (client, query) = (as_bob.clone(), one.clone());
            tokio::spawn(async move { client.inbox(&query).await.expect("an answer") })
        })
        .collect();
    let mut got: Vec<u64> = Vec::new();
    for reader in readers {
        let inbox: Inbox<'_> = reader.await.expect("no panic");
        got.extend(ids(&inbox));
    }

    assert_eq!(got.len(), 20, "one message each");
    got.extend(ids(&read(&as_bob).await));
    got.sort_unstable();
    got.dedup();
    assert_eq!(got.len(), 40);
}
