//! Every limit of the hub: its name, its default, its meaning.
//!
//! The names are the keys of the `[limits]` section of the configuration. A
//! request beyond a limit is refused with an error that names it; nothing is
//! clamped or dropped in silence.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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

/// The recipients that an agent may write to. The human hears everybody, and an answer is
/// always allowed; the operator is under no policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Write {
    #[default]
    Open,
    /// Within the sender's team, its leaders and its family.
    Team,
    /// Parent, children and siblings.
    Family,
}

/// The senders that may write to `@everyone`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Everyone {
    #[default]
    All,
    Leaders,
}

limits! {
    /// Largest body of one message.
    body_bytes: usize = MIB;
    /// Largest metadata of one message, as JSON text.
    metadata_bytes: usize = 4 * KIB;
    /// Longest label.
    label_chars: usize = 200;
    /// Longest idempotency key or join key.
    key_chars: usize = 200;
    /// Shortest secret that a joining agent may choose for its key.
    secret_chars: usize = 32;
    /// Most addresses in one list: recipients of a message, senders that a read waits for,
    /// topics of events.
    recipients: usize = 100;
    /// Most leaders of one team.
    team_leaders: usize = 100;
    /// Longest life that a sender may give a message.
    ttl: Duration = Duration::from_secs(30 * DAY), "humantime_serde";
    /// Unread messages after which a mailbox refuses more.
    mailbox_messages: usize = 10_000;
    /// Unread bytes after which a mailbox refuses more.
    mailbox_bytes: usize = 64 * MIB;
    /// Messages that an agent may send in a minute; 0 for no limit.
    sender_per_minute: u32 = 600;
    /// Messages that an agent may send to one mailbox in a minute; 0 for no limit.
    pair_per_minute: u32 = 60;
    /// How long an agent waits before it writes to @everyone again; 0 for no limit.
    everyone_every: Duration = Duration::from_secs(10), "humantime_serde";
    /// Quick answers to answers, one after another, before an exchange is stopped.
    hops: u8 = 16;
    /// An answer that comes later than this is not a quick one.
    hop_window: Duration = Duration::from_secs(MINUTE), "humantime_serde";
    /// Answers refused for that, of which trails tell.
    refused_answers: usize = 1_000;
    /// Whom an agent may write to: open, team or family.
    write_policy: Write = Write::Open;
    /// Who may write to @everyone: all or leaders.
    everyone_policy: Everyone = Everyone::All;
    /// Refusals (nacks) after which a delivery is dead.
    attempts: u8 = 5;
    /// Longest wait for mail in one call.
    wait: Duration = Duration::from_secs(600), "humantime_serde";
    /// How long a read collects more after the first message, unless it says otherwise.
    default_window: Duration = Duration::from_millis(50), "humantime_serde";
    /// The same while work that the reader gave out is open: reports come together.
    gather_window: Duration = Duration::from_secs(2), "humantime_serde";
    /// Longest batch window that a read may ask for.
    batch_window: Duration = Duration::from_secs(60), "humantime_serde";
    /// Most messages in one answer.
    answer_messages: usize = 1_000;
    /// Bytes of bodies after which an answer takes no more whole messages.
    answer_bytes: usize = 4 * MIB;
    /// Longest body that is never clipped to make room for others.
    answer_whole_chars: usize = 1_000;
    /// Smallest share of an answer that a longer body gets.
    answer_share_chars: usize = 100;
    /// How long the report of an assignment is left for a gather before it comes along
    /// with other answers and hooks.
    report_hold: Duration = Duration::from_secs(30), "humantime_serde";
    /// Unproven answers whose receipts are remembered for one reader.
    receipts: usize = 1_000;
    /// Answers whose mail is settled and that are remembered for one reader, in case the
    /// client cancels or repeats a call after its answer.
    settled_answers: usize = 32;
    /// Tokens that one instance may hold at a time; the oldest goes first.
    tokens: usize = 8;
    /// How long an idempotency key is remembered.
    key_retention: Duration = Duration::from_secs(DAY), "humantime_serde";
    /// Idempotency keys that are kept whole in memory; older ones as a fingerprint of some
    /// bytes each, and all of them on disk.
    keys_in_memory: usize = 10_000;
    /// Most such fingerprints; beyond them the disk is asked for each key.
    key_prints: usize = 8_000_000;
    /// How long a settled message stays readable.
    settled_retention: Duration = Duration::from_secs(DAY), "humantime_serde";
    /// How long a dead message stays readable.
    dead_retention: Duration = Duration::from_secs(30 * DAY), "humantime_serde";
    /// How long a need of the operator stays readable after it was answered.
    need_retention: Duration = Duration::from_secs(30 * DAY), "humantime_serde";
    /// Longest text of a need; of a longer one the beginning is kept.
    need_text_chars: usize = 4_000;
    /// Permission requests of one agent that may wait for the operator; more are denied.
    open_permissions: usize = 20;
    /// Longest subject of a permission request that can be remembered.
    subject_chars: usize = 200;
    /// Longest id of a permission request.
    request_chars: usize = 200;
    /// How often the hub looks for messages that nobody needs any more.
    prune: Duration = Duration::from_secs(MINUTE), "humantime_serde";
    /// How long an instance without an open stream is active after its last call.
    away_after: Duration = Duration::from_secs(MINUTE), "humantime_serde";
    /// An instance that is away or lost for this long and has no mail is forgotten.
    forget_after: Duration = Duration::from_secs(DAY), "humantime_serde";
    /// No sign of life for this long: the instance is lost.
    lost_after: Duration = Duration::from_secs(10 * MINUTE), "humantime_serde";
    /// Unread or held unproven for longer than this: shown as stuck.
    stuck_after: Duration = Duration::from_secs(5 * MINUTE), "humantime_serde";
    /// How often the hub looks again for expired, forgotten and lost things.
    sweep: Duration = Duration::from_secs(30), "humantime_serde";
    /// How long the journal of events reaches back.
    event_retention: Duration = Duration::from_secs(DAY), "humantime_serde";
    /// Most events that are read from the journal at a time.
    event_page: usize = 500;
    /// Most agents' calls that follow the events at a time, and most of the operator's.
    event_readers: usize = 100;
    /// Most of them of one agent.
    event_readers_each: usize = 10;
    /// How long a later call must stay uncancelled before it counts as proof.
    proof_grace: Duration = Duration::from_secs(2), "humantime_serde";
    /// The same for an agent program with hooks, which may store results late.
    hook_grace: Duration = Duration::from_secs(5), "humantime_serde";
    /// Largest system prompt of a profile.
    profile_prompt_bytes: usize = 256 * KIB;
    /// Longest description of a profile.
    profile_description_chars: usize = 4_000;
    /// Longest title, and longest name of a driver.
    profile_title_chars: usize = 200;
    /// Most tags of a profile, and most tools.
    profile_tags: usize = 100;
    /// Longest tag, and longest name of a tool.
    profile_tag_chars: usize = 100;
    /// Largest configuration of a profile, as JSON text.
    profile_config_bytes: usize = 64 * KIB;
    /// Largest file that is read as a profile.
    profile_file_bytes: usize = MIB;
    /// Calls of tools that one page of a conversation shows; of more the last.
    chat_tools: usize = 200;
    /// Messages per mailbox whose text is kept in memory.
    window_messages: usize = 256;
    /// Bytes of text kept in memory for all mailboxes together.
    window_bytes: usize = 64 * MIB;
}
