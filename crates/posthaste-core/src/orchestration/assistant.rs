//! The built-in assistant's side of the hub: its tools, its mail and its words to the
//! human.
//!
//! The conversation of a runner is stored by its driver. Mail in it is acked by `stored`,
//! after the conversation is on disk.

use std::sync::Arc;

use super::lifecycle::RETRY;
use crate::Hub;
use crate::address::{Address, InstanceId};
use crate::messaging::message::{
    Details, Draft, Kind, MessageRef, Principal, Receipt, RepliedTo, Seq, ThreadChoice, Via,
};
use crate::messaging::receive::{Batch, Budget};
use crate::messaging::send::SendError;
use crate::needs::{Outcome, clipped};
use crate::ports::{Filter, OwnTools, StoreError};

/// Something that an assistant says to the human, or to the giver of its work.
#[derive(Debug, Clone)]
pub struct Utterance {
    pub to: Address,
    pub kind: Kind,
    pub text: String,
    /// The message that it answers, if that is known.
    pub in_reply_to: Option<Seq>,
    /// A JSON object, as text.
    pub metadata: String,
    /// Names the utterance: the same one is sent once.
    pub key: String,
}

impl Hub {
    /// Offers the hub's own tools to assistants; `None` takes them back.
    pub fn offer_tools(&self, tools: Option<Arc<dyn OwnTools>>) {
        self.own_tools.send_replace(tools);
    }

    /// Returns the hub's own tools, as soon as the doors offer them.
    pub async fn own_tools(&self) -> Arc<dyn OwnTools> {
        let mut offered = self.own_tools.subscribe();
        loop {
            if let Some(tools) = offered.borrow_and_update().clone() {
                return tools;
            }
            if offered.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Takes the mail that waits for an assistant now: so many bytes of it, or one message.
    /// Tries again while the store has trouble.
    pub async fn mail_now(self: &Arc<Self>, who: InstanceId, bytes: usize) -> Batch {
        let filter = Filter { quiet: true, ..Filter::default() };
        loop {
            let budget = Budget::Bodies(bytes);
            match self.take_for_driver(who, filter.clone(), None, budget).await {
                Ok(batch) => return batch,
                Err(error) => {
                    tracing::warn!(%who, %error, "mail of an assistant was not read; it is tried again");
                }
            }
        }
    }

    /// Waits for the human's answer to a question of an assistant, and takes it. The answer
    /// closes the question also if it does not name it: nobody waits any more, and the next
    /// words of the human are no answer. Tries again while the store has trouble.
    pub async fn answer_of_human(self: &Arc<Self>, who: InstanceId, question: Seq) -> Batch {
        let _asking = self.asks(Principal::Instance(who));
        let filter =
            Filter { quiet: true, own: true, answers: Some(question), ..Filter::default() };
        loop {
            let at_once = Some(std::time::Duration::ZERO);
            match self.take_for_driver(who, filter.clone(), at_once, Budget::Whole).await {
                Ok(batch) if batch.mail.is_empty() => {}
                Ok(batch) => {
                    self.close_question(who, question, &batch).await;
                    return batch;
                }
                Err(error) => {
                    tracing::warn!(%who, %error, "an answer was not read; it is tried again");
                }
            }
        }
    }

    /// Closes the need of a question that was answered by mail which does not name it.
    async fn close_question(&self, who: InstanceId, question: Seq, answer: &Batch) {
        let words = answer
            .mail
            .first()
            .map(|entry| clipped(&entry.leased.message.body, self.limits.need_text_chars));
        let closed = async {
            let needs = self.open_needs_of(who).await?;
            let Some(need) = needs.iter().find(|need| need.message == Some(question)) else {
                return Ok(false);
            };
            self.engine.close_need(need.id, Outcome::Answered, words, false).await
        };
        if let Err(error) = closed.await {
            // The operator answers it once more.
            tracing::warn!(%who, %error, "the question stays open although it was answered");
        }
    }

    /// Acks messages that stand in the stored conversation of an assistant.
    pub async fn mail_stored(&self, who: InstanceId, seqs: Vec<Seq>) {
        let me = Principal::Instance(who);
        self.seen(me);
        while let Err(error) = self.ack_stored_messages(me, seqs.clone()).await {
            if matches!(error, StoreError::Closed) || self.tasks.is_closed() {
                return;
            }
            tracing::warn!(%who, %error, "stored mail was not acked; it is tried again");
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Sends the words of an assistant. Tries again while the store has trouble.
    pub async fn utter(&self, who: InstanceId, said: Utterance) -> Result<Receipt, SendError> {
        loop {
            match self.utter_once(who, said.clone()).await {
                Err(SendError::Store(error)) if !matches!(error, StoreError::Closed) => {
                    tracing::warn!(%who, %error, "words of an assistant were not sent; it is tried again");
                    tokio::time::sleep(RETRY).await;
                }
                Err(SendError::Store(_)) => return std::future::pending().await,
                sent => return sent,
            }
        }
    }

    async fn utter_once(&self, who: InstanceId, said: Utterance) -> Result<Receipt, SendError> {
        let from = Principal::Instance(who);
        let mut thread = ThreadChoice::default();
        let (mut in_reply_to, mut hop) = (None, 0);
        if let Some(seq) = said.in_reply_to {
            let answered = self.answered_message(from, MessageRef::Seq(seq)).await?;
            if let RepliedTo::Seen { .. } = answered.replied_to {
                (in_reply_to, hop) = (answered.seq, answered.hop);
                thread.replied_to = Some(answered.replied_to);
            }
        }
        let details = Details {
            kind: said.kind,
            in_reply_to,
            hop,
            thread,
            metadata: Some(said.metadata),
            idempotency_key: Some(said.key),
            ..Details::default()
        };
        let text = super::lifecycle::clip(said.text, self.limits.body_bytes);
        let draft = Draft::new(from, said.to, text.into(), details, Via::Runner, &self.limits)?;
        self.send(draft).await
    }
}
