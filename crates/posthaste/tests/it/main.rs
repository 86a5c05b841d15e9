//! The whole: the real binary, real processes, a scratch folder and port 0.

mod cli;
mod disk;
mod kill;
mod ports;
mod profiles;
mod reading;
mod second_hub;
mod story;
mod tail;
mod world;
