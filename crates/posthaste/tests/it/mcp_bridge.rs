//! `posthaste mcp`: the real bridge between a client of stdio and the real hub.

pub(crate) mod agent;
mod cancel;
mod chaos;
mod continuity;
pub(crate) mod ear;
mod eras;
mod identity;
mod mail;
mod restart;
mod rough;
mod starting;
mod streams;
