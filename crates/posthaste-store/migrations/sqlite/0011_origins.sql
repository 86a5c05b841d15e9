-- Who made an instance: operator, join or assigned. Of those from before it is known by
-- what they have: a join key, or work and a parent that gave it.
ALTER TABLE instances ADD COLUMN origin TEXT NOT NULL DEFAULT 'join';
UPDATE instances SET origin = CASE
    WHEN parent IS NOT NULL AND id IN (SELECT instance FROM work) THEN 'assigned'
    ELSE 'operator'
END WHERE join_key IS NULL;
