//! The table of calls, one file per subject.

use super::{Answer, Call, RequestBody, Shape, Who};
use crate::error::ErrorCode;

mod cao;
mod events;
mod hooks;
mod hub;
mod inbox;
mod instances;
mod messages;
mod profiles;
mod stats;
mod teams;
mod work;

/// The subject that a hub without `compat.cao` does not have.
pub(super) const CAO: &str = "CAO";

/// Calls that belong together.
#[derive(Clone, Copy)]
pub struct Subject {
    pub name: &'static str,
    pub told: &'static str,
    pub calls: &'static [Call],
}

/// Every call, in the order in which somebody who writes a client meets them.
pub fn calls() -> impl Iterator<Item = &'static Call> {
    SUBJECTS.iter().flat_map(|subject| subject.calls)
}

pub fn subjects() -> &'static [Subject] {
    SUBJECTS
}

const SUBJECTS: &[Subject] = &[
    Subject {
        name: "Messages",
        told: "Sending messages, and looking them up. Looking up an unread message leaves it unread.",
        calls: messages::CALLS,
    },
    Subject {
        name: "Inbox",
        told: "Receiving: a read leases the mail, and the receipt of the answer proves that it arrived.",
        calls: inbox::CALLS,
    },
    Subject {
        name: "Agents",
        told: "Who is here: joining, creating, listing and stopping instances.",
        calls: instances::CALLS,
    },
    Subject {
        name: "Work",
        told: "Starting workers and waiting for their reports.",
        calls: work::CALLS,
    },
    Subject { name: "Teams", told: "Address scopes with leaders.", calls: teams::CALLS },
    Subject {
        name: "Profiles",
        told: "Templates of agents: who could be here.",
        calls: profiles::CALLS,
    },
    Subject { name: "Events", told: "What happens, as it happens.", calls: events::CALLS },
    Subject {
        name: "Statistics",
        told: "Counts, and mail that does not move. The operator sees all, an agent its own.",
        calls: stats::CALLS,
    },
    Subject {
        name: "Hooks",
        told: "Mail at the boundaries of an agent program's work; `posthaste hook` calls this.",
        calls: hooks::CALLS,
    },
    Subject {
        name: "Hub",
        told: "The hub itself: whether it is here, its figures, and this document.",
        calls: hub::CALLS,
    },
    Subject {
        name: CAO,
        told: "The inbox routes of CLI Agent Orchestrator, over the same mailboxes; a terminal is an instance. A hub with `compat.cao = false` does not have them.",
        calls: cao::CALLS,
    },
];

const JSON: &str = "application/json";

const fn call(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    who: Who,
    answers: &'static [Answer],
) -> Call {
    Call { method, path, summary, who, part: None, query: None, body: None, answers, errors: &[] }
}

impl Call {
    /// Says what the variable part of the path names.
    const fn part(mut self, told: &'static str) -> Self {
        self.part = Some(told);
        self
    }

    const fn query(mut self, shape: Shape) -> Self {
        self.query = Some(shape);
        self
    }

    const fn body(mut self, shape: Shape) -> Self {
        self.body = Some(RequestBody { shape, required: true });
        self
    }

    const fn optional_body(mut self, shape: Shape) -> Self {
        self.body = Some(RequestBody { shape, required: false });
        self
    }

    /// Adds errors to those that every call of this form can answer with.
    const fn fails(mut self, errors: &'static [ErrorCode]) -> Self {
        self.errors = errors;
        self
    }
}

const fn json(status: u16, what: &'static str, shape: Shape) -> Answer {
    Answer { status, what, media: JSON, shape: Some(shape) }
}

const fn other(status: u16, what: &'static str, media: &'static str) -> Answer {
    Answer { status, what, media, shape: None }
}
