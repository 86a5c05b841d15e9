//! One message in one mailbox, in exactly one state.
//!
//! ```text
//!            lease              ack
//!  queued ─────────▶ leased ─────────▶ acked
//!    ▲  ▲              │ │               ▲
//!    │  └── give_back ─┘ └── die ─▶ dead │
//!    │        (marked)                   │
//!    ├── die ─▶ dead ── requeue ─▶ queued│
//!    └── a late ack settles it ──────────┘
//! ```
//!
//! Every durable state change is written before anybody is told. While it is being
//! written the delivery is [`DeliveryState::Settling`]: nothing else can move it, and a
//! failed write puts it back where it was, or into its mailbox if its holder returned it
//! meanwhile.

use std::fmt;

use crate::messaging::message::Principal;
use crate::ports::store::Epoch;

/// The number of a delivery, counted over all mailboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryNo(pub u64);

/// The answer that holds, or held, a lease. It carries the epoch of the hub's start, so
/// no answer from before a restart can be mistaken for one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AnswerId(pub u64);

impl AnswerId {
    /// Bits for the answers of one epoch: enough for 18 years at 30,000 a second. The
    /// epoch has the rest.
    const BITS: u32 = 44;

    /// The id before the first answer of an epoch.
    pub fn before_first(epoch: Epoch) -> Self {
        Self(epoch.0 << Self::BITS)
    }

    /// The id of the next answer.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    Queued,
    Leased {
        by: Principal,
        answer: AnswerId,
    },
    /// On its way to `acked` or `dead`; a failed write returns it to `was`.
    Settling {
        was: OpenState,
    },
}

/// The two states from which a delivery can be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenState {
    Queued,
    Leased { by: Principal, answer: AnswerId },
}

impl From<OpenState> for DeliveryState {
    fn from(open: OpenState) -> Self {
        match open {
            OpenState::Queued => Self::Queued,
            OpenState::Leased { by, answer } => Self::Leased { by, answer },
        }
    }
}

/// The reason why a state change is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoveError {
    #[error("another reader holds it now")]
    LeaseLost,
    #[error("it is not leased by the caller")]
    NotLeased,
    #[error("it is leased: wait until its reader settles or returns it")]
    Leased,
    #[error("it is being settled")]
    Settling,
}

impl DeliveryState {
    pub fn lease(self, by: Principal, answer: AnswerId) -> Result<Self, MoveError> {
        match self {
            Self::Queued => Ok(Self::Leased { by, answer }),
            Self::Leased { .. } => Err(MoveError::Leased),
            Self::Settling { .. } => Err(MoveError::Settling),
        }
    }

    /// Acks. A late ack still settles a delivery that is queued again, if a reader had it
    /// before (`marked`): any holder of a key to the mailbox may send it. A proof of one
    /// answer (`from`) settles only deliveries that this answer still holds.
    pub fn ack(
        self,
        by: Principal,
        from: Option<AnswerId>,
        marked: bool,
    ) -> Result<Self, MoveError> {
        match self {
            Self::Leased { by: holder, answer }
                if holder == by && from.is_none_or(|a| a == answer) =>
            {
                Ok(Self::Settling { was: OpenState::Leased { by, answer } })
            }
            Self::Leased { .. } => Err(MoveError::LeaseLost),
            Self::Queued if marked && from.is_none() => {
                Ok(Self::Settling { was: OpenState::Queued })
            }
            Self::Queued => Err(MoveError::NotLeased),
            Self::Settling { .. } => Err(MoveError::Settling),
        }
    }

    /// Acks a delivery that its owner says it has read, at its own risk: no lease is
    /// needed. A delivery that another reader holds is refused.
    pub fn read(self, by: Principal) -> Result<Self, MoveError> {
        self.settle_unless_anothers(by)
    }

    /// Returns a lease: only the holder can, and a stale answer returns nothing. A
    /// delivery that is being settled goes to its mailbox if that write fails.
    pub fn give_back(self, by: Principal, from: Option<AnswerId>) -> Result<Self, MoveError> {
        match self {
            Self::Leased { by: holder, answer }
            | Self::Settling { was: OpenState::Leased { by: holder, answer } }
                if holder != by || from.is_some_and(|a| a != answer) =>
            {
                Err(MoveError::LeaseLost)
            }
            Self::Leased { .. } => Ok(Self::Queued),
            Self::Settling { was: OpenState::Leased { .. } } => {
                Ok(Self::Settling { was: OpenState::Queued })
            }
            Self::Queued | Self::Settling { was: OpenState::Queued } => Err(MoveError::NotLeased),
        }
    }

    /// Kills a queued delivery: for expiry and cancel.
    pub fn die_queued(self) -> Result<Self, MoveError> {
        match self {
            Self::Queued => Ok(Self::Settling { was: OpenState::Queued }),
            Self::Leased { .. } => Err(MoveError::Leased),
            Self::Settling { .. } => Err(MoveError::Settling),
        }
    }

    /// Kills a delivery that is queued or that `by` holds: for the end of the recipient.
    pub fn die_held(self, by: Principal) -> Result<Self, MoveError> {
        self.settle_unless_anothers(by)
    }

    fn settle_unless_anothers(self, by: Principal) -> Result<Self, MoveError> {
        match self {
            Self::Queued => Ok(Self::Settling { was: OpenState::Queued }),
            Self::Leased { by: holder, answer } if holder == by => {
                Ok(Self::Settling { was: OpenState::Leased { by, answer } })
            }
            Self::Leased { .. } => Err(MoveError::LeaseLost),
            Self::Settling { .. } => Err(MoveError::Settling),
        }
    }

