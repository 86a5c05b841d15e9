-- What happened, one list for each transaction; `no` is the number of the
-- list's first event, `last` of its last.
CREATE TABLE event_lists (
    no INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    at INTEGER NOT NULL,
    list BLOB NOT NULL
) STRICT;
