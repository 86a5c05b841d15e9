//! Finds the agent that a hook of this program has joined as, so that its stream can be
//! opened before its first call of a tool. This never joins.

use std::time::{Duration, SystemTime};

use posthaste_api::Client;
use posthaste_core::address::Name;

use super::super::super::member::Member;
use super::super::super::program::Program;
use super::super::super::way::Wish;
use super::{Agents, Known, Way, Who, label};
use crate::keyring::{self, Credentials};

/// Longer than the resolution of a file system's times.
const TICK: Duration = Duration::from_secs(2);

/// Number of milliseconds by which the first hook of a Codex session may precede its
/// bridge. Codex may start a bridge for each session: earlier threads belong to other
/// bridges.
const BEFORE_BRIDGE: u64 = 10_000;

/// The result of a look.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands::mcp) enum Look {
    /// The hooks of this program have joined as no new agent.
    Nobody,
    /// An agent that has joined since.
    Found(String),
    /// The only agent of this bridge is joined.
    Known,
    /// This bridge has an agent without joining, or none.
    Over,
}

/// State of the last look.
#[derive(Debug, Default)]
pub(in crate::commands::mcp) struct Seen {
    /// The time at which credentials were last written.
    changed: Option<SystemTime>,
    /// The credentials of the thread that began last.
    thread: Option<Credentials>,
}

/// Returns the earliest start of a Codex thread that this bridge may serve.
pub(super) fn earliest() -> u64 {
    keyring::now().saturating_sub(BEFORE_BRIDGE)
}

impl Who {
    /// Looks once. While no credentials change, this costs one `stat`.
    pub(in crate::commands::mcp) async fn look(&self, seen: &mut Seen) -> Look {
        let Way::Join(wish) = &self.way else { return Look::Over };
        let mut agents = self.agents.lock().await;
        let Agents { program, joined, .. } = &mut *agents;
        if !program.has_a_name() {
            return Look::Nobody;
        }
        let said = program.conversation(None);
        let has_threads = program.is_codex() && wish.key.is_none();
        if !has_threads && joined.contains_key(&label(wish.key.as_ref().or(said.as_ref()))) {
            return Look::Known;
        }
        if !seen.is_changed(self.session.keyring().changed()) {
            return Look::Nobody;
        }
        let Ok(hub) = self.session.stranger() else { return Look::Nobody };
        let found = match has_threads {
            true => self.thread_of_hook(wish, program, &hub, seen),
            false => self.agent_of_hook(wish, program, &hub, said),
        };
        let Some((identity, known)) = found else { return Look::Nobody };
        joined.insert(identity.clone(), known);
        Look::Found(identity)
    }

    /// Completes when an agent of this bridge is not joined any more.
    pub(in crate::commands::mcp) async fn forgotten(&self) {
        self.forgotten.notified().await;
    }

    /// Returns the only agent of this bridge, if a hook has joined as it.
    fn agent_of_hook(
        &self,
        wish: &Wish,
        program: &Program,
        hub: &Client,
        said: Option<String>,
    ) -> Option<(String, Known)> {
        let name = wish.name.clone().unwrap_or_else(|| program.name());
        let whom = (name.as_str(), wish.team.as_ref().map(Name::as_str));
        let conversation =
            program.told_conversation(said.as_deref(), wish.key.is_some(), &self.process);
        let identity = label(wish.key.as_ref().or(said.as_ref()));
        let which = wish.which(said);
        let member = Member::of_hook(&self.session, hub, whom, which, &self.process)?;
        Some((identity, Known { member, conversation }))
    }

    /// Returns the thread of Codex that began last, if it was not seen yet.
    fn thread_of_hook(
        &self,
        wish: &Wish,
        program: &Program,
        hub: &Client,
        seen: &mut Seen,
    ) -> Option<(String, Known)> {
        let name = wish.name.clone().unwrap_or_else(|| program.name());
        let whom = (name.as_str(), wish.team.as_ref().map(Name::as_str));
        let process = (self.process.as_str(), self.earliest);
        let (member, thread) = Member::of_last_hook(&self.session, hub, whom, process)?;
        if seen.thread.as_ref() == Some(&thread) {
            return None;
        }
        let conversation = program.told_conversation(Some(&thread.key), false, &self.process);
        let identity = label(Some(&thread.key));
        seen.thread = Some(thread);
        Some((identity, Known { member, conversation }))
    }
}

impl Seen {
    /// Returns whether credentials may have changed since the last look.
    fn is_changed(&mut self, changed: Option<SystemTime>) -> bool {
        if changed.is_none() || changed == self.changed {
            return false;
        }
        // A change soon after this one may have the same time, and must count as well.
        let is_old = |at: &SystemTime| at.elapsed().is_ok_and(|passed| passed >= TICK);
        self.changed = changed.filter(is_old);
        true
    }
}
