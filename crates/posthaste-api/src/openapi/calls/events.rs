//! `/v1/events`.

use super::super::{Answer, Call, Who, of};
use super::call;
use crate::error::ErrorCode::{InvalidAddress, RateLimited};
use crate::events::{EventView, EventsQuery};

pub(super) const CALLS: &[Call] = &[call(
    "GET",
    "/v1/events",
    "Follow what happens, as server-sent events",
    Who::Anybody,
    &[Answer {
        status: 200,
        what: "A stream that does not end; the data of each event has this shape. What else is sent stands in the table of events.",
        media: "text/event-stream",
        shape: Some(of::<EventView>),
    }],
)
.query(of::<EventsQuery>)
.fails(&[InvalidAddress, RateLimited])];
