-- Workers that the hub starts, and the work that is given out.
CREATE TABLE work (
    instance INTEGER PRIMARY KEY,
    directory TEXT,
    worktree INTEGER NOT NULL,
    branch TEXT,
    started_at INTEGER,
    exit_code INTEGER,
    why TEXT
) STRICT;

-- The number of the task is the name of the assignment.
CREATE TABLE assignments (
    task INTEGER PRIMARY KEY,
    worker INTEGER NOT NULL,
    giver INTEGER, -- nothing: the human
    label TEXT,
    opened_at INTEGER NOT NULL,
    report INTEGER,
    report_delivery INTEGER,
    report_mailbox TEXT,
    settled_at INTEGER
) STRICT;

-- A report that came after the assignment was settled.
ALTER TABLE messages ADD COLUMN late INTEGER NOT NULL DEFAULT 0;
