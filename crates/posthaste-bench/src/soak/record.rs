//! What the senders were told, held against what the readers got.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An agent of the load by its number; guests, who come and go, share one.
pub(super) type Who = usize;

/// How the text of a message to `@everyone` begins: each of its readers gets it.
pub(super) const FOR_EACH: &str = "each ";
/// How the label of work that was given out begins.
pub(super) const WORK: &str = "work-";

/// One message as any door shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight<'a> {
    pub(super) seq: u64,
    pub(super) text: &'a str,
    pub(super) label: Option<&'a str>,
    pub(super) redelivered: bool,
}

#[derive(Debug, Default)]
struct Inner {
    /// Accepted and not seen by anybody yet.
    unseen: HashSet<u64>,
    /// Accepted for several, and by whom it was not seen yet.
    unseen_by: HashMap<u64, HashSet<Who>>,
    /// Who has seen each message: a second sight must be marked.
    seen: HashMap<u64, Vec<Who>>,
    /// Labels of work whose report has not come.
    unreported: HashSet<String>,
    reported: HashSet<String>,
    counts: Counts,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Requests that were answered as they should be.
    pub(super) calls: u64,
    /// Connections that the load did not break itself.
    pub(super) broken: u64,
    pub(super) accepted: u64,
    pub(super) read: u64,
    pub(super) marked: u64,
    pub(super) recognised: u64,
    pub(super) given_out: u64,
    pub(super) guests: u64,
    pub(super) cancelled: u64,
    pub(super) dropped: u64,
    /// Must stay 0:
    pub(super) twice_unmarked: u64,
    pub(super) doubled: u64,
}

/// Shared by everybody of one soak.
#[derive(Debug, Default)]
pub(super) struct Record {
    inner: Mutex<Inner>,
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, what: impl FnOnce(&mut Counts)) {
        what(&mut self.lock().counts);
    }

    pub(super) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Accepted for one reader, whoever it is.
    pub(super) fn accepted(&self, seq: u64) {
        let mut inner = self.lock();
        inner.counts.accepted += 1;
        if !inner.seen.contains_key(&seq) {
            inner.unseen.insert(seq);
        }
    }

    /// Accepted for each of `readers`.
    pub(super) fn accepted_for(&self, seq: u64, readers: impl IntoIterator<Item = Who>) {
        let mut inner = self.lock();
        inner.counts.accepted += 1;
        let seen = inner.seen.get(&seq).cloned().unwrap_or_default();
        let left: HashSet<Who> = readers.into_iter().filter(|who| !seen.contains(who)).collect();
        if !left.is_empty() {
            inner.unseen_by.insert(seq, left);
        }
    }

    /// The same key again: it must be the same message.
    pub(super) fn repeated(&self, first: u64, again: u64, duplicate: bool) {
        let mut inner = self.lock();
        inner.counts.recognised += u64::from(duplicate);
        inner.counts.doubled += u64::from(first != again || !duplicate);
    }

    pub(super) fn given_out(&self, label: &str) {
        let mut inner = self.lock();
        inner.counts.given_out += 1;
        if !inner.reported.remove(label) {
            inner.unreported.insert(label.to_owned());
        }
    }

    pub(super) fn read(&self, who: Who, sight: Sight<'_>) {
        let mut inner = self.lock();
        inner.counts.read += 1;
        inner.counts.marked += u64::from(sight.redelivered);
        let each = sight.text.starts_with(FOR_EACH);
        let seen = inner.seen.entry(sight.seq).or_default();
        let again = if each { seen.contains(&who) } else { !seen.is_empty() };
        if !seen.contains(&who) {
            seen.push(who);
        }
        inner.counts.twice_unmarked += u64::from(again && !sight.redelivered);
        inner.unseen.remove(&sight.seq);
        if let Some(left) = inner.unseen_by.get_mut(&sight.seq) {
            left.remove(&who);
            if left.is_empty() {
                inner.unseen_by.remove(&sight.seq);
            }
        }
        let work = sight.label.filter(|label| label.starts_with(WORK) && !again);
        if let Some(label) = work
            && !inner.unreported.remove(label)
        {
            inner.reported.insert(label.to_owned());
        }
    }

    /// Accepted messages that nobody has seen, and work whose report has not come.
    pub(super) fn missing(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.unseen.len() + inner.unseen_by.len(), inner.unreported.len())
    }

    /// Some of them, for a person who looks for the cause.
    pub(super) fn some_missing(&self) -> String {
        let inner = self.lock();
        let one: Vec<_> = inner.unseen.iter().take(5).collect();
        let each: Vec<_> = inner.unseen_by.iter().take(3).collect();
        format!("{one:?} {each:?} {:?}", inner.unreported.iter().take(3).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(seq: u64, text: &str, redelivered: bool) -> Sight<'_> {
        Sight { seq, text, label: None, redelivered }
    }

    #[test]
    fn what_was_read_before_its_receipt_came_is_not_missing() {
        let record = Record::default();
        record.read(3, sight(7, "x", false));
        record.accepted(7);
        assert_eq!(record.missing(), (0, 0));
        record.accepted(8);
        assert_eq!(record.missing(), (1, 0));
    }

    #[test]
    fn mail_for_one_that_two_readers_get_must_be_marked() {
        let record = Record::default();
        record.read(1, sight(7, "x", false));
        record.read(2, sight(7, "x", true));
        assert_eq!(record.counts().twice_unmarked, 0);
        record.read(3, sight(7, "x", false));
        assert_eq!(record.counts().twice_unmarked, 1);
    }

    #[test]
    fn mail_for_each_is_missing_until_the_last_has_it() {
        let record = Record::default();
        record.read(1, sight(7, "each x", false));
        record.accepted_for(7, [1, 2]);
        assert_eq!(record.missing(), (1, 0));
        record.read(2, sight(7, "each x", false));
        assert_eq!((record.missing(), record.counts().twice_unmarked), ((0, 0), 0));
        record.read(2, sight(7, "each x", false));
        assert_eq!(record.counts().twice_unmarked, 1);
    }

    #[test]
    fn work_is_missing_until_its_report_came() {
        let record = Record::default();
        record.given_out("work-1");
        assert_eq!(record.missing(), (0, 1));
        record.read(1, Sight { label: Some("work-1"), ..sight(9, "x", false) });
        assert_eq!(record.missing(), (0, 0));
    }
}
