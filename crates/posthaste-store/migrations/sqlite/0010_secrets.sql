-- The hash of the secret that belongs to an instance's join key. Whoever joined before
-- this column was there has none until its next join.
ALTER TABLE instances ADD COLUMN secret BLOB;
