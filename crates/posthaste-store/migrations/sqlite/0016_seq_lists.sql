-- The messages of a thread, of a sender, of a mailbox, and those that answer a message:
-- one row for up to a thousand of them, where four tables had one row for each. Filled
-- behind like those, so the marks go back to the beginning once.
CREATE TABLE IF NOT EXISTS seq_lists (
    kind INTEGER NOT NULL, -- 1 thread, 2 sender, 3 mailbox, 4 answered message
    of INTEGER NOT NULL,
    first INTEGER NOT NULL, -- no number in the list is lower
    last INTEGER NOT NULL, -- the highest number in the list
    count INTEGER NOT NULL,
    list BLOB NOT NULL, -- the gaps between the numbers, from `first` on, as LEB128
    PRIMARY KEY (kind, of, first)
) STRICT, WITHOUT ROWID;

DROP TABLE IF EXISTS thread_index;
DROP TABLE IF EXISTS sender_index;
DROP TABLE IF EXISTS mailbox_index;
DROP TABLE IF EXISTS reply_index;

DELETE FROM seq_lists;
DELETE FROM meta WHERE key IN ('indexed_seq', 'indexed_delivery');
