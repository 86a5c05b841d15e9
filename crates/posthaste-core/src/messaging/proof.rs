//! Proof: the evidence that a message arrived.
//!
//! A read leases; only proof acks. This module keeps, for each answer that a reader was
//! given, what has happened since, and decides what follows: an ack with its proof, or a
//! return with a mark. It knows no store and no clock; the [`Hub`](crate::Hub) carries
//! out the [`Effect`]s.
//!
//! The rules, each with a test of its name in `tests/it/rules.rs`; the model test
//! walks them all, and shows for each what breaks without it:
//!
//! * **return**: a suspicious answer gives its mail back at once, marked.
//! * **grace**: a later call proves an answer 2 s after it began (5 s for a reader with
//!   hooks), unless a cancel came; a cancel before proof is suspicion.
//! * **late**: an answer that leaves at the edge of the client's patience may have been
//!   dropped without a sign; its mail goes back at the reader's next call.
//! * **again**: a repeated call is no later call; it makes the first suspicious.
//! * **once**: the first words of one start (`server/discover`, then `initialize`) are one
//!   beginning.
//! * **same**: a second process of a conversation is no beginning while the first lives:
//!   both are one reader.
//! * **own**: a call proves what calls of the same process were given, and nothing while
//!   two processes share an identity.
//! * **driver**: an interrupt by the hub's own driver makes running calls suspicious; the
//!   start of a worker's session leaves the driver what it holds.
//! * **doubt**: a cancel after the answer is suspicion once per delivery.
//! * **habit**: a cancel after the answer says nothing if the client is known to cancel
//!   every finished call.
//! * **cut**: a beginning ends the open calls of the readers before it.
//! * **settled**: ids proven by a later call or a stop are named in each answer until
//!   one is proven; a beginning, a hub start or a cancel of it starts over.
//! * **end**: an end acks only what a turn finished by the model itself followed.
//! * **hooked**: of a reader with hooks, only an answer is proven whose own after-tool
//!   hook came; mail that a hook carried is hooked by its answer.
//! * **began**: a hook after a tool or a prompt proves nothing; a call that began later
//!   does.
//! * **alone**: that call counts only if no other call of the reader was open.
//! * **stop**: a stop proves every hooked answer at once.
//! * **turn**: a prompt or a stop ends the reader's open calls and returns, marked, what
//!   it does not prove.
//! * **start**: the first prompt after a session start keeps what that start brought.
//! * **failed**: the hook of a failed tool carries no mail; that of a failed call of the
//!   hub is suspicion.
//! * **gone**: when a reader's last stream has closed, its unproven one-of mail goes
//!   back, marked.
//!
//! (**clean**, **commit**, **maybe** and **fence** are the store's.)

mod answer;
mod digest;
mod hooks;
mod process;
mod reader;
mod rule;

use std::collections::BTreeSet;
use std::time::Duration;

use compact_str::CompactString;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::answer::{Answer, Called, Held, Written};
pub use self::hooks::{Hook, Moment};
pub use self::process::{Call, Hello, Process};
use self::reader::{Reader, Taken};
pub use self::rule::{Rule, Rules};
use crate::Map;
use crate::limits::Limits;
use crate::messaging::delivery::{AnswerId, DeliveryNo, Proof};
use crate::messaging::message::{Principal, Seq};
use crate::ports::store::Epoch;
use crate::ports::{Acked, Leased};

/// Maximum number of ids acked by weak proof that an answer names.
const NAMED: usize = 20;

/// Factor by which answers that hold mail may exceed the limit for other answers.
const MORE_THAN_KEEP: usize = 10;

/// The strength of the proof that the end of an instance gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proves {
    /// The agent finished its own turn after all mail that it was given.
    All,
    /// The agent finished its task, but some later mail of its driver did not reach it.
    Task,
    Nothing,
}

/// The door of a call, which decides the proofs that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Receipts and replies only.
    Rest,
    /// Later calls, too; of a client with hooks, what its hooks show.
    Mcp,
    /// The same, for mail that a hook of the client put before its model.
    Hook,
    /// Receipts and replies only: the client was idle, and may not begin the turn that was
    /// to show the mail. A prompt or a stop returns what is not proved by then.
    Idle,
    /// Receipts and replies, and that the agent ended by itself.
    Driver,
}

/// The leases that a beginning returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Leases of answers through this door.
    Door(Door),
    /// All leases but those of the hub's own driver: a session started, and the driver may
    /// have started it to give it that mail.
    Session,
    /// All leases: a driver started.
    All,
}

