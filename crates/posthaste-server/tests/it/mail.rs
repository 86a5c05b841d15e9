//! Mail over REST: what a sender is told, what a reader gets, what proves it.

mod history;
mod receiving;
mod sending;
mod settling;
