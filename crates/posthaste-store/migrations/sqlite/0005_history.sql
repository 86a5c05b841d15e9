-- Which messages answer a message. Filled behind like the others, so the marks go
-- back to the beginning once: the other indexes ignore what they know.
CREATE TABLE reply_index (
    answered INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (answered, seq)
) STRICT, WITHOUT ROWID;

DELETE FROM meta WHERE key IN ('indexed_seq', 'indexed_delivery');