impl Scope {
    fn covers(self, answered: Door) -> bool {
        match self {
            Self::Door(door) => door == answered,
            Self::Session => answered != Door::Driver,
            Self::All => true,
        }
    }
}

/// An action of the store that follows from a reader's behaviour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Ack { by: Principal, answer: AnswerId, what: Vec<DeliveryNo>, proof: Proof },
    Return { by: Principal, answer: AnswerId, what: Vec<DeliveryNo>, doubt: bool },
}

/// A running call.
#[derive(Debug, Clone)]
pub struct Running {
    pub id: AnswerId,
    /// Fires when a beginning or an interrupt ends the call.
    pub cut: CancellationToken,
}

/// The parts of an answer beside the mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerHead {
    pub receipt: u64,
    pub settled: Vec<Seq>,
}

#[derive(Debug, Clone)]
pub struct Proofs {
    rules: Rules,
    grace: Duration,
    hook_grace: Duration,
    keep: usize,
    keep_settled: usize,
    /// The id of the last answer.
    last: AnswerId,
    readers: Map<Principal, Reader>,
    answers: Map<AnswerId, Answer>,
    receipts: Map<u64, AnswerId>,
    due: BTreeSet<(Instant, AnswerId)>,
}

impl Proofs {
    pub fn new(limits: &Limits, epoch: Epoch) -> Self {
        Self {
            rules: Rules::ALL,
            grace: limits.proof_grace,
            hook_grace: limits.hook_grace,
            keep: limits.receipts,
            keep_settled: limits.settled_answers,
            last: AnswerId::before_first(epoch),
            readers: Map::default(),
            answers: Map::default(),
            receipts: Map::default(),
            due: BTreeSet::new(),
        }
    }

    /// Leaves out rules, to show what each is for.
    pub fn with_rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Loads ids acked before the hub started: they are named once more.
    pub fn remember(&mut self, who: Principal, taken: &[Seq]) {
        let list = taken.iter().map(|seq| Taken { seq: *seq, told: None });
        self.readers.entry(who).or_insert_with(|| Reader::who_took(list.collect()));
    }

    pub fn knows(&self, who: Principal) -> bool {
        self.readers.contains_key(&who)
    }

    /// Begins a call. Through the MCP door it is also the later call that proves the
    /// answers before it, unless it repeats one of them.
    pub fn open(
        &mut self,
        who: Principal,
        call: &Call<'_>,
        receipt: u64,
        now: Instant,
    ) -> (Running, Vec<Effect>) {
        let mut effects = Vec::new();
        let called = Called::new(call);
        if call.door == Door::Mcp {
            effects.extend(self.suspect_late(who));
            let names = called.as_deref().map_or(&[][..], |called| &called.names);
            let (repeats, suspected) = self.suspect_repeated(who, names);
            effects.extend(suspected);
            let reader = self.readers.entry(who).or_default();
            reader.has_called();
            let label = call.process.label();
            effects.extend(match (repeats, reader.expects_hooks(now)) {
                (true, _) => Vec::new(),
                (false, true) => self.arrives(who, call.tool, label, names, now),
                (false, false) => self.later(who, Some(label), Proof::NextCall, 0, now),
            });
        }

        let id = self.last.next();
        self.last = id;
        let cut = CancellationToken::new();
        let reader = self.readers.entry(who).or_default();
        reader.answers.push_back(id);
        self.answers.insert(
            id,
            Answer {
                who,
                beginning: reader.beginning,
                door: call.door,
                client: call.client,
                called,
                shared: reader.is_shared(),
                receipt,
                cut: cut.clone(),
                written: Written::No,
                mail: Vec::new(),
                named: Vec::new(),
                late: false,
                suspicious: false,
                // The client asks with a hook only when its tool is over.
                hooked: call.door == Door::Hook,
                at_start: call.door == Door::Hook && reader.starts,
                to_sub_agent: call.door == Door::Mcp && reader.runs_sub_agent(),
                later_by: 0,
                later: None,
                proven: false,
            },
        );
        if call.door == Door::Mcp {
            self.note_answer(who, id);
        }
        effects.extend(self.forget_oldest(who));
        (Running { id, cut }, effects)
    }

