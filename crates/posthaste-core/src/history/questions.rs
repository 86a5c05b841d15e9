//! Questions that a reader has read and not answered.

use std::collections::BTreeSet;

use crate::messaging::message::{Principal, Seq};
use crate::ports::{HistoryQuery, Record, RecordState, StoreError};
use crate::{Hub, Map};

/// Number of the newest questions that are looked at.
const LOOK: usize = 20;
/// Number of questions per reader whose reminders are remembered.
const REMEMBERED: usize = 100;
/// Number of readers whose reminders are remembered.
const READERS: usize = 4_096;

/// The questions that each reader was reminded of.
#[derive(Debug, Default)]
pub(crate) struct Reminders(Map<Principal, BTreeSet<Seq>>);

impl Reminders {
    /// Notes a reminder. Returns whether it is the first one of this question.
    fn note(&mut self, who: Principal, question: Seq) -> bool {
        if self.0.len() >= READERS && !self.0.contains_key(&who) {
            // A forgotten reader is reminded once more at worst.
            self.0.clear();
        }
        let questions = self.0.entry(who).or_default();
        let first = questions.insert(question);
        if questions.len() > REMEMBERED {
            questions.pop_first();
        }
        first
    }
}

impl Hub {
    /// Returns questions that keep the caller from finishing: given to it, not answered
    /// by it, and not returned here before. Oldest first, at most so many.
    pub async fn remind(&self, who: Principal, most: usize) -> Result<Vec<Record>, StoreError> {
        let open = self.unanswered(who).await?.into_iter();
        let mut reminders = self.reminders.lock();
        Ok(open.filter(|record| reminders.note(who, record.message.seq)).take(most).collect())
    }

    /// Returns the questions that the caller was given, by its own address or by a name,
    /// and that no message of its own answers, oldest first.
    async fn unanswered(&self, by: Principal) -> Result<Vec<Record>, StoreError> {
        let query = HistoryQuery {
            kind: Some("question".into()),
            last: LOOK,
            of: by.instance(),
            bytes: Some(self.limits.answer_bytes),
            ..HistoryQuery::default()
        };
        let mut open = Vec::new();
        for record in self.engine.history(query).await?.records {
            let given = record
                .delivery_of(by)
                .is_some_and(|d| matches!(d.state, RecordState::Leased | RecordState::Acked(_)));
            if given && !self.has_answered(by, record.message.seq).await? {
                open.push(record);
            }
        }
        Ok(open)
    }

    async fn has_answered(&self, by: Principal, question: Seq) -> Result<bool, StoreError> {
        let replies = self.engine.replies(question, LOOK).await?;
        Ok(replies.iter().any(|reply| reply.message.from.instance == by.instance()))
    }
}
