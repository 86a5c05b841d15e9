//! What each change of needs and of remembered verdicts leaves behind.

use std::sync::Arc;

use posthaste_core::address::InstanceId;
use posthaste_core::events::{EventKind, Trace};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::Seq;
use posthaste_core::needs::{Asked, Asker, Closed, Need, NeedId, NeedKind, Outcome, Remembered};
use posthaste_core::ports::change::{Change, Old};
use posthaste_core::ports::store::{Ages, CommitError, NeedsLook};
use posthaste_core::registry::{Instance, Status};
use posthaste_core::time::Timestamp;

use crate::rig::{Rig, START, instance, minutes_after, name};

const ONE: InstanceId = InstanceId(1);

pub(crate) fn need(id: u64, kind: NeedKind) -> Need {
    let from = Asker { instance: Some(ONE), address: "mason.00000001@main".into() };
    Need::new(NeedId(id), kind, from, "it's a \"text\"\n", START)
}

fn permission(id: u64, request: &str) -> Need {
    let asked = Asked { request: request.into(), subject: Some("Bash(git push)".into()) };
    Need { asked: Some(asked), blocking: true, ..need(id, NeedKind::Permission) }
}

fn opened(need: &Need) -> Change {
    Change::NeedOpened(Arc::new(need.clone()))
}

fn closed(outcome: Outcome, minutes: i64) -> Closed {
    Closed::new(outcome, minutes_after(START, minutes))
}

async fn all(rig: &Rig) -> Vec<Need> {
    let look = NeedsLook::After { after: NeedId(0), kind: None, open_only: false, most: 99 };
    rig.store.needs(look).await.expect("needs")
}

pub(crate) async fn a_need_comes_back_with_every_field(mut rig: Rig) {
    let mut needs = vec![
        Need {
            options: vec!["yes".into(), "it's, \"no\"".into()],
            message: Some(Seq(7)),
            ..need(1, NeedKind::Question)
        },
        permission(2, "r-1"),
        Need { message: Some(Seq(9)), ..need(3, NeedKind::Failed) },
        Need {
            from: Asker { instance: None, address: "human".into() },
            message: Some(Seq(u64::from(u32::MAX) + 1)),
            delivery: Some(DeliveryNo(12)),
            ..need(9, NeedKind::Dead)
        },
    ];
    rig.commit(needs.iter().map(opened).collect()).await;
    assert_eq!(all(&rig).await, needs);
    let loaded = rig.reopen().await.loaded;
    assert_eq!(loaded.needs, needs.iter().map(Need::known).collect::<Vec<_>>());
    assert_eq!(loaded.last_need, 9);

    let answer =
        Closed { text: Some("yes".into()), message: Some(Seq(8)), ..closed(Outcome::Answered, 3) };
    rig.commit(vec![Change::NeedClosed { id: NeedId(1), closed: answer.clone() }]).await;
    needs[0].closed = Some(answer);
    assert_eq!(all(&rig).await, needs);
    rig.reopen().await;
    assert_eq!(all(&rig).await, needs);
}

pub(crate) async fn needs_are_found_by_number_kind_and_state(mut rig: Rig) {
    for id in 1..=6 {
        let kind = if id % 2 == 0 { NeedKind::Dead } else { NeedKind::Failed };
        rig.commit(vec![opened(&need(id, kind))]).await;
    }
    for id in [1, 2] {
        let closed = closed(Outcome::Seen, 1);
        rig.commit(vec![Change::NeedClosed { id: NeedId(id), closed }]).await;
    }
    let found = async |look| -> Vec<u64> {
        rig.store.needs(look).await.expect("needs").iter().map(|need| need.id.0).collect()
    };
    let after = |after, kind, open_only, most| NeedsLook::After {
        after: NeedId(after),
        kind,
        open_only,
        most,
    };
    assert_eq!(found(after(0, None, true, 9)).await, [3, 4, 5, 6]);
    assert_eq!(found(after(0, None, false, 3)).await, [1, 2, 3]);
    assert_eq!(found(after(3, None, true, 2)).await, [4, 5]);
    assert_eq!(found(after(0, Some(NeedKind::Dead), true, 9)).await, [4, 6]);
    assert_eq!(found(after(0, Some(NeedKind::Dead), false, 9)).await, [2, 4, 6]);
    assert_eq!(found(after(0, Some(NeedKind::Question), false, 9)).await, [] as [u64; 0]);
    let these = [5, 1, 99, 5].map(NeedId).to_vec();
    assert_eq!(found(NeedsLook::These(these)).await, [1, 5]);
}

pub(crate) async fn a_need_is_opened_once_and_closed_once(mut rig: Rig) {
    rig.commit(vec![opened(&need(4, NeedKind::Failed))]).await;
    let end = |id| Change::NeedClosed { id: NeedId(id), closed: closed(Outcome::Seen, 1) };
    let refused = [
        vec![opened(&need(4, NeedKind::Dead))],
        vec![end(3)],
        vec![end(4), end(4)],
        vec![opened(&need(5, NeedKind::Dead)), end(6)],
    ];
    for changes in refused {
        let error = rig.try_commit(changes.clone()).await;
        assert!(matches!(error, Err(CommitError::OneChange(_))), "{changes:?}: {error:?}");
    }
    assert_eq!(all(&rig).await, [need(4, NeedKind::Failed)], "nothing is left of them");
    rig.commit(vec![opened(&need(5, NeedKind::Dead)), end(5), end(4)]).await;
    assert!(all(&rig).await.iter().all(|need| need.closed.is_some()));
}