    /// Returns the mail of answers that may have come too late, at the reader's next
    /// call.
    fn suspect_late(&mut self, who: Principal) -> Vec<Effect> {
        let late = |id: &AnswerId| self.answers.get(id).is_some_and(|a| a.late && !a.proven);
        let late: Vec<AnswerId> = self.answers_of(who).into_iter().filter(late).collect();
        late.into_iter().filter_map(|id| self.suspect(id, false)).collect()
    }

    /// Closes or suspects the earlier calls with one of these names, and returns whether
    /// there are any.
    fn suspect_repeated(&mut self, who: Principal, names: &[CompactString]) -> (bool, Vec<Effect>) {
        if !self.rules.has(Rule::Again) {
            return (false, Vec::new());
        }
        let repeated = self.called(who, |name| names.iter().any(|known| known == name));
        let mut effects = Vec::new();
        for id in &repeated {
            // A call that still waits would answer a client that no longer listens.
            if !self.answers.get_mut(id).is_some_and(Answer::close) {
                effects.extend(self.suspect(*id, false));
            }
        }
        (!repeated.is_empty(), effects)
    }

    /// Answers the call with this mail, `waited` after it began, and returns the other
    /// parts of the answer. `None`: the call was ended while its mail was fetched, and
    /// none of the mail may be given.
    pub fn answered(
        &mut self,
        id: AnswerId,
        mail: &[Leased],
        waited: Duration,
    ) -> Option<AnswerHead> {
        let answer = self.answers.get_mut(&id).filter(|a| a.written == Written::No)?;
        answer.late = answer.client.may_have_given_up(waited) && self.rules.has(Rule::Late);
        let held = |l: &Leased| Held {
            delivery: l.delivery,
            seq: l.message.seq,
            doubted: l.doubted,
            one_of: l.mailbox.is_one_of(),
            gone: false,
        };
        answer.mail = mail.iter().map(held).collect();
        if let Some(reader) = self.readers.get_mut(&answer.who) {
            let open = reader.taken.iter_mut().filter(|t| t.told.is_none());
            let named = open.map(|t| {
                t.told = (!self.rules.has(Rule::Settled)).then_some(id);
                t.seq
            });
            answer.named = named.collect();
        }
        if !answer.mail.is_empty() {
            self.receipts.insert(answer.receipt, id);
        }
        Some(AnswerHead { receipt: answer.receipt, settled: answer.named.clone() })
    }

    /// Removes deliveries that did not fit from the answer.
    pub fn left_behind(&mut self, id: AnswerId, what: &[DeliveryNo]) {
        if let Some(answer) = self.answers.get_mut(&id) {
            answer.mail.retain(|held| !what.contains(&held.delivery));
        }
    }

    /// Notes that the answer does not show the ids acked by weak proof.
    pub fn names_nothing(&mut self, id: AnswerId) {
        if let Some(answer) = self.answers.get_mut(&id) {
            answer.named.clear();
        }
    }

    /// Notes that the answer's body is in the kernel's hands.
    pub fn written(&mut self, id: AnswerId) {
        let Some(answer) = self.answers.get_mut(&id) else { return };
        if answer.written == Written::No {
            answer.written = Written::Yes;
        }
        // Of a reader with hooks, the hook after the call has to find the answer.
        let hooks = answer.door == Door::Mcp
            && self.readers.get(&answer.who).is_some_and(|reader| reader.has_hooks);
        if answer.is_of_no_use() && (!hooks || answer.hooked) {
            self.forget(id);
        }
    }

    /// Notes that the connection closed before the body was written.
    pub fn unwritten(&mut self, id: AnswerId) -> Vec<Effect> {
        let Some(answer) = self.answers.get_mut(&id) else { return Vec::new() };
        if answer.written == Written::Yes {
            return Vec::new();
        }
        answer.written = Written::Closed;
        let effects = self.suspect(id, false).into_iter().collect();
        if self.answers.get(&id).is_some_and(|a| a.mail.is_empty()) {
            self.forget(id);
        }
        effects
    }

    /// Notes that the client cancelled the call: before its answer it just ends, after it
    /// the answer is suspicious.
    pub fn cancelled(&mut self, who: Principal, call: &str) -> Vec<Effect> {
        let called = self.called(who, |name| name == call);
        called.into_iter().flat_map(|id| self.cancel(id)).collect()
    }

    fn cancel(&mut self, id: AnswerId) -> Option<Effect> {
        let answer = self.answers.get_mut(&id)?;
        if answer.close() {
            return None;
        }
        let after_the_answer = answer.written == Written::Yes;
        if after_the_answer && answer.client.cancels_finished && self.rules.has(Rule::Habit) {
            return None;
        }
        self.suspect(id, after_the_answer)
    }

