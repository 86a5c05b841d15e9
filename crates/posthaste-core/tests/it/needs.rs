//! What waits for the operator, and what closes it. Each story is told on both stores.

mod dead_and_failed;
mod failing;
mod permissions;
mod questions;
mod restarting;

use std::future::Future;
use std::sync::Arc;

use posthaste_core::Limits;
use posthaste_core::messaging::message::{Details, Kind, RepliedTo, Seq, ThreadChoice, Via};
use posthaste_core::needs::{
    Answer, AnswerError, Answered, Need, NeedId, NeedKind, Outcome, PermissionAsk, Verdict,
};
use posthaste_core::ports::store::NeedsLook;
use posthaste_store::Place;
use posthaste_testkit::world::{Agent, World};
use tokio::task::JoinHandle;

/// Tells each story on the store in memory and on SQLite.
macro_rules! stories {
    ($($story:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(start_paused = true)]
            async fn $story() {
                crate::needs::in_memory(super::$story).await;
            })+
        }
        mod sqlite {
            $(#[tokio::test(start_paused = true)]
            async fn $story() {
                crate::needs::on_disk(super::$story).await;
            })+
        }
    };
}
pub(crate) use stories;

pub(crate) async fn in_memory<F: Future<Output = ()>>(story: impl FnOnce(World) -> F) {
    story(World::new()).await;
}

pub(crate) async fn on_disk<F: Future<Output = ()>>(story: impl FnOnce(World) -> F) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let place = Place::File(folder.path().to_owned());
    story(World::open(&place, Limits::default())).await;
}

pub(crate) async fn all(world: &World) -> Vec<Need> {
    look(world, false).await
}

pub(crate) async fn open(world: &World) -> Vec<Need> {
    let open = look(world, true).await;
    assert_eq!(open.len(), world.hub.open_needs(), "the ledger counts what the store has");
    open
}

async fn look(world: &World, open_only: bool) -> Vec<Need> {
    let look = NeedsLook::After { after: NeedId(0), kind: None, open_only, most: 100 };
    world.hub.needs(look).await.expect("needs")
}

/// The only open need.
pub(crate) async fn one(world: &World) -> Need {
    let open = open(world).await;
    assert_eq!(open.len(), 1, "{open:?}");
    open.into_iter().next().expect("one")
}

pub(crate) async fn outcome(world: &World, id: NeedId) -> Option<Outcome> {
    let found = world.hub.needs(NeedsLook::These(vec![id])).await.expect("a need");
    found[0].closed.as_ref().map(|closed| closed.outcome)
}

pub(crate) async fn answers(
    world: &World,
    need: &Need,
    answer: Answer,
) -> Result<Answered, AnswerError> {
    world.hub.answer_need(need.id, answer, Via::Cli).await
}

pub(crate) fn text(text: &str) -> Answer {
    Answer { text: Some(text.into()), ..Answer::default() }
}

pub(crate) fn option(option: &str) -> Answer {
    Answer { option: Some(option.into()), ..Answer::default() }
}

pub(crate) fn allow(allow: bool) -> Answer {
    Answer { allow: Some(allow), ..Answer::default() }
}

/// The field of an answer that the need does not take.
pub(crate) fn refused(answered: Result<Answered, AnswerError>) -> &'static str {
    match answered {
        Err(AnswerError::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn question(metadata: Option<&str>) -> Details {
    Details { kind: Kind::QUESTION, metadata: metadata.map(str::to_owned), ..Details::default() }
}

/// A reply to a message, as a door makes it.
pub(crate) async fn reply(world: &World, by: &Agent, to: Seq) -> Details {
    let answered = world.hub.answered_message(by.who, to.to_string().parse().expect("a number"));
    let answered = answered.await.expect("a look");
    assert!(matches!(answered.replied_to, RepliedTo::Seen { .. }));
    Details {
        in_reply_to: answered.seq,
        thread: ThreadChoice { named: None, replied_to: Some(answered.replied_to) },
        ..Details::default()
    }
}

pub(crate) fn push(request: &str) -> PermissionAsk {
    PermissionAsk {
        request: request.into(),
        subject: "Bash(git push)".into(),
        text: "Bash: git push origin main".into(),
    }
}

/// Asks in a task of its own; the need is open when this returns.
pub(crate) async fn asks(world: &World, who: &Agent, ask: PermissionAsk) -> JoinHandle<Verdict> {
    let (hub, id) = (Arc::clone(&world.hub), who.id());
    let known = world.hub.open_needs();
    let task = tokio::spawn(async move { hub.permission(id, ask).await });
    while world.hub.open_needs() == known && !task.is_finished() {
        tokio::task::yield_now().await;
    }
    task
}

pub(crate) fn is_denied(verdict: &Verdict, why: &str) -> bool {
    matches!(verdict, Verdict::Deny { why: told } if told.contains(why))
}

pub(crate) fn kinds(needs: &[Need]) -> Vec<NeedKind> {
    needs.iter().map(|need| need.kind).collect()
}
