//! The process of a reader behind a request, and the names of its calls.
//!
//! Doors report the data of a request; this module decides which calls one process made,
//! and which call repeats another.

use compact_str::{CompactString, format_compact};

use super::Door;
use crate::messaging::clients::{self, Client};

/// The first words of a client over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hello {
    Discover,
    Initialize,
}

/// A door's data about the process behind a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Process<'a> {
    /// The bridge that carries the request, by its own name.
    pub bridge: Option<&'a str>,
    /// The label of the MCP session.
    pub session: Option<&'a str>,
    /// The conversation, or the program's process where the program has no conversation.
    pub conversation: Option<&'a str>,
}

impl<'a> Process<'a> {
    /// Returns the label that tells one process of a reader from another. Bridges of one
    /// conversation have the same label.
    pub(super) fn label(self) -> &'a str {
        self.conversation.or(self.counter()).unwrap_or_default()
    }

    /// Returns the name of a request with this id. `None`: the process that counted the
    /// id is unknown.
    pub fn name_of(self, request: &str) -> Option<CompactString> {
        self.counter().map(|counter| format_compact!("{counter}|{request}"))
    }

    /// Returns the bridge or session that counts the requests: its ids are its own.
    fn counter(self) -> Option<&'a str> {
        self.bridge.or(self.session).filter(|name| !name.is_empty())
    }
}

/// A call, as its door describes it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub door: Door,
    pub client: &'static Client,
    pub process: Process<'a>,
    /// The id of the request, as the client counts.
    pub request: Option<&'a str>,
    /// The id that the client's model gave the call. The client's hooks name the same.
    pub call_id: Option<&'a str>,
    /// The hub's tool that is called; empty where it is none.
    pub tool: &'static str,
}

impl Call<'_> {
    /// Makes a call of which nothing else is known.
    pub fn through(door: Door) -> Self {
        Self {
            door,
            client: &clients::UNKNOWN,
            process: Process::default(),
            request: None,
            call_id: None,
            tool: "",
        }
    }

    /// Returns the client's names for the call: a repeat has one of these names again.
    pub(super) fn names(&self) -> Box<[CompactString]> {
        let counted = self.request.and_then(|id| self.process.name_of(id));
        self.call_id.map(CompactString::from).into_iter().chain(counted).collect()
    }

    /// Returns the name that never means another call of the reader: a call of the same
    /// name is a repeat. Some scripts give every request the same id; a bridge does not.
    pub fn unique_name(&self) -> Option<CompactString> {
        let counted = || self.process.name_of(self.request?).filter(|_| self.is_bridged());
        self.call_id.map(CompactString::from).or_else(counted)
    }

    fn is_bridged(&self) -> bool {
        self.process.bridge.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(process: Process<'static>, call_id: Option<&'static str>) -> Call<'static> {
        Call { process, request: Some("7"), call_id, ..Call::through(Door::Mcp) }
    }

    const BRIDGE: Process<'static> =
        Process { bridge: Some("b"), session: Some("s"), conversation: None };
    const SESSION: Process<'static> = Process { bridge: None, ..BRIDGE };

    #[test]
    fn a_request_is_named_within_its_bridge_or_session_and_without_either_not_at_all() {
        assert_eq!(*call(BRIDGE, None).names(), ["b|7"]);
        assert_eq!(*call(SESSION, Some("toolu_1")).names(), ["toolu_1", "s|7"]);
        assert_eq!(*call(Process::default(), None).names(), [""; 0]);
        let conversation = Process { conversation: Some("c"), ..Process::default() };
        assert_eq!(conversation.name_of("7"), None, "two bridges may count alike");
    }

    #[test]
    fn a_process_is_told_by_its_conversation_first() {
        let labels = [BRIDGE, SESSION, Process::default()].map(Process::label);
        assert_eq!(labels, ["b", "s", ""]);
        assert_eq!(Process { conversation: Some("c"), ..BRIDGE }.label(), "c");
    }

    #[test]
    fn only_a_bridge_or_a_model_gives_a_call_a_name_of_its_own() {
        assert_eq!(call(BRIDGE, None).unique_name().as_deref(), Some("b|7"));
        assert_eq!(call(SESSION, None).unique_name(), None, "a script may count from 1 again");
        assert_eq!(call(SESSION, Some("toolu_1")).unique_name().as_deref(), Some("toolu_1"));
    }
}
