//! The entries of a conversation: messages, and what stands between them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;

use super::{Chat, ChatEntry, ChatError, ChatKind, EntryState, Spoken};
use crate::Hub;
use crate::address::{InstanceId, Mailbox};
use crate::messaging::message::{Kind, Message, MessageRef, SenderKind, Seq, ThreadId};
use crate::needs::{Need, NeedId, NeedKind, Outcome, QuestionFacts};
use crate::orchestration::TurnActivity;
use crate::ports::store::NeedsLook;
use crate::ports::{DeliveryRecord, HistoryQuery, Record, RecordState, StoreError};
use crate::time::Timestamp;

/// Messages of a thread that are read at a time, and how often: a thread also has the mail
/// between the agent and others.
const PAGE: usize = 200;
const PAGES: usize = 50;

/// The facts of an answer that its metadata states; anything else in it is ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnswerFacts {
    #[serde(rename = "final")]
    is_final: bool,
    answers: Vec<u64>,
    quote: Option<String>,
    failed: bool,
    cancelled: bool,
}

impl AnswerFacts {
    fn of(message: &Message) -> Self {
        let read = |text| serde_json::from_str(text).ok();
        message.metadata.as_deref().and_then(read).unwrap_or_default()
    }
}

/// The messages of one page.
struct Page {
    /// Oldest first.
    records: Vec<Record>,
    /// Messages after the page, as far as they were looked at.
    later: Vec<Record>,
    next: Option<Seq>,
}

/// The agent of a conversation.
#[derive(Clone, Copy)]
struct Speaker {
    who: InstanceId,
    /// The hub runs it, and so knows where its turns end.
    is_worker: bool,
    lives: bool,
    at_work: bool,
}

/// What the agent's messages say about those of the operator.
#[derive(Default)]
struct Answered {
    by_name: HashSet<Seq>,
    /// Messages that the end of a turn names which answered nothing.
    unanswered: HashMap<Seq, End>,
    /// The ends of turns: their numbers and times.
    ends: Vec<(Seq, Timestamp, End)>,
    /// Messages that a reply of the operator names.
    replied: HashSet<Seq>,
}

/// What the end of a turn is for the messages that the agent had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Answered,
    Failed(&'static str),
}

/// The reasons why a message that the agent has had gets no answer.
const TURN_FAILED: &str = "turn_failed";
const TURN_CANCELLED: &str = "turn_cancelled";
const AGENT_ENDED: &str = "agent_ended";

impl Hub {
    /// Returns a page of the conversation with an agent: the last messages, or the last
    /// before a number, with the calls of tools between them.
    pub async fn chat(
        self: &Arc<Self>,
        who: InstanceId,
        last: usize,
        before: Option<Seq>,
    ) -> Result<Chat, ChatError> {
        let missing = || ChatError::NoSuchAgent(who.to_string());
        let needs = self.open_needs_of(who).await?;
        let view = self.instance(who).ok_or_else(missing)?;
        let page = self.chat_page(who, view.instance.thread, last, before).await?;
        let lives = !view.instance.status.has_ended();
        let busy =
            matches!(self.turn_activity(who), Some(TurnActivity::Busy | TurnActivity::Asking));
        let is_worker = view.instance.work.is_some();
        let at_work = lives && is_worker && busy;
        let answered = Answered::by(page.records.iter().chain(&page.later), who);
        let of = Speaker { who, is_worker, lives, at_work };
        // Only then each end of a turn is the end of what the agent had.
        let idle_since = match self.answers_operator(&view.instance).await? {
            true => self.idle_since(who),
            false => None,
        };
        let mut entries: Vec<ChatEntry> =
            page.records.iter().map(|record| entry(record, of, &answered)).collect();
        let is_over = |record: &Record| {
            let had_since = delivery(record, of).and_then(|d| d.settled_at);
            had_since.zip(idle_since).is_some_and(|(had, idle)| had <= idle)
        };
        let open = page.records.iter().zip(&entries).filter(|(record, entry)| {
            is_open(entry) && !(entry.state == Some(EntryState::Read) && is_over(record))
        });
        let open: Vec<Seq> = open.filter_map(|(_, entry)| entry.seq).collect();
        let is_queued = |e: &ChatEntry| e.state == Some(EntryState::Queued);
        let working = at_work || lives && is_worker && entries.iter().any(is_queued);
        for need in &needs {
            let asked = entries.iter_mut().find(|e| e.seq.is_some() && e.seq == need.message);
            match (asked, need.kind) {
                (Some(asked), _) => {
                    (asked.need, asked.state) = (Some(need.id), Some(EntryState::Open));
                }
                (None, NeedKind::Permission) if before.is_none() => entries.push(permission(need)),
                // It is older than the page, and waits all the same.
                (None, NeedKind::Question) if before.is_none() => {
                    entries.push(self.question(need).await?);
                }
                (None, _) => {}
            }
        }
        let times = page_times(&page, before);
        let is_shown = |need: &&Need| {
            times.contains(&need.created_at) && !needs.iter().any(|open| open.id == need.id)
        };
        let closed = self.closed_permissions_of(who, lives).await?;
        entries.extend(closed.iter().filter(is_shown).map(permission));
        entries.extend(self.tools_of(who, &times, lives).await);
        // Messages of the same time keep their order.
        entries.sort_by_key(|entry| entry.created_at);
        let writing = self.writing(who).map(|writing| writing.borrow().clone());
        let writing = writing.filter(|text| !text.is_empty());
        Ok(Chat { view, working, writing, open, entries, next: page.next })
    }

