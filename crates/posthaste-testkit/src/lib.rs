//! For tests only: the conformance suites of the ports, and helpers that tests share.
//!
//! Each promise of a port stands once, as a function, in [`mod@store_suite`],
//! [`mod@profiles_suite`], [`mod@working_suite`] or [`mod@queue_suite`]; every backend
//! runs them all by one macro. [`world`] is a whole hub for stories. [`model_server`] lets
//! a test play the model of a real agent program, and [`tap`] records the requests of such
//! a program to a hub. [`fuzz`] breaks valid examples for the tests of parsers.
//! [`provider`] is the API of a provider of models, for the hub's own calls.
//! [`mod@excerpt`] shortens long texts that a failing test prints.

pub mod clock;
pub mod excerpt;
pub mod fuzz;
mod listening;
pub mod model_server;
pub mod profiles_suite;
pub mod provider;
pub mod queue_suite;
pub mod staff;
pub mod store_suite;
pub mod tap;
pub mod working_suite;
pub mod world;
