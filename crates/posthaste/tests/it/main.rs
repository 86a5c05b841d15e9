//! The whole: the real binary, real processes, a scratch folder and port 0.

mod cli;
mod disk;
mod kill;
mod ports;
mod reading;
mod second_hub;
mod story;
mod world;
