-- A profile is more than a name. Rows have numbers now, because the index of words
-- needs them.
ALTER TABLE profiles RENAME TO profiles_before;

CREATE TABLE profiles (
    no INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    title TEXT,
    description TEXT NOT NULL,
    kind TEXT NOT NULL,
    driver TEXT,
    system_prompt TEXT NOT NULL,
    tags TEXT NOT NULL, -- a JSON array
    tools TEXT, -- a JSON array, or nothing beyond the core
    config TEXT NOT NULL, -- a JSON object
    source TEXT NOT NULL, -- api, join or the path of a file
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- Words of what describes a profile. The triggers keep it in step.
CREATE VIRTUAL TABLE profile_words USING fts5(
    name, title, description, tags,
    content = 'profiles', content_rowid = 'no',
    tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
);

CREATE TRIGGER profile_words_added AFTER INSERT ON profiles BEGIN
    INSERT INTO profile_words (rowid, name, title, description, tags)
        VALUES (new.no, new.name, new.title, new.description, new.tags);
END;

CREATE TRIGGER profile_words_removed AFTER DELETE ON profiles BEGIN
    INSERT INTO profile_words (profile_words, rowid, name, title, description, tags)
        VALUES ('delete', old.no, old.name, old.title, old.description, old.tags);
END;

CREATE TRIGGER profile_words_changed AFTER UPDATE ON profiles BEGIN
    INSERT INTO profile_words (profile_words, rowid, name, title, description, tags)
        VALUES ('delete', old.no, old.name, old.title, old.description, old.tags);
    INSERT INTO profile_words (rowid, name, title, description, tags)
        VALUES (new.no, new.name, new.title, new.description, new.tags);
END;

INSERT INTO profiles (name, description, kind, system_prompt, tags, config, source, version,
        created_at, updated_at)
    SELECT name, '', kind, '', '[]', '{}', 'join', 1, created_at, created_at
    FROM profiles_before ORDER BY name;

DROP TABLE profiles_before;
