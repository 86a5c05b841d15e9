//! The desk between the proofs and the store: every call, hook and sign of a reader
//! passes here, and the acks and returns that follow are done at once.
//!
//! The [`Hub`](crate::Hub) has one desk over its store; the model test has one over a
//! ledger without a disk.

use std::time::Duration;

use tokio::time::Instant;

use crate::messaging::delivery::{AnswerId, DeliveryNo, Proof};
use crate::messaging::message::{Principal, Seq};
use crate::messaging::proof::{
    AnswerHead, Call, Effect, Hello, Hook, Process, Proofs, Proves, Running, Scope,
};
use crate::ports::{Acked, Leased, What};

/// The store as the desk needs it.
pub trait Books {
    /// Returns ids acked by weak proof before the hub started that this reader was not
    /// told.
    fn taken(&self, who: Principal) -> Vec<Seq>;

    /// Returns leases of an answer, marked.
    fn give_back(&mut self, by: Principal, what: Vec<DeliveryNo>, from: AnswerId, doubt: bool);

    /// Returns leases of an answer that no reader was shown, as they were.
    fn put_back(&mut self, by: Principal, what: Vec<DeliveryNo>, from: AnswerId);

    /// Starts an ack. At its end, [`Desk::acked`] or [`Desk::unacked`] is called.
    fn ack(&mut self, ack: Ack);
}

/// A request to the store for an ack.
#[derive(Debug, Clone)]
pub struct Ack {
    pub what: What,
    pub pending: PendingAck,
}

/// An ack that the store is writing.
#[derive(Debug, Clone)]
pub struct PendingAck {
    pub by: Principal,
    pub proof: Proof,
    concerns: Concerns,
}

/// A request to the store for a refusal.
#[derive(Debug, Clone)]
pub struct Nack {
    pub what: What,
    pub pending: PendingNack,
}

/// A refusal that the store is writing.
#[derive(Debug, Clone)]
pub struct PendingNack {
    concerns: Concerns,
    /// The messages that the reader named.
    named: Vec<Seq>,
}

/// The answers that an ack or a refusal is about.
#[derive(Debug, Clone)]
enum Concerns {
    /// All mail of this answer.
    Answer(AnswerId),
    /// The answers that held the messages which the reader named. A later lease of the
    /// same messages is not meant.
    Holders(Vec<AnswerId>),
}

impl Ack {
    /// Acks the mail of one answer.
    fn of(answer: AnswerId, by: Principal, what: What, proof: Proof) -> Self {
        Self { what, pending: PendingAck { by, proof, concerns: Concerns::Answer(answer) } }
    }
}

/// The proofs of all readers, with the store that carries out their effects.
#[derive(Debug, Clone)]
pub struct Desk {
    proofs: Proofs,
}

impl Desk {
    pub fn new(proofs: Proofs) -> Self {
        Self { proofs }
    }

    pub fn proofs(&self) -> &Proofs {
        &self.proofs
    }

    /// Notes a beginning of the reader.
    pub fn begin(&mut self, books: &mut impl Books, who: Principal, scope: Scope) {
        self.recall(books, who);
        let effects = self.proofs.begin(who, scope);
        perform(books, effects);
    }

    /// Notes a request of the reader through the MCP door, from this process; `hello` if
    /// it is a first word. Only a bridge and a first word can be a beginning.
    pub fn meet(
        &mut self,
        books: &mut impl Books,
        who: Principal,
        process: Process<'_>,
        hello: Option<Hello>,
    ) {
        if process.bridge.is_none() && hello.is_none() {
            return;
        }
        self.recall(books, who);
        let effects = self.proofs.meet(who, process, hello);
        perform(books, effects);
    }

    /// Notes a hook of the reader, and returns whether its answer may carry mail.
    pub fn hook(
        &mut self,
        books: &mut impl Books,
        who: Principal,
        hook: &Hook<'_>,
        now: Instant,
    ) -> bool {
        self.recall(books, who);
        let (carries, effects) = self.proofs.hook(who, hook, now);
        perform(books, effects);
        carries
    }

    /// Notes a call of the reader that begins.
    pub fn open(
        &mut self,
        books: &mut impl Books,
        who: Principal,
        call: &Call<'_>,
        receipt: u64,
        now: Instant,
    ) -> Running {
        self.recall(books, who);
        let (running, effects) = self.proofs.open(who, call, receipt, now);
        perform(books, effects);
        running
    }

