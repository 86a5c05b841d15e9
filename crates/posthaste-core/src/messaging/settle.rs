//! Ack, nack, cancel, requeue; and what follows from a reader's behaviour.

use std::sync::Arc;
use std::time::Instant;

use crate::Hub;
use crate::address::InstanceId;
use crate::messaging::delivery::{AnswerId, DeliveryNo};
use crate::messaging::desk::{Ack, Books, Desk, Nack};
use crate::messaging::message::{MessageRef, Principal, Seq};
use crate::messaging::proof::{Call, Door, Hello, Hook, Process, Proves, Running, Scope};
use crate::messaging::receive::Open;
use crate::ports::{Acked, ActError, Ending, Nacked, Record, StoreError};
use crate::presence::Staying;
use crate::registry::{Instance, RegistryError, Status};

impl Hub {
    /// The reader names the receipt of an answer. An unknown one is ignored.
    pub async fn ack_receipt(&self, by: Principal, receipt: u64) -> Result<Acked, StoreError> {
        let ack = self.desk.lock().ack_receipt(by, receipt);
        match ack {
            Some(ack) => self.ack(ack).await,
            None => Ok(Acked::default()),
        }
    }

    /// The same beside another call, which does not wait for it.
    pub(crate) fn ack_receipt_beside(&self, by: Principal, receipt: u64) {
        self.at_desk(|desk, books| desk.receipt_beside(books, by, receipt));
    }

    /// The reader names messages.
    pub async fn ack_messages(&self, by: Principal, seqs: Vec<Seq>) -> Result<Acked, StoreError> {
        let ack = self.desk.lock().ack_messages(by, seqs);
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

    /// Takes back what nobody has been handed yet. Only the sender and the
    /// operator can.
    pub async fn cancel(&self, by: Principal, which: MessageRef) -> Result<Record, ActError> {
        let record = self.owned(by, which).await?;
        self.engine.cancel(record.message.seq).await?;
        self.reread(record.message.seq).await
    }

    /// Gives dead mail another chance.
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

    /// The reader starts anew.
    pub fn begin(&self, who: Principal, scope: Scope) {
        self.at_desk(|desk, books| desk.begin(books, who, scope));
    }

    /// A request of the reader came through the MCP door, from this process; `hello` if it
    /// is a first word.
    pub fn meet(&self, who: Principal, process: Process<'_>, hello: Option<Hello>) {
        self.at_desk(|desk, books| desk.meet(books, who, process, hello));
    }

    /// A hook of the reader runs. `None`: its answer carries no mail.
    pub fn hook(self: &Arc<Self>, who: Principal, hook: &Hook<'_>) -> Option<Open> {
        let now = tokio::time::Instant::now();
        let carries = self.at_desk(|desk, books| desk.hook(books, who, hook, now));
        carries.then(|| self.open(who, &Call { client: hook.client, ..Call::through(Door::Hook) }))
    }

    /// The client cancelled a call by its own name for it.
    pub fn cancel_call(&self, who: Principal, call: &str) {
        self.at_desk(|desk, books| desk.cancelled(books, who, call));
    }

    /// The hub's own driver interrupted the agent.
    pub fn interrupted(&self, who: Principal) {
        self.at_desk(|desk, books| desk.interrupted(books, who));
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

    /// A stream of the reader is open as long as this is kept. `None`: so many are
    /// open already.
    pub fn attach(self: &Arc<Self>, who: Principal, most: usize) -> Option<Attached> {
        let stream = self.at_desk(|desk, books| desk.attach(books, who, most))?;
        Some(Attached { hub: Arc::clone(self), who, stream, _stays: self.stays(who) })
    }

    /// Whether an answer to anything but a read may carry mail along.
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

    /// Does something at the desk. The upkeep hears of it if a proof is due sooner.
    pub(crate) fn at_desk<T>(&self, act: impl FnOnce(&mut Desk, &mut StoreBooks<'_>) -> T) -> T {
        let mut desk = self.desk.lock();
        let before = desk.next_due();
        let done = act(&mut desk, &mut StoreBooks(self));
        if desk.next_due() != before {
            self.soon.notify_one();
        }
        done
    }

    /// Starts an ack. The desk hears what became of it before anybody else; nobody is told
    /// before it is committed.
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

    /// Nobody waits for it.
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
        self.hub.at_desk(|desk, books| desk.detach(books, self.who, self.stream));
    }
}
