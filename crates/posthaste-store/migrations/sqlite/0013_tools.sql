-- One column held tools, allowed tools and services. What the API said of it was that it
-- holds services, so that is what it becomes; files are read again at the next start.
ALTER TABLE profiles ADD COLUMN allowed_tools TEXT; -- a JSON array
ALTER TABLE profiles ADD COLUMN services TEXT; -- a JSON array, or nothing beyond the core
UPDATE profiles SET services = tools, tools = NULL WHERE tools IS NOT NULL;
