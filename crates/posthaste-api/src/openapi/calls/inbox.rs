//! `/v1/inbox`.

use super::super::{Call, Who, of};
use super::{call, json};
use crate::error::ErrorCode::{LeaseLost, NotFound};
use crate::inbox::{Acked, Inbox, InboxQuery, Returned, SettleRequest};

pub(super) const CALLS: &[Call] = &[
    call(
        "GET",
        "/v1/inbox",
        "Wait for mail; leases it until its receipt comes back",
        Who::Anybody,
        &[json(200, "What arrived, and what is still missing.", of::<Inbox<'static>>)],
    )
    .query(of::<InboxQuery>),
    call(
        "POST",
        "/v1/inbox/ack",
        "Prove that mail arrived",
        Who::Anybody,
        &[json(200, "Settled.", of::<Acked>)],
    )
    .body(of::<SettleRequest>)
    .fails(&[NotFound, LeaseLost]),
    call(
        "POST",
        "/v1/inbox/nack",
        "Refuse mail: it comes again, and dies the fifth time",
        Who::Anybody,
        &[json(200, "Returned.", of::<Returned>)],
    )
    .body(of::<SettleRequest>)
    .fails(&[NotFound, LeaseLost]),
];
