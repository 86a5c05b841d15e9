//! The full form of a message in an answer.

use std::borrow::Cow;

use compact_str::ToCompactString;
use posthaste_api::inbox::Entry as FullEntry;
use posthaste_core::messaging::message::Priority;
use posthaste_core::messaging::receive::Entry;

/// Returns the full entry, as REST and CAO's tools show it.
pub(crate) fn full(e: &Entry) -> FullEntry<'_> {
    let m = &e.leased.message;
    FullEntry {
        seq: m.seq.0,
        id: m.seq.0,
        uid: m.id.text(),
        from: Cow::Borrowed(&m.from.address),
        sender_id: match m.from.instance {
            Some(id) => id.text(),
            None => m.from.id().into(),
        },
        relation: Cow::Borrowed(e.leased.relation.as_str()),
        to: Cow::Borrowed(&m.to),
        message: Cow::Borrowed(e.text()),
        kind: Cow::Borrowed(m.kind.as_str()),
        urgent: m.priority == Priority::Urgent,
        thread_id: m.thread.text(),
        created_at: m.created_at.to_compact_string(),
        via: Cow::Borrowed(m.via.as_str()),
        label: m.label.as_deref().map(Cow::Borrowed),
        in_reply_to: m.in_reply_to.map(|s| s.0),
        redelivered: e.leased.redelivered,
        late: m.late,
        truncated: e.clip.is_some(),
        total_chars: e.clip.map(|c| c.total_chars),
        next_offset: e.clip.map(|c| c.chars),
        metadata: m.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok()),
    }
}
