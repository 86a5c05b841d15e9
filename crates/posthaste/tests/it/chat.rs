//! The operator talks to assistants: a hub, the built-in runner, and a model that the test
//! plays.

#[cfg(target_os = "linux")]
mod command;
mod hostile;
mod others;
mod stage;
mod talking;
