//! What goes wrong.

use std::time::Duration;

use posthaste_core::messaging::proof::Moment;

use super::{AtClient, AtHub, Idle, Kind, World};
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
            Fault::ExtraBeginning => self.opens_window(which),
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
