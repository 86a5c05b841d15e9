//! Waiting for mail: listen, look, gather, lease.
//!
//! Nothing is leased while the reader waits: a wait only counts what is there,
//! and the lease is taken when the answer is made. So a reader that goes away in
//! mid-wait holds nothing, and two readers cannot starve each other.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::Hub;
use crate::address::InstanceId;
use crate::messaging::delivery::{AnswerId, DeliveryNo};
use crate::messaging::message::{Principal, SenderKind, Seq};
use crate::messaging::proof::{Door, Running, Scope};
use crate::ports::{Bell, Filter, Lease, Leased, StoreError, Survey, Take, is_called};

/// What an entry of JSON shows of its body at least.
const LEAST: usize = 60;
/// About what an entry takes beside its body, where it is counted.
const BESIDE: usize = 90;

/// What a reader asks for.
#[derive(Debug, Clone)]
pub struct Ask {
    pub reader: Principal,
    pub door: Door,
    /// What the client calls this call, where it tells.
    pub call: Option<String>,
    pub timeout: Duration,
    pub window: Duration,
    pub wait_for: WaitFor,
    pub filter: Filter,
    pub budget: Budget,
    /// Most messages.
    pub most: usize,
    /// Consumed once written, at the caller's own risk.
    pub auto_ack: bool,
    /// The reader starts anew.
    pub begin: bool,
}

impl Ask {
    /// What is there for `reader` now.
    pub fn now(reader: Principal) -> Self {
        Self {
            reader,
            door: Door::Rest,
            call: None,
            timeout: Duration::ZERO,
            window: Duration::ZERO,
            wait_for: WaitFor::Any,
            filter: Filter::default(),
            budget: Budget::Whole,
            most: usize::MAX,
            auto_ack: false,
            begin: false,
        }
    }
}

/// When a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    Any,
    /// Everyone in `from`.
    All,
    /// So many distinct senders.
    Senders(usize),
}

/// How much an answer may hold.
#[derive(Debug, Clone, Copy)]
pub enum Budget {
    /// Whole messages up to the limit of the hub; at least one.
    Whole,
    /// So many characters, shared fairly: longer bodies are clipped.
    Chars(usize),
    /// So many bytes of JSON text, with `beside` for what an entry takes apart from
    /// its body.
    Json { chars: usize, beside: fn(&Leased) -> usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchStatus {
    /// What was waited for is here.
    Complete,
    /// Some of it; the rest is `missing`.
    Partial,
    /// Time is up and nothing came.
    Empty,
    /// The wait was ended from outside: call again.
    CallAgain,
}

impl BatchStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Empty => "empty",
            Self::CallAgain => "call_again",
        }
    }
}

/// One of those waited for who has not sent yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub instance: Option<InstanceId>,
    pub label: Option<String>,
    pub status: &'static str,
}

/// An answer. Its mail is leased until [`Handed::written`] and a proof, or until
/// it is dropped unwritten.
#[derive(Debug)]
pub struct Batch {
    pub mail: Vec<Entry>,
    pub status: BatchStatus,
    pub waited: Duration,
    pub missing: Vec<Missing>,
    pub remaining: usize,
    pub settled: Vec<Seq>,
    pub receipt: u64,
    pub handed: Handed,
}

/// One message of an answer, and how much of its body is in it.
#[derive(Debug)]
pub struct Entry {
    pub leased: Leased,
    /// Cut to so many characters of so many.
    pub clip: Option<Clip>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clip {
    pub chars: usize,
    pub bytes: usize,
    pub total_chars: usize,
}

impl Entry {
    pub fn text(&self) -> &str {
        let body = &self.leased.message.body;
        self.clip.map_or(body, |clip| &body[..clip.bytes])
    }
}

/// The answer on its way to the client. Dropped without a word it was not
/// written, and its mail goes back, marked.
#[derive(Debug)]
pub struct Handed {
    hub: Arc<Hub>,
    id: AnswerId,
    auto: Option<(Principal, Vec<DeliveryNo>)>,
    done: bool,
}

impl Handed {
    /// So close to the client's known limit that it may have given up.
    pub fn came_late(&self) {
        self.hub.proofs.lock().came_late(self.id);
    }

