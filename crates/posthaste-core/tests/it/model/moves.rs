//! What can happen, and what can go wrong.

use std::fmt;

/// What may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    ClosedBeforeWritten,
    TimeoutAndCancel,
    SilentDrop,
    Interrupt,
    Repeat,
    Receipt,
    /// The model answers the first message of what it read.
    Reply,
    Nack,
    ClientCrash,
    ExtraBeginning,
    CleanEnd,
    UncleanEnd,
    Lost,
    Kill,
    CleanRestart,
    /// What lies unflushed cannot be written.
    DiskFull,
    Expiry,
    OperatorCancel,
}

/// How large a world is and what can go wrong in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) kinds: &'static [Fault],
    pub(crate) mails: usize,
    pub(crate) calls: usize,
    pub(crate) faults: usize,
    pub(crate) agents: usize,
    pub(crate) hooks: usize,
    pub(crate) one_of: bool,
    pub(crate) always_cancels: bool,
    /// Answers take time to be written, calls are repeated while they wait, and one
    /// more message comes at any time.
    pub(crate) busy: bool,
}

impl Scenario {
    pub(crate) const fn with(kinds: &'static [Fault]) -> Self {
        Self {
            kinds,
            mails: 1,
            calls: 3,
            faults: 2,
            agents: 1,
            hooks: 0,
            one_of: false,
            always_cancels: false,
            busy: false,
        }
    }
}

/// One thing that can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Move {
    Calls(usize),
    Reads(usize),
    Hook(usize),
    Starts(usize),
    Answers(usize),
    /// The rest of a slow answer leaves.
    Writes(usize),
    Arrives,
    CloseNoticed(usize),
    Gets(usize),
    CancelArrives(usize),
    TimePasses,
    Flushes,
    /// The fault and the agent, the call or the message that it befalls.
    Goes(Fault, usize),
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls(agent) => write!(f, "agent {agent} calls"),
            Self::Reads(agent) => write!(f, "model {agent} reads"),
            Self::Hook(agent) => write!(f, "a hook of agent {agent} fires"),
            Self::Starts(agent) => write!(f, "agent {agent} starts anew and begins"),
            Self::Answers(call) => write!(f, "hub writes answer #{call}"),
            Self::Writes(call) => write!(f, "the body of #{call} is written"),
            Self::Arrives => write!(f, "a message arrives"),
            Self::CloseNoticed(call) => write!(f, "close of #{call} is noticed"),
            Self::Gets(call) => write!(f, "client gets #{call}"),
            Self::CancelArrives(call) => write!(f, "cancel of #{call} arrives"),
            Self::TimePasses => write!(f, "2 s pass"),
            Self::Flushes => write!(f, "acks are flushed"),
            Self::Goes(fault, which) => write!(f, "{fault:?} of {which}"),
        }
    }
}

/// Whether the hub learns of it.
pub(crate) fn reaches_hub(next: Move) -> bool {
    match next {
        Move::Reads(_) | Move::Gets(_) => false,
        Move::Goes(fault, _) => {
            !matches!(fault, Fault::TimeoutAndCancel | Fault::SilentDrop | Fault::ClientCrash)
        }
        Move::Calls(_)
        | Move::Hook(_)
        | Move::Starts(_)
        | Move::Answers(_)
        | Move::Writes(_)
        | Move::Arrives
        | Move::CloseNoticed(_)
        | Move::CancelArrives(_)
        | Move::TimePasses
        | Move::Flushes => true,
    }
}
