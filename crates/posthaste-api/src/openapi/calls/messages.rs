//! `/v1/messages`, `/v1/threads` and `/v1/export`.

use super::super::{Answer, Call, Who, of};
use super::{call, json};
use crate::error::ErrorCode::{
    Conflict, HopLimit, InvalidAddress, InvalidArgument, KeyReused, MailboxFull, NoRecipient,
    NotFound, RateLimited, RecipientGone,
};
use crate::messages::{
    ExportQuery, History, HistoryQuery, MessageView, ReadQuery, Receipt, SendMany, SendRequest,
};
use crate::threads::{ThreadMessages, ThreadQuery};
use crate::trail::TrailView;

const MESSAGE: &str = "The message: its number (`seq`) or its 16-digit `id`.";

pub(super) const CALLS: &[Call] = &[
    call(
        "POST",
        "/v1/messages",
        "Send a message",
        Who::Anybody,
        &[
            json(201, "Accepted: it is on disk.", of::<Receipt>),
            json(207, "One answer for each address of a list, in order.", of::<SendMany>),
        ],
    )
    .body(of::<SendRequest>)
    .fails(&[
        NoRecipient,
        NotFound,
        KeyReused,
        RecipientGone,
        InvalidAddress,
        MailboxFull,
        RateLimited,
        HopLimit,
    ]),
    call(
        "GET",
        "/v1/messages",
        "History; never consumes",
        Who::Anybody,
        &[json(200, "Oldest first.", of::<History>)],
    )
    .query(of::<HistoryQuery>)
    .fails(&[NotFound, InvalidAddress]),
    call(
        "GET",
        "/v1/messages/{id}",
        "One message, by number or id",
        Who::Anybody,
        &[json(200, "With where each delivery stands.", of::<MessageView>)],
    )
    .part(MESSAGE)
    .query(of::<ReadQuery>)
    .fails(&[NotFound]),
    call(
        "GET",
        "/v1/messages/{id}/trail",
        "What happened to a message, and why",
        Who::Anybody,
        &[json(200, "In order of time, with a verdict.", of::<TrailView>)],
    )
    .part(MESSAGE)
    .fails(&[NotFound, InvalidArgument]),
    call(
        "POST",
        "/v1/messages/{id}/cancel",
        "Take back what nobody has read",
        Who::Anybody,
        &[json(200, "As it is now.", of::<MessageView>)],
    )
    .part(MESSAGE)
    .fails(&[NotFound, Conflict, InvalidArgument]),
    call(
        "POST",
        "/v1/messages/{id}/requeue",
        "Give the dead another chance",
        Who::Anybody,
        &[json(200, "As it is now.", of::<MessageView>)],
    )
    .part(MESSAGE)
    .fails(&[NotFound, Conflict, InvalidArgument]),
    call(
        "GET",
        "/v1/threads/{id}/messages",
        "Read a conversation, and mark it as read on request",
        Who::Anybody,
        &[json(200, "Oldest first.", of::<ThreadMessages>)],
    )
    .part("The thread: `t-` and 8 hex digits.")
    .query(of::<ThreadQuery>),
    call(
        "GET",
        "/v1/export",
        "Every message with its deliveries, as lines of JSON",
        Who::Operator,
        &[Answer {
            status: 200,
            what: "Each line has this shape.",
            media: "application/x-ndjson",
            shape: Some(of::<MessageView>),
        }],
    )
    .query(of::<ExportQuery>),
];
