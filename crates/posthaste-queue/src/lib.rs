//! Carries: the `Queue` port.
//!
//! A queue holds no mail, only the fact that some arrived. What it loses, a look
//! into the store finds; anything that must survive a crash belongs there.
//!
//! [`LocalQueue`] is the whole idea in one process: a bell for everyone who waits.

mod local;

pub use local::LocalQueue;
