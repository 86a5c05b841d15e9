//! What can happen next.

use super::{AtClient, AtHub, Call, Idle, Kind, World};
use crate::model::moves::{Fault, Move, Scenario, Stores};
use crate::model::post::Fate;

impl World {
    /// What can happen next; in a fair world nothing fails any more.
    pub(crate) fn moves(&self, fair: bool) -> Vec<Move> {
        let mut moves = Vec::new();
        for w in 0..self.agents.len() {
            self.agent_moves(w, fair, &mut moves);
        }
        for (c, call) in self.calls.iter().enumerate() {
            self.call_moves(c, call, fair, &mut moves);
        }
        if !self.post.is_flushed() {
            moves.push(Move::Flushes);
        }
        if self.to_come > 0 && (!fair || self.is_to_come()) {
            moves.push(Move::Arrives);
        }
        if self.faults > 0 && !fair {
            for kind in self.scenario.kinds {
                let over = match self.level(*kind) {
                    Level::Call => self.calls.len(),
                    Level::Agent => self.agents.len(),
                    Level::Hub => 1,
                    Level::Mail => self.truth.len(),
                };
                let possible = (0..over).filter(|which| self.can_go(*kind, *which));
                moves.extend(possible.map(|which| Move::Goes(*kind, which)));
            }
        }
        moves
    }

    pub(super) fn agent_moves(&self, w: usize, fair: bool, moves: &mut Vec<Move>) {
        let Scenario { hooks, tools, side, .. } = self.scenario;
        let agent = &self.agents[w];
        let (up, down) = (agent.alive && !agent.ended, !agent.alive && !agent.ended);
        let busy = up && agent.idle.is_none();
        let batch: Vec<&Call> = self.batch(w).collect();
        let waiting = self.waiting();
        let more = !fair && self.calls.len() < self.scenario.calls;
        let may_call = match fair {
            true => batch.is_empty() && (waiting || !hooks),
            false => batch.len() < side && more && (!hooks || self.has_room(&batch)),
        };
        if busy && may_call {
            moves.push(Move::Calls(w));
            if tools && !fair {
                moves.push(Move::RunsTool(w));
            }
        }
        let under_way = |c: &&Call| match c.client {
            AtClient::Waits => true,
            AtClient::Got | AtClient::Hooked => hooks,
            AtClient::Gone | AtClient::Stored | AtClient::Read | AtClient::Dead => false,
        };
        if busy && !batch.is_empty() && !batch.iter().any(under_way) {
            moves.push(Move::Reads(w));
        }
        if hooks && busy && batch.is_empty() && !(fair && waiting) {
            moves.push(Move::Stops(w));
            if waiting && more {
                moves.push(Move::StopRefused(w));
            }
        }
        let rests = agent.idle.is_some() && (waiting || !fair);
        if up && (rests || agent.idle == Some(Idle::Cut)) {
            moves.push(Move::Prompts(w));
            if waiting && more {
                moves.push(Move::PromptsWithMail(w));
            }
        }
        if down && agent.stream.is_some() {
            moves.push(Move::StreamCloses(w));
        }
        if down && (self.scenario.restarts || !fair) {
            moves.push(Move::Starts(w));
            if hooks && waiting && more {
                moves.push(Move::StartsWithMail(w));
            }
        }
    }

    /// With hooks a batch runs side by side, or one call after the other.
    pub(super) fn has_room(&self, batch: &[&Call]) -> bool {
        let side_by_side = batch.iter().all(|c| c.client == AtClient::Waits);
        let over = |c: &&Call| matches!(c.client, AtClient::Stored | AtClient::Gone);
        let one_by_one = batch.iter().all(over);
        batch.iter().all(|c| c.kind != Kind::Prompt)
            && (self.scenario.late || side_by_side || one_by_one)
    }