    /// Notes that the call is answered with this mail, `waited` after it began. `None`:
    /// the call was ended while its mail was fetched; the mail is for the next call.
    pub fn answered(
        &mut self,
        books: &mut impl Books,
        by: Principal,
        id: AnswerId,
        mail: &[Leased],
        waited: Duration,
    ) -> Option<AnswerHead> {
        let told = self.proofs.answered(id, mail, waited);
        if told.is_none() && !mail.is_empty() {
            self.left_behind(books, by, id, mail);
        }
        told
    }

    /// Returns mail that did not fit into the answer: no reader was shown it.
    pub fn left_behind(
        &mut self,
        books: &mut impl Books,
        by: Principal,
        id: AnswerId,
        rest: &[Leased],
    ) {
        let what: Vec<DeliveryNo> = rest.iter().map(|leased| leased.delivery).collect();
        self.proofs.left_behind(id, &what);
        books.put_back(by, what, id);
    }

    /// Notes that the answer's body is in the kernel's hands. `auto`: the reader that
    /// takes that as received, and its deliveries.
    pub fn written(
        &mut self,
        books: &mut impl Books,
        id: AnswerId,
        auto: Option<(Principal, Vec<DeliveryNo>)>,
    ) {
        self.proofs.written(id);
        if let Some((by, what)) = auto.filter(|(_, what)| !what.is_empty()) {
            books.ack(Ack::of(id, by, What::Held(id, what), Proof::Auto));
        }
    }

    /// Notes that the connection closed before the body was written.
    pub fn unwritten(&mut self, books: &mut impl Books, id: AnswerId) {
        let effects = self.proofs.unwritten(id);
        perform(books, effects);
    }

    /// Notes that the client cancelled a call, by the client's name for it.
    pub fn cancelled(&mut self, books: &mut impl Books, who: Principal, call: &str) {
        let effects = self.proofs.cancelled(who, call);
        perform(books, effects);
    }

    /// Notes that the hub's own driver interrupted the agent.
    pub fn interrupted(&mut self, books: &mut impl Books, who: Principal) {
        let effects = self.proofs.interrupted(who);
        perform(books, effects);
    }

    /// Notes that the hub's own driver saw the model finish its turn.
    pub fn turn_ended(&mut self, books: &mut impl Books, who: Principal) {
        let effects = self.proofs.turn_ended(who);
        perform(books, effects);
    }

    /// Notes that a stream of the reader has closed.
    pub fn detach(&mut self, books: &mut impl Books, who: Principal, stream: u64) {
        let effects = self.proofs.detach(who, stream);
        perform(books, effects);
    }

    /// Acks the mail that later calls have proved by now.
    pub fn pass(&mut self, books: &mut impl Books, now: Instant) {
        let effects = self.proofs.due(now);
        perform(books, effects);
    }

    /// Ends the grace of one answer: its later call has stayed uncancelled long enough.
    pub fn grace_is_over(&mut self, books: &mut impl Books, id: AnswerId) {
        let effects = self.proofs.grace_is_over(id);
        perform(books, effects);
    }

    /// Acks by a receipt that the reader names beside another call. An unknown receipt is
    /// ignored.
    pub fn receipt_beside(&mut self, books: &mut impl Books, by: Principal, receipt: u64) {
        if let Some(ack) = self.ack_receipt(by, receipt) {
            books.ack(ack);
        }
    }

    /// After a hub start: loads the ids that this reader must be told of once more.
    fn recall(&mut self, books: &impl Books, who: Principal) {
        if !self.proofs.knows(who) {
            self.proofs.remember(who, &books.taken(who));
        }
    }

    // Methods that need no store.

    pub fn next_due(&self) -> Option<Instant> {
        self.proofs.next_due()
    }

    pub fn attach(&mut self, books: &impl Books, who: Principal, most: usize) -> Option<u64> {
        self.recall(books, who);
        self.proofs.attach(who, most)
    }

    /// Notes that the hub answers the call with an error.
    pub fn erred(&mut self, id: AnswerId) {
        self.proofs.erred(id);
    }

    pub fn names_nothing(&mut self, id: AnswerId) {
        self.proofs.names_nothing(id);
    }

