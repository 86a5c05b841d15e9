//! The whole: the real binary, real processes, a scratch folder and port 0.

mod agents;
mod background;
mod cao;
mod chat;
mod cli;
mod clients;
mod clock;
mod connect;
mod damage;
mod disk;
mod docs;
mod doctor;
mod drivers;
mod failing;
mod hook;
mod keeper;
mod kill;
mod listening;
mod logs;
#[cfg(target_os = "linux")]
mod looks;
mod machine;
mod mail;
mod manual;
mod mcp_bridge;
mod moved;
mod names;
mod needs;
mod pages;
mod piped;
mod played;
mod profiles;
mod reading;
mod second_hub;
mod service;
mod settings;
mod story;
mod tail;
mod teams;
mod tmux;
#[cfg(feature = "otlp")]
mod traces;
mod unusable;
mod work;
mod world;
