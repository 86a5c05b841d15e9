-- What waits for the operator, and what did. The address outlives its instance.
CREATE TABLE needs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- a number is not given again
    kind TEXT NOT NULL,
    blocking INTEGER NOT NULL,
    instance INTEGER,
    address TEXT NOT NULL,
    text TEXT NOT NULL,
    options TEXT NOT NULL, -- a list of texts, as JSON
    message INTEGER,
    delivery INTEGER,
    request TEXT, -- of a permission
    subject TEXT,
    created_at INTEGER NOT NULL,
    closed_at INTEGER, -- nothing: it is open
    outcome TEXT,
    answer TEXT,
    answer_message INTEGER
) STRICT;

CREATE INDEX open_needs ON needs (id) WHERE closed_at IS NULL;
CREATE INDEX closed_needs ON needs (closed_at) WHERE closed_at IS NOT NULL;

-- Verdicts of the operator for all instances of a profile.
CREATE TABLE verdicts (
    profile TEXT NOT NULL,
    subject TEXT NOT NULL,
    allow INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (profile, subject)
) STRICT, WITHOUT ROWID;
