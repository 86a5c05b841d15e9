//! What the clients were told, held against what they got.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste_api::inbox::Entry;

use crate::output;
use crate::stats;

/// What a sender calls a message, whatever number the hub gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Tag {
    sender: u32,
    number: u64,
}

impl Tag {
    pub(super) fn new(sender: usize, number: u64) -> Self {
        Self { sender: u32::try_from(sender).unwrap_or(u32::MAX), number }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.sender, self.number)
    }
}

impl FromStr for Tag {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (sender, number) = text.split_once('/').ok_or(())?;
        let number = number.parse().map_err(|_| ())?;
        Ok(Self { sender: sender.parse().map_err(|_| ())?, number })
    }
}

#[derive(Debug, Default)]
struct Inner {
    /// Accepted, and for which mailbox.
    accepted: HashMap<Tag, usize>,
    /// The one number of each message, wherever it was heard first.
    numbers: HashMap<Tag, u64>,
    seen: HashSet<u64>,
    read: HashSet<Tag>,
    proved: HashSet<u64>,
    counts: Counts,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    unanswered: u64,
    /// Sends whose retry was told that it had been accepted before.
    recognised: u64,
    marked: u64,
    /// Must all stay 0:
    twice_unmarked: u64,
    doubled: u64,
    acked_again: u64,
    astray: u64,
}

/// Shared by all clients of one test.
#[derive(Debug, Default)]
pub(super) struct Record {
    inner: Mutex<Inner>,
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn unanswered(&self, _: Tag) {
        self.lock().counts.unanswered += 1;
    }

    pub(super) fn accepted(&self, tag: Tag, mailbox: usize, seq: u64, duplicate: bool) {
        let mut inner = self.lock();
        inner.accepted.insert(tag, mailbox);
        inner.counts.recognised += u64::from(duplicate);
        inner.number(tag, seq);
    }

    pub(super) fn read(&self, mailbox: usize, entry: &Entry<'_>) {
        let mut inner = self.lock();
        let tag = entry.message.split(' ').next().unwrap_or_default().parse();
        let Ok(tag) = tag else {
            inner.counts.astray += 1;
            return;
        };
        inner.number(tag, entry.id);
        inner.read.insert(tag);
        inner.counts.marked += u64::from(entry.redelivered);
        let again = !inner.seen.insert(entry.id);
        inner.counts.twice_unmarked += u64::from(again && !entry.redelivered);
        inner.counts.acked_again += u64::from(inner.proved.contains(&entry.id));
        let meant = inner.accepted.get(&tag).copied();
        inner.counts.astray += u64::from(meant.is_some_and(|meant| meant != mailbox));
    }

    /// The hub said that these are acked: an ack is final.
    pub(super) fn proved(&self, seqs: &[u64]) {
        self.lock().proved.extend(seqs);
    }

    pub(super) fn progress(&self) -> String {
        let inner = self.lock();
        format!("{} accepted, {} read", inner.accepted.len(), inner.read.len())
    }

    /// Prints everything; whether nothing was lost and nothing was doubled.
    pub(super) fn tell(
        &self,
        kills: usize,
        per_minute: f64,
        starts: &[f64],
        clean: bool,
        sound: &str,
    ) -> bool {
        let inner = self.lock();
        let counts = inner.counts;
        let lost = inner.accepted.keys().filter(|tag| !inner.read.contains(tag)).count() as u64;
        let start = stats::median(starts).unwrap_or(0.0);
        let slowest = stats::span(starts).map_or(0.0, |(_, most)| most);
        let facts = [
            format!("kills                     {kills} ({per_minute:.0} per minute)"),
            format!("start to first answer     {start:.0} ms median, {slowest:.0} ms at most"),
            format!("messages accepted         {}", inner.accepted.len()),
            format!("messages read             {}", inner.read.len()),
            format!("came marked               {}", counts.marked),
            format!("sends without an answer   {}", counts.unanswered),
            format!("retries that were known   {}", counts.recognised),
            format!("acked with an answer      {}", inner.proved.len()),
        ];
        let musts = [
            ("R1   accepted and lost        ", lost),
            ("R2   read twice, unmarked     ", counts.twice_unmarked),
            ("     doubled by a retry       ", counts.doubled),
            ("     acked and came again     ", counts.acked_again),
            ("     in a wrong mailbox       ", counts.astray),
            ("     last stop not in order   ", u64::from(!clean)),
        ];
        for fact in &facts {
            output::say(fact);
        }
        for (what, count) in musts {
            let verdict = if count == 0 { "ok" } else { "BROKEN" };
            output::say(&format!("{what} {count:>6}  must 0  {verdict}"));
        }
        output::say(&format!("     integrity of the file     {sound}"));
        sound == "ok" && musts.iter().all(|(_, count)| *count == 0)
    }
}

impl Inner {
    /// One message has one number, or a retry has doubled it.
    fn number(&mut self, tag: Tag, seq: u64) {
        let known = *self.numbers.entry(tag).or_insert(seq);
        self.counts.doubled += u64::from(known != seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64, text: &str, redelivered: bool) -> Entry<'static> {
        let redelivered = if redelivered { r#","redelivered":true"# } else { "" };
        let json = format!(
            r#"{{"id":{id},"uid":"","from":"","sender_id":"","relation":"peer","to":"","message":"{text}","type":"text","thread_id":"","created_at":""{redelivered}}}"#
        );
        serde_json::from_str::<Entry<'_>>(&json).map(own).expect("an entry")
    }

    fn own(entry: Entry<'_>) -> Entry<'static> {
        serde_json::from_value(serde_json::to_value(entry).expect("json")).expect("an entry")
    }

    fn counts(record: &Record) -> Counts {
        record.lock().counts
    }

    #[test]
    fn a_second_sight_must_be_marked() {
        let record = Record::default();
        record.accepted(Tag::new(1, 1), 0, 7, false);
        record.read(0, &entry(7, "1/1 x", false));
        record.read(0, &entry(7, "1/1 x", true));
        assert_eq!(counts(&record).twice_unmarked, 0);
        record.read(0, &entry(7, "1/1 x", false));
        assert_eq!(counts(&record).twice_unmarked, 1);
    }

    #[test]
    fn a_retry_that_became_a_second_message_is_noticed() {
        let record = Record::default();
        record.read(0, &entry(7, "1/1 x", false));
        record.accepted(Tag::new(1, 1), 0, 8, false);
        assert_eq!(counts(&record).doubled, 1);
    }

    #[test]
    fn an_ack_is_final_and_a_mailbox_is_not_mistaken() {
        let record = Record::default();
        record.accepted(Tag::new(1, 1), 0, 7, false);
        record.read(0, &entry(7, "1/1 x", false));
        record.proved(&[7]);
        record.read(2, &entry(7, "1/1 x", true));
        assert_eq!((counts(&record).acked_again, counts(&record).astray), (1, 1));
    }
}
