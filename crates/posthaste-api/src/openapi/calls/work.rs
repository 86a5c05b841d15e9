//! `/v1/assign`, `/v1/handoff` and `/v1/context`.

use super::super::{Call, Who, of};
use super::{call, json};
use crate::error::ErrorCode::{
    self, CannotStart, Conflict, InvalidAddress, KeyReused, LineFull, MailboxFull, NotFound,
    RateLimited,
};
use crate::work::{AssignRequest, Assigned, ContextView, HandedOff, HandoffRequest};

const NOBODY_HAS_IT: &[ErrorCode] = &[
    NotFound,
    KeyReused,
    Conflict,
    InvalidAddress,
    MailboxFull,
    RateLimited,
    CannotStart,
    LineFull,
];

pub(super) const CALLS: &[Call] = &[
    call(
        "POST",
        "/v1/assign",
        "Give an agent work and go on; its report comes by mail",
        Who::Anybody,
        &[json(201, "Who has the work.", of::<Assigned>)],
    )
    .body(of::<AssignRequest>)
    .fails(NOBODY_HAS_IT),
    call(
        "POST",
        "/v1/handoff",
        "Give an agent work and wait for its report; a job if that takes longer",
        Who::Anybody,
        &[json(200, "The report, leased until its receipt comes back; or a job.", of::<HandedOff>)],
    )
    .body(of::<HandoffRequest>)
    .fails(NOBODY_HAS_IT),
    call(
        "GET",
        "/v1/context",
        "Who works for the caller, and what waits: as a prompt and as data",
        Who::Anybody,
        &[json(200, "As it is now.", of::<ContextView>)],
    ),
];