    pub(super) fn call_moves(&self, c: usize, call: &Call, fair: bool, moves: &mut Vec<Move>) {
        let waits = call.client == AtClient::Waits;
        let dead = call.client == AtClient::Dead;
        if call.kind == Kind::Hub && call.hub == AtHub::Open && !(fair && dead) {
            moves.push(Move::Answers(c));
        }
        if call.hub == AtHub::Answered {
            moves.push(Move::Writes(c));
        }
        if dead && matches!(call.hub, AtHub::Open | AtHub::Answered) {
            moves.push(Move::CloseNoticed(c));
        }
        let answered = matches!(call.hub, AtHub::Written | AtHub::Closed);
        if waits && (call.kind == Kind::Tool || answered) {
            moves.push(Move::Gets(c));
        }
        if self.scenario.hooks && call.client == AtClient::Got {
            moves.push(Move::Hook(c));
        }
        if call.client == AtClient::Hooked && self.scenario.stores == Stores::Sometime {
            moves.push(Move::Stores(c));
        }
        if call.cancel {
            moves.push(Move::CancelArrives(c));
        } else if call.answer.is_some_and(|id| self.post.is_in_grace(id))
            // An answer is taken or dropped before the grace ends.
            && !(waits && self.scenario.is_strict() && !self.scenario.hooks)
        {
            moves.push(Move::GraceEnds(c));
        }
    }

    pub(super) fn level(&self, fault: Fault) -> Level {
        match fault {
            Fault::ClosedBeforeWritten
            | Fault::TimeoutAndCancel
            | Fault::SilentDrop
            | Fault::AtTheEdge
            | Fault::JustInTime
            | Fault::Repeat
            | Fault::ToolFails
            | Fault::CallFails
            | Fault::Receipt
            | Fault::Reply
            | Fault::Nack => Level::Call,
            Fault::Interrupt
            | Fault::Escape
            | Fault::PromptInTurn
            | Fault::ClientCrash
            | Fault::ExtraBeginning
            | Fault::StartWithoutBeginning
            | Fault::CleanEnd
            | Fault::UncleanEnd
            | Fault::Lost => Level::Agent,
            Fault::Kill | Fault::CleanRestart | Fault::DiskFull => Level::Hub,
            Fault::Expiry | Fault::OperatorCancel => Level::Mail,
        }
    }

    pub(super) fn can_go(&self, fault: Fault, which: usize) -> bool {
        let call = || &self.calls[which];
        let waits = || call().client == AtClient::Waits;
        let waits_for_hub = || waits() && call().kind == Kind::Hub;
        let read = || call().client == AtClient::Read && !call().given.mail.is_empty();
        let agent = || &self.agents[which];
        let up = || agent().alive && !agent().ended;
        let in_turn = || up() && agent().idle.is_none();
        match fault {
            Fault::ClosedBeforeWritten => {
                waits_for_hub() && matches!(call().hub, AtHub::Open | AtHub::Answered)
            }
            Fault::Repeat => {
                let late = call().hub == AtHub::Written;
                waits_for_hub() && (late || self.scenario.busy && call().hub != AtHub::Closed)
            }
            Fault::TimeoutAndCancel | Fault::SilentDrop => waits_for_hub(),
            Fault::AtTheEdge | Fault::JustInTime => waits_for_hub() && call().hub == AtHub::Open,
            Fault::ToolFails => waits() && call().kind == Kind::Tool,
            Fault::CallFails => waits_for_hub() && self.scenario.hooks,
            Fault::Receipt | Fault::Reply | Fault::Nack => {
                read() && !self.agents[call().agent].ended
            }
            Fault::Escape => in_turn() && self.batch(which).next().is_some(),
            Fault::PromptInTurn => in_turn(),
            Fault::ClientCrash | Fault::ExtraBeginning | Fault::UncleanEnd => up(),
            Fault::StartWithoutBeginning => !agent().alive && !agent().ended,
            Fault::CleanEnd => up() && self.calls.iter().all(|c| !c.cancel),
            Fault::Interrupt => {
                let of = |c: &Call| c.agent == which && c.client == AtClient::Waits;
                up() && self.calls.iter().any(of)
            }
            Fault::Lost => !agent().ended && !self.post.held_by(which).is_empty(),
            Fault::Kill | Fault::CleanRestart => true,
            Fault::DiskFull => !self.post.is_flushed(),
            Fault::Expiry | Fault::OperatorCancel => {
                matches!(self.post.fate(which), Fate::Queued { .. }) && self.post.is_flushed()
            }
        }
    }
}

/// What a fault befalls.
pub(super) enum Level {
    Call,
    Agent,
    Hub,
    Mail,
}
