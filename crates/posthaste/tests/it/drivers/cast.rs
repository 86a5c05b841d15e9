//! A program that plays in the stories: its driver, its profile, and its surroundings.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

pub(super) struct Cast {
    pub(super) driver: &'static str,
    /// The keys of its profile; `tools` is where the programs are.
    pub(super) config: fn(tools: &Path) -> Value,
    /// Lets the program find its model; the hub hands its environment on.
    pub(super) surround: fn(command: &mut Command, model: &str, home: &Path),
    /// A tool of the program's own that needs permission, with its arguments, which make
    /// the file `made`.
    pub(super) dangerous: fn() -> (&'static str, Value),
    /// A word by which its model learns that a call was denied.
    pub(super) denied: &'static str,
    /// Whether urgent mail joins the running turn; else that turn is cut for it.
    pub(super) steers: bool,
}
