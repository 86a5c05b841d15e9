//! Questions that somebody has read and not answered.

use crate::Hub;
use crate::messaging::message::{Principal, Seq};
use crate::ports::{HistoryQuery, Record, RecordState, StoreError};

/// The newest questions that are looked at.
const LOOK: usize = 20;

impl Hub {
    /// Questions that the caller was given, by its own address or by a name, and that no
    /// message of its own names, oldest first.
    pub async fn unanswered(&self, by: Principal) -> Result<Vec<Record>, StoreError> {
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
