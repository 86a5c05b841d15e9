//! Per-reader state: when it began, whether two processes share it, which tools it runs,
//! and which ids were acked by weak proof.
//!
//! Two processes may use one identity. The hub knows that an earlier process lives while
//! a stream of it is open.

use std::collections::VecDeque;

use compact_str::CompactString;
use tokio::time::Instant;

use super::hooks::{Hook, Tool};
use super::{Door, Effect, Hello, Process, Proofs, Rule, Scope};
use crate::messaging::delivery::AnswerId;
use crate::messaging::message::{Principal, Seq};

/// Number of bridges of one reader that are remembered.
const BRIDGES: usize = 16;

#[derive(Debug, Clone, Default)]
pub(super) struct Reader {
    pub(super) beginning: u64,
    /// Set if two processes use the one identity: only strong proofs count.
    pub(super) shared: bool,
    /// Open streams, each with its beginning.
    pub(super) streams: Vec<(u64, u64)>,
    pub(super) answers: VecDeque<AnswerId>,
    pub(super) taken: VecDeque<Taken>,
    bridges: VecDeque<CompactString>,
    pub(super) conversation: Option<CompactString>,
    /// The last first word, as long as no call came after it.
    pub(super) hello: Option<Hello>,
    /// Set if a process has begun, and no call came after it.
    pub(super) fresh: bool,
    /// Set if it has sent a hook since its session started.
    pub(super) has_hooks: bool,
    /// Set if its last hook was a session start.
    pub(super) starts: bool,
    pub(super) last_hook: Option<Instant>,
    pub(super) calls_since_hook: usize,
    /// Tool calls whose after-tool hook has not come, each with its number.
    pub(super) running: Vec<(u64, Tool)>,
    /// Number of tool calls that began so far.
    pub(super) started: u64,
    /// Number of after-tool hooks, by tool, that could be of several answers.
    pub(super) unmatched: Vec<(&'static str, usize)>,
}

impl Reader {
    pub(super) fn who_took(taken: VecDeque<Taken>) -> Self {
        Self { taken, ..Self::default() }
    }

    fn carry_streams(&mut self) {
        let now = self.beginning;
        self.streams.iter_mut().for_each(|(_, beginning)| *beginning = now);
    }

    /// Returns whether two processes share the identity: for ever, or while a stream of
    /// an earlier beginning is open.
    pub(super) fn is_shared(&self) -> bool {
        self.shared || self.streams.iter().any(|(_, beginning)| *beginning != self.beginning)
    }

    /// Notes a call of a tool of the hub: the next first word belongs to another start.
    pub(super) fn has_called(&mut self) {
        self.hello = None;
        self.fresh = false;
    }

    /// Returns whether the bridge is new, and remembers it.
    fn is_new_bridge(&mut self, bridge: &str) -> bool {
        if self.bridges.iter().any(|known| known == bridge) {
            return false;
        }
        if self.bridges.len() == BRIDGES {
            self.bridges.pop_front();
        }
        self.bridges.push_back(bridge.into());
        true
    }

    /// Returns whether this is the first word of a start: a probe with `server/discover`
    /// and the `initialize` after it are one start.
    fn is_new_start(&mut self, hello: Hello) -> bool {
        let before = self.hello.replace(hello);
        (before, hello) != (Some(Hello::Discover), Hello::Initialize)
    }
}

/// An id acked by weak proof, and the proven answer that told the reader so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) seq: Seq,
    pub(super) told: Option<AnswerId>,
}

impl Proofs {
    /// Notes a request through the MCP door; `hello` if it is a first word. A new process
    /// of the reader is a beginning, unless an earlier process of the same conversation
    /// still lives: then both are one reader.
    pub fn meet(
        &mut self,
        who: Principal,
        process: Process<'_>,
        hello: Option<Hello>,
    ) -> Vec<Effect> {
        let lives = self.lives(who);
        let (once, one) = (self.rules.has(Rule::Once), self.rules.has(Rule::Same));
        let reader = self.readers.entry(who).or_default();
        let new = match (process.bridge, hello) {
            (Some(bridge), _) => reader.is_new_bridge(bridge),
            (None, Some(hello)) => reader.is_new_start(hello) || !once,
            (None, None) => false,
        };
        if !new {
            return Vec::new();
        }
        let before = reader.conversation.as_deref();
        let same = process.conversation.is_some() && process.conversation == before;
        reader.conversation = process.conversation.map(CompactString::from);
        if same && lives && one {
            return Vec::new();
        }
        reader.fresh = true;
        self.begin(who, Scope::Door(Door::Mcp))
    }

    /// Returns whether a stream or a call of the reader is open.
    fn lives(&self, who: Principal) -> bool {
        let Some(reader) = self.readers.get(&who) else { return false };
        let open = |id: &AnswerId| {
            self.answers.get(id).is_some_and(|a| a.door == Door::Mcp && a.is_open())
        };
        !reader.streams.is_empty() || reader.answers.iter().any(open)
    }

