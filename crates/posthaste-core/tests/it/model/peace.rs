//! What must hold in every state, and at the end of every walk: nothing fails any more,
//! everybody goes on, and what became of the mail is held against what is true.

use super::moves::Move;
use super::post::Fate;
use super::world::{AtClient, Call, Kind, World};

/// More than any fair ending needs.
const PATIENCE: usize = 80;

/// What is wrong with a state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Wrong {
    /// The hub breaks its promise.
    Real(String),
    /// A risk that is known to remain: a parallel call or a silent drop looked like proof,
    /// and nobody is left to be told; or a client without hooks cancelled twice.
    Residual(String),
}

impl World {
    /// What is wrong here, or will be when everybody goes on and nothing fails any more.
    pub(crate) fn judge(&self) -> Option<Wrong> {
        self.sound().or_else(|| self.clone().goes_on())
    }

    /// What must hold at any time.
    fn sound(&self) -> Option<Wrong> {
        if let Some(wrong) = &self.wrong {
            return Some(Wrong::Real(wrong.clone()));
        }
        self.read_twice().or_else(|| (0..self.truth.len()).find_map(|mail| self.told_wrong(mail)))
    }

    fn read_twice(&self) -> Option<Wrong> {
        let healthy = self.faults == self.scenario.faults
            && (self.scenario.known || !self.scenario.always_cancels);
        let twice = healthy && self.truth.iter().any(|truth| truth.seen > 1);
        twice.then(|| Wrong::Real("I9 a healthy reader reads it twice".into()))
    }

    fn told_wrong(&self, mail: usize) -> Option<Wrong> {
        let truth = self.truth[mail];
        match self.post.fate(mail) {
            Fate::Acked(proof) if self.scenario.is_strict() && truth.seen == 0 => {
                let waits = [AtClient::Waits, AtClient::Got, AtClient::Hooked, AtClient::Stored];
                let why = format!("I8 acked by {proof}, and neither model nor transcript has it");
                (!self.copy_in(mail, &waits)).then(|| match self.was_cancelled_twice(mail) {
                    true => Wrong::Residual(why),
                    false => Wrong::Real(why),
                })
            }
            Fate::Dead { reason, maybe_seen: false } if truth.seen > 0 => {
                Some(Wrong::Real(format!("I4 dead ({reason}) without maybe_seen, though read")))
            }
            _ => None,
        }
    }

    /// The price of rule `doubt` without hooks: the reader is told under `settled`.
    fn was_cancelled_twice(&self, mail: usize) -> bool {
        !self.scenario.hooks && self.truth[mail].doubted
    }

    fn copy_in(&self, mail: usize, places: &[AtClient]) -> bool {
        let has = |c: &Call| {
            places.contains(&c.client)
                && (c.kind != Kind::Hub || !c.failed)
                && c.given.mail.iter().any(|(given, _)| *given == mail)
        };
        self.calls.iter().any(has)
    }

    fn has(&self, mail: usize) -> bool {
        let truth = self.truth[mail];
        truth.seen > 0 || truth.told || self.copy_in(mail, &[AtClient::Stored])
    }

    /// Everybody goes on and nothing fails any more: how does the mail end?
    fn goes_on(mut self) -> Option<Wrong> {
        let shared: Vec<usize> =
            (0..self.agents.len()).filter(|w| self.agents[*w].shared).collect();
        shared.into_iter().for_each(|w| self.names_receipts(w));
        for _ in 0..PATIENCE {
            let over = |mail: usize| match self.post.fate(mail) {
                Fate::Dead { .. } => true,
                Fate::Acked(_) => self.has(mail),
                Fate::Queued { .. } | Fate::Leased { .. } | Fate::Vanished => false,
            };
            if (0..self.truth.len()).all(over) && !self.is_to_come() {
                return None;
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
            if let Some(wrong) = self.wrong.clone().map(Wrong::Real).or_else(|| self.read_twice()) {
                return Some(wrong);
            }
        }
        (0..self.truth.len()).find_map(|mail| self.ended_wrong(mail))
    }

    fn ended_wrong(&self, mail: usize) -> Option<Wrong> {
        let nobody_left = self.agents.iter().all(|a| a.ended);
        match self.post.fate(mail) {
            Fate::Queued { .. } | Fate::Leased { .. } if nobody_left => None,
            Fate::Acked(proof) if !self.has(mail) => {
                let why = format!("I1 acked by {proof}, never read nor told");
                let call = self.truth[mail].handed_in.map(|c| self.calls[c].agent);
                let ended = call.is_some_and(|w| self.agents[w].ended);
                Some(match ended && proof != "end" {
                    true => Wrong::Residual(why),
                    false => Wrong::Real(why),
                })
            }
            fate @ (Fate::Queued { .. } | Fate::Leased { .. } | Fate::Vanished) => {
                let seen = self.truth[mail].seen;
                Some(Wrong::Real(format!("I7 stays {fate:?} for ever, seen {seen} times")))
            }
            Fate::Acked(_) | Fate::Dead { .. } => None,
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
            Move::CloseNoticed(_) | Move::StreamCloses(_) => (1, 0),
            Move::GraceEnds(_) => (2, 0),
            Move::Flushes => (3, 0),
            Move::Starts(_) => (4, 0),
            Move::Gets(_) => (5, 0),
            Move::Hook(_) => (6, 0),
            Move::Stores(_) => (7, 0),
            Move::Reads(_) => (8, 0),
            Move::Arrives => (9, 0),
            Move::Answers(_) | Move::Writes(_) => (10, 0),
            Move::Stops(_) => (11, 0),
            Move::Calls(w) => (12, calls(w)),
            Move::Prompts(_) => (13, 0),
            Move::StartsWithMail(_)
            | Move::RunsTool(_)
            | Move::StopRefused(_)
            | Move::PromptsWithMail(_)
            | Move::Goes(..) => (14, 0),
        }
    }
}
