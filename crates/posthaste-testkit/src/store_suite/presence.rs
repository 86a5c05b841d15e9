//! The promises about which instances are alive, and therefore may take one-of mail.

use std::time::Duration;

use posthaste_core::messaging::delivery::AnswerId;
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::{Clock, Filter, Take};
use posthaste_core::registry::Status;

use super::{HUMAN, Rig, address, bodies};

fn status(rig: &Rig, who: Principal) -> Status {
    let id = who.instance().expect("an instance");
    rig.engine.ledger(|l| l.instance(id)).expect("known").instance.status
}

pub async fn one_of_mail_is_the_own_of_the_only_one_alive(rig: Rig) {
    let (one, two) = (rig.agent("mason").await, rig.agent("mason").await);
    rig.engine.connected(two);
    for n in 0..4 {
        rig.send(HUMAN, "mason", &format!("{n}")).await.expect("accepted");
    }
    let take = |answer| Take {
        reader: one,
        answer: AnswerId(answer),
        filter: Filter::default(),
        messages: 9,
        bytes: usize::MAX,
        clips: None,
    };
    let shared = rig.engine.lease(take(1)).await.expect("a lease");
    assert_eq!((bodies(&shared.mail), shared.remaining, shared.shared), (vec!["0"], 3, 3));
    rig.engine.disconnected(two);
    assert_eq!(rig.engine.survey(one, Filter::default()).await.expect("a look").waiting, 3);
    let own = rig.engine.lease(take(2)).await.expect("a lease");
    assert_eq!((bodies(&own.mail), own.remaining, own.shared), (vec!["1", "2", "3"], 0, 0));
}

pub async fn who_closes_its_last_connection_is_away_at_once(rig: Rig) {
    let (bob, eve) = (rig.agent("bob").await, rig.agent("eve").await);
    rig.engine.connected(bob);
    rig.engine.connected(bob);
    rig.engine.disconnected(bob);
    rig.clock.advance(rig.limits.away_after + Duration::from_secs(1));
    assert_eq!((status(&rig, bob), status(&rig, eve)), (Status::Running, Status::Away));
    rig.engine.disconnected(bob);
    assert_eq!(status(&rig, bob), Status::Away);
    let sent = rig.send(HUMAN, &address(bob), "it waits").await.expect("still an address");
    assert_eq!(sent.recipients[0].active, 0);
    let nobody = rig.send(HUMAN, "@everyone", "hello").await;
    assert!(matches!(nobody, Err(SendError::NoRecipient { .. })), "{nobody:?}");
    rig.engine.seen(bob);
    assert_eq!(status(&rig, bob), Status::Running);
    assert_eq!(rig.send(HUMAN, "@everyone", "hello").await.expect("sent").recipients.len(), 1);
}

pub async fn an_open_call_keeps_its_instance_alive_and_a_while_after(rig: Rig) {
    let bob = rig.agent("bob").await;
    let call = rig.engine.call_opened(bob);
    rig.clock.advance(rig.limits.away_after * 5);
    rig.engine.sweep().await.expect("swept");
    assert_eq!(status(&rig, bob), Status::Running);
    rig.engine.call_closed(bob, call);
    rig.clock.advance(rig.limits.away_after - Duration::from_secs(1));
    assert_eq!(status(&rig, bob), Status::Running);
    rig.clock.advance(Duration::from_secs(1));
    assert_eq!(status(&rig, bob), Status::Away);
}

pub async fn a_call_that_ends_after_the_last_connection_is_no_sign_of_life(rig: Rig) {
    let bob = rig.agent("bob").await;
    rig.engine.connected(bob);
    let call = rig.engine.call_opened(bob);
    rig.engine.disconnected(bob);
    assert_eq!(status(&rig, bob), Status::Running, "the call is open");
    rig.engine.call_closed(bob, call);
    assert_eq!(status(&rig, bob), Status::Away);
}

pub async fn who_is_gone_is_forgotten_unless_it_has_mail(rig: Rig) {
    let (gone, reads) = (rig.agent("gone").await, rig.agent("reads").await);
    let (holds, stays) = (rig.agent("holds").await, rig.agent("stays").await);
    rig.engine.connected(stays);
    let unread = rig.send(HUMAN, &address(reads), "unread").await.expect("accepted");
    let unproved = rig.send(HUMAN, "holds", "unproved").await.expect("accepted");
    assert_eq!(rig.read(holds, 1).await.len(), 1);
    rig.clock.advance(rig.limits.forget_after);
    let now = rig.clock.now();
    let too_early = now - rig.limits.forget_after - Duration::from_secs(1);
    assert!(rig.engine.forget_gone(too_early).await.expect("a look").is_empty());
    let forgotten = rig.engine.forget_gone(now).await.expect("forgotten");
    assert_eq!(forgotten.iter().map(|i| Some(i.id)).collect::<Vec<_>>(), [gone.instance()]);
    assert_eq!(status(&rig, gone), Status::Stopped);
    let refused = rig.send(HUMAN, &address(gone), "hello?").await;
    assert!(matches!(refused, Err(SendError::RecipientGone { .. })), "{refused:?}");
    for kept in [unread.seq, unproved.seq] {
        assert!(!rig.states(kept).await.is_empty());
    }
    assert!(rig.engine.forget_gone(now).await.expect("a look").is_empty());
}
