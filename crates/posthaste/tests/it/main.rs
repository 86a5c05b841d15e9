//! The whole: the real binary, real processes, a scratch folder and port 0.

mod agents;
mod cli;
mod clients;
mod clock;
mod connect;
mod damage;
mod disk;
mod docs;
mod doctor;
mod failing;
mod hook;
mod keeper;
mod kill;
mod logs;
mod machine;
mod manual;
mod mcp_bridge;
mod moved;
mod ports;
mod profiles;
mod reading;
mod second_hub;
mod settings;
mod story;
mod tail;
#[cfg(feature = "otlp")]
mod traces;
mod unusable;
mod work;
mod world;