pub(crate) async fn closed_permissions_are_told_while_their_asker_lives(mut rig: Rig) {
    let asker = instance(1, START);
    rig.commit(vec![
        Change::InstanceAdded(asker.clone().into()),
        opened(&permission(1, "r-1")),
        opened(&need(2, NeedKind::Question)),
        opened(&permission(3, "r-2")),
    ])
    .await;
    let end = |id, outcome| Change::NeedClosed { id: NeedId(id), closed: closed(outcome, 1) };
    rig.commit(vec![end(1, Outcome::Denied), end(2, Outcome::Answered)]).await;
    let known = async |rig: &mut Rig| -> Vec<(u64, Option<Outcome>)> {
        let needs = rig.reopen().await.loaded.needs;
        needs.into_iter().map(|need| (need.id.0, need.outcome)).collect()
    };
    assert_eq!(known(&mut rig).await, [(1, Some(Outcome::Denied)), (3, None)]);
    let ended_at = Some(minutes_after(START, 2));
    let ended = Instance { status: Status::Stopped, ended_at, ..asker };
    rig.commit(vec![Change::InstanceEnded(ended.into()), end(3, Outcome::Withdrawn)]).await;
    assert_eq!(known(&mut rig).await, []);
    assert_eq!(all(&rig).await.len(), 3, "what was asked can still be read");
}

pub(crate) async fn the_last_verdict_on_a_subject_is_remembered(mut rig: Rig) {
    let verdict = |profile: &str, subject: &str, allow| Remembered {
        profile: name(profile),
        subject: subject.into(),
        allow,
        at: START,
    };
    let all = [
        verdict("carver", "Edit", true),
        verdict("mason", "Bash(git push)", false),
        verdict("mason", "Edit", true),
    ];
    let remember = |verdict: &Remembered| Change::VerdictRemembered(verdict.clone());
    rig.commit(vec![remember(&verdict("mason", "Bash(git push)", true))]).await;
    rig.commit(all.iter().rev().map(remember).collect()).await;
    assert_eq!(rig.reopen().await.loaded.remembered, all);
    let forgotten = |profile: &str, subject: &str| Change::VerdictForgotten {
        profile: name(profile),
        subject: subject.into(),
    };
    rig.commit(vec![forgotten("mason", "Edit"), forgotten("nobody", "Edit")]).await;
    assert_eq!(rig.reopen().await.loaded.remembered, all[..2]);
}

pub(crate) async fn old_closed_needs_are_forgotten_and_open_ones_never(mut rig: Rig) {
    for id in 1..=4 {
        rig.commit(vec![opened(&need(id, NeedKind::Failed))]).await;
    }
    for (id, minutes) in [(1, 10), (2, 20), (4, 30)] {
        let closed = closed(Outcome::Seen, minutes);
        rig.commit(vec![Change::NeedClosed { id: NeedId(id), closed }]).await;
    }
    rig.wait(40);
    let nothing = Old { before: Timestamp(i64::MIN), beyond: Timestamp(i64::MAX), now: rig.now };
    let before = |minute| Old { before: minutes_after(START, minute), ..nothing };
    let has_old = async |rig: &Rig, minute| {
        let (acked, dead, events) = (nothing, nothing, nothing);
        let ages = Ages { acked, dead, events, needs: before(minute) };
        rig.store.aged(ages, 9).await.expect("an answer").has_needs
    };
    assert!(!has_old(&rig, 10).await && has_old(&rig, 11).await);
    let forget = |needs| {
        let (keys, ended, settled, events) = (nothing, nothing, nothing, nothing);
        Change::OldForgotten { keys, ended, settled, events, needs }
    };
    rig.commit(vec![forget(before(20))]).await;
    let left = async |rig: &Rig| all(rig).await.iter().map(|n| n.id.0).collect::<Vec<_>>();
    assert_eq!(left(&rig).await, [2, 3, 4]);
    rig.commit(vec![forget(before(999))]).await;
    assert_eq!(left(&rig).await, [3]);
    assert_eq!(rig.reopen().await.loaded.last_need, 4, "no number is given again");
    let refused = rig.try_commit(vec![opened(&need(3, NeedKind::Dead))]).await;
    assert!(matches!(refused, Err(CommitError::OneChange(_))), "{refused:?}");
}

pub(crate) async fn a_need_is_told_when_it_opens_and_when_it_closes(mut rig: Rig) {
    rig.commit(vec![opened(&need(1, NeedKind::Failed)), opened(&need(2, NeedKind::Dead))]).await;
    let closed = closed(Outcome::Dismissed, 1);
    rig.commit(vec![Change::NeedClosed { id: NeedId(2), closed }]).await;
    let told: Vec<_> = rig.journal().await.into_iter().filter_map(|event| event.told).collect();
    let about = |kind, id| (kind, Trace::Need(NeedId(id)));
    assert_eq!(
        told,
        [
            about(EventKind::NeedOpened, 1),
            about(EventKind::NeedOpened, 2),
            about(EventKind::NeedClosed, 2),
        ]
    );
}
