//! The rules at work: alone against a world of faults, and through the hub.

mod model;
