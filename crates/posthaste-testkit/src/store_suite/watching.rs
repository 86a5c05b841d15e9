//! The promises about events, and about the store's figures.

use std::time::Duration;

use posthaste_core::messaging::delivery::{AnswerId, Proof, Reason};
use posthaste_core::ports::{Clock, What};

use super::{HUMAN, Rig, address};

pub async fn events_are_numbered_in_order_and_none_is_left_out(rig: Rig) {
    let bob = rig.agent("bob").await;
    for n in 0..20 {
        rig.send(HUMAN, &bob.to_string(), &n.to_string()).await.expect("accepted");
    }
    let mail = rig.read(bob, 1).await;
    let what = What::Deliveries(mail.iter().map(|l| l.delivery).collect());
    rig.engine.ack(bob, what, Proof::Receipt).await.expect("acked");
    let last = *rig.engine.last_event().borrow();
    assert_eq!(last, 41, "one came, twenty were accepted, twenty acked");
    let mut after = 0;
    let mut heard = Vec::new();
    while after < last {
        let page = rig.engine.events(after, 7).await.expect("a page");
        assert_eq!((page.oldest, page.last), (1, last));
        assert!(page.events.len() <= 7 && page.upto > after);
        heard.extend(page.events.iter().map(|e| e.no));
        after = page.upto;
    }
    assert_eq!(heard, (1..=41).collect::<Vec<u64>>());
}

pub async fn the_journal_is_forgotten_after_its_time_and_its_numbers_are_not(rig: Rig) {
    let bob = rig.agent("bob").await;
    rig.send(HUMAN, &bob.to_string(), "old").await.expect("accepted");
    rig.clock.advance(rig.limits.event_retention + Duration::from_secs(1));
    rig.engine.sweep().await.expect("swept");
    let page = rig.engine.events(0, 99).await.expect("a page");
    // The silence of the instance itself was an event.
    let first = page.events.first().map_or(page.last + 1, |e| e.no);
    assert_eq!((page.oldest, first > 2), (first, true));
    rig.send(HUMAN, &bob.to_string(), "new").await.expect("accepted");
    let next = rig.engine.events(page.last, 99).await.expect("a page");
    assert_eq!(next.events.iter().map(|e| e.no).collect::<Vec<_>>(), [page.last + 1]);
}

pub async fn figures_tell_what_became_of_mail(rig: Rig) {
    assert!(rig.engine.is_ready(), "nothing was left open");
    let none = rig.engine.figures().await.expect("figures");
    assert_eq!((none.open, none.oldest, none.tally.accepted), (0, None, 0));

    let bob = rig.agent("bob").await;
    let first = rig.clock.now();
    for body in ["acked", "held", "returned"] {
        rig.send(HUMAN, &address(bob), body).await.expect("accepted");
        rig.clock.advance(Duration::from_secs(1));
    }
    let mail = rig.read(bob, 1).await;
    rig.engine.give_back(bob, &[mail[2].delivery], AnswerId(1), false);
    let before = rig.engine.figures().await.expect("figures");
    assert_eq!((before.open, before.oldest), (3, Some(first)), "leased mail is open, too");
    let acked = What::Deliveries(vec![mail[0].delivery]);
    rig.engine.ack(bob, acked, Proof::Receipt).await.expect("acked");
    rig.engine.cancel(mail[2].message.seq).await.expect("cancelled");

    let told = rig.engine.figures().await.expect("figures");
    assert_eq!(told.open, 1);
    assert_eq!(told.oldest, Some(first + Duration::from_secs(1)));
    let tally = &told.tally;
    assert_eq!((tally.accepted, tally.leased, tally.acked, tally.returned), (3, 3, 1, 1));
    let dead: Vec<_> = tally.dead().filter(|(_, count)| *count > 0).collect();
    assert_eq!(dead, [(Reason::Cancelled.as_str(), 1)]);
    assert!(told.commits.total >= 5 && told.groups.total == told.commits.total);
}

pub async fn a_probe_writes_and_leaves_nothing(rig: Rig) {
    let bob = rig.agent("bob").await;
    let before = rig.send(HUMAN, &address(bob), "one").await.expect("accepted");
    rig.engine.probe().await.expect("it can write");
    rig.engine.probe().await.expect("and again");
    assert!(rig.engine.is_healthy());
    let after = rig.send(HUMAN, &address(bob), "two").await.expect("accepted");
    assert_eq!(after.seq.0, before.seq.0 + 1, "it took no number");
    assert_eq!(rig.engine.figures().await.expect("figures").open, 2);
}
