//! The rules at work: alone against a world of faults, and through the hub.

mod calling;
mod carrying;
mod chaos;
mod chat;
mod clock;
mod counting;
mod failing;
mod fuzz;
mod living;
mod model;
mod needs;
mod one_of;
mod policy;
mod pruning;
mod receiving;
mod recording;
mod restarting;
mod rules;
mod sending;
mod settling;
mod side_by_side;
mod working;
