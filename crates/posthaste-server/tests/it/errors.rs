//! What bad input gets: a status, a code, and words that help. Never a hub that
//! is gone.

mod clients;
mod inputs;
mod sizes;
mod words;