    /// Begins a session of the reader: its leases at all doors but its driver's are
    /// returned. Its MCP connection stays if the session begins in the process that has
    /// it: the conversation was only cleared, the process has just connected and asked
    /// for nothing since, or hook and bridge name the same conversation or process.
    pub(super) fn begin_session(&mut self, who: Principal, hook: &Hook<'_>) -> Vec<Effect> {
        let effects = self.begin(who, Scope::Session);
        let reader = self.readers.entry(who).or_default();
        let known = reader.conversation.as_deref().filter(|known| !known.is_empty());
        if hook.source == "clear" || reader.fresh || known == Some(hook.conversation) {
            reader.carry_streams();
        }
        effects
    }

    /// Begins the reader anew: earlier calls end without mail, and its unproven leases
    /// are returned.
    pub fn begin(&mut self, who: Principal, scope: Scope) -> Vec<Effect> {
        let (cuts, starts_over) = (self.rules.has(Rule::Cut), self.rules.has(Rule::Settled));
        let reader = self.readers.entry(who).or_default();
        reader.beginning += 1;
        let beginning = reader.beginning;
        for taken in reader.taken.iter_mut().filter(|_| starts_over) {
            taken.told = None;
        }
        if !matches!(scope, Scope::Door(_)) {
            reader.loses_hooks();
        }
        // The hub knows that an earlier process lives while its stream is open. A
        // beginning at another door says nothing about that process.
        let streams = !reader.streams.is_empty();
        if scope == Scope::Door(Door::Rest) {
            reader.carry_streams();
        }
        let mut effects = Vec::new();
        for id in self.answers_of(who) {
            let Some(answer) = self.answers.get_mut(&id) else { continue };
            if !scope.covers(answer.door) {
                // The reader did not begin anew at this door: open calls go on and can be
                // proved.
                answer.beginning = beginning;
                continue;
            }
            self.due.retain(|(_, due)| *due != id);
            answer.later = None;
            // A driver's call is not the reader's own, and a session may begin while its
            // own program waits for mail.
            let shares = !matches!(answer.door, Door::Driver | Door::Idle) && !streams;
            if cuts
                && answer.close()
                && shares
                && let Some(reader) = self.readers.get_mut(&who)
            {
                reader.shared = true;
            }
            effects.extend(self.give_back(id, false));
        }
        effects
    }

    /// Opens a stream of the reader, which lives from now on.
    pub fn attach(&mut self, who: Principal, most: usize) -> Option<u64> {
        // Streams are numbered with the answers.
        self.last = self.last.next();
        let stream = self.last.0;
        let reader = self.readers.entry(who).or_default();
        let room = reader.streams.len() < most;
        room.then(|| reader.streams.push((stream, reader.beginning)))?;
        Some(stream)
    }

    /// Closes a stream of the reader. After the last one the reader may be gone: its open
    /// calls end without mail, and its leases of one-of mail are returned.
    pub fn detach(&mut self, who: Principal, stream: u64) -> Vec<Effect> {
        let Some(reader) = self.readers.get_mut(&who) else { return Vec::new() };
        reader.streams.retain(|(id, _)| *id != stream);
        if !reader.streams.is_empty() || !self.rules.has(Rule::Gone) {
            return Vec::new();
        }
        // The next process has to show whether it has hooks.
        reader.loses_hooks();
        let answers = self.answers_of(who);
        answers.into_iter().filter_map(|id| self.leave(id)).collect()
    }

    fn leave(&mut self, id: AnswerId) -> Option<Effect> {
        let answer = self.answers.get_mut(&id)?;
        // A driver's process may live on without a stream of its own.
        if answer.door == Door::Driver {
            return None;
        }
        if answer.door == Door::Mcp {
            answer.close();
        }
        let lost = answer.mail.iter().filter(|held| held.one_of && !held.gone);
        let what: Vec<_> = lost.map(|held| held.delivery).collect();
        answer.let_go(|held| held.one_of);
        let by = answer.who;
        (!what.is_empty()).then_some(Effect::Return { by, answer: id, what, doubt: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_is_new_once() {
        let mut reader = Reader::default();
        assert!(reader.is_new_bridge("a"));
        assert!(reader.is_new_bridge("b"));
        assert!(!reader.is_new_bridge("a"));
    }

    #[test]
    fn a_probe_and_the_handshake_after_it_are_one_start() {
        let mut reader = Reader::default();
        assert!(reader.is_new_start(Hello::Discover));
        assert!(!reader.is_new_start(Hello::Initialize));
        assert!(reader.is_new_start(Hello::Initialize), "another process");
        assert!(reader.is_new_start(Hello::Discover), "another process");
        reader.has_called();
        assert!(reader.is_new_start(Hello::Initialize), "the probe led to a call of its own");
    }
}
