//! What proves that mail arrived, and what gives it back.

use posthaste_api::ErrorCode;
use posthaste_api::inbox::{InboxQuery, SettleRequest};
use posthaste_api::messages::{MessageRef, SendRequest};
use serde_json::json;

use crate::house::{House, by_ids, ids, now, read, receipt_of, refusal, send, texts};

#[tokio::test]
async fn a_receipt_given_back_settles_the_whole_answer() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let one = send(&house.operator(), &bob.instance, "one").await;
    let two = send(&house.operator(), "bob", "two").await;
    let inbox = read(&as_bob).await;
    assert_eq!(ids(&inbox), [one.seq, two.seq]);

    let acked = as_bob.ack(&receipt_of(&inbox)).await.expect("acked");

    assert_eq!(acked.acked, 2);
    for seq in [one.seq, two.seq] {
        let record = house.record(seq).await;
        assert!(record.read);
        let done = &record.deliveries[0];
        assert_eq!((&*done.state, done.proof.as_deref()), ("acked", Some("receipt")));
        assert_eq!(done.by.as_deref(), Some(&*bob.instance));
        assert!(done.leased_at.is_some() && done.settled_at.is_some());
    }
    assert_eq!(house.instance(&bob.instance).await.unread, 0);
    let again = as_bob.ack(&receipt_of(&inbox)).await.expect("no error");
    assert_eq!(again.acked, 0, "an ack is final");
    assert!(read(&as_bob).await.messages.is_empty());
}

#[tokio::test]
async fn mail_can_be_acked_by_number_or_by_id() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let one = send(&house.operator(), &bob.instance, "one").await;
    let two = send(&house.operator(), &bob.instance, "two").await;
    let three = send(&house.operator(), &bob.instance, "three").await;
    read(&as_bob).await;

    let named = [
        MessageRef::Seq(one.seq),
        MessageRef::Text(two.id.to_string()),
        MessageRef::Seq(one.seq),
        MessageRef::Seq(999_999),
    ];
    let request = SettleRequest { receipt: None, ids: Some(named.to_vec()) };
    let acked = as_bob.ack(&request).await.expect("acked");

    assert_eq!(acked.acked, 2, "twice the same is once, the unknown is none");
    assert_eq!(house.standing(one.seq).await.state, "acked");
    assert_eq!(house.standing(two.seq).await.state, "acked");
    assert_eq!(house.standing(three.seq).await.state, "leased", "what was not named stays");
    let text =
        SettleRequest { receipt: None, ids: Some(vec![MessageRef::Text(three.seq.to_string())]) };
    assert_eq!(as_bob.ack(&text).await.expect("acked").acked, 1, "a number may be text");
}

#[tokio::test]
async fn a_receipt_can_ride_on_the_next_call() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let first = send(&house.operator(), &bob.instance, "first").await;
    let inbox = read(&as_bob).await;
    send(&house.operator(), &bob.instance, "second").await;

    let riding = InboxQuery { receipt: receipt_of(&inbox).receipt, ..now() };
    let next = as_bob.inbox(&riding).await.expect("an answer");

    assert_eq!(texts(&next), ["second"]);
    let acked = house.becomes(first.seq, "acked").await;
    assert_eq!(acked.proof.as_deref(), Some("receipt"));
}

#[tokio::test]
async fn a_reader_that_begins_anew_may_still_prove_what_it_had() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let proved = send(&house.operator(), &bob.instance, "proved").await;
    let receipt = receipt_of(&read(&as_bob).await).receipt;
    let held = send(&house.operator(), &bob.instance, "not proved").await;
    read(&as_bob).await;

    let anew = InboxQuery { receipt, begin: Some(true), ..now() };
    let inbox = as_bob.inbox(&anew).await.expect("an answer");

    assert_eq!(ids(&inbox), [held.seq], "what was proved does not come again");
    let acked = house.becomes(proved.seq, "acked").await;
    assert_eq!(acked.proof.as_deref(), Some("receipt"));
}