    // Acks and refusals by the reader, in two halves: the request to the store, and the
    // consequences of its result.

    /// Makes the ack of a receipt that the reader names. `None`: the receipt is not
    /// known.
    pub fn ack_receipt(&self, by: Principal, receipt: u64) -> Option<Ack> {
        let (answer, what) = self.proofs.receipt(by, receipt)?;
        Some(Ack::of(answer, by, What::Deliveries(what), Proof::Receipt))
    }

    /// Returns the messages that an answer holds.
    pub fn mail_in(&self, answer: AnswerId) -> Vec<Seq> {
        self.proofs.mail_in(answer)
    }

    /// Makes the ack of messages that the reader names, or that its driver saw arrive.
    pub fn ack_messages(&self, by: Principal, seqs: Vec<Seq>, proof: Proof) -> Ack {
        let concerns = Concerns::Holders(self.proofs.holding(by, &seqs));
        let pending = PendingAck { by, proof, concerns };
        Ack { what: What::Messages(seqs), pending }
    }

    /// Makes the ack of messages that the reader answers; the reply's own append writes
    /// it. `None`: no answer holds any of them.
    pub fn reply(&self, by: Principal, to: &[Seq]) -> Option<PendingAck> {
        let holders = Some(self.proofs.holding(by, to)).filter(|holders| !holders.is_empty());
        let concerns = Concerns::Holders(holders?);
        Some(PendingAck { by, proof: Proof::Reply, concerns })
    }

    /// Makes the refusal of a whole answer. `None`: the receipt is not known.
    pub fn nack_receipt(&self, by: Principal, receipt: u64) -> Option<Nack> {
        let (answer, what) = self.proofs.receipt(by, receipt)?;
        let pending = PendingNack { concerns: Concerns::Answer(answer), named: Vec::new() };
        Some(Nack { what: What::Held(answer, what), pending })
    }

    /// Makes the refusal of messages.
    pub fn nack_messages(&self, by: Principal, seqs: Vec<Seq>) -> Nack {
        let concerns = Concerns::Holders(self.proofs.holding(by, &seqs));
        let pending = PendingNack { concerns, named: seqs.clone() };
        Nack { what: What::Messages(seqs), pending }
    }

    /// Notes a committed ack.
    pub fn acked(&mut self, ack: &PendingAck, acked: &Acked) {
        match &ack.concerns {
            Concerns::Answer(id) => self.proofs.acked(ack.by, *id, ack.proof, acked),
            Concerns::Holders(answers) => self.proofs.let_go(answers, &acked.settled),
        }
    }

    /// Notes an ack that was not committed: its mail can be proved again.
    pub fn unacked(&mut self, ack: &PendingAck, now: Instant) {
        if let Concerns::Answer(id) = ack.concerns {
            self.proofs.unacked(id, ack.proof, now);
        }
    }

    /// Notes a committed refusal, but for mail that the reader no longer held.
    pub fn nacked(&mut self, nack: &PendingNack, lost: &[Seq]) {
        match &nack.concerns {
            Concerns::Answer(id) => self.proofs.refused(*id, lost),
            Concerns::Holders(answers) => {
                let mut refused = nack.named.clone();
                refused.retain(|seq| !lost.contains(seq));
                self.proofs.let_go(answers, &refused);
            }
        }
    }

    /// Notes that the store acked these as read: answers that held them hold them no
    /// more.
    pub fn marked(&mut self, by: Principal, seqs: &[Seq]) {
        let holders = self.proofs.holding(by, seqs);
        self.proofs.let_go(&holders, seqs);
    }

    pub fn proved_by_end(&self, who: Principal, proves: Proves) -> Vec<(AnswerId, DeliveryNo)> {
        self.proofs.proved_by_end(who, proves)
    }

    /// Forgets the reader of an ended instance.
    pub fn end(&mut self, who: Principal) {
        self.proofs.end(who);
    }
}

/// Carries out the effects of a reader's behaviour.
fn perform(books: &mut impl Books, effects: impl IntoIterator<Item = Effect>) {
    for effect in effects {
        match effect {
            Effect::Ack { by, answer, what, proof } => {
                books.ack(Ack::of(answer, by, What::Held(answer, what), proof));
            }
            Effect::Return { by, answer, what, doubt } => books.give_back(by, what, answer, doubt),
        }
    }
}
