//! Fills the lists of numbers, some thousand messages at a time. They are read beside the
//! senders and written between two groups, in so few rows that nobody waits long.

use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::connection::OwnConnection;
use crate::sqlite::Shared;
use crate::sqlite::index::Batch;
use crate::sqlite::rows::meta::Marks;
use crate::sqlite::writer::Flush;

/// Never much further behind than this many messages or deliveries.
const FAR_BEHIND: u64 = 32_768;
/// A step may keep a sender waiting for so long.
const STEP_TIME: Duration = Duration::from_millis(2);
/// Messages of a step: of the first, and the fewest and the most.
const STEP: u64 = 1_024;
const STEPS: RangeInclusive<u64> = 128..=8_192;

pub(super) struct Indexing {
    done: Marks,
    step: u64,
}

impl Indexing {
    pub(super) fn new(done: Marks) -> Self {
        Self { done, step: STEP }
    }

    pub(super) fn is_due(&self, now: Marks, quiet: bool) -> bool {
        let behind = (now.seq.saturating_sub(self.done.seq))
            .max(now.delivery.saturating_sub(self.done.delivery));
        behind >= FAR_BEHIND || quiet && behind > 0
    }

    pub(super) async fn step(
        &mut self,
        shared: &Shared,
        connection: &mut OwnConnection,
        now: Marks,
    ) -> ControlFlow<()> {
        let (from, writer) = (self.done, &shared.writer);
        let upto = Marks {
            seq: now.seq.min(from.seq + self.step),
            delivery: now.delivery.min(from.delivery + self.step),
        };
        let prunes = writer.written.prunes();
        let Some(batch) = connection.ask(move |db| Batch::gather(db, from, upto)).await else {
            return ControlFlow::Break(());
        };
        let theirs = Arc::clone(writer);
        let write = move |db: &Connection| match theirs.written.prunes() == prunes {
            true => batch.write(db).map(|()| true),
            // Some of them may be gone.
            false => Ok(false),
        };
        let Ok((written, took)) = Arc::clone(writer).write(Flush::Later, write).await else {
            return ControlFlow::Break(());
        };
        if written {
            self.done = upto;
        }
        self.adapt(took);
        ControlFlow::Continue(())
    }

    /// Many threads and mailboxes make many rows: then a step takes fewer messages.
    fn adapt(&mut self, took: Duration) {
        let fits = u128::from(self.step) * STEP_TIME.as_micros() / took.as_micros().max(1);
        let fits = u64::try_from(fits).unwrap_or(*STEPS.end());
        self.step = (self.step + fits).div_ceil(2).clamp(*STEPS.start(), *STEPS.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_as_long_as_senders_can_bear() {
        let mut indexing = Indexing::new(Marks::default());
        for _ in 0..20 {
            indexing.adapt(Duration::from_micros(50));
        }
        assert_eq!(indexing.step, *STEPS.end());
        // So long that a step of 1,000 messages would take the time.
        let each = STEP_TIME / 1_000;
        for _ in 0..20 {
            indexing.adapt(each * u32::try_from(indexing.step).expect("few"));
        }
        assert!((990..=1_010).contains(&indexing.step), "{}", indexing.step);
        for _ in 0..20 {
            indexing.adapt(Duration::from_secs(1));
        }
        assert_eq!(indexing.step, *STEPS.start());
    }

    #[test]
    fn it_is_due_when_it_is_quiet_or_far_behind() {
        let indexing = Indexing::new(Marks { seq: 10, delivery: 20 });
        let now = |seq, delivery| Marks { seq, delivery };
        assert!(!indexing.is_due(now(10, 20), true));
        assert!(!indexing.is_due(now(11, 21), false) && indexing.is_due(now(11, 21), true));
        assert!(indexing.is_due(now(10 + FAR_BEHIND, 20), false));
        assert!(indexing.is_due(now(11, 20 + FAR_BEHIND), false));
    }
}
