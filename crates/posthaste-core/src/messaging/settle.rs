//! Ack, nack, cancel, requeue; and the effects of a reader's behaviour.

use std::sync::Arc;
use std::time::Instant;

use crate::Hub;
use crate::address::InstanceId;
use crate::messaging::delivery::{AnswerId, DeliveryNo, Proof};
use crate::messaging::desk::{Ack, Books, Desk, Nack};
use crate::messaging::message::{MessageRef, Principal, Seq};
use crate::messaging::proof::{Call, Door, Hello, Hook, Moment, Process, Proves, Running, Scope};
use crate::messaging::receive::OpenCall;
use crate::ports::{Acked, ActError, Ending, Nacked, Record, StoreError};
use crate::presence::Staying;
use crate::registry::{Instance, RegistryError, Status};

impl Hub {
    /// Acks the mail of a receipt that the reader names. An unknown receipt is ignored.
    pub async fn ack_receipt(&self, by: Principal, receipt: u64) -> Result<Acked, StoreError> {
        let ack = self.desk.lock().ack_receipt(by, receipt);
        match ack {
            Some(ack) => self.ack(ack).await,
            None => Ok(Acked::default()),
        }
    }

    /// Does the same beside another call, which does not wait for it.
    pub(crate) fn ack_receipt_beside(&self, by: Principal, receipt: u64) {
        self.at_desk(|desk, books| desk.receipt_beside(books, by, receipt));
    }

    /// Acks messages that the reader names.
    pub async fn ack_messages(&self, by: Principal, seqs: Vec<Seq>) -> Result<Acked, StoreError> {
        let ack = self.desk.lock().ack_messages(by, seqs, Proof::Receipt);
        self.ack(ack).await
    }

    /// Acks messages of a prompt: the driver saw its agent's own output show that the turn
    /// with them began.
    pub(crate) async fn ack_by_turn(
        &self,
        by: Principal,
        seqs: Vec<Seq>,
    ) -> Result<Acked, StoreError> {
        let ack = self.desk.lock().ack_messages(by, seqs, Proof::Turn);
        self.ack(ack).await
    }

    /// Acks messages that stand in the conversation of the reader's runner.
    pub(crate) async fn ack_stored_messages(
        &self,
        by: Principal,
        seqs: Vec<Seq>,
    ) -> Result<Acked, StoreError> {
        let ack = self.desk.lock().ack_messages(by, seqs, Proof::Stored);
        self.ack(ack).await
    }

    pub async fn nack_receipt(&self, by: Principal, receipt: u64) -> Result<Nacked, StoreError> {
        let nack = self.desk.lock().nack_receipt(by, receipt);
        match nack {
            Some(nack) => self.nack(by, nack).await,
            None => Ok(Nacked::default()),
        }
    }

    pub async fn nack_messages(&self, by: Principal, seqs: Vec<Seq>) -> Result<Nacked, StoreError> {
        let nack = self.desk.lock().nack_messages(by, seqs);
        self.nack(by, nack).await
    }

    async fn nack(&self, by: Principal, nack: Nack) -> Result<Nacked, StoreError> {
        let nacked = self.engine.nack(by, nack.what).await?;
        self.desk.lock().nacked(&nack.pending, &nacked.lost);
        self.soon.notify_one();
        Ok(nacked)
    }

    /// Cancels the deliveries of a message that are still queued. Only the sender and the
    /// operator can.
    pub async fn cancel(&self, by: Principal, which: MessageRef) -> Result<Record, ActError> {
        let record = self.owned(by, which).await?;
        self.engine.cancel(record.message.seq).await?;
        self.reread(record.message.seq).await
    }

    /// Queues dead mail again.
    pub async fn requeue(&self, by: Principal, which: MessageRef) -> Result<Record, ActError> {
        let record = self.owned(by, which).await?;
        self.engine.requeue(record.message.seq).await?;
        self.reread(record.message.seq).await
    }

    async fn owned(&self, by: Principal, which: MessageRef) -> Result<Record, ActError> {
        let record = self.engine.message(which).await?.ok_or(ActError::NotFound)?;
        match by {
            Principal::Operator => Ok(record),
            Principal::Instance(id) if record.message.from.instance == Some(id) => Ok(record),
            Principal::Instance(_) => Err(ActError::NotFound),
        }
    }

    async fn reread(&self, seq: Seq) -> Result<Record, ActError> {
        self.engine.message(MessageRef::Seq(seq)).await?.ok_or(ActError::NotFound)
    }

    /// Notes a beginning of the reader.
    pub fn begin(&self, who: Principal, scope: Scope) {
        self.at_desk(|desk, books| desk.begin(books, who, scope));
    }

    /// Notes a request of the reader through the MCP door, from this process; `hello` if
    /// it is a first word.
    pub fn meet(&self, who: Principal, process: Process<'_>, hello: Option<Hello>) {
        self.at_desk(|desk, books| desk.meet(books, who, process, hello));
    }

    /// Notes a hook of the reader. `None`: its answer carries no mail.
    pub fn hook(self: &Arc<Self>, who: Principal, hook: &Hook<'_>) -> Option<OpenCall> {
        let now = tokio::time::Instant::now();
        let carries = self.at_desk(|desk, books| desk.hook(books, who, hook, now));
        let door = match hook.moment {
            Moment::Idle => Door::Idle,
            _ => Door::Hook,
        };
        carries.then(|| self.open(who, &Call { client: hook.client, ..Call::through(door) }))
    }

