//! The MCP door.

mod agent;
mod clients;
mod dialects;
mod piggyback;
mod proof;
mod protocol;
mod tools;
mod waiting;
