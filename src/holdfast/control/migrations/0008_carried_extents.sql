-- Whether an extent has ever been carried, on whichever store: few are, and who looks for carried files looks at those alone.
-- is_carried(places) is a function of ours.
ALTER TABLE extents ADD COLUMN is_carried INTEGER NOT NULL DEFAULT 0;
UPDATE extents SET is_carried = 1 WHERE is_carried(places);
CREATE INDEX extents_carried ON extents (topic, partition, last_offset) WHERE is_carried;