    /// Takes a failed write back, as if it had never been tried.
    pub fn unsettle(self) -> Self {
        match self {
            Self::Settling { was } => was.into(),
            Self::Queued | Self::Leased { .. } => self,
        }
    }
}

/// The evidence that the reader had a message, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proof {
    /// The reader named the answer's receipt, or the message's id.
    Receipt,
    /// The runner stored the message in its conversation.
    Stored,
    /// The agent's own output showed that the turn with the message began.
    Turn,
    /// A reply by the holder names it.
    Reply,
    /// A hook of the same reader: a tool began, or the model ended its turn.
    Hook,
    /// A later call of the same reader.
    NextCall,
    /// The model finished its own turn after it, then the agent ended.
    End,
    /// None: the caller accepted the risk.
    Auto,
}

impl Proof {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Receipt, "receipt"),
        (Self::Stored, "stored"),
        (Self::Turn, "turn"),
        (Self::Reply, "reply"),
        (Self::Hook, "hook"),
        (Self::NextCall, "next_call"),
        (Self::End, "end"),
        (Self::Auto, "auto"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(p, _)| *p == self).map_or("", |(_, word)| word)
    }

    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, w)| *w == word).map(|(p, _)| *p)
    }

    /// Returns whether the proof shows only that the client went on: then the reader is
    /// told which ids were acked.
    pub fn is_weak(self) -> bool {
        matches!(self, Self::Hook | Self::NextCall)
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The reason of a delivery's death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    RecipientGone,
    Expired,
    Cancelled,
    Refused,
    /// Its row in the store cannot be read. The row stays for a repair.
    Unreadable,
}

impl Reason {
    pub(crate) const ALL: [(Self, &'static str); 5] = [
        (Self::RecipientGone, "recipient_gone"),
        (Self::Expired, "expired"),
        (Self::Cancelled, "cancelled"),
        (Self::Refused, "refused"),
        (Self::Unreadable, "unreadable"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(r, _)| *r == self).map_or("", |(_, word)| word)
    }

    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, w)| *w == word).map(|(r, _)| *r)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::InstanceId;

    const BOB: Principal = Principal::Instance(InstanceId(1));
    const EVE: Principal = Principal::Instance(InstanceId(2));
    const FIRST: AnswerId = AnswerId(1);

    fn leased() -> DeliveryState {
        DeliveryState::Queued.lease(BOB, FIRST).expect("queued mail can be leased")
    }

    #[test]
    fn a_lease_has_one_holder() {
        assert_eq!(leased().lease(EVE, AnswerId(2)), Err(MoveError::Leased));
        assert_eq!(leased().ack(EVE, None, true), Err(MoveError::LeaseLost));
        assert_eq!(leased().give_back(EVE, None), Err(MoveError::LeaseLost));
        assert!(leased().ack(BOB, None, false).is_ok());
    }

    #[test]
    fn a_stale_answer_proves_nothing() {
        assert_eq!(leased().ack(BOB, Some(AnswerId(9)), true), Err(MoveError::LeaseLost));
        let queued = DeliveryState::Queued.ack(BOB, Some(FIRST), true);
        assert_eq!(queued, Err(MoveError::NotLeased));
        assert!(leased().ack(BOB, Some(FIRST), false).is_ok());
    }

    #[test]
    fn a_stale_answer_returns_nothing() {
        assert_eq!(leased().give_back(BOB, Some(AnswerId(9))), Err(MoveError::LeaseLost));
        assert_eq!(leased().give_back(BOB, Some(FIRST)), Ok(DeliveryState::Queued));
    }

    #[test]
    fn a_late_ack_settles_what_was_given_out_before_and_nothing_else() {
        assert_eq!(DeliveryState::Queued.ack(BOB, None, false), Err(MoveError::NotLeased));
        assert!(DeliveryState::Queued.ack(BOB, None, true).is_ok());
    }

    #[test]
    fn a_failed_write_puts_a_delivery_back_where_it_was() {
        let settling = leased().ack(BOB, None, false).expect("the holder acks");
        assert_eq!(settling.lease(EVE, AnswerId(2)), Err(MoveError::Settling));
        assert_eq!(settling.unsettle(), leased());
    }

    #[test]
    fn what_is_returned_while_it_is_written_down_is_queued_if_the_write_fails() {
        let settling = leased().ack(BOB, None, false).expect("the holder acks");
        let returned = settling.give_back(BOB, Some(FIRST)).expect("the holder returns");
        assert_eq!(returned.lease(EVE, AnswerId(2)), Err(MoveError::Settling));
        assert_eq!(returned.unsettle(), DeliveryState::Queued);
        for (by, from) in [(EVE, FIRST), (BOB, AnswerId(9))] {
            assert_eq!(settling.give_back(by, Some(from)), Err(MoveError::LeaseLost));
        }
        assert_eq!(returned.give_back(BOB, Some(FIRST)), Err(MoveError::NotLeased));
    }

    #[test]
    fn expiry_and_cancel_leave_leased_mail_alone() {
        assert_eq!(leased().die_queued(), Err(MoveError::Leased));
        assert!(DeliveryState::Queued.die_queued().is_ok());
    }
}
