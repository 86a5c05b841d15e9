//! The road of a message.
//!
//! ```text
//! send          check, store                  put             deliver                     settle
//! ────▶ Draft ────▶ Message + deliveries ────▶ tickets ────▶ Queue::listen, Store::lease ────▶ Store::ack, nack
//! door          send.rs, Store::append        Queue::put      receive.rs                   settle.rs
//! ```
//!
//! A message that was accepted is delivered, and "delivered" is never claimed
//! before it is true: reading leases, and only proof acks. [`delivery`] knows the
//! moves of one delivery, [`proof`] what a reader's behaviour proves.

mod body;
pub mod clients;
mod columns;
pub mod delivery;
pub mod desk;
mod draft;
mod identifiers;
pub mod ids;
pub mod message;
pub mod proof;
pub mod receive;
pub(crate) mod refused_answers;
pub mod send;
pub mod settle;
mod suggestion;
