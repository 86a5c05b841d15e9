-- The backbone. Nothing on the send path has a random key: messages and
-- deliveries are appended, and what must be looked up otherwise is indexed behind,
-- in sorted batches (the tables at the end).

CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;

CREATE TABLE profiles (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE teams (
    name TEXT PRIMARY KEY,
    leaders TEXT NOT NULL -- names and instances, separated by spaces
) STRICT, WITHOUT ROWID;

CREATE TABLE instances (
    id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    team TEXT NOT NULL,
    kind TEXT NOT NULL,
    label TEXT,
    parent INTEGER,
    thread INTEGER NOT NULL,
    join_key TEXT,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;

CREATE TABLE tokens (
    no INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    instance INTEGER NOT NULL
) STRICT;

CREATE TABLE mailboxes (no INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE) STRICT;

CREATE TABLE messages (
    seq INTEGER PRIMARY KEY,
    id INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    first_delivery INTEGER NOT NULL,
    copies INTEGER NOT NULL,
    sender TEXT NOT NULL,
    sender_instance INTEGER,
    recipient TEXT NOT NULL,
    kind TEXT NOT NULL,
    urgent INTEGER NOT NULL,
    label TEXT,
    in_reply_to INTEGER,
    expires_at INTEGER,
    via TEXT NOT NULL,
    idempotency_key TEXT,
    metadata TEXT,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE deliveries (
    no INTEGER PRIMARY KEY,
    mailbox INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    state INTEGER NOT NULL, -- 0 open, 1 acked, 2 dead
    size INTEGER NOT NULL,
    sender INTEGER,
    urgent INTEGER NOT NULL,
    marked INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    expires_at INTEGER,
    leased_at INTEGER,
    settled_at INTEGER,
    settled_by TEXT,
    how TEXT, -- the proof, or the reason of death
    maybe_seen INTEGER
) STRICT;

-- Idempotency keys as digests, in order of time.
CREATE TABLE keys (
    no INTEGER PRIMARY KEY,
    key BLOB NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- Ids acked by a weak proof, so that a restarted hub can name them once more.
CREATE TABLE taken (
    no INTEGER PRIMARY KEY,
    reader TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- Filled behind, up to the marks in `meta`.
CREATE TABLE message_ids (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL) STRICT;

CREATE TABLE thread_index (
    thread INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (thread, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE mailbox_index (
    mailbox INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (mailbox, seq)
) STRICT, WITHOUT ROWID;