    /// The ids that count as read are not in it after all.
    pub fn names_nothing(&self) {
        self.hub.proofs.lock().names_nothing(self.id);
    }

    /// Everything is in the kernel's hands.
    pub fn written(mut self) {
        self.done = true;
        self.hub.answer_written(self.id, self.auto.take());
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if !self.done {
            self.hub.answer_unwritten(self.id);
        }
    }
}

/// A call that has begun and is not answered yet. Dropped, its client is gone.
#[derive(Debug)]
pub struct Open {
    reader: Principal,
    running: Running,
    handed: Handed,
}

impl Open {
    /// Completes when the call is ended from outside.
    pub async fn cut(&self) {
        self.running.cut.cancelled().await;
    }
}

impl Hub {
    /// Waits for mail. Time up is an empty answer, not an error.
    // Not async: a waiting call would hold everything twice.
    pub fn receive(
        self: &Arc<Self>,
        ask: Ask,
    ) -> impl Future<Output = Result<Batch, StoreError>> + Send + use<'_> {
        if ask.begin {
            self.begin(ask.reader, Scope::Door(ask.door));
        }
        let names: &[&str] = match &ask.call {
            Some(name) => &[name],
            None => &[],
        };
        let open = self.open(ask.reader, ask.door, "", names);
        self.receive_on(open, ask)
    }

    /// A call begins. Through the MCP door it is the later call that proves the
    /// answers that the same process was given before; `label` says which it is.
    pub fn open(
        self: &Arc<Self>,
        reader: Principal,
        door: Door,
        label: &str,
        names: &[&str],
    ) -> Open {
        self.store.seen(reader);
        let running = self.open_call(reader, door, label, names);
        let handed = Handed { hub: Arc::clone(self), id: running.id, auto: None, done: false };
        Open { reader, running, handed }
    }

    /// What an answer to anything else carries along: what waits in the reader's
    /// own mailbox, as far as it fits. Without a budget nothing is taken.
    pub async fn enclose(
        self: &Arc<Self>,
        open: Open,
        budget: Option<Budget>,
    ) -> Result<Batch, StoreError> {
        let Open { reader, running, handed } = open;
        let lease = match budget {
            None => Lease::default(),
            Some(budget) => {
                let filter = Filter { exact: true, ..Filter::default() };
                let ask = Ask { filter, budget, ..Ask::now(reader) };
                self.store.lease(self.take(&ask, running.id)).await?
            }
        };
        let began = Instant::now();
        let status = if lease.mail.is_empty() { BatchStatus::Empty } else { BatchStatus::Complete };
        let budget = budget.unwrap_or(Budget::Whole);
        Ok(self.hand(reader, running.id, handed, lease, budget, (status, Vec::new(), false), began))
    }

    /// What lies in the reader's own mailbox, without taking any of it.
    pub async fn glance(&self, reader: Principal) -> Result<Survey, StoreError> {
        self.store.survey(reader, Filter { exact: true, ..Filter::default() }).await
    }