    /// Returns the entry of an open question, whole if its message is still kept.
    async fn question(&self, need: &Need) -> Result<ChatEntry, StoreError> {
        let asked = match need.message {
            Some(seq) => self.engine.message(MessageRef::Seq(seq)).await?,
            None => None,
        };
        let text =
            asked.map_or_else(|| need.text.clone(), |it| it.message.body.as_str().to_owned());
        Ok(ChatEntry {
            seq: need.message,
            state: Some(EntryState::Open),
            blocking: need.blocking,
            options: need.options.clone(),
            need: Some(need.id),
            ..ChatEntry::new(ChatKind::Question, text, need.created_at)
        })
    }

    /// Returns the permission requests of an agent that are closed, of many the last.
    async fn closed_permissions_of(
        &self,
        who: InstanceId,
        lives: bool,
    ) -> Result<Vec<Need>, StoreError> {
        let most = self.limits.chat_tools;
        let mut closed = Vec::new();
        if lives {
            let mut ids = self.engine.ledger(|l| l.closed_permissions(who));
            ids.sort_unstable();
            ids.drain(..ids.len().saturating_sub(most));
            closed = self.needs(NeedsLook::These(ids)).await?;
        } else {
            // The ledger has forgotten what an ended agent asked.
            let (kind, mut after) = (Some(NeedKind::Permission), NeedId(0));
            loop {
                let look = NeedsLook::After { after, kind, open_only: false, most: PAGE };
                let page = self.needs(look).await?;
                let Some(last) = page.last() else { break };
                after = last.id;
                closed.extend(page.into_iter().filter(|need| need.from.instance == Some(who)));
            }
            closed.drain(..closed.len().saturating_sub(most));
        }
        closed.retain(|need| need.closed.is_some());
        Ok(closed)
    }

    async fn chat_page(
        &self,
        who: InstanceId,
        thread: ThreadId,
        last: usize,
        before: Option<Seq>,
    ) -> Result<Page, StoreError> {
        let query = HistoryQuery {
            thread: Some(thread),
            last: PAGE,
            bytes: Some(self.limits.answer_bytes),
            ..HistoryQuery::default()
        };
        let (mut records, mut cursor, mut next) = (Vec::new(), before, None);
        for _ in 0..PAGES {
            let found =
                self.engine.history(HistoryQuery { before: cursor, ..query.clone() }).await?;
            next = found.next;
            for record in found.records.into_iter().rev().filter(|r| is_between(r, who)) {
                if records.len() < last {
                    records.push(record);
                } else {
                    // There is an older one.
                    next = records.last().map(|oldest: &Record| oldest.message.seq);
                    break;
                }
            }
            cursor = next;
            if records.len() == last || next.is_none() {
                break;
            }
        }
        records.reverse();
        let later = match before {
            None => Vec::new(),
            Some(before) => {
                let after = Some(Seq(before.0.saturating_sub(1)));
                let mut found = self.engine.history(HistoryQuery { after, ..query }).await?.records;
                found.retain(|record| is_between(record, who));
                found
            }
        };
        Ok(Page { records, later, next })
    }

    /// Returns the instance that owns a thread. The operator's own thread has none.
    pub fn thread_owner(&self, thread: ThreadId) -> Option<InstanceId> {
        self.engine.ledger(|l| l.thread_owner(thread))
    }

