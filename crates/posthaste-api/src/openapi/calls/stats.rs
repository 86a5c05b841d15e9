//! `/v1/stats`.

use super::super::{Call, Who, of};
use super::{call, json};
use crate::stats::{AgentsStats, MailboxStats, Stuck, TeamsStats};

pub(super) const CALLS: &[Call] = &[
    call(
        "GET",
        "/v1/stats/mailboxes",
        "What lies in the mailboxes",
        Who::Anybody,
        &[json(200, "One entry for each mailbox.", of::<Vec<MailboxStats>>)],
    ),
    call(
        "GET",
        "/v1/stats/agents",
        "Figures by agent",
        Who::Anybody,
        &[json(200, "One entry for each agent.", of::<AgentsStats>)],
    ),
    call(
        "GET",
        "/v1/stats/teams",
        "Figures by team",
        Who::Anybody,
        &[json(200, "One entry for each team.", of::<TeamsStats>)],
    ),
    call(
        "GET",
        "/v1/stats/stuck",
        "Mail that does not move, why, and what to do",
        Who::Anybody,
        &[json(200, "Oldest first.", of::<Vec<Stuck>>)],
    ),
];
