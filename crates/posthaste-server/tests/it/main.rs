//! The door over real sockets: what callers see, and what callers can do to it.

mod cao;
mod disconnects;
mod errors;
mod house;
mod mail;
mod people;
mod security;
mod stopping;
mod watching;
