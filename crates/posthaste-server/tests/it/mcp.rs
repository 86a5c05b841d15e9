//! The MCP door.

pub(crate) mod agent;
mod answers;
mod clients;
mod conversation;
mod dialects;
mod guidance;
mod oddities;
mod piggyback;
mod prefixes;
mod proof;
mod protocol;
mod tools;
mod totals;
mod waiting;
mod work;
