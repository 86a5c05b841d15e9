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
use crate::messaging::receive::Batch;
use crate::messaging::send::SendError;
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

    /// Takes all mail that waits for an assistant now.
    pub async fn mail_now(self: &Arc<Self>, who: InstanceId) -> Result<Batch, StoreError> {
        let filter = Filter { quiet: true, ..Filter::default() };
        self.take_for_driver(who, filter, None).await
    }

    /// Waits for the human's answer to a question of an assistant, and takes it.
    pub async fn answer_of_human(
        self: &Arc<Self>,
        who: InstanceId,
        question: Seq,
    ) -> Result<Batch, StoreError> {
        let _asking = self.asks(Principal::Instance(who));
        let filter =
            Filter { quiet: true, own: true, answers: Some(question), ..Filter::default() };
        loop {
            let batch =
                self.take_for_driver(who, filter.clone(), Some(std::time::Duration::ZERO)).await?;
            if !batch.mail.is_empty() {
                return Ok(batch);
            }
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

    /// Sends the words of an assistant.
    pub async fn utter(&self, who: InstanceId, said: Utterance) -> Result<Receipt, SendError> {
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