    /// Waits for mail in a call that has begun.
    pub fn receive_on(
        self: &Arc<Self>,
        open: Open,
        ask: Ask,
    ) -> impl Future<Output = Result<Batch, StoreError>> + Send + use<'_> {
        let Open { running: call, handed, .. } = open;
        self.wait_and_take(call, handed, ask)
    }

    async fn wait_and_take(
        self: &Arc<Self>,
        call: Running,
        mut handed: Handed,
        ask: Ask,
    ) -> Result<Batch, StoreError> {
        let began = Instant::now();

        // Before it waits, it listens, then looks again: what arrives in between rings
        // the bell that it already holds. What is there at the first look needs none.
        let mut bell: Option<Box<dyn Bell>> = None;
        let deadline = began + ask.timeout;
        let (lease, status, missing) = loop {
            let until = match self.look(&ask, deadline).await? {
                Look::WaitUntil(until) => until,
                Look::Take { met } => {
                    let asked = self.road.get().map(|road| (road, Instant::now()));
                    let lease = self.store.lease(self.take(&ask, call.id)).await?;
                    if let Some((road, asked)) = asked {
                        road.leased(&lease.mail, ask.reader, asked.elapsed());
                    }
                    let over = Instant::now() >= deadline;
                    let nothing_open = ask.wait_for == WaitFor::All && ask.filter.from.is_empty();
                    if !lease.mail.is_empty() || over || nothing_open {
                        let (status, missing) = self.judge(&ask, &lease, met);
                        break (lease, status, missing);
                    }
                    // Nothing yet, or another reader was quicker.
                    deadline
                }
            };
            match &mut bell {
                None => {
                    let keys = self.store.keys(ask.reader);
                    bell = Some(self.queue.listen(ask.reader, keys, ask.filter.clone()));
                }
                Some(bell) => {
                    if !self.wait(&mut **bell, &call, until).await {
                        break (Lease::default(), BatchStatus::CallAgain, Vec::new());
                    }
                }
            }
        };

        let taken: Vec<DeliveryNo> = lease.mail.iter().map(|l| l.delivery).collect();
        if let Some(bell) = &mut bell {
            bell.answered(&taken);
        }
        if ask.auto_ack {
            handed.auto = Some((ask.reader, taken));
        }
        self.store.seen(ask.reader);
        let gathers = ask.wait_for != WaitFor::Any;
        let judged = (status, missing, gathers);
        Ok(self.hand(ask.reader, call.id, handed, lease, ask.budget, judged, began))
    }

    /// Makes the answer: what fits is in it, the rest goes back.
    #[expect(clippy::too_many_arguments, reason = "the two ways to an answer end here")]
    fn hand(
        &self,
        reader: Principal,
        id: AnswerId,
        mut handed: Handed,
        lease: Lease,
        budget: Budget,
        (status, missing, gathers): (BatchStatus, Vec<Missing>, bool),
        began: Instant,
    ) -> Batch {
        let Lease { mail, remaining } = lease;
        let told = self.proofs.lock().answered(id, &mail);
        let Some(told) = told else {
            // Ended from outside while the mail was fetched: it is for the next call.
            let taken = mail.iter().map(|l| l.delivery).collect();
            self.store.put_back(reader, taken, id);
            handed.auto = None;
            return Batch {
                mail: Vec::new(),
                status: BatchStatus::CallAgain,
                waited: began.elapsed(),
                missing: Vec::new(),
                remaining: 0,
                settled: Vec::new(),
                receipt: 0,
                handed,
            };
        };
        let (mail, rest) = clip(mail, budget);
        let remaining = remaining + rest.len();
        let mut status = status;
        if !rest.is_empty() {
            self.leave_behind(reader, id, &mut handed, &rest);
            // A gather is complete only with all that it waited for.
            if gathers && status == BatchStatus::Complete {
                status = BatchStatus::CallAgain;
            }
        }
        Batch {
            mail,
            status,
            waited: began.elapsed(),
            missing,
            remaining,
            settled: told.settled,
            receipt: told.receipt,
            handed,
        }
    }

    /// No room for these after all.
    fn leave_behind(&self, by: Principal, id: AnswerId, handed: &mut Handed, rest: &[Leased]) {
        let what: Vec<DeliveryNo> = rest.iter().map(|l| l.delivery).collect();
        if let Some((_, taken)) = &mut handed.auto {
            taken.retain(|d| !what.contains(d));
        }
        self.proofs.lock().left_behind(id, &what);
        self.store.put_back(by, what, id);
    }

    /// Waits for the bell; `false` when the call was ended from outside.
    async fn wait(&self, bell: &mut dyn Bell, call: &Running, until: Instant) -> bool {
        // A lost ticket costs a sweep, never a message.
        let next_look = until.min(Instant::now() + self.limits.sweep);
        let _one_more = Waiting::new(&self.waiting);
        tokio::select! {
            biased;
            () = call.cut.cancelled() => false,
            () = self.stopping.cancelled() => false,
            () = bell.rung() => true,
            () = sleep_until(next_look) => true,
        }
    }

    /// Is it time to take what is there?
    async fn look(&self, ask: &Ask, deadline: Instant) -> Result<Look, StoreError> {
        let over = Instant::now() >= deadline;
        let plain = ask.wait_for == WaitFor::Any;
        if plain && (ask.window.is_zero() || ask.timeout.is_zero()) {
            // Nothing to weigh: whatever is there is the answer.
            return Ok(Look::Take { met: true });
        }
        let survey = self.survey(ask).await?;
        if survey.waiting == 0 && !over && !self.is_met(ask, &survey) {
            return Ok(Look::WaitUntil(deadline));
        }
        if !plain {
            let met = self.is_met(ask, &survey);
            let take = met || over || survey.ends_wait;
            return Ok(if take { Look::Take { met } } else { Look::WaitUntil(deadline) });
        }
        // The window starts at the first message's arrival, so a backlog does not
        // wait. It may outlast the timeout: that was for the first message.
        let age = survey.first_at.map(|at| self.clock.now().since(at));
        let left = age.map_or(Duration::ZERO, |age| ask.window.saturating_sub(age));
        // Urgent and human mail and questions do not wait for company.
        let pressing = survey.ends_wait;
        if left.is_zero() || pressing || survey.waiting >= self.limits.answer_messages {
            return Ok(Look::Take { met: true });
        }
        Ok(Look::WaitUntil(Instant::now() + left))
    }

    async fn survey(&self, ask: &Ask) -> Result<Survey, StoreError> {
        self.store.survey(ask.reader, ask.filter.clone()).await
    }

    fn is_met(&self, ask: &Ask, survey: &Survey) -> bool {
        match ask.wait_for {
            WaitFor::Any => survey.waiting > 0,
            WaitFor::All => ask.filter.from.iter().all(|who| has_sent(survey, who)),
            WaitFor::Senders(n) => survey.senders.len() >= n,
        }
    }

    /// `complete` is judged when it is said: by what the answer really holds.
    fn judge(&self, ask: &Ask, lease: &Lease, met: bool) -> (BatchStatus, Vec<Missing>) {
        let mail = &lease.mail;
        let here = |who: &str| mail.iter().any(|l| crate::ports::is_from(&l.message, who));
        let missing: Vec<Missing> = match ask.wait_for {
            WaitFor::All => {
                let absent = ask.filter.from.iter().filter(|who| !here(who));
                absent.map(|who| self.missing(who)).collect()
            }
            WaitFor::Any | WaitFor::Senders(_) => Vec::new(),
        };
        let status = match ask.wait_for {
            WaitFor::All if missing.is_empty() => BatchStatus::Complete,
            _ if mail.is_empty() => BatchStatus::Empty,
            WaitFor::Any => BatchStatus::Complete,
            // What is left behind for want of room is still to come.
            _ if met && lease.remaining > 0 => BatchStatus::CallAgain,
            WaitFor::Senders(n) if senders(mail) >= n => BatchStatus::Complete,
            WaitFor::All | WaitFor::Senders(_) => BatchStatus::Partial,
        };
        (status, missing)
    }

    fn missing(&self, who: &str) -> Missing {
        let instance = who.parse::<InstanceId>().ok();
        let status = match instance.map(|id| self.store.instance(id)) {
            Some(Some(view)) => view.instance.status.as_str(),
            Some(None) => "unknown",
            None => "waiting",
        };
        let label = instance.is_none().then(|| who.to_owned());
        Missing { instance, label, status }
    }

    fn take(&self, ask: &Ask, answer: AnswerId) -> Take {
        let (messages, bytes) = match ask.budget {
            Budget::Whole => (self.limits.answer_messages, self.limits.answer_bytes),
            Budget::Chars(chars) => {
                let fit = (chars / self.limits.answer_share_chars.max(1)).max(1);
                (fit.min(self.limits.answer_messages), usize::MAX)
            }
            Budget::Json { chars, .. } => {
                let fit = (chars / (self.limits.answer_share_chars + BESIDE)).max(1);
                (fit.min(self.limits.answer_messages), usize::MAX)
            }
        };
        let messages = messages.min(ask.most);
        Take { reader: ask.reader, answer, filter: ask.filter.clone(), messages, bytes }
    }
}

