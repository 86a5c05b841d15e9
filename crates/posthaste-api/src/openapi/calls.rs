//! The table of subjects, each with the calls of its files.

use super::Call;
use crate::{
    cao, chat, events, health, hooks, inbox, instances, messages, needs, pages, profiles, stats,
    stream, teams, terminal, threads, tokens, trail, work,
};

/// The subject that a hub without `compat.cao` does not have.
pub(super) const CAO: &str = "CAO";

/// Calls that belong together.
#[derive(Clone, Copy)]
pub struct Subject {
    pub name: &'static str,
    pub told: &'static str,
    files: &'static [&'static [Call]],
}

impl Subject {
    pub fn calls(&self) -> impl Iterator<Item = &'static Call> + use<> {
        self.files.iter().copied().flatten()
    }
}

/// Every call, in the order in which somebody who writes a client meets them.
pub fn calls() -> impl Iterator<Item = &'static Call> {
    SUBJECTS.iter().flat_map(Subject::calls)
}

pub fn subjects() -> &'static [Subject] {
    SUBJECTS
}

const SUBJECTS: &[Subject] = &[
    Subject {
        name: "Messages",
        told: "Sending messages, and looking them up. Looking up an unread message leaves it unread.",
        files: &[messages::CALLS, trail::CALLS, threads::CALLS],
    },
    Subject {
        name: "Inbox",
        told: "Receiving: a read leases the mail, and the receipt of the answer proves that it arrived.",
        files: &[inbox::CALLS],
    },
    Subject {
        name: "Agents",
        told: "Who is here: joining, creating, listing and stopping instances.",
        files: &[instances::CALLS],
    },
    Subject {
        name: "Work",
        told: "Starting workers and waiting for their reports.",
        files: &[work::CALLS, stream::CALLS, terminal::CALLS],
    },
    Subject {
        name: "Chat",
        told: "The operator's conversation with one agent. Live it is on the topic `thread:{id}` of the events.",
        files: &[chat::CALLS],
    },
    Subject {
        name: "Needs",
        told: "What waits for the operator: questions, permission requests, failed workers, dead mail.",
        files: &[needs::CALLS],
    },
    Subject { name: "Teams", told: "Address scopes with leaders.", files: &[teams::CALLS] },
    Subject {
        name: "Profiles",
        told: "Templates of agents: who could be here.",
        files: &[profiles::CALLS],
    },
    Subject { name: "Events", told: "What happens, as it happens.", files: &[events::CALLS] },
    Subject {
        name: "Statistics",
        told: "Counts, and mail that does not move. The operator sees all, an agent its own.",
        files: &[stats::CALLS],
    },
    Subject {
        name: "Hooks",
        told: "Mail at the boundaries of an agent program's work; `posthaste hook` calls this.",
        files: &[hooks::CALLS],
    },
    Subject {
        name: "Hub",
        told: "The hub itself: whether it is here, its figures, and this document.",
        files: &[pages::CALLS, health::CALLS, tokens::CALLS],
    },
    Subject {
        name: CAO,
        told: "The routes of CLI Agent Orchestrator, over the same mailboxes; a terminal is an instance. A hub with `compat.cao = false` does not have them. Errors have a `detail` beside `error`, which is CAO's form.",
        files: &[
            cao::sessions::CALLS,
            cao::terminals::CALLS,
            cao::inbox::CALLS,
            cao::steps::CALLS,
            cao::CALLS,
        ],
    },
];
