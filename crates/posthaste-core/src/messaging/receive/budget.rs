//! The budget of an answer: the share of the waiting mail that goes into it.
//!
//! Messages are taken in their order until the next one does not fit. A body of up to
//! `limits.answer_whole_chars` goes in whole. Longer bodies get at least
//! `limits.answer_share_chars` each and share the space that the others leave.

use crate::limits::Limits;
use crate::ports::{Clips, Leased};

/// Minimum number of bytes that an entry of JSON takes beside its body.
const BESIDE: usize = 40;
/// Maximum number of bytes of one character.
const WIDEST: usize = 4;

/// The size limit of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Budget {
    /// Whole messages up to the limit of the hub; at least one.
    Whole,
    /// Whole messages up to this number of bytes of bodies; at least one.
    Bodies(usize),
    /// This number of characters of bodies.
    Chars(usize),
    /// This number of bytes of JSON text; `beside` counts the bytes of an entry apart
    /// from its body.
    Json { chars: usize, beside: fn(&Entry) -> usize },
}

/// The treatment of a first message that is too large for the whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooLarge {
    /// It is clipped: a read brings at least one message.
    Clip,
    /// It stays queued: another read has more room.
    Leave,
}

/// The limits of a lease for an answer.
pub(super) struct Room {
    pub(super) messages: usize,
    pub(super) bytes: usize,
    pub(super) clips: Option<Clips>,
}

impl Budget {
    /// Returns at least the size that will fit: the rest is put back when the answer is
    /// made.
    pub(super) fn room(self, limits: &Limits) -> Room {
        let clips = Clips { whole: limits.answer_whole_chars, share: limits.answer_share_chars };
        let most = limits.answer_messages;
        let (messages, bytes, clips) = match self {
            Self::Whole => (most, limits.answer_bytes, None),
            Self::Bodies(bytes) => (most, bytes.min(limits.answer_bytes), None),
            Self::Chars(chars) => (most, chars.saturating_mul(WIDEST), Some(clips)),
            Self::Json { chars, .. } => (most.min(chars / BESIDE), chars, Some(clips)),
        };
        Room { messages: messages.max(1), bytes, clips }
    }

    /// Returns where to cut the body of the only message of an answer; `None` if it fits
    /// whole.
    pub(crate) fn clip(self, body: &str) -> Option<Clip> {
        let (length, room, cost): (_, _, fn(char) -> usize) = match self {
            Self::Whole | Self::Bodies(_) => return None,
            Self::Chars(chars) => (body.chars().count(), chars, |_| 1),
            Self::Json { chars, .. } => (json_length(body), chars, json_cost),
        };
        (length > room).then(|| clip_to(body, room, cost))
    }
}

/// One message of an answer, with the clip of its body.
#[derive(Debug)]
pub struct Entry {
    pub leased: Leased,
    /// Set if its sender had not read the reader's last message to it. Looked up for JSON
    /// only.
    pub crossed: bool,
    /// The length to which the body is cut, and its full length.
    pub clip: Option<Clip>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clip {
    pub chars: usize,
    pub bytes: usize,
    pub total_chars: usize,
}

impl Clip {
    /// Makes a clip that cuts nothing: the note about it takes as much room as it ever
    /// will.
    fn longest(body: &str) -> Self {
        Self { chars: body.len(), bytes: body.len(), total_chars: body.len() }
    }
}

impl Entry {
    pub fn text(&self) -> &str {
        let body = &self.leased.message.body;
        self.clip.map_or(body, |clip| &body[..clip.bytes])
    }

    fn body(&self) -> &str {
        &self.leased.message.body
    }
}

/// The counting rule of a budget.
struct Measure {
    chars: usize,
    beside: fn(&Entry) -> usize,
    length: fn(&str) -> usize,
    cost: fn(char) -> usize,
}

/// Splits mail into the part that the answer holds and the rest. The order is kept, and
/// nothing overtakes a message that does not fit.
pub(super) fn fit(
    mail: Vec<Leased>,
    budget: Budget,
    limits: &Limits,
    too_large: TooLarge,
    crossed: impl Fn(&Leased) -> bool,
) -> (Vec<Entry>, Vec<Leased>) {
    let whole = |leased: Leased| {
        let crossed = matches!(budget, Budget::Json { .. }) && crossed(&leased);
        Entry { leased, crossed, clip: None }
    };
    let measure = match budget {
        Budget::Whole | Budget::Bodies(_) => {
            return (mail.into_iter().map(whole).collect(), Vec::new());
        }
        Budget::Chars(chars) => {
            let length = |body: &str| body.chars().count();
            Measure { chars, beside: |_| 0, length, cost: |_| 1 }
        }
        Budget::Json { chars, beside } => {
            Measure { chars, beside, length: json_length, cost: json_cost }
        }
    };
    let (mut left, mut set_aside) = (measure.chars, 0);
    let (mut entries, mut rest) = (Vec::new(), Vec::new());
    for leased in mail {
        if !rest.is_empty() {
            rest.push(leased);
            continue;
        }
        let mut entry = whole(leased);
        let long = entry.body().chars().nth(limits.answer_whole_chars).is_some();
        entry.clip = long.then(|| Clip::longest(entry.body()));
        let mut beside = (measure.beside)(&entry);
        let mut least = (measure.length)(entry.body());
        if long {
            least = least.min(limits.answer_share_chars);
        }
        if beside + least > left {
            if !entries.is_empty() || too_large == TooLarge::Leave {
                rest.push(entry.leased);
                continue;
            }
            entry.clip = Some(Clip::longest(entry.body()));
            beside = (measure.beside)(&entry);
            least = left.saturating_sub(beside);
        }
        left = left.saturating_sub(beside + least);
        // Bodies that may be clipped share in the end the space that the others leave.
        set_aside += if entry.clip.is_some() { least } else { 0 };
        entries.push(entry);
    }
    let clipped = || entries.iter().filter(|e| e.clip.is_some());
    let lengths: Vec<usize> = clipped().map(|e| (measure.length)(e.body())).collect();
    let share = fair_share(&lengths, left + set_aside);
    for (entry, length) in entries.iter_mut().filter(|e| e.clip.is_some()).zip(lengths) {
        entry.clip = (length > share).then(|| clip_to(entry.body(), share, measure.cost));
    }
    (entries, rest)
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

/// Counts the bytes of a character in a JSON string: some readers count bytes, and none
/// counts more.
pub fn json_cost(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..'\u{20}' => 6,
        _ => c.len_utf8(),
    }
}

/// Counts the same for a whole text, byte by byte.
fn json_length(text: &str) -> usize {
    let more = text.bytes().map(|b| match b {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        ..0x20 => 5,
        _ => 0,
    });
    text.len() + more.sum::<usize>()
}

/// Returns the largest share such that all lengths, capped at it, fit into the budget.
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
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::address::{InstanceId, Mailbox};
    use crate::messaging::delivery::DeliveryNo;
    use crate::messaging::message::{Kind, Message, MessageId, Sender, Seq, Via};
    use crate::registry::Relation;
    use crate::time::Timestamp;

