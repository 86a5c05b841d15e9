//! The state that decides how proofs go on, for tests that visit every state.

use std::hash::{Hash, Hasher};

use super::Proofs;
use super::answer::{Answer, Written};
use crate::messaging::delivery::AnswerId;
use crate::messaging::message::Principal;

impl Proofs {
    /// Returns whether a later call proves this answer unless a cancel comes soon.
    pub fn is_in_grace(&self, id: AnswerId) -> bool {
        self.answers.get(&id).is_some_and(|answer| answer.later.is_some())
    }

    /// Returns whether this call has not been answered or ended.
    pub fn is_open(&self, id: AnswerId) -> bool {
        self.answers.get(&id).is_some_and(|answer| answer.written == Written::No)
    }

    /// Counts the answers of the reader that are kept.
    pub fn remembered(&self, who: Principal) -> usize {
        self.answers_of(who).len()
    }

    /// Hashes the state of a reader: two readers with the same hash go on alike. `call`
    /// numbers answers; times are left out.
    pub fn hash(&self, who: Principal, call: &dyn Fn(AnswerId) -> usize, into: &mut impl Hasher) {
        let Some(reader) = self.readers.get(&who) else { return };
        (reader.shared, reader.is_shared(), reader.has_hooks, reader.starts).hash(into);
        (reader.streams.len(), &reader.unmatched).hash(into);
        (reader.fresh, reader.hello, &reader.conversation).hash(into);
        for (_, tool) in &reader.running {
            (tool.outline(), tool.answer.map(call)).hash(into);
        }
        for taken in &reader.taken {
            (taken.seq, taken.told.map(call)).hash(into);
        }
        for id in &reader.answers {
            let Some(answer) = self.answers.get(id) else { continue };
            let Answer { written, suspicious, late, hooked, proven, shared, .. } = *answer;
            (call(*id), written, suspicious, late, hooked, proven, shared).hash(into);
            let by = reader.running.iter().position(|(number, _)| *number == answer.later_by);
            (answer.at_start, answer.to_sub_agent, by).hash(into);
            (answer.beginning == reader.beginning, answer.later.map(|(_, proof)| proof)).hash(into);
            (answer.holds(), &answer.named).hash(into);
        }
    }
}
