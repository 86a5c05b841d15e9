//! Messages in a short form for models: fields that say nothing are left out.

use posthaste_core::messaging::message::{Message, Priority};
use posthaste_core::messaging::receive::{Batch, Entry};
use posthaste_core::ports::Survey;
use serde::Serialize;

/// The most characters around the entries of an answer, with the ids that it names.
pub(crate) const WRAPPER: usize = 320;

/// One message.
#[derive(Debug, Serialize)]
pub(crate) struct BriefEntry<'a> {
    pub(crate) id: u64,
    pub(crate) from: &'a str,
    pub(crate) message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_reply_to: Option<u64>,
    #[serde(skip_serializing_if = "is_false")]
    redelivered: bool,
    /// True for a report on work that was reported on before.
    #[serde(skip_serializing_if = "is_false")]
    late: bool,
    #[serde(skip_serializing_if = "is_false")]
    crossed: bool,
    #[serde(skip_serializing_if = "is_false")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_chars: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl<'a> BriefEntry<'a> {
    pub(crate) fn new(e: &'a Entry) -> Self {
        Self::showing(e, e.text())
    }

    fn showing(e: &'a Entry, text: &'a str) -> Self {
        let m = &e.leased.message;
        let kind = m.kind.as_str();
        Self {
            id: m.seq.0,
            from: &m.from.address,
            message: text,
            label: m.label.as_deref(),
            kind: (kind != "text").then_some(kind),
            priority: (m.priority == Priority::Urgent).then_some("urgent"),
            in_reply_to: m.in_reply_to.filter(|_| !names_its_task(m)).map(|seq| seq.0),
            redelivered: e.leased.redelivered,
            late: m.late,
            crossed: e.crossed,
            truncated: e.clip.is_some(),
            total_chars: e.clip.map(|clip| clip.total_chars),
            next_offset: e.clip.map(|clip| clip.chars),
        }
    }
}

/// Returns whether a message is a report that names its task by a label.
fn names_its_task(m: &Message) -> bool {
    m.is_report() && m.label.is_some()
}

/// Returns the share of a budget that an entry takes beside its text, with the comma after
/// it.
pub(crate) fn beside(e: &Entry) -> usize {
    serde_json::to_string(&BriefEntry::showing(e, "")).map_or(WRAPPER, |json| json.len() + 1)
}

/// Mail that the answer of another tool carries along.
#[derive(Debug, Serialize)]
pub(crate) struct Piggyback<'a> {
    #[serde(rename = "_pending_messages", skip_serializing_if = "Vec::is_empty")]
    messages: Vec<BriefEntry<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    remaining: usize,
    #[serde(rename = "_pending", skip_serializing_if = "Option::is_none")]
    unopened: Option<Unopened>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settled: Vec<u64>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Writes only the ids that count as read, if there are any.
pub(crate) fn settled(batch: &Batch) -> Option<String> {
    let settled: Vec<u64> = batch.settled.iter().map(|seq| seq.0).collect();
    (!settled.is_empty()).then(|| serde_json::json!({ "settled": settled }).to_string())
}

/// Mail for which there was no room: its count and its senders.
#[derive(Debug, Serialize)]
pub(crate) struct Unopened {
    count: usize,
    from: Vec<String>,
    hint: &'static str,
}

/// Most senders that are named.
const NAMED: usize = 5;

impl Unopened {
    pub(crate) fn new(survey: &Survey) -> Option<Self> {
        (survey.waiting > 0).then(|| Self {
            count: survey.waiting,
            from: survey.senders.iter().take(NAMED).map(|s| s.to_string()).collect(),
            hint: "call check_inbox to read them",
        })
    }
}

impl Piggyback<'_> {
    /// Writes the block; `None` if it would be empty.
    pub(crate) fn text(batch: &Batch, unopened: Option<Unopened>) -> Option<String> {
        if batch.mail.is_empty() && batch.settled.is_empty() && unopened.is_none() {
            return None;
        }
        let block = Piggyback {
            messages: batch.mail.iter().map(BriefEntry::new).collect(),
            remaining: batch.remaining,
            unopened,
            settled: batch.settled.iter().map(|seq| seq.0).collect(),
        };
        serde_json::to_string(&block).ok()
    }
}