    /// Makes the message of this number with a body of so many letters.
    fn letter((number, length): (usize, &usize)) -> Leased {
        let number = number as u64;
        let (seq, id) = (Seq(number), MessageId(number));
        let (from, body) = (Sender::human(), "x".repeat(*length));
        let message = Message {
            kind: Kind::RESULT,
            ..Message::new(seq, id, from, "bob", body, Timestamp(0), Via::Rest)
        };
        Leased {
            delivery: DeliveryNo(number),
            mailbox: Mailbox::Instance(InstanceId(1)),
            message: Arc::new(message),
            redelivered: false,
            doubted: false,
            relation: Relation::Human,
        }
    }

    #[test]
    fn a_body_is_cut_between_characters_and_says_where_it_goes_on() {
        let clip = |budget: Budget, body: &str| {
            budget.clip(body).map(|clip| (body[..clip.bytes].to_owned(), clip.chars))
        };
        let json = |chars| Budget::Json { chars, beside: |_| 0 };
        assert_eq!(clip(json(100), "naïve"), None);
        assert_eq!(clip(json(3), "abcdef"), Some(("abc".into(), 3)));
        assert_eq!(clip(json(2 * json_cost('☃')), "☃☃☃"), Some(("☃☃".into(), 2)));
        assert_eq!(clip(Budget::Chars(2), "☃☃☃"), Some(("☃☃".into(), 2)));
        assert_eq!(clip(Budget::Whole, "☃☃☃"), None);
    }

    #[test]
    fn short_messages_leave_their_room_to_long_ones() {
        assert_eq!(fair_share(&[10, 10, 10], 30), usize::MAX);
        assert_eq!(fair_share(&[10, 100], 60), 50);
        assert_eq!(fair_share(&[100, 100], 60), 30);
        assert_eq!(fair_share(&[], 60), usize::MAX);
    }

    proptest! {
        #[test]
        fn a_text_costs_what_its_letters_cost(text in "(?s).{0,80}") {
            prop_assert_eq!(json_length(&text), text.chars().map(json_cost).sum::<usize>());
        }

        #[test]
        fn an_answer_keeps_its_budget_its_order_and_short_bodies_whole(
            lengths in proptest::collection::vec(0usize..200, 0..30),
            chars in 1usize..3_000,
        ) {
            let limits =
                Limits { answer_whole_chars: 100, answer_share_chars: 20, ..Limits::default() };
            let budget = Budget::Json { chars, beside: |e| 30 + e.clip.map_or(0, |_| 10) };
            let mail: Vec<Leased> = lengths.iter().enumerate().map(letter).collect();
            let (entries, rest) = fit(mail, budget, &limits, TooLarge::Leave, |_| false);
            let order = entries.iter().map(|e| e.leased.delivery.0);
            let all: Vec<u64> = order.chain(rest.iter().map(|l| l.delivery.0)).collect();
            prop_assert_eq!(all, (0..lengths.len() as u64).collect::<Vec<_>>());
            let beside = |e: &Entry| 30 + e.clip.map_or(0, |_| 10);
            let used: usize = entries.iter().map(|e| beside(e) + json_length(e.text())).sum();
            prop_assert!(used <= chars);
            for e in &entries {
                let (shown, all) = (e.text().len(), e.body().len());
                prop_assert!(shown == all || all > 100 && shown >= 20, "{} of {}", shown, all);
            }
            // The next one would not have fitted, even with the others at their least.
            if let Some(next) = rest.first() {
                let least = |body: &str| 30 + if body.len() > 100 { 10 + 20 } else { body.len() };
                let held: usize = entries.iter().map(|e| least(e.body())).sum();
                prop_assert!(held + least(&next.message.body) > chars);
            }
        }

        #[test]
        fn shares_never_exceed_the_budget(lengths in proptest::collection::vec(0usize..500, 0..60), budget in 0usize..5000) {
            let share = fair_share(&lengths, budget);
            let used: usize = lengths.iter().map(|l| (*l).min(share)).sum();
            prop_assert!(used <= budget);
            // No space is held back: one more character for each would not fit.
            if share != usize::MAX {
                let more: usize = lengths.iter().map(|l| (*l).min(share + 1)).sum();
                prop_assert!(more > budget);
            }
        }
    }
}
