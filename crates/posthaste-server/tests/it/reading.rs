//! Looking without taking: teams, threads, trails, counts, export.

mod export;
mod stats;
mod teams;
mod threads;
mod trail;
