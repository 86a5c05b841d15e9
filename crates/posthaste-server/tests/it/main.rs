//! The door over real sockets: what callers see, and what callers can do to it.

mod bodies;
mod cao;
mod connections;
mod disconnects;
mod docs;
mod documented;
mod errors;
mod events;
mod fuzz;
mod hooks;
mod house;
mod identity;
mod mail;
mod mcp;
mod origins;
mod people;
mod presence;
mod profiles;
mod reading;
mod rights;
mod security;
mod staff;
mod stopping;
mod watching;
mod work;
