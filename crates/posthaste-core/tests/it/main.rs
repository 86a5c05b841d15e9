//! The rules at work: alone against a world of faults, and through the hub.

mod calling;
mod chaos;
mod clock;
mod failing;
mod fuzz;
mod living;
mod model;
mod one_of;
mod policy;
mod receiving;
mod restarting;
mod rules;
mod sending;
mod settling;
mod working;