/// One who waits, counted.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Distinct senders of this mail; the hub itself is none.
fn senders(mail: &[Leased]) -> usize {
    let agents = mail.iter().map(|l| &l.message.from).filter(|s| s.kind != SenderKind::System);
    agents.map(|sender| &sender.address).collect::<HashSet<_>>().len()
}

enum Look {
    Take { met: bool },
    WaitUntil(Instant),
}

/// Whether what waits holds something of `who`: an instance, a name, an address
/// or a label.
fn has_sent(survey: &Survey, who: &str) -> bool {
    survey.labels.iter().any(|label| label == who)
        || survey.senders.iter().any(|address| is_called(address, who))
}

/// Gives every message an equal share first; what short ones leave goes to the
/// longer ones. Cut at character boundaries. Gives back what does not fit at all.
fn clip(mail: Vec<Leased>, budget: Budget) -> (Vec<Entry>, Vec<Leased>) {
    match budget {
        Budget::Whole => {
            let whole = |leased| Entry { leased, clip: None };
            (mail.into_iter().map(whole).collect(), Vec::new())
        }
        Budget::Chars(chars) => (cut(mail, chars, |_| 1), Vec::new()),
        Budget::Json { chars, beside } => {
            let (mut mail, mut fit) = (mail, 0);
            let (mut around, mut least) = (0, 0);
            for leased in &mail {
                let body = leased.message.body.chars().take(LEAST).map(json_cost).sum::<usize>();
                let beside = beside(leased);
                least += beside + body.min(LEAST);
                if least > chars && fit > 0 {
                    break;
                }
                around += beside;
                fit += 1;
            }
            let rest = mail.split_off(fit);
            (cut(mail, chars.saturating_sub(around), json_cost), rest)
        }
    }
}

