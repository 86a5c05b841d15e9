//! The rules of the post office: addresses, messages, instances, proof.
//!
//! No socket, file or process is opened here; what the rules need of the world stands in
//! [`ports`]. Reading order: [`address`], [`messaging`] (the road of a message in words),
//! [`ledger`] (the decisions), then [`Hub`], the one façade that every door calls.

pub mod address;
pub mod chat;
pub mod engine;
pub mod events;
pub mod figures;
mod hex;
pub mod history;
mod hub;
pub mod ledger;
pub mod limits;
pub mod messaging;
pub mod needs;
pub mod orchestration;
pub mod ports;
mod presence;
pub mod profiles;
pub mod registry;
pub mod road;
pub mod settings;
pub mod stats;
pub mod stored;
pub mod time;
mod vitals;

pub use engine::{Engine, EngineConfig};
pub use hub::{Counted, Hub, NotReady};
pub use limits::Limits;
pub use presence::Staying;
pub use time::{SystemClock, Timestamp};
pub use vitals::{Vital, Vitals};

/// A map with a quick hash and a random seed: keys are numbers and digests of our own
/// making, and names of bounded length.
pub type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
