//! The inbox routes of CLI Agent Orchestrator.

use super::super::{Call, Who, of};
use super::{call, json};
use crate::cao::{CaoList, CaoMessage, CaoPost, CaoPosted, CaoReceived, CaoWait};
use crate::error::ErrorCode::{MailboxFull, NoRecipient, NotFound, RateLimited, RecipientGone};

const TERMINAL: &str = "The terminal, which is an instance: 8 lower-case hex digits.";

pub(super) const CALLS: &[Call] = &[
    call(
        "POST",
        "/terminals/{id}/inbox/messages",
        "Write to a terminal; the words stand in the query or in the body",
        Who::Anybody,
        &[json(200, "Accepted: it is on disk.", of::<CaoPosted>)],
    )
    .part(TERMINAL)
    .query(of::<CaoPost>)
    .optional_body(of::<CaoPost>)
    .fails(&[NoRecipient, NotFound, RecipientGone, MailboxFull, RateLimited]),
    call(
        "GET",
        "/terminals/{id}/inbox/messages",
        "What a terminal was sent; never consumes",
        Who::Anybody,
        &[json(200, "The newest, oldest first.", of::<Vec<CaoMessage>>)],
    )
    .part(TERMINAL)
    .query(of::<CaoList>)
    .fails(&[NotFound]),
    call(
        "GET",
        "/terminals/{id}/inbox/messages/wait",
        "Wait for mail of a terminal; it counts as read once the answer is written",
        Who::Anybody,
        &[json(200, "What arrived; an empty list when the time is over.", of::<Vec<CaoReceived>>)],
    )
    .part(TERMINAL)
    .query(of::<CaoWait>)
    .fails(&[NotFound]),
];
