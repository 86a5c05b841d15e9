//! The contract: what travels between the hub and its clients over REST.
//!
//! Wire types, the one table of error codes, and a typed client. The server and
//! every client use the same types, so they cannot drift apart; a change inside
//! the core is not a change of the API.
//!
//! Start with [`messages`] and [`inbox`]; [`error`] is the table.

pub mod cao;
pub mod chat;
pub mod client;
mod convert;
pub mod error;
pub mod events;
pub mod health;
pub mod hooks;
pub mod http;
pub mod inbox;
pub mod instances;
mod json;
pub mod messages;
pub mod needs;
pub mod openapi;
pub mod pages;
pub mod profiles;
pub mod sse;
pub mod stats;
pub mod stream;
mod taken;
pub mod teams;
pub mod terminal;
pub mod threads;
pub mod tokens;
pub mod trail;
mod wire;
pub mod work;

pub use client::Client;
pub use error::{ApiError, ErrorCode};