#[tokio::test]
async fn a_later_call_alone_proves_nothing() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let sent = send(&house.operator(), &bob.instance, "unproven").await;
    read(&as_bob).await;

    for _ in 0..3 {
        read(&as_bob).await;
    }

    let standing = house.standing(sent.seq).await;
    assert_eq!((&*standing.state, standing.proof), ("leased", None));
}

#[tokio::test]
async fn an_unknown_or_foreign_receipt_is_ignored() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let (_, as_carol) = house.agent("carol").await;
    let sent = send(&house.operator(), &bob.instance, "for bob").await;
    let bobs = receipt_of(&read(&as_bob).await);
    let named = |receipt: &str| SettleRequest { receipt: Some(receipt.into()), ids: None };

    for receipt in ["r-0000000000000000", "r-", "", "nonsense", "r-zz", "🦀"] {
        assert_eq!(as_bob.ack(&named(receipt)).await.expect("no error").acked, 0, "{receipt}");
        assert_eq!(as_bob.nack(&named(receipt)).await.expect("no error").returned, 0);
        let riding = InboxQuery { receipt: Some(receipt.into()), ..now() };
        as_bob.inbox(&riding).await.expect("no error");
    }
    assert_eq!(as_carol.ack(&bobs).await.expect("no error").acked, 0, "not hers");
    assert_eq!(as_carol.nack(&bobs).await.expect("no error").returned, 0, "not hers");
    let riding = InboxQuery { receipt: bobs.receipt.clone(), ..now() };
    as_carol.inbox(&riding).await.expect("no error");
    assert_eq!(house.operator().ack(&bobs).await.expect("no error").acked, 0, "not even theirs");

    assert_eq!(house.standing(sent.seq).await.state, "leased");
    assert_eq!(as_bob.ack(&bobs).await.expect("acked").acked, 1);
}

#[tokio::test]
async fn mail_that_another_holds_cannot_be_acked() {
    let house = House::new().await;
    let (_, as_first) = house.agent("mason").await;
    let (second, as_second) = house.agent("mason").await;
    let sent = send(&house.operator(), "mason", "one of you").await;
    let inbox = read(&as_first).await;
    assert!(read(&as_second).await.messages.is_empty(), "the first who reads has it");
    as_first.nack(&receipt_of(&inbox)).await.expect("given back");
    let taken = read(&as_second).await;
    assert_eq!(ids(&taken), [sent.seq]);

    let by_number = refusal(as_first.ack(&by_ids(&[sent.seq])).await);
    let by_receipt = refusal(as_first.ack(&receipt_of(&inbox)).await);
    let refused = refusal(as_first.nack(&by_ids(&[sent.seq])).await);

    for error in [by_number, by_receipt, refused] {
        assert_eq!((error.code, error.code.status()), (ErrorCode::LeaseLost, 409));
        assert_eq!(error.details.as_deref(), Some(&json!({"lost": [sent.seq], "settled": 0})));
    }
    let held = house.standing(sent.seq).await;
    assert_eq!((&*held.state, held.by.as_deref()), ("leased", Some(&*second.instance)));
    assert_eq!(as_second.ack(&receipt_of(&taken)).await.expect("acked").acked, 1);
}

#[tokio::test]
async fn what_one_holds_is_acked_beside_what_one_lost() {
    let house = House::new().await;
    let (first, as_first) = house.agent("mason").await;
    let (_, as_second) = house.agent("mason").await;
    let lost = send(&house.operator(), "mason", "lost").await;
    let inbox = read(&as_first).await;
    as_first.nack(&receipt_of(&inbox)).await.expect("given back");
    assert_eq!(ids(&read(&as_second).await), [lost.seq]);
    let held = send(&house.operator(), &first.instance, "held").await;
    read(&as_first).await;

    let error = refusal(as_first.ack(&by_ids(&[lost.seq, held.seq])).await);

    assert_eq!(error.code, ErrorCode::LeaseLost);
    assert_eq!(error.details.as_deref(), Some(&json!({"lost": [lost.seq], "settled": 1})));
    assert_eq!(house.standing(held.seq).await.state, "acked");
    assert_eq!(house.standing(lost.seq).await.state, "leased");
}