    /// Returns what a message is in the conversation of its thread's owner with the
    /// operator; `None` for any other message.
    pub fn spoken(&self, record: &Record) -> Option<Spoken> {
        let owner = self.thread_owner(record.message.thread)?;
        if record.message.from.instance != Some(owner) || !is_for_human(record) {
            return None;
        }
        let is_worker = self.instance(owner)?.instance.work.is_some();
        match kind_of(&record.message, is_worker) {
            ChatKind::Question => Some(Spoken::Question),
            ChatKind::Partial => Some(Spoken::PartialResponse),
            ChatKind::Answer => Some(Spoken::Response),
            ChatKind::User | ChatKind::Permission | ChatKind::Tool => None,
        }
    }
}

/// Returns the time of the oldest message of a page, and of the oldest message after it.
/// The page with the first message begins with the conversation.
fn page_times(page: &Page, before: Option<Seq>) -> std::ops::Range<Timestamp> {
    let first = page.records.first().filter(|_| page.next.is_some());
    let from = first.map_or(Timestamp(0), |record| record.message.created_at);
    let after = page.later.first().filter(|_| before.is_some());
    from..after.map_or(Timestamp(i64::MAX), |record| record.message.created_at)
}

/// Returns whether a message is between the operator and the agent.
fn is_between(record: &Record, who: InstanceId) -> bool {
    let message = &record.message;
    match message.from.instance {
        Some(from) => from == who && is_for_human(record),
        None => {
            let own = Mailbox::Instance(who);
            message.from.kind == SenderKind::Human
                && record.deliveries.iter().any(|d| d.mailbox == own)
        }
    }
}

fn is_for_human(record: &Record) -> bool {
    record.deliveries.iter().any(|d| d.mailbox == Mailbox::Human)
}

/// Returns whether a message ends a turn: the report on a task, or words that the driver
/// marks as the last ones.
fn is_final(message: &Message) -> bool {
    message.is_report() || AnswerFacts::of(message).is_final
}

/// Returns what a message of an agent to the operator is, for those who follow the
/// conversation and for those who read it later: so it depends on nothing that changes.
///
/// A worker that says something before the end of its turn goes on, through whichever tool
/// or door it says it. The hub knows no turns of an agent that comes by itself, so each of
/// its messages is an answer.
fn kind_of(message: &Message, is_worker: bool) -> ChatKind {
    match () {
        () if message.kind == Kind::QUESTION => ChatKind::Question,
        () if is_worker && !is_final(message) => ChatKind::Partial,
        () => ChatKind::Answer,
    }
}

impl Answered {
    fn by<'a>(records: impl Iterator<Item = &'a Record>, who: InstanceId) -> Self {
        let mut answered = Self::default();
        for record in records {
            let message = &record.message;
            if message.from.instance != Some(who) {
                answered.replied.extend(message.in_reply_to);
                continue;
            }
            if message.kind == Kind::QUESTION {
                continue;
            }
            let facts = AnswerFacts::of(message);
            let end = match () {
                () if facts.failed || message.kind == Kind::AGENT_FAILED => {
                    End::Failed(TURN_FAILED)
                }
                () if facts.cancelled => End::Failed(TURN_CANCELLED),
                () => End::Answered,
            };
            let named = facts.answers.into_iter().map(Seq).chain(message.in_reply_to);
            match end {
                End::Answered => answered.by_name.extend(named),
                End::Failed(_) => answered.unanswered.extend(named.map(|seq| (seq, end))),
            }
            if is_final(message) {
                answered.ends.push((message.seq, message.created_at, end));
            }
        }
        // Records are oldest first, but for those after a page.
        answered.ends.sort_by_key(|(seq, ..)| *seq);
        answered
    }

    /// Returns what became of a message that the agent has had since this time: by name, or
    /// by the first end of a turn after it, which closes everything that the agent had then.
    fn of(&self, seq: Seq, since: Option<Timestamp>) -> Option<End> {
        if self.by_name.contains(&seq) {
            return Some(End::Answered);
        }
        let closes = |(no, at, _): &&(Seq, Timestamp, End)| {
            *no > seq && since.is_some_and(|since| since <= *at)
        };
        let named = self.unanswered.get(&seq).copied();
        named.or_else(|| self.ends.iter().find(closes).map(|(.., end)| *end))
    }
}

