//! Calls and hooks of a client, and what its model reads.

use std::time::Duration;

use posthaste_core::messaging::proof::{Call as HubCall, Door, Hook, Moment};

use super::{AtClient, AtHub, Call, Kind, OTHER, OURS, World};
use crate::model::moves::Stores;
use crate::model::post::{Fate, Given};

impl World {
    pub(super) fn calls_anew(&mut self, agent: usize, kind: Kind, repeats: Option<usize>) {
        let me = &mut self.agents[agent];
        let name = match repeats {
            Some(first) => self.calls[first].name.clone(),
            None => {
                me.calls += 1;
                me.calls.to_string()
            }
        };
        let (receipt, batch) = (self.calls.len() as u64 + 1, me.batch);
        if self.scenario.before && repeats.is_none() {
            let tool = if kind == Kind::Hub { OURS } else { OTHER };
            self.hook_of(agent, Moment::BeforeTool, tool, &name, false);
        }
        let running = (kind == Kind::Hub).then(|| {
            let call = HubCall {
                client: self.client(),
                process: self.scenario.connects.process(&self.agents[agent].bridge),
                request: Some(&name),
                call_id: self.scenario.hooks.then_some(&name),
                tool: "check_inbox",
                ..HubCall::through(Door::Mcp)
            };
            self.post.opens_call(agent, &call, receipt)
        });
        self.calls.push(Call {
            agent,
            kind,
            batch,
            name,
            answer: running.as_ref().map(|running| running.id),
            running,
            receipt,
            hub: AtHub::Open,
            client: AtClient::Waits,
            failed: false,
            given: Given::default(),
            cancel: false,
        });
    }

    pub(super) fn hook_of(
        &mut self,
        agent: usize,
        moment: Moment,
        tool: &str,
        call: &str,
        failed: bool,
    ) -> bool {
        let hook = Hook { tool, call, failed, ..Hook::new(moment, self.client()) };
        self.post.hook(agent, &hook)
    }

    /// The hook after a tool call, of the hub's own tool or of another.
    pub(super) fn hook(&mut self, c: usize) {
        let Call { agent, kind, failed, .. } = self.calls[c];
        let name = self.calls[c].name.clone();
        let tool = if kind == Kind::Hub { OURS } else { OTHER };
        let carries = self.hook_of(agent, Moment::AfterTool, tool, &name, failed);
        if kind == Kind::Hub {
            let call = &mut self.calls[c];
            call.client = if failed { AtClient::Gone } else { AtClient::Hooked };
        } else {
            let mut carried = false;
            if carries && self.waiting() {
                self.take(c);
                carried = !self.calls[c].given.mail.is_empty();
            }
            let call = &mut self.calls[c];
            if !carried {
                call.hub = AtHub::Closed;
            }
            // Some clients drop what a hook adds to a failed tool.
            call.client = if carried && failed { AtClient::Gone } else { AtClient::Hooked };
        }
        self.store_at_once(agent);
    }

    /// A prompt's or a refused stop's hook brings mail, and the turn goes on.
    pub(super) fn carries(&mut self, agent: usize, moment: Moment) {
        self.post.hooks(agent, moment);
        self.agents[agent].idle = None;
        self.brings(agent);
    }

    /// The hook that has just run takes the mail that waits.
    pub(super) fn brings(&mut self, agent: usize) {
        self.calls.push(Call {
            agent,
            kind: Kind::Prompt,
            batch: self.agents[agent].batch,
            name: String::new(),
            answer: None,
            running: None,
            receipt: self.calls.len() as u64 + 1,
            hub: AtHub::Open,
            client: AtClient::Hooked,
            failed: false,
            given: Given::default(),
            cancel: false,
        });
        self.take(self.calls.len() - 1);
        self.store_at_once(agent);
    }

    /// A hook's answer takes the mail that waits.
    pub(super) fn take(&mut self, c: usize) {
        let (agent, receipt) = (self.calls[c].agent, self.calls[c].receipt);
        let (running, given) = self.post.carries(agent, receipt);
        self.calls[c].answer = Some(running.id);
        self.calls[c].hub = AtHub::Written;
        self.gives(c, given);
    }

    /// Programs that store at once do so as far as their order allows.
    pub(super) fn store_at_once(&mut self, agent: usize) {
        let batch = self.agents[agent].batch;
        let over = |c: &Call| !matches!(c.client, AtClient::Waits | AtClient::Got);
        let mine: Vec<usize> = (0..self.calls.len())
            .filter(|c| self.calls[*c].agent == agent && self.calls[*c].batch == batch)
            .collect();
        let whole = mine.iter().all(|c| over(&self.calls[*c]));
        for c in mine {
            match self.scenario.stores {
                Stores::Sometime => return,
                Stores::InOrder if !over(&self.calls[c]) => return,
                Stores::Whole if !whole => return,
                Stores::InOrder | Stores::Whole => {}
            }
            if self.calls[c].client == AtClient::Hooked {
                self.calls[c].client = AtClient::Stored;
            }
        }
    }

    /// The hub answers a call so long after it began.
    pub(super) fn answers(&mut self, c: usize, waited: Duration) {
        let agent = self.calls[c].agent;
        let Some(running) = self.calls[c].running.clone() else { return };
        let given = self.post.answers_after(agent, &running, waited);
        self.calls[c].hub = AtHub::Answered;
        self.gives(c, given);
    }

    pub(super) fn gives(&mut self, c: usize, given: Given) {
        for (mail, _) in &given.mail {
            self.truth[*mail].handed_in = Some(c);
        }
        for mail in &given.settled {
            if !matches!(self.post.fate(*mail), Fate::Acked(_)) {
                self.fails(format!("I4 message {mail} was told to be acked and is not"));
            }
        }
        self.calls[c].given = given;
    }

    /// The model takes the results of its calls, and its next batch begins.
    pub(super) fn reads(&mut self, agent: usize) {
        let readable = if self.scenario.hooks { AtClient::Stored } else { AtClient::Got };
        for c in 0..self.calls.len() {
            let call = &mut self.calls[c];
            if call.agent != agent || call.client != readable {
                continue;
            }
            call.client = AtClient::Read;
            let given = call.given.clone();
            for (mail, marked) in given.mail {
                let truth = &mut self.truth[mail];
                truth.seen = (truth.seen + 1).min(2);
                truth.plain += usize::from(!marked);
                if truth.plain > 1 {
                    self.fails(format!("I2 message {mail} is read twice unmarked"));
                }
            }
            for mail in given.settled {
                self.truth[mail].told = true;
            }
        }
        self.agents[agent].batch += 1;
    }
}