#[tokio::test]
async fn what_was_never_handed_out_cannot_be_acked_or_refused() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let (_, as_carol) = house.agent("carol").await;
    let sent = send(&house.operator(), &bob.instance, "unread").await;

    assert_eq!(refusal(as_bob.ack(&by_ids(&[sent.seq])).await).code, ErrorCode::LeaseLost);
    assert_eq!(refusal(as_bob.nack(&by_ids(&[sent.seq])).await).code, ErrorCode::LeaseLost);
    assert_eq!(as_carol.ack(&by_ids(&[sent.seq])).await.expect("no error").acked, 0);
    let by_uid = SettleRequest { receipt: None, ids: Some(vec![MessageRef::Text(sent.id.into())]) };
    assert_eq!(refusal(as_carol.ack(&by_uid).await).code, ErrorCode::NotFound);

    let inbox = read(&as_bob).await;
    assert_eq!(texts(&inbox), ["unread"]);
    assert!(!inbox.messages[0].redelivered);
}

#[tokio::test]
async fn refused_mail_comes_again_marked_and_dies_the_fifth_time() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let sent = send(&house.operator(), &bob.instance, "indigestible").await;

    for attempt in 1..=5 {
        let inbox = read(&as_bob).await;
        assert_eq!(ids(&inbox), [sent.seq], "attempt {attempt}");
        assert_eq!(inbox.messages[0].redelivered, attempt > 1, "attempt {attempt}");
        let returned = as_bob.nack(&receipt_of(&inbox)).await.expect("heard");
        let told = (returned.returned, returned.refused);
        assert_eq!(told, if attempt < 5 { (1, 0) } else { (0, 1) }, "attempt {attempt}");
    }

    assert!(read(&as_bob).await.messages.is_empty());
    let dead = house.standing(sent.seq).await;
    assert_eq!((&*dead.state, dead.reason.as_deref()), ("dead", Some("refused")));
    assert!(dead.maybe_seen);

    let requeued = house.operator().requeue(&sent.id).await.expect("another chance");
    assert_eq!(requeued.deliveries[0].state, "queued");
    let inbox = read(&as_bob).await;
    assert!(inbox.messages[0].redelivered, "he may have seen it");
    assert_eq!(as_bob.nack(&receipt_of(&inbox)).await.expect("heard").returned, 1, "counted anew");
}

#[tokio::test]
async fn a_late_ack_still_settles_what_is_queued_again() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let sent = send(&house.operator(), &bob.instance, "slow").await;
    let inbox = read(&as_bob).await;
    as_bob.nack(&receipt_of(&inbox)).await.expect("given back");

    assert_eq!(as_bob.ack(&receipt_of(&inbox)).await.expect("acked").acked, 1);

    assert_eq!(house.standing(sent.seq).await.state, "acked");
    assert!(read(&as_bob).await.messages.is_empty());
}

