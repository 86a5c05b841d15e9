//! Reads rows.

pub(crate) mod delivery;
pub(crate) mod message;
pub(crate) mod meta;
pub(crate) mod record;
mod table;

use posthaste_core::messaging::message::Principal;

pub(crate) use self::table::{Cells, Table};

/// Reads a principal.
pub(crate) fn principal(text: &str) -> Option<Principal> {
    match text {
        "human" => Some(Principal::Operator),
        id => id.parse().ok().map(Principal::Instance),
    }
}
