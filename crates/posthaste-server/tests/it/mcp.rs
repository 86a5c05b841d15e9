//! The MCP door.

pub(crate) mod agent;
mod answers;
mod clients;
mod dialects;
mod piggyback;
mod proof;
mod protocol;
mod tools;
mod waiting;
mod work;
