//! Formats of other programs: reads the configuration files of agent programs, and puts
//! our entries in and takes them out.
//!
//! Text in, text out: nothing here reads a file, the environment or a clock. Start
//! with [`clients`], the list of programs that can be connected; [`edit`] changes a
//! file and leaves everything else in it as its owner wrote it; [`difference`]
//! shows a change to a person.

pub mod clients;
pub mod difference;
pub mod edit;
mod shell;
