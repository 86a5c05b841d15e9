//! How much of what waits goes into one answer.

use crate::limits::Limits;
use crate::ports::Leased;

/// What an entry of JSON shows of its body at least.
const LEAST: usize = 60;
/// About what an entry takes beside its body, where it is counted.
const BESIDE: usize = 90;

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

impl Budget {
    /// Most messages, and bytes of bodies after which no more are taken.
    pub(super) fn room(self, limits: &Limits) -> (usize, usize) {
        let share = limits.answer_share_chars;
        let (messages, bytes) = match self {
            Self::Whole => (limits.answer_messages, limits.answer_bytes),
            Self::Chars(chars) => (chars / share.max(1), usize::MAX),
            Self::Json { chars, .. } => (chars / (share + BESIDE), usize::MAX),
        };
        (messages.clamp(1, limits.answer_messages.max(1)), bytes)
    }
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

/// Gives every message an equal share first; what short ones leave goes to the
/// longer ones. Cut at character boundaries. Gives back what does not fit at all.
pub(super) fn clip(mail: Vec<Leased>, budget: Budget) -> (Vec<Entry>, Vec<Leased>) {
    match budget {
        Budget::Whole => {
            let whole = |leased| Entry { leased, clip: None };
            (mail.into_iter().map(whole).collect(), Vec::new())
        }
        Budget::Chars(chars) => (cut(mail, chars, |body| body.chars().count(), |_| 1), Vec::new()),
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
            (cut(mail, chars.saturating_sub(around), json_length, json_cost), rest)
        }
    }
}

fn cut(
    mail: Vec<Leased>,
    room: usize,
    price: impl Fn(&str) -> usize,
    cost: fn(char) -> usize,
) -> Vec<Entry> {
    let lengths: Vec<usize> = mail.iter().map(|l| price(&l.message.body)).collect();
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

/// The same for a whole text, byte by byte: a letter of several bytes costs each.
fn json_length(text: &str) -> usize {
    let more = text.bytes().map(|b| match b {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        ..0x20 => 5,
        _ => 0,
    });
    text.len() + more.sum::<usize>()
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
        fn a_text_costs_what_its_letters_cost(text in "(?s).{0,80}") {
            prop_assert_eq!(json_length(&text), text.chars().map(json_cost).sum::<usize>());
        }

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
