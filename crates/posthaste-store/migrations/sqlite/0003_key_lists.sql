-- Idempotency keys, one list for each transaction: 16 bytes of digest and 8 of the
-- message's number, again and again.
CREATE TABLE key_lists (
    no INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    list BLOB NOT NULL
) STRICT;

INSERT INTO key_lists (at, list)
    SELECT at, CAST(key || unhex(printf('%016x', seq)) AS BLOB) FROM keys ORDER BY no;

DROP TABLE keys;
