//! Mail and permissions in a conversation.

use std::time::Duration;

use posthaste_core::messaging::delivery::{Proof, Reason};
use posthaste_core::messaging::message::{Priority, Via};
use posthaste_core::needs::{Answer, NeedKind};
use posthaste_core::orchestration::{AgentsConfig, Assign, AtShutdown, TurnActivity};
use posthaste_core::ports::{RecordState, TranscriptKind};
use posthaste_core::registry::Status;

use super::super::wish;
use super::{Office, go, quick, until};
use crate::world::until as eventually;

const TURN: RecordState = RecordState::Acked(Proof::Turn);

#[tokio::test]
async fn mail_for_an_idle_worker_comes_as_one_prompt() {
    let leave = AgentsConfig { shutdown: AtShutdown::Leave, ..quick() };
    let office = Office::open(leave.clone()).await;
    let done =
        office.talks("next; begins; ends done; while :; do next; begins; ends ok; done").await;
    office.until_idle(&done).await;
    assert_eq!(office.told(&done).await.1, "done");
    let scratch = office.close().await;
    // All of it waits when the conversation is taken up again.
    let office = Office::open_in(scratch, leave).await;
    let mut sent = Vec::new();
    for text in ["one", "two", "three"] {
        sent.push(office.writes(&done, text, Priority::Normal).await.seq);
    }
    for seq in sent {
        office.until_state(seq, TURN).await;
    }
    office.until_idle(&done).await;
    let heard = office.heard(&done);
    assert!(heard.len() <= 3, "the first may come alone: {heard:?}");
    let all = heard[1..].concat();
    for text in ["one", "two", "three"] {
        assert_eq!(all.matches(&format!("\\\"message\\\":\\\"{text}\\\"")).count(), 1, "{all}");
    }
    assert!(!all.contains("redelivered"), "{all}");
    office.close().await;
}

#[tokio::test]
async fn urgent_mail_joins_the_turn_and_the_rest_waits_for_its_end() {
    let office = Office::open(quick()).await;
    let script = "next; begins; first=$id; next; waits go; begins; \
                  say \"{\\\"type\\\":\\\"result\\\",\\\"is_error\\\":false,\\\"result\\\":\\\"both\\\",\
                  \\\"user_message_uuids\\\":[\\\"$first\\\",\\\"$id\\\"]}\"; \
                  next; begins; ends ok; next";
    let done = office.talks(script).await;
    office.until_state(done.task, TURN).await;
    let normal = office.writes(&done, "when you have time", Priority::Normal).await;
    let urgent = office.writes(&done, "at once", Priority::Urgent).await;
    until(|| office.heard(&done).len() == 2).await;
    assert!(office.heard(&done)[1].contains("at once"));
    assert_eq!(office.state(urgent.seq).await, RecordState::Leased, "it has not been taken");
    go(&office, &done, "go");
    office.until_state(urgent.seq, TURN).await;
    assert_eq!(office.told(&done).await.1, "both");
    office.until_state(normal.seq, TURN).await;
    assert_eq!(office.heard(&done).len(), 3);
    office.close().await;
}

#[tokio::test]
async fn a_turn_without_work_that_fails_refuses_its_mail_and_the_fifth_time_it_is_dead() {
    let office = Office::open(quick()).await;
    let done =
        office.talks("next; begins; ends done; while :; do next; takes; fails no; done").await;
    office.until_idle(&done).await;
    let sent = office.writes(&done, "poison", Priority::Normal).await;
    let dead = RecordState::Dead { reason: Reason::Refused, maybe_seen: true };
    office.until_state(sent.seq, dead).await;
    let heard = office.heard(&done);
    assert_eq!(heard.len(), 6, "its task, and the mail five times");
    assert!(!heard[1].contains("redelivered"));
    assert!(heard[2..].iter().all(|line| line.contains("redelivered")), "{heard:?}");
    let needs = office.needs().await;
    assert_eq!(needs.iter().map(|need| need.kind).collect::<Vec<_>>(), [NeedKind::Dead]);
    assert_eq!(office.status(&done), Status::Running, "it has no work to fail");
    office.close().await;
}

#[tokio::test]
async fn a_second_task_gets_an_answer_of_its_own() {
    let office = Office::open(quick()).await;
    let script = "next; begins; waits go; ends first; next; begins; ends second; next";
    let done = office.talks(script).await;
    office.until_state(done.task, TURN).await;
    let more = Assign { worker: Some(done.instance.id), ..wish("talker", "another task") };
    let more = office.hub.assign(more).await.expect("assigned");
    go(&office, &done, "go");
    office.until_state(more.task, TURN).await;
    office.until_idle(&done).await;
    let mut answers = Vec::new();
    for taken in office.hub.taken_on(done.instance.id) {
        let report = taken.report.expect("reported").seq;
        answers.push((taken.task, office.text(report).await));
    }
    let expected = [(done.task, "first".to_owned()), (more.task, "second".to_owned())];
    assert_eq!(answers, expected);
    let heard = office.heard(&done);
    assert!(heard[1].contains("another task") && !heard[1].contains("You have mail"), "{heard:?}");
    office.close().await;
}