    /// Notes that the hub's own driver interrupted the agent: its calls are suspicious.
    pub fn interrupted(&mut self, who: Principal) -> Vec<Effect> {
        if !self.rules.has(Rule::Driver) {
            return Vec::new();
        }
        let mut effects = Vec::new();
        for id in self.answers_of(who) {
            let Some(answer) = self.answers.get_mut(&id) else { continue };
            // The driver itself knows what it has given to its agent.
            if answer.door == Door::Driver && answer.written == Written::No {
                continue;
            }
            if !answer.close() {
                effects.extend(self.suspect(id, false));
            }
        }
        effects
    }

    /// Notes that the hub's own driver saw the model finish its turn: its client has
    /// given it every answer of that turn that shows no sign of having been dropped.
    pub fn turn_ended(&mut self, who: Principal) -> Vec<Effect> {
        let mut effects = Vec::new();
        for id in self.answers_of(who) {
            let Some(answer) = self.answers.get(&id) else { continue };
            // The driver's own prompts have a proof of their own.
            let sure = answer.written == Written::Yes
                && matches!(answer.door, Door::Mcp | Door::Hook)
                && !answer.shared
                && !answer.is_doubtful()
                && !answer.proven;
            if sure {
                effects.extend(self.prove(id, Proof::Turn));
            }
        }
        effects
    }

    /// Finds the answer of a receipt that the reader names. An unknown receipt is
    /// ignored.
    pub fn receipt(&self, who: Principal, receipt: u64) -> Option<(AnswerId, Vec<DeliveryNo>)> {
        let id = *self.receipts.get(&receipt)?;
        let answer = self.answers.get(&id).filter(|a| a.who == who)?;
        let what = answer.mail.iter().map(|h| h.delivery).collect();
        Some((id, what))
    }

    /// Returns the messages that an answer holds.
    pub fn mail_in(&self, id: AnswerId) -> Vec<Seq> {
        let answer = self.answers.get(&id);
        answer.map(|a| a.mail.iter().map(|held| held.seq).collect()).unwrap_or_default()
    }

    /// Notes a committed ack, whatever became of the answer since. The answer may still
    /// hold deliveries that another write was settling; they wait for another proof.
    pub fn acked(&mut self, by: Principal, id: AnswerId, proof: Proof, acked: &Acked) {
        let mut over = true;
        if let Some(answer) = self.answers.get_mut(&id) {
            answer.let_go(|held| !acked.settling.contains(&held.seq));
            over = answer.holds().is_empty();
            answer.proven &= over;
        }
        if proof.is_weak() {
            if let Some(reader) = self.readers.get_mut(&by) {
                let taken = acked.settled.iter().map(|seq| Taken { seq: *seq, told: None });
                reader.taken.extend(taken);
                while reader.taken.len() > NAMED {
                    reader.taken.pop_front();
                }
            }
            return;
        }
        if proof != Proof::Auto {
            self.tell(id);
        }
        if over {
            self.forget(id);
        }
    }

    /// Notes an ack that was not committed: the answer's remaining deliveries wait for
    /// another proof, or for the same one a little later, if it was weak: no other may
    /// follow. Deliveries that were returned meanwhile are queued in the ledger.
    pub fn unacked(&mut self, id: AnswerId, proof: Proof, now: Instant) {
        let Some(answer) = self.answers.get_mut(&id) else { return };
        answer.proven = false;
        let again = proof.is_weak() && !answer.is_doubtful() && !answer.holds().is_empty();
        if again && answer.later.is_none() {
            let due = now + self.grace;
            answer.later = Some((due, proof));
            self.due.insert((due, id));
        }
    }

    /// Returns the answers that hold any of these messages.
    pub fn holding(&self, who: Principal, seqs: &[Seq]) -> Vec<AnswerId> {
        let holds = |a: &Answer| a.mail.iter().any(|h| !h.gone && seqs.contains(&h.seq));
        let mut found = self.answers_of(who);
        found.retain(|id| self.answers.get(id).is_some_and(holds));
        found
    }

    /// Notes that the reader acked, answered or refused these messages by name: it had
    /// the answers, and they hold the messages no more.
    pub fn let_go(&mut self, answers: &[AnswerId], seqs: &[Seq]) {
        for id in answers {
            if let Some(answer) = self.answers.get_mut(id) {
                answer.let_go(|held| seqs.contains(&held.seq));
                self.tell(*id);
            }
        }
    }

