-- What a door set for one worker in place of its profile, and that door's record of it.
ALTER TABLE work ADD COLUMN has_terms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE work ADD COLUMN driver TEXT;
ALTER TABLE work ADD COLUMN config TEXT;
ALTER TABLE work ADD COLUMN allowed_tools TEXT;
ALTER TABLE work ADD COLUMN record TEXT;
