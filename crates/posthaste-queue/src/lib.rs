//! Implements the `Queue` port, which wakes waiting readers.
//!
//! A queue holds no messages, only tickets. A reader that looks into its mailboxes finds
//! whatever a lost ticket announced; anything that must survive a crash belongs in the
//! store.
//!
//! [`LocalQueue`] is the queue of one process: a bell for every reader that waits.

mod local;

pub use local::LocalQueue;
