//! Reading that acks nothing: visibility, a thread with its unread mail, the trail of a
//! message, and everything for an export.
//!
//! Start with [`Hub::history`]. The ledger decides whether a caller may see a message, at
//! the moment of looking: a leader named today sees the messages of yesterday, and seeing
//! is not reading.

mod questions;
mod thread;
mod trail;

pub(crate) use self::questions::Reminders;
pub use self::thread::ThreadAsk;
pub use self::trail::{Step, Trail};

use crate::Hub;
use crate::address::Name;
use crate::messaging::message::{MessageRef, Principal, Seq};
use crate::ports::{HistoryPage, HistoryQuery, Record, StoreError};
use crate::registry::nearest;

/// Number of messages in one part of an export.
const EXPORT_PAGE: usize = 500;

impl Hub {
    /// Returns one message, if the caller may read it.
    pub async fn message(
        &self,
        by: Principal,
        which: MessageRef,
    ) -> Result<Option<Record>, StoreError> {
        let record = self.engine.message(which).await?;
        Ok(record.filter(|r| self.may_read(by, r)))
    }

    /// Returns the number of a message that the caller may settle: one that it may read,
    /// or that is in a mailbox of its own, though another took it.
    pub async fn settleable(
        &self,
        by: Principal,
        which: MessageRef,
    ) -> Result<Option<Seq>, StoreError> {
        let record = self.engine.message(which).await?;
        let keys = self.engine.ledger(|l| l.keys_of(by));
        let has_key = |r: &Record| r.deliveries.iter().any(|d| keys.contains(&d.mailbox));
        let known = record.filter(|r| has_key(r) || self.may_read(by, r));
        Ok(known.map(|r| r.message.seq))
    }

    /// Returns whether the caller may read a message; see
    /// [`Ledger::may_see`](crate::ledger::Ledger::may_see).
    pub fn may_read(&self, caller: Principal, record: &Record) -> bool {
        self.engine.ledger(|l| l.may_see(caller, record))
    }

    /// Returns messages that the caller may read, oldest first, without acking any.
    pub async fn history(
        &self,
        by: Principal,
        query: HistoryQuery,
    ) -> Result<HistoryPage, ReadError> {
        if let Some(team) = &query.team {
            self.leads(by, team)?;
        }
        let bytes = query.bytes.or(Some(self.limits.answer_bytes));
        let query = HistoryQuery { of: by.instance(), bytes, ..query };
        Ok(self.engine.history(query).await?)
    }

    fn leads(&self, by: Principal, team: &Name) -> Result<(), ReadError> {
        if !self.engine.ledger(|l| l.team_names()).contains(team) {
            return Err(self.no_such_team(team));
        }
        match self.engine.ledger(|l| l.leads(by, team)) {
            true => Ok(()),
            false => Err(ReadError::NotALeader(team.clone())),
        }
    }

    /// Makes the error for an unknown team, with the existing teams of a similar name.
    pub fn no_such_team(&self, team: &Name) -> ReadError {
        let known = self.engine.ledger(|l| l.team_names());
        let nearest = nearest(team.as_str(), known.iter().map(Name::as_str));
        ReadError::NoSuchTeam { team: team.clone(), nearest }
    }

    /// Returns the number of the newest message: where an export that begins now ends.
    pub async fn newest(&self) -> Result<Option<Seq>, StoreError> {
        let last = HistoryQuery { last: 1, ..HistoryQuery::default() };
        let page = self.engine.history(last).await?;
        Ok(page.records.last().map(|r| r.message.seq))
    }

    /// Returns the next part of all messages between two numbers, oldest first: above
    /// `after`, up to and with `until`.
    pub async fn export(&self, after: Seq, until: Seq) -> Result<HistoryPage, StoreError> {
        let query = HistoryQuery {
            after: Some(after),
            before: Some(Seq(until.0.saturating_add(1))),
            last: EXPORT_PAGE,
            bytes: Some(self.limits.answer_bytes),
            ..HistoryQuery::default()
        };
        self.engine.history(query).await
    }
}

/// The reason why nothing is shown.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    #[error("no team is called `{team}`")]
    NoSuchTeam { team: Name, nearest: Vec<String> },
    #[error("only the leaders of `{0}` see all of its mail")]
    NotALeader(Name),
    #[error(transparent)]
    Store(#[from] StoreError),
}