#[tokio::test]
async fn mail_refused_by_a_failed_turn_waits_longer_each_time() {
    let slow = AgentsConfig { retry_after: Duration::from_secs(3600), ..quick() };
    let office = Office::open(slow).await;
    let done =
        office.talks("next; begins; ends done; while :; do next; takes; fails no; done").await;
    office.until_idle(&done).await;
    let sent = office.writes(&done, "poison", Priority::Normal).await;
    eventually(async || office.shows(&done, TranscriptKind::Note, "its turn failed").await).await;
    office.until_state(sent.seq, RecordState::Queued).await;
    // More mail changes nothing.
    office.writes(&done, "more", Priority::Normal).await;
    assert_eq!(office.heard(&done).len(), 2, "its task, and the mail once");
    office.close().await;
}

#[tokio::test]
async fn a_request_with_the_name_of_an_earlier_one_is_asked_anew() {
    let office = Office::open(quick()).await;
    let script = "next; begins; task=$id; asks r-1 harmless; next; asks r-1 'rm -rf'; next; \
                  id=$task; ends done; next";
    let done = office.talks(script).await;
    for (command, allow) in [("harmless", true), ("rm -rf", false)] {
        let mut need = None;
        eventually(async || {
            need = office.needs().await.pop();
            need.as_ref().is_some_and(|need| need.text.contains(command))
        })
        .await;
        let answer = Answer { allow: Some(allow), ..Answer::default() };
        let id = need.expect("asked").id;
        office.hub.answer_need(id, answer, Via::Rest).await.expect("answered");
    }
    assert_eq!(office.told(&done).await.1, "done");
    let heard = office.heard(&done);
    assert!(heard[1].contains("\"allow\"") && heard[2].contains("\"deny\""), "{heard:?}");
    office.close().await;
}

#[tokio::test]
async fn a_permission_reaches_the_operator_and_the_verdict_the_program() {
    let office = Office::open(quick()).await;
    let done = office
        .talks("next; begins; task=$id; asks r-1 'rm -rf'; next; id=$task; ends done; next")
        .await;
    let asking = || office.hub.turn_activity(done.instance.id) == Some(TurnActivity::Asking);
    until(asking).await;
    let mut need = None;
    eventually(async || {
        need = office.needs().await.pop();
        need.is_some()
    })
    .await;
    let need = need.expect("asked");
    assert!(need.text.contains("rm -rf"), "{}", need.text);
    let deny = Answer { allow: Some(false), ..Answer::default() };
    office.hub.answer_need(need.id, deny, Via::Rest).await.expect("denied");
    assert_eq!(office.told(&done).await.1, "done");
    let heard = office.heard(&done);
    assert!(heard[1].contains("\"deny\"") && heard[1].contains("r-1"), "{heard:?}");
    office.close().await;
}

#[tokio::test]
async fn a_permission_dies_with_its_program() {
    let office = Office::open(quick()).await;
    let done = office.talks("next; begins; asks r-1 x; waits go; exit 1").await;
    until(|| office.hub.turn_activity(done.instance.id) == Some(TurnActivity::Asking)).await;
    go(&office, &done, "go");
    assert_eq!(office.told(&done).await.0, "system.agent_failed");
    let open = office.needs().await;
    assert!(open.iter().all(|need| need.kind != NeedKind::Permission), "{open:?}");
    office.close().await;
}

#[tokio::test]
async fn a_permission_that_its_program_withdraws_needs_nobody() {
    let office = Office::open(quick()).await;
    // At once, in the same breath, and after the operator could have seen it.
    let script = "next; begins; \
                  out=$(asks r-1 now; cancels r-1); say \"$out\"; say '{\"type\":\"x\",\"n\":1}'; waits go; \
                  asks r-2 later; waits seen; cancels r-2; say '{\"type\":\"x\",\"n\":2}'; waits end; ends done; next";
    let done = office.talks(script).await;
    let until_shown = async |text: &str| {
        eventually(async || office.shows(&done, TranscriptKind::Unknown, text).await).await;
    };
    until_shown("\"n\":1").await;
    let busy = || office.hub.turn_activity(done.instance.id) == Some(TurnActivity::Busy);
    until(busy).await;
    // The hub does one thing after the other: what it would ask, it asked before this.
    office.writes(&done, "hello", Priority::Normal).await;
    assert_eq!(office.needs().await, []);
    go(&office, &done, "go");
    until(|| !busy()).await;
    go(&office, &done, "seen");
    until_shown("\"n\":2").await;
    until(busy).await;
    assert_eq!(office.needs().await, []);
    go(&office, &done, "end");
    assert_eq!(office.told(&done).await.1, "done");
    office.close().await;
}
