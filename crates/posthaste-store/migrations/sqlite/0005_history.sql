-- Which messages answer a message. Filled behind like the others, so the marks go
-- back to the beginning once: the other indexes ignore what they know.
CREATE TABLE reply_index (
    answered INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (answered, seq)
) STRICT, WITHOUT ROWID;

DELETE FROM meta WHERE key IN ('indexed_seq', 'indexed_delivery');

-- What happened to a delivery on its way that its row forgets: refusals, and the
-- death that a requeue undid. Rare, so it has an index of the usual kind.
CREATE TABLE delivery_notes (
    no INTEGER PRIMARY KEY,
    delivery INTEGER NOT NULL,
    at INTEGER NOT NULL,
    what TEXT NOT NULL, -- refused, requeued
    by TEXT,
    why TEXT
) STRICT;

CREATE INDEX delivery_notes_of ON delivery_notes (delivery);
