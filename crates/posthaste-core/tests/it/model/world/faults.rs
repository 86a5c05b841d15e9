//! What goes wrong, and how clients start and end.

use std::time::Duration;

use posthaste_core::messaging::proof::{Door, Moment, Scope};

use super::{AtClient, AtHub, Call, Idle, Kind, World};
use crate::model::moves::{Fault, Move};

impl World {
    pub(super) fn fault(&mut self, fault: Fault, which: usize) {
        match fault {
            Fault::ClosedBeforeWritten => {
                if self.calls[which].hub == AtHub::Open {
                    self.answers(which, Duration::ZERO);
                }
                if let Some(running) = &self.calls[which].running {
                    self.post.unwritten(running);
                }
                self.calls[which].hub = AtHub::Unwritten;
                self.calls[which].client = AtClient::Gone;
            }
            Fault::TimeoutAndCancel => {
                self.calls[which].client = AtClient::Gone;
                self.calls[which].cancel = true;
            }
            Fault::SilentDrop => self.calls[which].client = AtClient::Gone,
            Fault::AtTheEdge | Fault::JustInTime => {
                self.answers(which, self.client().limit.unwrap_or_default());
                self.happens(Move::Writes(which));
                if fault == Fault::AtTheEdge {
                    self.calls[which].client = AtClient::Gone;
                }
            }
            Fault::ToolFails | Fault::CallFails => {
                self.calls[which].client = AtClient::Got;
                self.calls[which].failed = true;
            }
            Fault::Repeat => {
                self.calls[which].client = AtClient::Gone;
                let agent = self.calls[which].agent;
                self.calls_anew(agent, Kind::Hub, Some(which));
            }
            Fault::Receipt => {
                let (agent, receipt) = (self.calls[which].agent, self.calls[which].receipt);
                self.post.receipt(agent, receipt);
            }
            Fault::Reply => {
                let (mail, _) = self.calls[which].given.mail[0];
                self.post.replies(self.calls[which].agent, mail);
            }
            Fault::Nack => {
                let (agent, receipt) = (self.calls[which].agent, self.calls[which].receipt);
                self.post.nack(agent, receipt);
            }
            Fault::Interrupt => {
                self.drops(which, AtClient::Gone);
                self.post.interrupted(which);
            }
            Fault::Escape => {
                self.drops(which, AtClient::Gone);
                self.agents[which].idle = Some(Idle::Cut);
                self.agents[which].batch += 1;
            }
            Fault::PromptInTurn => {
                self.post.hooks(which, Moment::Prompt);
            }
            Fault::ClientCrash => self.crashes(which),
            Fault::ExtraBeginning => self.begins(which, Scope::Door(Door::Mcp)),
            Fault::StartWithoutBeginning => self.agents[which].alive = true,
            Fault::CleanEnd => self.ends(which, true),
            Fault::UncleanEnd => self.ends(which, false),
            Fault::Lost => self.post.loses(which),
            Fault::Kill => self.restarts(false),
            Fault::CleanRestart => self.restarts(true),
            Fault::DiskFull => self.post.fails_to_flush(),
            Fault::Expiry => self.post.expires(),
            Fault::OperatorCancel => self.post.cancels_mail(which),
        }
    }

    pub(super) fn starts(&mut self, agent: usize) {
        self.loses_stream(agent);
        if self.scenario.hooks {
            self.is_noticed_dead(agent);
        }
        self.begins(agent, Scope::All);
        let stream = self.connects(agent);
        let agent = &mut self.agents[agent];
        (agent.alive, agent.calls, agent.stream) = (true, 0, stream);
    }

    pub(super) fn begins(&mut self, agent: usize, scope: Scope) {
        // As far as the hub knows, an answer without mail has not left before it is
        // written.
        let waits = |c: &Call| match c.hub {
            AtHub::Open => c.kind == Kind::Hub,
            AtHub::Answered => c.given.mail.is_empty(),
            AtHub::Written | AtHub::Unwritten | AtHub::Closed | AtHub::Forgotten => false,
        };
        let alive = self.calls.iter().any(|c| c.agent == agent && waits(c));
        self.agents[agent].shared |= alive;
        match scope {
            Scope::All if self.scenario.hooks => {
                self.post.hooks(agent, Moment::SessionStart);
            }
            scope => self.post.begins(agent, scope),
        }
    }

    /// The connections of a dead process close before its successor runs a hook.
    pub(super) fn is_noticed_dead(&mut self, agent: usize) {
        for c in 0..self.calls.len() {
            let call = &self.calls[c];
            let open = matches!(call.hub, AtHub::Open | AtHub::Answered);
            if call.agent == agent && call.client == AtClient::Dead && open {
                self.happens(Move::CloseNoticed(c));
            }
        }
    }

    pub(super) fn loses_stream(&mut self, agent: usize) {
        if let Some(stream) = self.agents[agent].stream.take() {
            self.post.detaches(agent, stream);
        }
    }

    /// What the client had not stored is lost.
    pub(super) fn drops(&mut self, agent: usize, to: AtClient) {
        for call in self.calls.iter_mut().filter(|c| c.agent == agent) {
            if matches!(call.client, AtClient::Waits | AtClient::Got | AtClient::Hooked) {
                call.client = to;
                if call.kind == Kind::Tool && call.hub == AtHub::Open {
                    call.hub = AtHub::Closed;
                }
            }
        }
    }

    pub(super) fn crashes(&mut self, agent: usize) {
        self.drops(agent, AtClient::Dead);
        let hooks = self.scenario.hooks;
        let me = &mut self.agents[agent];
        me.alive = false;
        me.batch += 1;
        me.idle = hooks.then_some(Idle::Cut);
    }

    pub(super) fn ends(&mut self, agent: usize, clean: bool) {
        // A client with hooks says with its stop that its model has finished.
        let finished = self.batch(agent).next().is_none() && !self.scenario.hooks;
        self.agents[agent].ended = true;
        self.crashes(agent);
        self.post.ends(agent, clean && finished);
    }

    pub(super) fn restarts(&mut self, clean: bool) {
        self.post.restarts(clean);
        for call in &mut self.calls {
            call.hub = match call.hub {
                AtHub::Open | AtHub::Answered => AtHub::Closed,
                AtHub::Written => AtHub::Forgotten,
                AtHub::Unwritten | AtHub::Closed | AtHub::Forgotten => call.hub,
            };
            if call.client == AtClient::Waits {
                call.client = AtClient::Gone;
            }
            call.cancel = false;
            call.answer = None;
        }
        self.agents.iter_mut().for_each(|a| a.shared = false);
    }
}
