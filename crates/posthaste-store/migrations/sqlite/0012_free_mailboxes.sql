-- The number of a mailbox whose owner and mail are forgotten is free (no key) for the
-- next one.
CREATE TABLE boxes (no INTEGER PRIMARY KEY, key TEXT UNIQUE) STRICT;
INSERT INTO boxes (no, key) SELECT no, key FROM mailboxes;
DROP TABLE mailboxes;
ALTER TABLE boxes RENAME TO mailboxes;
