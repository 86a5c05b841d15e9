//! Every limit of the hub: its name, its default, its meaning.
//!
//! The names are the keys of the `[limits]` section of the configuration. A
//! request beyond a limit is refused with an error that names it; nothing is
//! clamped or dropped in silence.

use std::time::Duration;

macro_rules! limits {
    ($($keys:tt)*) => {
        $crate::settings! {
            /// The `[limits]` section of the configuration.
            pub struct Limits { $($keys)* }
        }
    };
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

limits! {
    /// Largest body of one message.
    body_bytes: usize = MIB;
    /// Largest metadata of one message, as JSON text.
    metadata_bytes: usize = 4 * KIB;
    /// Longest label.
    label_chars: usize = 200;
    /// Longest idempotency key or join key.
    key_chars: usize = 200;
    /// Most addresses in one list.
    recipients: usize = 100;
    /// Longest life that a sender may give a message.
    ttl: Duration = Duration::from_secs(30 * DAY), "humantime_serde";
    /// Unread messages after which a mailbox refuses more.
    mailbox_messages: usize = 10_000;
    /// Unread bytes after which a mailbox refuses more.
    mailbox_bytes: usize = 64 * MIB;
    /// Refusals (nacks) after which a delivery is dead.
    attempts: u8 = 5;
    /// Longest wait for mail in one call.
    wait: Duration = Duration::from_secs(600), "humantime_serde";
    /// Longest batch window.
    batch_window: Duration = Duration::from_secs(60), "humantime_serde";
    /// Most messages in one answer.
    answer_messages: usize = 1_000;
    /// Bytes of bodies after which an answer takes no more whole messages.
    answer_bytes: usize = 4 * MIB;
    /// Smallest share of a clipped answer that a message gets.
    answer_share_chars: usize = 100;
    /// Unproven answers whose receipts are remembered for one reader.
    receipts: usize = 1_000;
    /// Tokens that one instance may hold at a time; the oldest goes first.
    tokens: usize = 8;
    /// How long an idempotency key is remembered.
    key_retention: Duration = Duration::from_secs(DAY), "humantime_serde";
    /// How long a settled message stays readable.
    settled_retention: Duration = Duration::from_secs(DAY), "humantime_serde";
    /// How long a dead message stays readable.
    dead_retention: Duration = Duration::from_secs(30 * DAY), "humantime_serde";
    /// How often the hub looks for messages that nobody needs any more.
    prune: Duration = Duration::from_secs(MINUTE), "humantime_serde";
    /// No sign of life for this long: the instance is lost.
    lost_after: Duration = Duration::from_secs(10 * MINUTE), "humantime_serde";
    /// How often the hub looks again for expired, forgotten and lost things.
    sweep: Duration = Duration::from_secs(30), "humantime_serde";
    /// How long a later call must stay uncancelled before it counts as proof.
    proof_grace: Duration = Duration::from_secs(2), "humantime_serde";
    /// Messages per mailbox whose text is kept in memory.
    window_messages: usize = 256;
    /// Bytes of text kept in memory for all mailboxes together.
    window_bytes: usize = 64 * MIB;
}
