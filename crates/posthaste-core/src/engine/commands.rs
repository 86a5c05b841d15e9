//! The durable changes, one command each: plan, commit or undo, answer.

pub(super) mod append;
pub(super) mod needs;
pub(super) mod people;
pub(super) mod profiles;
pub(super) mod report;
pub(super) mod set_aside;
pub(super) mod settle;
pub(super) mod upkeep;
pub(super) mod work;