    /// Notes that the reader refused a whole answer, but for mail that it no longer held.
    pub fn refused(&mut self, id: AnswerId, lost: &[Seq]) {
        if let Some(answer) = self.answers.get_mut(&id) {
            answer.let_go(|held| !lost.contains(&held.seq));
            self.tell(id);
        }
    }

    /// Acks the answers whose later call has stayed uncancelled long enough.
    pub fn due(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((at, id)) = self.due.first().copied()
            && at <= now
        {
            self.due.pop_first();
            effects.extend(self.grace_is_over(id));
        }
        effects
    }

    /// Acks an answer whose later call has stayed uncancelled long enough.
    pub fn grace_is_over(&mut self, id: AnswerId) -> Option<Effect> {
        let (at, proof) = self.answers.get_mut(&id)?.later.take()?;
        self.due.remove(&(at, id));
        self.prove(id, proof)
    }

    fn prove(&mut self, id: AnswerId, proof: Proof) -> Option<Effect> {
        let answer = self.answers.get_mut(&id)?;
        if let Some((at, _)) = answer.later.take() {
            self.due.remove(&(at, id));
        }
        answer.proven = true;
        let (by, what) = (answer.who, answer.holds());
        self.tell(id);
        (!what.is_empty()).then_some(Effect::Ack { by, answer: id, what, proof })
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns the deliveries that the end of an instance proves.
    pub fn proved_by_end(&self, who: Principal, proves: Proves) -> Vec<(AnswerId, DeliveryNo)> {
        let answers = self.answers_of(who).into_iter();
        let answers = answers.filter_map(|id| self.answers.get(&id).map(|answer| (id, answer)));
        let sure = answers.filter(|(_, a)| a.written == Written::Yes && !a.is_doubtful());
        // The first answer of its driver was the task.
        let mut by_driver = 0;
        let counts = |(_, a): &(AnswerId, &Answer)| {
            by_driver += usize::from(a.door == Door::Driver);
            match proves {
                _ if !self.rules.has(Rule::End) => true,
                Proves::All => true,
                Proves::Task => a.door != Door::Driver || by_driver == 1,
                Proves::Nothing => false,
            }
        };
        let held = |(id, a): (AnswerId, &Answer)| a.holds().into_iter().map(move |d| (id, d));
        sure.filter(counts).flat_map(held).collect()
    }

    /// Ends the calls of an ended instance.
    pub fn end(&mut self, who: Principal) {
        for id in self.answers_of(who) {
            if let Some(answer) = self.answers.get(&id) {
                answer.cut.cancel();
            }
            self.forget(id);
        }
        self.readers.remove(&who);
    }

    /// Notes that the reader has read the ids that `id` named: it went on after that
    /// answer.
    fn tell(&mut self, id: AnswerId) {
        let Some(answer) = self.answers.get(&id) else { return };
        if answer.suspicious {
            return;
        }
        let Some(reader) = self.readers.get_mut(&answer.who) else { return };
        if reader.beginning != answer.beginning {
            return;
        }
        for taken in &mut reader.taken {
            if answer.named.contains(&taken.seq) && taken.told.is_none() {
                taken.told = Some(id);
            }
        }
    }

    /// Notes that a call has begun later than the answers that were written and are not
    /// doubtful. It proves those that its process (`label`) was given; of a reader with
    /// hooks, those that are hooked.
    fn later(
        &mut self,
        who: Principal,
        label: Option<&str>,
        proof: Proof,
        by: u64,
        now: Instant,
    ) -> Vec<Effect> {
        let Some(reader) = self.readers.get(&who) else { return Vec::new() };
        let own = self.rules.has(Rule::Own);
        if own && reader.is_shared() {
            return Vec::new();
        }
        let (beginning, hooks) = (reader.beginning, reader.has_hooks);
        let due = now + if hooks { self.hook_grace } else { self.grace };
        let label = label.filter(|_| own);
        let mut effects = Vec::new();
        for id in self.answers_of(who) {
            let Some(answer) = self.answers.get_mut(&id) else { continue };
            let open = answer.written == Written::Yes && !answer.is_doubtful() && !answer.proven;
            let same = answer.door == Door::Hook || label.is_none_or(|l| answer.label() == l);
            let shown = answer.hooked || !hooks || !self.rules.has(Rule::Hooked);
            if open
                && same
                && shown
                && matches!(answer.door, Door::Mcp | Door::Hook)
                && !(own && answer.shared)
                && answer.beginning == beginning
                && answer.later.is_none()
            {
                if !self.rules.has(Rule::Grace) {
                    effects.extend(self.prove(id, proof));
                    continue;
                }
                answer.later = Some((due, proof));
                answer.later_by = by;
                self.due.insert((due, id));
            }
        }
        effects
    }

    /// Returns the mail of a suspicious answer. A cancel after the answer makes a
    /// delivery suspicious once, not twice: some clients cancel every finished call. So a
    /// delivery that was doubted before stays, and can be proven.
    fn suspect(&mut self, id: AnswerId, cancelled: bool) -> Option<Effect> {
        let answer = self.answers.get_mut(&id)?;
        let doubts = self.rules.has(Rule::Doubt);
        let stays = |h: &Held| cancelled && doubts && h.doubted;
        let mine = || answer.mail.iter().filter(|h| !h.gone);
        let (held, back) = (mine().count(), mine().filter(|h| !stays(h)).count());
        if held > 0 && back == 0 {
            return None;
        }
        // Nor is it sure that the reader read the ids that the answer named.
        let starts_over = self.rules.has(Rule::Settled);
        let taken = self.readers.get_mut(&answer.who).into_iter().flat_map(|r| &mut r.taken);
        for taken in taken.filter(|taken| starts_over && taken.told == Some(id)) {
            taken.told = None;
        }
        if back < held {
            let what = mine().filter(|h| !stays(h)).map(|h| h.delivery).collect();
            let by = answer.who;
            answer.let_go(|h| !stays(h));
            answer.named.clear();
            return Some(Effect::Return { by, answer: id, what, doubt: true });
        }
        answer.suspicious = true;
        if let Some((at, _)) = answer.later.take() {
            self.due.remove(&(at, id));
        }
        match self.rules.has(Rule::Return) {
            true => self.give_back(id, cancelled),
            false => None,
        }
    }

    fn give_back(&mut self, id: AnswerId, doubt: bool) -> Option<Effect> {
        let answer = self.answers.get_mut(&id)?;
        let what = answer.holds();
        answer.let_go(|_| true);
        let by = answer.who;
        (!what.is_empty()).then_some(Effect::Return { by, answer: id, what, doubt })
    }

    /// Returns the answers to calls of this reader whose name `fits`.
    fn called(&self, who: Principal, fits: impl Fn(&str) -> bool) -> Vec<AnswerId> {
        let Some(reader) = self.readers.get(&who) else { return Vec::new() };
        let same = |a: &Answer| {
            a.beginning == reader.beginning && a.door == Door::Mcp && a.is_called(&fits)
        };
        let of = |id: &&AnswerId| self.answers.get(id).is_some_and(same);
        reader.answers.iter().filter(of).copied().collect()
    }

    fn answers_of(&self, who: Principal) -> Vec<AnswerId> {
        self.readers.get(&who).map_or_else(Vec::new, |r| r.answers.iter().copied().collect())
    }

    /// Forgets the oldest answers of a reader. Of the answers without mail only the last
    /// few are kept. A reader that never proves anything is not kept for ever; but as
    /// long as there is room, running calls and answers with mail are. The mail of a
    /// forgotten answer goes back, because nothing else could return it.
    fn forget_oldest(&mut self, who: Principal) -> Option<Effect> {
        let reader = self.readers.get(&who)?;
        let answers = &reader.answers;
        if answers.len() <= self.keep.min(self.keep_settled) {
            return None;
        }
        let idle = |a: &Answer| a.written != Written::No && a.mail.iter().all(|held| held.gone);
        let mut settled = answers.iter().filter(|id| self.answers.get(id).is_none_or(idle));
        let oldest = settled.next();
        let many = answers.len() > self.keep || settled.count() >= self.keep_settled;
        let full = answers.len() > self.keep * MORE_THAN_KEEP;
        let oldest = oldest.filter(|_| many).or(answers.front().filter(|_| full)).copied()?;
        let returned = self.give_back(oldest, false);
        self.forget(oldest);
        returned
    }

    fn forget(&mut self, id: AnswerId) {
        let Some(answer) = self.answers.remove(&id) else { return };
        self.receipts.remove(&answer.receipt);
        if let Some((at, _)) = answer.later {
            self.due.remove(&(at, id));
        }
        if let Some(reader) = self.readers.get_mut(&answer.who) {
            reader.answers.retain(|a| *a != id);
        }
    }
}
