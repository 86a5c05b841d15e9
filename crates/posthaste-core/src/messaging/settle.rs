//! Ack, nack, cancel, requeue; and what follows from a reader's behaviour.

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use parking_lot::Mutex;

use crate::Hub;
use crate::address::InstanceId;
use crate::messaging::delivery::{AnswerId, DeliveryNo, Proof};
use crate::messaging::message::{MessageRef, Principal, Seq};
use crate::messaging::proof::{Door, Effect, Proofs, Proves, Running, Scope};
use crate::ports::{Acked, ActError, Ending, Nacked, Record, Started, StoreError, What};
use crate::presence::Staying;
use crate::registry::{Instance, RegistryError, Status};

impl Hub {
    /// The reader names the receipt of an answer. An unknown one is ignored.
    pub async fn ack_receipt(&self, by: Principal, receipt: u64) -> Result<Acked, StoreError> {
        self.store.seen(by);
        let Some((answer, what)) = self.proofs.lock().receipt(by, receipt) else {
            return Ok(Acked::default());
        };
        let acked = self.ack(by, What::Deliveries(what), Proof::Receipt);
        note_ack(&self.proofs, by, answer, Proof::Receipt, acked).await
    }

    /// The same beside another call, which does not wait for it.
    pub fn ack_receipt_beside(&self, by: Principal, receipt: u64) {
        let Some((answer, what)) = self.proofs.lock().receipt(by, receipt) else { return };
        self.ack_beside(by, answer, What::Deliveries(what), Proof::Receipt);
    }

    /// The reader names messages.
    pub async fn ack_messages(&self, by: Principal, seqs: Vec<Seq>) -> Result<Acked, StoreError> {
        self.store.seen(by);
        let answers = self.proofs.lock().holding(by, &seqs);
        let acked = self.ack(by, What::Messages(seqs), Proof::Receipt).await?;
        self.proofs.lock().let_go(&answers, &acked.settled);
        Ok(acked)
    }

    pub async fn nack_receipt(&self, by: Principal, receipt: u64) -> Result<Nacked, StoreError> {
        self.store.seen(by);
        let Some((answer, what)) = self.proofs.lock().receipt(by, receipt) else {
            return Ok(Nacked::default());
        };
        let nacked = self.store.nack(by, What::Held(answer, what)).await?;
        self.proofs.lock().refused(answer, &nacked.lost);
        self.soon.notify_one();
        Ok(nacked)
    }

    pub async fn nack_messages(
        &self,
        by: Principal,
        mut seqs: Vec<Seq>,
    ) -> Result<Nacked, StoreError> {
        self.store.seen(by);
        // Those that hold it now: what a later answer is handed again is not refused.
        let answers = self.proofs.lock().holding(by, &seqs);
        let nacked = self.store.nack(by, What::Messages(seqs.clone())).await?;
        seqs.retain(|seq| !nacked.lost.contains(seq));
        self.proofs.lock().let_go(&answers, &seqs);
        self.soon.notify_one();
        Ok(nacked)
    }

    /// Takes back what nobody has been handed yet. Only the sender and the
    /// operator can.
    pub async fn cancel(&self, by: Principal, which: MessageRef) -> Result<Record, ActError> {
        let record = self.owned(by, which).await?;
        self.store.cancel(record.message.seq).await?;
        self.reread(record.message.seq).await
    }

    /// Gives dead mail another chance.
    pub async fn requeue(&self, by: Principal, which: MessageRef) -> Result<Record, ActError> {
        let record = self.owned(by, which).await?;
        self.store.requeue(record.message.seq).await?;
        self.reread(record.message.seq).await
    }

    async fn owned(&self, by: Principal, which: MessageRef) -> Result<Record, ActError> {
        let record = self.store.message(which).await?.ok_or(ActError::NotFound)?;
        match by {
            Principal::Operator => Ok(record),
            Principal::Instance(id) if record.message.from.instance == Some(id) => Ok(record),
            Principal::Instance(_) => Err(ActError::NotFound),
        }
    }

    async fn reread(&self, seq: Seq) -> Result<Record, ActError> {
        self.store.message(MessageRef::Seq(seq)).await?.ok_or(ActError::NotFound)
    }

    /// The reader starts anew.
    pub fn begin(&self, who: Principal, scope: Scope) {
        self.recall(who);
        let effects = self.proofs.lock().begin(who, scope);
        self.perform(effects);
    }

    /// A session of the reader starts: whatever it held, at any door, comes again.
    /// `same`: its MCP connection stays, or has begun just before and nothing was asked
    /// since.
    pub fn begin_session(&self, who: Principal, same: bool) {
        self.recall(who);
        let effects = {
            let mut proofs = self.proofs.lock();
            let effects = proofs.begin(who, Scope::All);
            if same {
                proofs.keep_streams(who);
            }
            effects
        };
        self.perform(effects);
    }

    /// The client cancelled a call by its own name for it.
    pub fn cancel_call(&self, who: Principal, call: &str) {
        let effects = self.proofs.lock().cancelled(who, call);
        self.perform(effects);
    }

    /// The hub's own driver interrupted the agent.
    pub fn interrupted(&self, who: Principal) {
        let effects = self.proofs.lock().interrupted(who);
        self.perform(effects);
    }