fn cut(mail: Vec<Leased>, room: usize, cost: fn(char) -> usize) -> Vec<Entry> {
    let price = |l: &Leased| l.message.body.chars().map(cost).sum::<usize>();
    let lengths: Vec<usize> = mail.iter().map(price).collect();
    let share = fair_share(&lengths, room);
    mail.into_iter()
        .zip(lengths)
        .map(|(leased, length)| {
            let clip = (length > share).then(|| clip_to(&leased.message.body, share, cost));
            Entry { clip, leased }
        })
        .collect()
}

fn clip_to(body: &str, share: usize, cost: fn(char) -> usize) -> Clip {
    let (mut chars, mut bytes, mut spent) = (0, body.len(), 0);
    for (at, c) in body.char_indices() {
        spent += cost(c);
        if spent > share {
            bytes = at;
            break;
        }
        chars += 1;
    }
    Clip { chars, bytes, total_chars: body.chars().count() }
}

/// What one takes in a JSON string, in bytes: some readers count so, and nobody
/// counts more.
pub fn json_cost(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..'\u{20}' => 6,
        _ => c.len_utf8(),
    }
}

/// The largest share such that nobody's part, capped at it, exceeds the budget.
fn fair_share(lengths: &[usize], budget: usize) -> usize {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let mut left = budget;
    for (i, length) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - i);
        if *length > share {
            return share;
        }
        left -= length;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_messages_leave_their_room_to_long_ones() {
        assert_eq!(fair_share(&[10, 10, 10], 30), usize::MAX);
        assert_eq!(fair_share(&[10, 100], 60), 50);
        assert_eq!(fair_share(&[100, 100], 60), 30);
        assert_eq!(fair_share(&[], 60), usize::MAX);
    }

    proptest! {
        #[test]
        fn shares_never_exceed_the_budget(lengths in proptest::collection::vec(0usize..500, 0..60), budget in 0usize..5000) {
            let share = fair_share(&lengths, budget);
            let used: usize = lengths.iter().map(|l| (*l).min(share)).sum();
            prop_assert!(used <= budget);
            // Nothing that would fit is held back: one more each would not fit.
            if share != usize::MAX {
                let more: usize = lengths.iter().map(|l| (*l).min(share + 1)).sum();
                prop_assert!(more > budget);
            }
        }
    }
}
