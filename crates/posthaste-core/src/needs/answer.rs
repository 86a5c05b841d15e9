//! The operator's side: looking at needs, and answering them.

use super::{Need, NeedId, NeedKind, Outcome, Remembered};
use crate::Hub;
use crate::address::{Address, InstanceId, Name};
use crate::ledger::{DISMISS, REQUEUE};
use crate::messaging::message::{
    Details, Draft, Kind, MessageRef, Principal, Receipt, RepliedTo, Via,
};
use crate::messaging::send::SendError;
use crate::ports::store::NeedsLook;
use crate::ports::{ActError, StoreError};

/// The operator's answer; which parts it may have depends on the kind of the need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    pub text: Option<String>,
    /// One of the offered answers.
    pub option: Option<String>,
    pub allow: Option<bool>,
    /// Keeps the verdict for the asker's profile.
    pub remember: bool,
}

/// A need that was answered, and the message that went to the asker.
#[derive(Debug)]
pub struct Answered {
    pub need: Need,
    pub sent: Option<Receipt>,
}

/// The reason why an answer was not taken. The need is as it was.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("there is no need {0}")]
    NotFound(NeedId),
    #[error("need {} is not open any more: it was {}", .0.id, outcome_of(.0))]
    Closed(Box<Need>),
    #[error("{field}: {why}")]
    Invalid { field: &'static str, why: String },
    #[error(transparent)]
    Send(#[from] SendError),
    #[error(transparent)]
    Requeue(#[from] ActError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn outcome_of(need: &Need) -> String {
    let outcome = need.closed.as_ref().map_or("closed", |closed| closed.outcome.as_str());
    outcome.replace('_', " ")
}

/// What an answer of the right form says.
enum Decision {
    Say(String),
    Close(Outcome),
    Requeue,
}

impl Hub {
    /// Returns needs, oldest first.
    pub async fn needs(&self, look: NeedsLook) -> Result<Vec<Need>, StoreError> {
        self.engine.needs(look).await
    }

    /// Returns the need of this agent on which a verdict was given with this key.
    pub(crate) async fn verdict_with_key(
        &self,
        of: InstanceId,
        key: &str,
    ) -> Result<Option<NeedId>, StoreError> {
        let ids = self.engine.ledger(|l| l.closed_permissions(of));
        let closed = self.engine.needs(NeedsLook::These(ids)).await?;
        let kept = key_of_verdict(key);
        let has_key = |need: &&Need| {
            need.closed.as_ref().is_some_and(|closed| closed.text.as_ref() == Some(&kept))
        };
        Ok(closed.iter().find(has_key).map(|need| need.id))
    }

    /// Counts the open needs.
    pub fn open_needs(&self) -> usize {
        self.engine.ledger(|l| l.open_needs())
    }

    /// Answers a need as the operator: a question by a linked message through
    /// [`Hub::send`], a dead message by a requeue, the others by closing them.
    pub async fn answer_need(
        &self,
        id: NeedId,
        answer: Answer,
        via: Via,
    ) -> Result<Answered, AnswerError> {
        self.answer_need_once(id, answer, None, via).await
    }

    /// Answers a need as [`answer_need`](Self::answer_need) does. A message that goes to the
    /// asker has this idempotency key, and a verdict keeps it with the need.
    pub(crate) async fn answer_need_once(
        &self,
        id: NeedId,
        answer: Answer,
        key: Option<String>,
        via: Via,
    ) -> Result<Answered, AnswerError> {
        let need = self.need(id).await?;
        if need.closed.is_some() {
            return Err(AnswerError::Closed(Box::new(need)));
        }
        let remember = answer.remember;
        let mut sent = None;
        match decide(&need, answer)? {
            Decision::Say(text) => sent = Some(self.reply(&need, text, key, via).await?),
            Decision::Close(outcome) => {
                let key = key.filter(|_| need.kind == NeedKind::Permission);
                let kept = key.as_deref().map(key_of_verdict);
                let closed = self.engine.close_need(id, outcome, kept, remember).await?;
                if !closed {
                    return Err(AnswerError::Closed(Box::new(self.need(id).await?)));
                }
            }
            Decision::Requeue => self.requeue_dead(&need).await?,
        }
        Ok(Answered { need: self.need(id).await?, sent })
    }

    /// Returns one need.
    pub async fn need(&self, id: NeedId) -> Result<Need, AnswerError> {
        let found = self.needs(NeedsLook::These(vec![id])).await?;
        found.into_iter().next().ok_or(AnswerError::NotFound(id))
    }

    /// Sends the answer to the asker. The append closes the need, or refuses.
    async fn reply(
        &self,
        need: &Need,
        text: String,
        key: Option<String>,
        via: Via,
    ) -> Result<Receipt, AnswerError> {
        let (Some(asker), Some(question)) = (need.from.instance, need.message) else {
            return Err(AnswerError::NotFound(need.id));
        };
        let mut details = Details {
            kind: Kind::ANSWER,
            in_reply_to: Some(question),
            idempotency_key: key,
            ..Details::default()
        };
        let answered =
            self.answered_message(Principal::Operator, MessageRef::Seq(question)).await?;
        // The question itself may have been pruned.
        details.thread.replied_to =
            Some(answered.replied_to).filter(|to| matches!(to, RepliedTo::Seen { .. }));
        let to = Address::Exact { name: None, instance: asker, team: None };
        let draft = Draft::new(Principal::Operator, to, text.into(), details, via, &self.limits);
        let draft = draft.map_err(SendError::from)?.answering(Some(need.id));
        match self.send(draft).await {
            Err(SendError::AlreadyAnswered(id)) => {
                Err(AnswerError::Closed(Box::new(self.need(id).await?)))
            }
            sent => Ok(sent?),
        }
    }

    async fn requeue_dead(&self, need: &Need) -> Result<(), AnswerError> {
        let Some(message) = need.message else { return Err(AnswerError::NotFound(need.id)) };
        let requeued = self.requeue(Principal::Operator, MessageRef::Seq(message)).await;
        let Err(error) = requeued else { return Ok(()) };
        let now = self.need(need.id).await?;
        match error {
            _ if now.closed.is_some() => Err(AnswerError::Closed(Box::new(now))),
            ActError::NotFound => {
                let why = format!("message {message} is not kept any more; dismiss it");
                Err(ActError::Conflict(why).into())
            }
            error => Err(error.into()),
        }
    }

    /// Returns the remembered verdicts, by profile and subject.
    pub fn remembered(&self) -> Vec<Remembered> {
        self.engine.ledger(|l| l.remembered())
    }

    /// Forgets a remembered verdict of a profile, or all of them, and counts them.
    pub async fn forget_verdicts(
        &self,
        profile: Name,
        subject: Option<String>,
    ) -> Result<usize, StoreError> {
        self.engine.forget_verdicts(profile, subject).await
    }
}

/// Makes the text by which the store keeps the key of a verdict.
fn key_of_verdict(key: &str) -> String {
    format!("key {key}")
}

/// Decides what an answer says, or which part of it the need does not take.
fn decide(need: &Need, answer: Answer) -> Result<Decision, AnswerError> {
    let Answer { text, option, allow, remember } = answer;
    let wrong = |field, why: &str| Err(AnswerError::Invalid { field, why: why.to_owned() });
    if remember && need.kind != NeedKind::Permission {
        return wrong("remember", "only the verdict on a permission can be remembered");
    }
    match need.kind {
        NeedKind::Question => match (text, option, allow) {
            (_, _, Some(_)) => wrong("allow", "a question is answered in words or by an option"),
            (Some(_), Some(_), _) => wrong("option", "give words or an option, not both"),
            (Some(text), None, None) if text.trim().is_empty() => {
                wrong("text", "it has no words: a question is answered in words or by an option")
            }
            (Some(text), None, None) => Ok(Decision::Say(text)),
            (None, Some(option), None) if need.options.contains(&option) => {
                Ok(Decision::Say(option))
            }
            (None, Some(_), None) if need.options.is_empty() => {
                wrong("option", "this question offers none: answer in words")
            }
            (None, Some(_), None) => {
                let offered = need.options.join(", ");
                wrong("option", &format!("it is one of: {offered}; any other answer is in words"))
            }
            (None, None, None) => wrong("text", "a question is answered in words or by an option"),
        },
        NeedKind::Permission => match (text, option, allow) {
            (Some(_), _, _) => wrong("text", "a permission is allowed or denied: leave it out"),
            (_, Some(_), _) => wrong("option", "a permission is allowed or denied: leave it out"),
            (_, _, None) => wrong("allow", "a permission is allowed or denied"),
            (_, _, Some(_)) if remember && !is_rememberable(need) => {
                wrong("remember", "this request has no subject that could be remembered")
            }
            (_, _, Some(true)) => Ok(Decision::Close(Outcome::Allowed)),
            (_, _, Some(false)) => Ok(Decision::Close(Outcome::Denied)),
        },
        NeedKind::Failed => match (text, option, allow) {
            (Some(_), _, _) => wrong("text", "a failed worker reads no answer: leave it out"),
            (_, Some(_), _) => wrong("option", "a failed worker offers no answers: leave it out"),
            (_, _, Some(_)) => wrong("allow", "a failed worker asks for nothing: leave it out"),
            (None, None, None) => Ok(Decision::Close(Outcome::Seen)),
        },
        NeedKind::Dead => match (text, option.as_deref(), allow) {
            (Some(_), _, _) => wrong("text", "dead mail is requeued or dismissed: leave it out"),
            (_, Some(_), Some(_)) => {
                wrong("option", "say it once: requeue is allow, dismiss is not")
            }
            (_, Some(REQUEUE), _) | (_, _, Some(true)) => Ok(Decision::Requeue),
            (_, Some(DISMISS), _) | (_, _, Some(false)) => Ok(Decision::Close(Outcome::Dismissed)),
            (_, Some(_), _) => wrong("option", "it is one of: requeue, dismiss"),
            (_, None, None) => wrong("allow", "dead mail is requeued or dismissed"),
        },
    }
}

fn is_rememberable(need: &Need) -> bool {
    need.asked.as_ref().is_some_and(|asked| asked.subject.is_some())
}
