-- How a delivery ended is written into its row, which must not grow: pages full of
-- open deliveries would split one after the other. The room is kept for it.
ALTER TABLE deliveries ADD COLUMN room BLOB;
