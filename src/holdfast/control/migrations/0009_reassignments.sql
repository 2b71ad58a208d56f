-- Of a reassignment that is under way, the replicas that it brings and those that go when it ends: JSON arrays of stores.
ALTER TABLE partitions ADD COLUMN adding TEXT NOT NULL DEFAULT '[]';
ALTER TABLE partitions ADD COLUMN removing TEXT NOT NULL DEFAULT '[]';
