//! The road of a message.
//!
//! ```text
//! send          decide, commit                put             deliver                      settle
//! ────▶ Draft ────▶ Message + deliveries ────▶ tickets ────▶ Queue::listen, Engine::lease ────▶ Engine::ack, nack
//! door          send.rs, Engine::append       Queue::put      receive.rs                   settle.rs
//! ```
//!
//! An accepted message is delivered, and the hub never claims "delivered" before it is
//! true: reading leases, and only proof acks. [`delivery`] has the state changes of one
//! delivery, [`proof`] decides what a reader's behaviour proves.

mod body;
pub mod clients;
mod columns;
pub mod delivery;
pub mod desk;
mod draft;
pub mod id_key;
mod identifiers;
pub mod message;
pub mod proof;
pub mod receive;
pub(crate) mod refused_answers;
pub mod send;
pub mod settle;
mod suggestion;
