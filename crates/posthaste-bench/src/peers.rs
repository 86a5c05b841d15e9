//! Other systems on the same work, started by this program and ended by it.
//!
//! A peer is a file that starts its server on the server's core, in a scratch
//! folder, with the durability that the hub has: what is acknowledged is flushed.
//! Its clients must be as cheap as those of the hub, for they share the load's core.

pub(crate) mod amqp;
pub(crate) mod rabbit;
