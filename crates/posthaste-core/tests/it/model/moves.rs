//! What can happen, and what can go wrong.

use std::fmt;

use posthaste_core::messaging::proof::Process;

/// What may go wrong, or happens rarely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    // Of a call.
    ClosedBeforeWritten,
    TimeoutAndCancel,
    SilentDrop,
    /// The answer leaves when the client has just given up, and the client does not say so.
    AtTheEdge,
    /// The same, and the client takes the answer after all.
    JustInTime,
    Repeat,
    ToolFails,
    /// The client gives up a call of the hub and says so with its hook.
    CallFails,
    Receipt,
    /// The model answers the first message of what it read.
    Reply,
    Nack,
    // Of an agent.
    Interrupt,
    /// The user interrupts, and the client sends no cancel.
    Escape,
    /// The prompt hook comes in the middle of a turn.
    PromptInTurn,
    ClientCrash,
    ExtraBeginning,
    StartWithoutBeginning,
    CleanEnd,
    UncleanEnd,
    Lost,
    // Of the hub.
    Kill,
    CleanRestart,
    /// What lies unflushed cannot be written.
    DiskFull,
    // Of a message.
    Expiry,
    OperatorCancel,
}

/// When a program stores the results of a batch, so that a resumed model sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stores {
    /// At any time after the hook: a slow hook of the user's own may delay it.
    Sometime,
    /// At once, but in the order of the calls.
    InOrder,
    /// At once when the whole batch has ended.
    Whole,
}

/// How a program connects to the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connects {
    /// Without a word of its own: a hook or a driver tells that it starts.
    Plainly,
    /// Over HTTP: a probe, a stream, the handshake.
    OverHttp,
    /// Through a bridge that has no stream.
    ByBridge,
    /// Through a bridge that names its conversation and keeps a stream open.
    InConversation,
}

impl Connects {
    /// What a request says of the process behind it.
    pub(crate) fn process(self, bridge: &str) -> Process<'_> {
        let nothing = Process { bridge: None, session: None, conversation: None };
        match self {
            Self::Plainly | Self::OverHttp => Process { session: Some("session"), ..nothing },
            Self::ByBridge => Process { bridge: Some(bridge), ..nothing },
            Self::InConversation => {
                Process { bridge: Some(bridge), conversation: Some("conversation"), ..nothing }
            }
        }
    }
}

/// How large a world is and what can go wrong in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) kinds: &'static [Fault],
    pub(crate) mails: usize,
    pub(crate) calls: usize,
    pub(crate) faults: usize,
    pub(crate) agents: usize,
    /// The agents are processes that use one identity.
    pub(crate) twins: bool,
    pub(crate) connects: Connects,
    pub(crate) one_of: bool,
    /// The client runs a hook after each tool, for a prompt and for a stop.
    pub(crate) hooks: bool,
    /// The model uses tools that are not the hub's.
    pub(crate) tools: bool,
    /// The client also runs a hook before each tool.
    pub(crate) before: bool,
    /// A call of a batch may begin late, after a permission.
    pub(crate) late: bool,
    /// Calls of one batch.
    pub(crate) side: usize,
    pub(crate) stores: Stores,
    /// The client cancels every finished call.
    pub(crate) always_cancels: bool,
    /// The hub knows that.
    pub(crate) known: bool,
    /// The client gives up at a limit that the hub knows.
    pub(crate) gives_up: bool,
    /// A crashed client comes back in the end.
    pub(crate) restarts: bool,
    /// The mail has not been sent yet.
    pub(crate) unsent: bool,
    /// The agents have not started yet.
    pub(crate) unstarted: bool,
    /// No `settled` makes up for an untrue ack.
    pub(crate) strict: bool,
    /// Answers take time to be written, calls are repeated while they wait, acks take
    /// time to be flushed, and one more message comes at any time.
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
            twins: false,
            connects: Connects::Plainly,
            one_of: false,
            hooks: false,
            tools: false,
            before: false,
            late: false,
            side: 2,
            stores: Stores::Sometime,
            always_cancels: false,
            known: true,
            gives_up: false,
            restarts: true,
            unsent: false,
            unstarted: false,
            strict: false,
            busy: false,
        }
    }

    /// A client with hooks whose model uses other tools, too.
    pub(crate) const fn hooked(kinds: &'static [Fault]) -> Self {
        Self { hooks: true, tools: true, ..Self::with(kinds) }
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.strict || self.hooks
    }
}

/// One thing that can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Move {
    Calls(usize),
    RunsTool(usize),
    Reads(usize),
    Stops(usize),
    /// The stop is refused, with mail.
    StopRefused(usize),
    Prompts(usize),
    PromptsWithMail(usize),
    Starts(usize),
    /// The session start brings mail; the user's prompt follows.
    StartsWithMail(usize),
    /// The hub notices that the agent's stream has closed.
    StreamCloses(usize),
    Answers(usize),
    /// The rest of a slow answer leaves.
    Writes(usize),
    CloseNoticed(usize),
    Gets(usize),
    /// The hook after a tool call runs.
    Hook(usize),
    Stores(usize),
    CancelArrives(usize),
    GraceEnds(usize),
    Arrives,
    Flushes,
    /// The fault and the agent, the call or the message that it befalls.
    Goes(Fault, usize),
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls(agent) => write!(f, "agent {agent} calls"),
            Self::RunsTool(agent) => write!(f, "agent {agent} runs a tool"),
            Self::Reads(agent) => write!(f, "model {agent} reads"),
            Self::Stops(agent) => write!(f, "model {agent} stops"),
            Self::StopRefused(agent) => write!(f, "a stop of {agent} is refused, with mail"),
            Self::Prompts(agent) => write!(f, "user prompts {agent}"),
            Self::PromptsWithMail(agent) => write!(f, "user prompts {agent}, with mail"),
            Self::Starts(agent) => write!(f, "agent {agent} starts anew and begins"),
            Self::StartsWithMail(agent) => write!(f, "agent {agent} starts anew, with mail"),
            Self::StreamCloses(agent) => write!(f, "the stream of agent {agent} closes"),
            Self::Answers(call) => write!(f, "hub answers #{call}"),
            Self::Writes(call) => write!(f, "the body of #{call} is written"),
            Self::CloseNoticed(call) => write!(f, "close of #{call} is noticed"),
            Self::Gets(call) => write!(f, "client gets #{call}"),
            Self::Hook(call) => write!(f, "hook after #{call}"),
            Self::Stores(call) => write!(f, "client stores #{call}"),
            Self::CancelArrives(call) => write!(f, "cancel of #{call} arrives"),
            Self::GraceEnds(call) => write!(f, "the grace of #{call} ends"),
            Self::Arrives => write!(f, "a message arrives"),
            Self::Flushes => write!(f, "acks are flushed"),
            Self::Goes(fault, which) => write!(f, "{fault:?} of {which}"),
        }
    }
}