#[tokio::test]
async fn a_reply_proves_that_its_author_had_the_question() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let question = send(&as_alice, &bob.instance, "why?").await;
    let other = send(&as_alice, &bob.instance, "and where?").await;
    let reply = |text: &str| SendRequest {
        in_reply_to: Some(MessageRef::Text(question.id.to_string())),
        ..SendRequest::new(alice.instance.clone(), text)
    };

    house.operator().send(&reply("I was faster")).await.expect("accepted");
    as_bob.send(&reply("guessing")).await.expect("accepted");
    let untouched = house.standing(question.seq).await;
    assert_eq!(untouched.state, "queued", "nobody held it, so nobody proved it");

    read(&as_bob).await;
    house.operator().send(&reply("not the holder")).await.expect("accepted");
    assert_eq!(house.standing(question.seq).await.state, "leased");
    as_bob.send(&reply("because")).await.expect("accepted");

    let acked = house.standing(question.seq).await;
    assert_eq!((&*acked.state, acked.proof.as_deref()), ("acked", Some("reply")));
    assert_eq!(house.standing(other.seq).await.state, "leased", "only what it names");
    assert_eq!(read(&as_alice).await.messages[3].in_reply_to, Some(question.seq));
}

#[tokio::test]
async fn a_sender_takes_back_what_nobody_was_handed() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let oops = send(&as_alice, &bob.instance, "oops").await;

    let not_his = refusal(as_bob.cancel(&oops.id).await);
    assert_eq!(not_his.code, ErrorCode::NotFound);
    let cancelled = as_alice.cancel(&oops.seq.to_string()).await.expect("taken back");

    let dead = &cancelled.deliveries[0];
    assert_eq!((&*dead.state, dead.reason.as_deref()), ("dead", Some("cancelled")));
    assert!(!dead.maybe_seen);
    assert!(read(&as_bob).await.messages.is_empty());
    let twice = refusal(as_alice.cancel(&oops.id).await);
    assert_eq!((twice.code, twice.code.status()), (ErrorCode::Conflict, 409));

    let requeued = as_alice.requeue(&oops.id).await.expect("after all");
    assert_eq!(requeued.deliveries[0].state, "queued");
    let inbox = read(&as_bob).await;
    assert_eq!(texts(&inbox), ["oops"]);
    assert!(!inbox.messages[0].redelivered, "nobody can have seen it");
}

#[tokio::test]
async fn what_is_in_somebodys_hands_is_not_taken_back() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let operator = house.operator();
    let sent = send(&operator, &bob.instance, "too late").await;
    let inbox = read(&as_bob).await;

    assert_eq!(refusal(operator.cancel(&sent.id).await).code, ErrorCode::Conflict);
    assert_eq!(refusal(operator.requeue(&sent.id).await).code, ErrorCode::Conflict);
    assert_eq!(as_bob.ack(&receipt_of(&inbox)).await.expect("acked").acked, 1);
    assert_eq!(refusal(operator.cancel(&sent.id).await).code, ErrorCode::Conflict);
    assert_eq!(refusal(operator.requeue(&sent.id).await).code, ErrorCode::Conflict);
    assert_eq!(house.standing(sent.seq).await.state, "acked");
    assert_eq!(refusal(operator.cancel("4711").await).code, ErrorCode::NotFound);
}

#[tokio::test]
async fn dead_mail_of_one_who_left_stays_dead() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let unread = send(&house.operator(), &bob.instance, "unread").await;
    as_bob.leave(&bob.instance).await.expect("left");

    let dead = house.standing(unread.seq).await;
    assert_eq!((&*dead.state, dead.reason.as_deref()), ("dead", Some("recipient_gone")));
    assert!(!dead.maybe_seen);
    let refused = refusal(house.operator().requeue(&unread.id).await);
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert!(refused.message.contains("ended"), "{}", refused.message);
}

#[tokio::test]
async fn a_receipt_whose_mail_is_settled_cannot_refuse_it() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    send(&house.operator(), &bob.instance, "hello").await;
    let receipt = receipt_of(&read(&as_bob).await);
    let ids = by_ids(&[1]);
    as_bob.ack(&ids).await.expect("acked by its number");
    let told = refusal(as_bob.nack(&receipt).await);
    assert_eq!(told.code, ErrorCode::LeaseLost);
    assert_eq!(told.message, "what that answer brought is settled or has been returned");
    assert_eq!(told.details.expect("details")["lost"], serde_json::json!([]));
}
