//! The end of every walk: nothing fails any more, everybody goes on, and what must
//! hold is held against what became of the mail.

use super::moves::Move;
use super::post::Fate;
use super::world::{AtClient, Call, World};

/// More than any fair ending needs.
const PATIENCE: usize = 80;

impl World {
    /// Everybody goes on and nothing fails any more: how does the mail end?
    /// What is wrong, if anything.
    pub(crate) fn ends_well(mut self) -> Result<(), String> {
        self.peace = self.trace.len();
        for _ in 0..PATIENCE {
            self.sound()?;
            if (0..self.truth.len()).all(|mail| self.is_over(mail)) {
                return Ok(());
            }
            let Some(next) = self.moves(true).into_iter().min_by_key(|m| self.rank(*m)) else {
                break;
            };
            self.goes(next);
            if let Move::Reads(w) = next
                && self.agents[w].shared
            {
                self.names_receipts(w);
            }
        }
        (0..self.truth.len()).try_for_each(|mail| self.judge(mail))
    }

    /// What must hold at any time.
    pub(crate) fn sound(&self) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(self.tell(wrong));
        }
        for (mail, truth) in self.truth.iter().enumerate() {
            if let Fate::Dead { reason, maybe_seen: false } = self.post.fate(mail)
                && truth.seen
            {
                return Err(
                    self.tell(&format!("I4 dead ({reason}) without maybe_seen, though read"))
                );
            }
        }
        Ok(())
    }

    fn is_over(&self, mail: usize) -> bool {
        match self.post.fate(mail) {
            Fate::Dead { .. } => true,
            Fate::Acked(_) => self.truth[mail].seen || self.truth[mail].told,
            Fate::Queued { .. } | Fate::Leased { .. } | Fate::Vanished => false,
        }
    }

    fn judge(&self, mail: usize) -> Result<(), String> {
        let truth = self.truth[mail];
        let nobody_left = self.agents.iter().all(|a| a.ended);
        match self.post.fate(mail) {
            Fate::Queued { .. } | Fate::Leased { .. } if nobody_left => Ok(()),
            Fate::Acked(proof) if !truth.seen && !truth.told => {
                // A parallel call or a silent drop looked like proof, and nobody is
                // left to be told: that risk remains.
                let ended = truth.handed_to.is_some_and(|w| self.agents[w].ended);
                if ended && proof != "end" {
                    return Ok(());
                }
                Err(self.tell(&format!("I1 acked by {proof}, never read nor told")))
            }
            fate @ (Fate::Queued { .. } | Fate::Leased { .. } | Fate::Vanished) => {
                Err(self.tell(&format!("I7 stays {fate:?} for ever, seen: {}", truth.seen)))
            }
            Fate::Acked(_) | Fate::Dead { .. } => Ok(()),
        }
    }

    /// Only strong proofs count for a shared identity, so it gives them.
    fn names_receipts(&mut self, agent: usize) {
        let read = |c: &&Call| c.agent == agent && c.client == AtClient::Read;
        let receipts: Vec<u64> = self.calls.iter().filter(read).map(|c| c.receipt).collect();
        for receipt in receipts {
            self.post.receipt(agent, receipt);
        }
    }

    /// In a fair world what is under way ends before anything new begins, and
    /// nobody is left behind.
    fn rank(&self, next: Move) -> (usize, usize) {
        let calls = |w: usize| self.calls.iter().filter(|c| c.agent == w).count();
        match next {
            Move::CancelArrives(_) => (0, 0),
            Move::CloseNoticed(_) => (1, 0),
            Move::TimePasses => (2, 0),
            Move::Flushes => (3, 0),
            Move::Starts(_) => (4, 0),
            Move::Gets(_) => (5, 0),
            Move::Reads(_) => (6, 0),
            Move::Answers(_) | Move::Writes(_) => (7, 0),
            Move::Calls(w) => (8, calls(w)),
            Move::Hook(_) | Move::Arrives | Move::Goes(..) => (9, 0),
        }
    }

    fn tell(&self, what: &str) -> String {
        let trace: Vec<String> = self.trace.iter().map(ToString::to_string).collect();
        let (walk, after) = trace.split_at(self.peace.min(trace.len()));
        let after = &after[..after.len().min(12)];
        format!("{what} <- {} | then in peace: {}", walk.join("; "), after.join("; "))
    }
}
