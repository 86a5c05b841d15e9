//! The routes of CLI Agent Orchestrator (CAO), in its own words: a terminal is an
//! instance that the hub started, and a session is a name that terminals share.

pub mod inbox;
pub mod provider;
pub mod sessions;
pub mod steps;
pub mod terminals;

use crate::events::{EventView, EventsQuery};
use crate::openapi::{Who, call_table, get, of, pieces};

const TERMINAL: &str = "The terminal, which is an instance: 8 lower-case hex digits.";
const SESSION: &str =
    "The session: letters, digits, `_` and `-`. CAO's own names begin with `cao-`.";

call_table![
    EVENTS = get(
        "/events",
        "The events of `GET /v1/events`, under CAO's name",
        Who::Anybody,
        &[pieces("Events, one after the other.", "text/event-stream", of::<EventView>)],
    )
    .query(of::<EventsQuery>),
];
