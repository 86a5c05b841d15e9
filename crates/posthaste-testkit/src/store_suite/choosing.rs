//! The promises to readers that want only some of the queued messages.

use posthaste_core::messaging::delivery::{AnswerId, Proof};
use posthaste_core::messaging::message::Details;
use posthaste_core::ports::{Filter, Take, What};

use super::{HUMAN, Rig, address, bodies};

pub async fn a_read_can_be_of_what_nobody_else_could_take(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let _rival = rig.agent("bob").await;
    for to in ["bob", "@anyone", &address(bob)] {
        rig.send(alice, to, to).await.expect("accepted");
    }
    let filter = Filter { own: true, ..Filter::default() };
    let survey = rig.engine.survey(bob, filter.clone()).await.expect("a survey");
    assert_eq!(survey.waiting, 1);
    let take = Take {
        reader: bob,
        answer: AnswerId(1),
        filter,
        messages: 10,
        bytes: usize::MAX,
        clips: None,
    };
    let found = rig.engine.lease(take).await.expect("a lease");
    assert_eq!(bodies(&found.mail), [address(bob)]);
    assert_eq!(rig.read(bob, 2).await.len(), 2, "the rest is for whoever reads");
}

pub async fn a_read_can_be_of_messages_by_number(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let mut seqs = Vec::new();
    for n in 0..rig.limits.window_messages + 3 {
        let sent = rig.send(alice, &address(bob), &n.to_string()).await.expect("accepted");
        seqs.push(sent.seq);
    }
    let among = [seqs[1], seqs[seqs.len() - 1]].into();
    let filter = Filter { among, ..Filter::default() };
    let take = Take {
        reader: bob,
        answer: AnswerId(1),
        filter,
        messages: 10,
        bytes: usize::MAX,
        clips: None,
    };
    let found = rig.engine.lease(take).await.expect("a lease");
    assert_eq!(bodies(&found.mail), ["1".to_owned(), (seqs.len() - 1).to_string()]);
}

pub async fn what_the_human_says_to_a_question_is_linked_to_it_or_to_nothing(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    rig.send(HUMAN, &address(bob), "yes, do that").await.expect("accepted");
    let question = rig.send(bob, "human", "red or blue?").await.expect("accepted").seq;
    let other = rig.send(bob, "human", "now?").await.expect("accepted").seq;
    let to = |seq| Details { in_reply_to: Some(seq), ..Details::default() };
    rig.send_with(alice, &address(bob), "green", Details::default()).await.expect("accepted");
    rig.send_with(HUMAN, &address(bob), "later", to(other)).await.expect("accepted");
    rig.send_with(HUMAN, &address(bob), "red", to(question)).await.expect("accepted");
    rig.send_with(HUMAN, &address(bob), "or blue", Details::default()).await.expect("accepted");
    let filter = Filter { answers: Some(question), ..Filter::default() };
    let take = Take {
        reader: bob,
        answer: AnswerId(1),
        filter,
        messages: 10,
        bytes: usize::MAX,
        clips: None,
    };
    let found = rig.engine.lease(take).await.expect("a lease");
    assert_eq!(bodies(&found.mail), ["red", "or blue"]);
}

pub async fn it_is_known_what_a_sender_had_not_read_yet(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let (a, b) = (alice.instance().expect("an instance"), bob.instance().expect("an instance"));
    let first = rig.send(bob, &address(alice), "I begin").await.expect("accepted").seq;
    let stop = rig.send(alice, &address(bob), "stop").await.expect("accepted").seq;
    let begun = rig.send(bob, &address(alice), "I began").await.expect("accepted").seq;
    assert!(rig.engine.ledger(|l| l.unseen(alice, b, begun)), "bob wrote before he read");
    assert!(
        !rig.engine.ledger(|l| l.unseen(alice, b, first)),
        "nothing was written to him by then"
    );
    assert!(rig.engine.ledger(|l| l.unseen(bob, a, stop)), "and so did she");
    rig.read(bob, 1).await;
    assert!(rig.engine.ledger(|l| l.unseen(alice, b, begun)), "held is not yet read");
    rig.engine.ack(bob, What::Messages(vec![stop]), Proof::Receipt).await.expect("settled");
    assert!(!rig.engine.ledger(|l| l.unseen(alice, b, begun)));
}

pub async fn what_nobody_was_shown_goes_back_as_it_was(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    rig.send(alice, &address(bob), "hello").await.expect("accepted");
    let mail = rig.read(bob, 1).await;
    let what: Vec<_> = mail.iter().map(|l| l.delivery).collect();
    rig.engine.put_back(bob, &what, AnswerId(9));
    assert!(rig.read(bob, 2).await.is_empty(), "another answer's");
    rig.engine.put_back(bob, &what, AnswerId(1));
    let again = rig.read(bob, 3).await;
    assert_eq!((again.len(), again[0].redelivered), (1, false));
}
