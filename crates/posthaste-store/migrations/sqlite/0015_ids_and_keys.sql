-- New messages have ids made from their numbers by this key. The ids of those from before
-- stay in `message_ids`, all of them.
INSERT OR IGNORE INTO message_ids (id, seq)
    SELECT id, seq FROM messages
    WHERE seq > coalesce((SELECT value FROM meta WHERE key = 'indexed_seq'), 0)
    ORDER BY id;

INSERT OR IGNORE INTO meta (key, value) VALUES
    ('id_key', randomblob(16)),
    ('first_made_id', 1 + max(
        coalesce((SELECT max(seq) FROM messages), 0),
        coalesce((SELECT value FROM meta WHERE key = 'last_seq'), 0)
    )),
    -- How often the hub was started.
    ('epoch', 0),
    -- How often a commit failed that the log had taken.
    ('failed_commits', 0);

-- Idempotency keys once more, sorted behind, so that one of a million is found in a few
-- steps. A run holds some thousand keys in 256 parts by the first byte of their digests:
-- `no` is the run times 256, plus that byte. An entry has 16 bytes of digest, 8 of the
-- message's number, 8 of its time. `meta` has the last list that is in a run
-- (`sorted_key_list`).
CREATE TABLE IF NOT EXISTS key_runs (
    no INTEGER PRIMARY KEY,
    at INTEGER NOT NULL, -- of the last key in the run
    list BLOB NOT NULL
) STRICT;
