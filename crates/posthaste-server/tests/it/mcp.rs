//! The MCP door.

pub(crate) mod agent;
mod answers;
mod clients;
mod dialects;
mod oddities;
mod piggyback;
mod proof;
mod protocol;
mod tools;
mod waiting;
mod work;
