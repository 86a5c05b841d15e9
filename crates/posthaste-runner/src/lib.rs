//! The built-in assistant: its conversation and its loop.
//!
//! It speaks JSON-RPC on stdio and knows no hub, no key and no network. Start with
//! [`protocol`], the words that it shares with the hub; `docs/reference/runner.md` explains
//! them.

pub mod protocol;
