//! Answers that the hop limit refused, for the trails of the messages that they would
//! have answered.
//!
//! Nothing else is kept of a refused send, and these are kept in memory: an operator who
//! wonders why an exchange went silent asks soon, and a flood of refusals must not become
//! a flood of writes.

use std::collections::VecDeque;

use crate::messaging::message::{Principal, Seq};
use crate::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefusedAnswer {
    /// The message that it would have answered.
    pub(crate) to: Seq,
    pub(crate) by: Principal,
    pub(crate) at: Timestamp,
}

/// The last refused answers, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RefusedAnswers(VecDeque<RefusedAnswer>);

impl RefusedAnswers {
    /// Adds an answer, and keeps the `most` last ones.
    pub(crate) fn add(&mut self, answer: RefusedAnswer, most: usize) {
        self.0.push_back(answer);
        while self.0.len() > most {
            self.0.pop_front();
        }
    }

    pub(crate) fn to(&self, message: Seq) -> Vec<RefusedAnswer> {
        self.0.iter().filter(|answer| answer.to == message).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_refusals_are_remembered() {
        let mut all = RefusedAnswers::default();
        for n in 1..=5_u32 {
            let (to, at) = (Seq(u64::from(n % 2)), Timestamp(i64::from(n)));
            all.add(RefusedAnswer { to, by: Principal::Operator, at }, 3);
        }
        let times = |to| all.to(Seq(to)).iter().map(|answer| answer.at.0).collect::<Vec<_>>();
        assert_eq!((times(1), times(0)), (vec![3, 5], vec![4]));
    }
}
