//! How clients start, and what the hub hears of it.

use posthaste_core::messaging::proof::{Hello, Moment, Process, Scope};

use super::{Agent, AtClient, AtHub, Call, Idle, Kind, World};
use crate::model::moves::{Connects, Move};

impl World {
    /// An agent is there from the beginning, or has not started yet.
    pub(super) fn places(&mut self, n: usize) {
        let unstarted = self.scenario.unstarted || self.is_second(n);
        self.agents.push(Agent {
            alive: false,
            ended: false,
            batch: 0,
            idle: self.scenario.unstarted.then_some(Idle::Cut),
            calls: 0,
            shared: false,
            stream: None,
            bridge: String::new(),
        });
        match self.scenario.connects {
            Connects::Plainly => {
                if self.scenario.hooks && !unstarted {
                    self.post.hooks(n, Moment::SessionStart);
                }
                self.agents[n].stream = self.attaches(n);
                self.agents[n].alive = !unstarted;
            }
            _ if unstarted => {}
            _ => self.starts(n),
        }
    }

    /// A second process of a conversation joins the first one later.
    fn is_second(&self, n: usize) -> bool {
        self.scenario.connects == Connects::InConversation && n > 0
    }

    /// Streams matter where a message can go to another reader.
    fn attaches(&mut self, agent: usize) -> Option<u64> {
        (self.scenario.one_of && !self.scenario.restarts).then(|| self.post.attaches(agent))
    }

    pub(super) fn starts(&mut self, agent: usize) {
        self.loses_stream(agent);
        if self.scenario.hooks {
            self.is_noticed_dead(agent);
        }
        let stream = match self.scenario.connects {
            Connects::Plainly => {
                self.begins(agent);
                self.attaches(agent)
            }
            Connects::OverHttp => {
                self.may_share(agent);
                let process = Connects::OverHttp.process("");
                self.post.meets(agent, process, Some(Hello::Discover));
                let stream = self.post.attaches(agent);
                self.post.meets(agent, process, Some(Hello::Initialize));
                Some(stream)
            }
            Connects::ByBridge => {
                self.may_share(agent);
                self.meets_bridge(agent);
                None
            }
            // Both processes are one reader: neither shares it with anybody.
            Connects::InConversation => {
                self.meets_bridge(agent);
                Some(self.post.attaches(agent))
            }
        };
        let agent = &mut self.agents[agent];
        (agent.alive, agent.calls, agent.stream) = (true, 0, stream);
    }

    /// A new bridge carries the first request of a process.
    fn meets_bridge(&mut self, agent: usize) {
        self.agents[agent].bridge = format!("bridge {agent}.{}", self.faults);
        let process = self.scenario.connects.process(&self.agents[agent].bridge);
        self.post.meets(agent, process, None);
    }

    /// The session or the driver of an agent begins.
    fn begins(&mut self, agent: usize) {
        self.may_share(agent);
        match self.scenario.hooks {
            true => {
                self.post.hooks(agent, Moment::SessionStart);
            }
            false => self.post.begins(agent, Scope::All),
        }
    }

    /// Another window with the same identity opens, and its bridge says so.
    pub(super) fn opens_window(&mut self, agent: usize) {
        self.may_share(agent);
        let bridge = format!("window {}", self.faults);
        self.post.meets(agent, Process { bridge: Some(&bridge), ..Process::default() }, None);
    }

    /// A beginning while a call waits: two processes seem to use the identity. As far as
    /// the hub knows, an answer without mail has not left before it is written.
    fn may_share(&mut self, agent: usize) {
        let twins = self.scenario.twins;
        let waits = |c: &Call| match c.hub {
            AtHub::Open => c.kind == Kind::Hub,
            AtHub::Answered => c.given.mail.is_empty(),
            AtHub::Written | AtHub::Unwritten | AtHub::Closed | AtHub::Forgotten => false,
        };
        let alive = self.calls.iter().any(|c| (c.agent == agent || twins) && waits(c));
        for (n, one) in self.agents.iter_mut().enumerate() {
            one.shared |= alive && (n == agent || twins);
        }
    }

    /// The connections of a dead process close before its successor runs a hook.
    fn is_noticed_dead(&mut self, agent: usize) {
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
}
