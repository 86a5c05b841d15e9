-- The longest that a worker may run, in milliseconds, as its assignment or its profile says.
ALTER TABLE work ADD COLUMN timeout INTEGER;
