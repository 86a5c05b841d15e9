-- How many quick answers in a row a message is.
ALTER TABLE messages ADD COLUMN hop INTEGER NOT NULL DEFAULT 0;