    /// The instance ends. `finished`: its model was seen to finish its own turn.
    pub async fn end(
        self: &Arc<Self>,
        id: InstanceId,
        status: Status,
        finished: bool,
    ) -> Result<Instance, RegistryError> {
        let ending = Ending::plain(status, Vec::new());
        let proves = if finished { Proves::All } else { Proves::Nothing };
        self.end_so(id, ending, proves).await
    }

    /// The same with its last words.
    pub(crate) async fn end_so(
        self: &Arc<Self>,
        id: InstanceId,
        ending: Ending,
        proves: Proves,
    ) -> Result<Instance, RegistryError> {
        let who = Principal::Instance(id);
        let acked = self.proofs.lock().proved_by_end(who, proves);
        let instance = self.store.end(id, Ending { acked, ..ending }).await?;
        // Only now: an end that failed has changed nothing, and a call that began
        // meanwhile ends, too.
        self.proofs.lock().end(who);
        self.queue.cleanup(&crate::address::Mailbox::Instance(id));
        self.soon.notify_one();
        self.endings.send_replace(());
        self.session_ended(&instance);
        Ok(instance)
    }

    /// A stream of the reader is open as long as this is kept. `None`: so many are
    /// open already.
    pub fn attach(self: &Arc<Self>, who: Principal, most: usize) -> Option<Attached> {
        self.recall(who);
        let stream = self.proofs.lock().attach(who, most)?;
        Some(Attached { hub: Arc::clone(self), who, stream, _stays: self.stays(who) })
    }

    pub(crate) fn open_call(
        &self,
        reader: Principal,
        door: Door,
        label: &str,
        names: &[&str],
    ) -> Running {
        self.recall(reader);
        let now = tokio::time::Instant::now();
        let receipt = rand::random();
        let (running, effects, sooner) = {
            let mut proofs = self.proofs.lock();
            let before = proofs.next_due();
            let (running, effects) = proofs.open(reader, door, label, names, receipt, now);
            (running, effects, proofs.next_due() != before)
        };
        self.perform(effects);
        if sooner {
            self.soon.notify_one();
        }
        running
    }

    pub(crate) fn answer_written(&self, id: AnswerId, auto: Option<(Principal, Vec<DeliveryNo>)>) {
        self.proofs.lock().written(id);
        if let Some((by, what)) = auto
            && !what.is_empty()
        {
            self.ack_beside(by, id, What::Held(id, what), Proof::Auto);
        }
    }

    pub(crate) fn answer_unwritten(&self, id: AnswerId) {
        let effects = self.proofs.lock().unwritten(id);
        self.perform(effects);
    }

    /// Carries out what follows from a reader's behaviour.
    pub(crate) fn perform(&self, effects: impl IntoIterator<Item = Effect>) {
        for effect in effects {
            match effect {
                Effect::Ack { by, answer, what, proof } => {
                    self.ack_beside(by, answer, What::Held(answer, what), proof);
                }
                Effect::Return { by, answer, what, doubt } => {
                    self.store.give_back(by, what, answer, doubt);
                    self.soon.notify_one();
                }
            }
        }
    }

    /// Acks, and tells whoever follows what became of it.
    fn ack(&self, by: Principal, what: What, proof: Proof) -> Started<Acked> {
        let acked = self.store.ack(by, what, proof);
        let Some(road) = self.road.get().map(Arc::clone) else { return acked };
        let asked = Instant::now();
        let told = async move {
            let acked = acked.await?;
            road.acked(&acked.settled, by, proof, asked.elapsed());
            Ok(acked)
        };
        told.boxed()
    }

    /// Acks without anyone waiting for it. Nobody is told before it is committed.
    fn ack_beside(&self, by: Principal, answer: AnswerId, what: What, proof: Proof) {
        let acked = self.ack(by, what, proof);
        let proofs = Arc::clone(&self.proofs);
        self.tasks.spawn(async move {
            if let Err(error) = note_ack(&proofs, by, answer, proof, acked).await {
                tracing::warn!(%by, %error, "an ack was not kept");
            }
        });
    }

    /// After a hub start: ids that this reader must be told of once more.
    fn recall(&self, who: Principal) {
        let mut proofs = self.proofs.lock();
        if !proofs.knows(who) {
            let taken = self.store.taken(who);
            proofs.remember(who, &taken);
        }
    }
}

/// A reader's open stream: a sign of life, and the way to tell whether an earlier
/// process of the same identity still lives.
#[derive(Debug)]
pub struct Attached {
    hub: Arc<Hub>,
    who: Principal,
    stream: u64,
    _stays: Staying,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.hub.proofs.lock().detach(self.who, self.stream);
    }
}

/// Waits for an ack and draws the conclusion: what is settled is settled, what was
/// not kept can be proved again.
async fn note_ack(
    proofs: &Mutex<Proofs>,
    by: Principal,
    answer: AnswerId,
    proof: Proof,
    acked: Started<Acked>,
) -> Result<Acked, StoreError> {
    let acked = acked.await;
    match &acked {
        Ok(acked) => proofs.lock().acked(by, answer, proof, acked),
        Err(_) => proofs.lock().unacked(answer),
    }
    acked
}