fn entry(record: &Record, of: Speaker, answered: &Answered) -> ChatEntry {
    let message = &record.message;
    let new = |kind| ChatEntry {
        seq: Some(message.seq),
        in_reply_to: message.in_reply_to,
        ..ChatEntry::new(kind, message.body.as_str(), message.created_at)
    };
    if message.from.instance.is_none() {
        let (state, reason) = state_of(record, of, answered);
        return ChatEntry { state: Some(state), reason, ..new(ChatKind::User) };
    }
    let kind = kind_of(message, of.is_worker);
    if kind == ChatKind::Question {
        let QuestionFacts { blocking, options } = QuestionFacts::read(message.metadata.as_deref());
        // An open one has a need, which says so.
        let state = match answered.replied.contains(&message.seq) {
            true => EntryState::Answered,
            false => EntryState::Withdrawn,
        };
        return ChatEntry { state: Some(state), blocking, options, ..new(kind) };
    }
    let facts = AnswerFacts::of(message);
    let state = match () {
        () if facts.failed || message.kind == Kind::AGENT_FAILED => Some(EntryState::Failed),
        () if facts.cancelled => Some(EntryState::Cancelled),
        () => None,
    };
    let answers = facts.answers.into_iter().map(Seq).collect();
    ChatEntry { answers, quote: facts.quote, state, ..new(kind) }
}

/// Returns the state of a message of the operator, and why it failed.
fn state_of(
    record: &Record,
    of: Speaker,
    answered: &Answered,
) -> (EntryState, Option<&'static str>) {
    let (state, since) = match delivery(record, of).map(|d| (d.state, d.settled_at)) {
        Some((RecordState::Dead { reason, .. }, _)) => {
            return (EntryState::Failed, Some(reason.as_str()));
        }
        // An answer may be stored before the proof that its message arrived.
        Some((RecordState::Queued | RecordState::Leased, _)) => (EntryState::Queued, None),
        Some((RecordState::Acked(_), since)) => (EntryState::Read, since),
        None => (EntryState::Read, None),
    };
    // A reply to a question is no request of its own.
    let is_request = record.message.in_reply_to.is_none();
    match (answered.of(record.message.seq, since), state) {
        (Some(End::Answered), _) => (EntryState::Answered, None),
        (Some(End::Failed(why)), _) => (EntryState::Failed, Some(why)),
        (None, EntryState::Read) if is_request && of.at_work => (EntryState::Working, None),
        (None, EntryState::Read) if is_request && !of.lives => {
            (EntryState::Failed, Some(AGENT_ENDED))
        }
        (None, state) => (state, None),
    }
}

/// Returns the way of an operator's message to the agent.
fn delivery(record: &Record, of: Speaker) -> Option<&DeliveryRecord> {
    let own = Mailbox::Instance(of.who);
    record.deliveries.iter().find(|d| d.mailbox == own)
}

fn is_open(entry: &ChatEntry) -> bool {
    let waits =
        matches!(entry.state, Some(EntryState::Queued | EntryState::Read | EntryState::Working));
    entry.kind == ChatKind::User && entry.in_reply_to.is_none() && waits
}

fn permission(need: &Need) -> ChatEntry {
    let state = match need.closed.as_ref().map(|closed| closed.outcome) {
        None => EntryState::Open,
        Some(Outcome::Allowed | Outcome::Denied) => EntryState::Answered,
        Some(_) => EntryState::Withdrawn,
    };
    ChatEntry {
        state: Some(state),
        blocking: true,
        need: Some(need.id),
        ..ChatEntry::new(ChatKind::Permission, need.text.clone(), need.created_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messaging::message::{MessageId, Sender, Via};

    fn kind(kind: Kind, metadata: Option<&str>, is_worker: bool) -> ChatKind {
        let from = Sender {
            address: "helper.0000002a@main".into(),
            instance: Some(InstanceId(42)),
            kind: SenderKind::Agent,
        };
        let plain =
            Message::new(Seq(1), MessageId(1), from, "human", "red", Timestamp(0), Via::Mcp);
        let metadata = metadata.map(Into::into);
        kind_of(&Message { kind, metadata, ..plain }, is_worker)
    }

    #[test]
    fn whatever_a_worker_says_before_the_end_of_its_turn_is_partial() {
        let answer = || Kind::read("answer").expect("a type");
        let said = [None, Some("{}"), Some(r#"{"partial":true}"#), Some(r#"{"final":false}"#)];
        for metadata in said {
            assert_eq!(kind(answer(), metadata, true), ChatKind::Partial, "{metadata:?}");
        }
        assert_eq!(kind(Kind::default(), None, true), ChatKind::Partial);
        assert_eq!(kind(answer(), Some(r#"{"final":true}"#), true), ChatKind::Answer);
        for report in [Kind::RESULT, Kind::AGENT_FAILED] {
            assert_eq!(kind(report, None, true), ChatKind::Answer);
        }
        assert_eq!(kind(Kind::QUESTION, None, true), ChatKind::Question);
    }

    #[test]
    fn each_message_of_an_agent_that_comes_by_itself_is_an_answer() {
        assert_eq!(kind(Kind::default(), None, false), ChatKind::Answer);
        assert_eq!(kind(Kind::QUESTION, None, false), ChatKind::Question);
    }
}
