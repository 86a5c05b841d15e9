//! The whole: the real binary, real processes, a scratch folder and port 0.

mod cli;
mod disk;
mod doctor;
mod kill;
mod logs;
mod manual;
mod ports;
mod second_hub;
mod settings;
mod story;
#[cfg(feature = "otlp")]
mod traces;
mod world;
