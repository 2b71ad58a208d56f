-- The time of the first record, which max.compaction.lag.ms counts from; -1 if it was not written down, or has none.
ALTER TABLE extents ADD COLUMN first_timestamp INTEGER NOT NULL DEFAULT -1;
ALTER TABLE segments ADD COLUMN first_timestamp INTEGER NOT NULL DEFAULT -1;
