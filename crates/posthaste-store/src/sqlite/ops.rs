//! The durable changes, one struct each: plan, write, commit or undo, answer.

pub(crate) mod append;
pub(crate) mod people;
pub(crate) mod profiles;
pub(crate) mod read;
pub(crate) mod set_aside;
pub(crate) mod settle;
pub(crate) mod upkeep;
pub(crate) mod work;