    /// Notes that the client cancelled a call, by the client's name for it.
    pub fn cancel_call(&self, who: Principal, call: &str) {
        self.at_desk(|desk, books| desk.cancelled(books, who, call));
    }

    /// Notes that the hub's own driver interrupted the agent.
    pub fn interrupted(&self, who: Principal) {
        self.at_desk(|desk, books| desk.interrupted(books, who));
    }

    /// Ends an instance. `finished`: its model was seen to finish its own turn.
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

    /// Does the same with an answer and a reason.
    pub(crate) async fn end_so(
        self: &Arc<Self>,
        id: InstanceId,
        ending: Ending,
        proves: Proves,
    ) -> Result<Instance, RegistryError> {
        let who = Principal::Instance(id);
        let acked = self.desk.lock().proved_by_end(who, proves);
        let instance = self.engine.end(id, Ending { acked, ..ending }).await?;
        // Only now: an end that failed has changed nothing, and a call that began
        // meanwhile ends, too.
        self.desk.lock().end(who);
        self.queue.cleanup(&crate::address::Mailbox::Instance(id));
        self.soon.notify_one();
        self.endings.send_replace(());
        self.session_ended(&instance);
        Ok(instance)
    }

    /// Opens a stream of the reader, for as long as the result is kept. `None`: `most`
    /// are open already.
    pub fn attach(self: &Arc<Self>, who: Principal, most: usize) -> Option<Attached> {
        let stream = self.at_desk(|desk, books| desk.attach(books, who, most))?;
        Some(Attached { hub: Arc::clone(self), who, stream, _stays: self.stays(who) })
    }

    /// Returns whether an answer to anything but a read may carry mail along.
    pub fn may_enclose(&self, who: Principal, is_error: bool) -> bool {
        self.desk.lock().proofs().may_enclose(who, is_error)
    }

    pub(crate) fn open_call(&self, reader: Principal, call: &Call<'_>) -> Running {
        let now = tokio::time::Instant::now();
        let receipt = rand::random();
        self.at_desk(|desk, books| desk.open(books, reader, call, receipt, now))
    }

    pub(crate) fn answer_written(&self, id: AnswerId, auto: Option<(Principal, Vec<DeliveryNo>)>) {
        self.at_desk(|desk, books| desk.written(books, id, auto));
    }

    pub(crate) fn answer_unwritten(&self, id: AnswerId) {
        self.at_desk(|desk, books| desk.unwritten(books, id));
    }

    /// Acts at the desk, and wakes the upkeep if a proof is due sooner.
    pub(crate) fn at_desk<T>(&self, act: impl FnOnce(&mut Desk, &mut StoreBooks<'_>) -> T) -> T {
        let mut desk = self.desk.lock();
        let before = desk.next_due();
        let done = act(&mut desk, &mut StoreBooks(self));
        if desk.next_due() != before {
            self.soon.notify_one();
        }
        done
    }

    /// Starts an ack. The desk hears of its result before anybody else, and only after
    /// the commit.
    fn ack(&self, ack: Ack) -> impl Future<Output = Result<Acked, StoreError>> + Send + use<> {
        let Ack { what, pending } = ack;
        let (by, proof) = (pending.by, pending.proof);
        let acked = self.engine.ack(by, what, proof);
        let road = self.road.get().map(|road| (Arc::clone(road), Instant::now()));
        let desk = Arc::clone(&self.desk);
        async move {
            let acked = acked.await;
            if let (Ok(acked), Some((road, asked))) = (&acked, road) {
                road.acked(&acked.settled, by, proof, asked.elapsed());
            }
            match &acked {
                Ok(acked) => desk.lock().acked(&pending, acked),
                Err(_) => desk.lock().unacked(&pending, tokio::time::Instant::now()),
            }
            acked
        }
    }
}

/// The hub's store, as the desk sees it.
pub(crate) struct StoreBooks<'a>(&'a Hub);

impl Books for StoreBooks<'_> {
    fn taken(&self, who: Principal) -> Vec<Seq> {
        self.0.engine.weakly_acked(who)
    }

    fn give_back(&mut self, by: Principal, what: Vec<DeliveryNo>, from: AnswerId, doubt: bool) {
        self.0.engine.give_back(by, &what, from, doubt);
        self.0.soon.notify_one();
    }

    fn put_back(&mut self, by: Principal, what: Vec<DeliveryNo>, from: AnswerId) {
        self.0.engine.put_back(by, &what, from);
        self.0.soon.notify_one();
    }

    /// Acks in the background: no caller waits.
    fn ack(&mut self, ack: Ack) {
        let by = ack.pending.by;
        let acked = self.0.ack(ack);
        self.0.tasks.spawn(async move {
            if let Err(error) = acked.await {
                tracing::warn!(%by, %error, "an ack was not kept");
            }
        });
    }
}

/// A reader's open stream: a sign of life, and the sign that an earlier process of the
/// same identity still lives.
#[derive(Debug)]
pub struct Attached {
    hub: Arc<Hub>,
    who: Principal,
    stream: u64,
    _stays: Staying,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.hub.at_desk(|desk, books| desk.detach(books, self.who, self.stream));
    }
}
