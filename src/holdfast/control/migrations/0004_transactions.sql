-- The transaction instance that an extent's batches belong to; null if they are not transactional.
ALTER TABLE extents ADD COLUMN instance INTEGER;

-- One begin-end of one transactional id. outcome: 0 open, 1 committed, 2 aborted. Ending one is one update here,
-- however many partitions and extents it has. A row stays as long as an extent may name it.
CREATE TABLE instances (
    instance    INTEGER PRIMARY KEY,
    producer_id INTEGER NOT NULL,
    outcome     INTEGER NOT NULL
);

-- Transactional ids as the coordinator knows them: see rules/transactional_id.py.
CREATE TABLE transactional_ids (
    transactional_id     TEXT NOT NULL PRIMARY KEY,
    producer_id          INTEGER NOT NULL,
    producer_epoch       INTEGER NOT NULL,
    timeout_ms           INTEGER NOT NULL,
    phase                TEXT NOT NULL,
    instance             INTEGER NOT NULL,
    turn                 INTEGER NOT NULL,
    previous_producer_id INTEGER NOT NULL,
    previous_epoch       INTEGER NOT NULL,
    started_ms           INTEGER NOT NULL
) WITHOUT ROWID;

-- Where an instance begins in a partition. The first row of an open instance is the last stable offset. Rows of decided
-- instances are dropped when others join, not when the instance ends: an end must not cost more for many partitions.
CREATE TABLE joined_partitions (
    topic        INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    instance     INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, first_offset)
) WITHOUT ROWID;
CREATE UNIQUE INDEX joined_by_instance ON joined_partitions (instance, topic, partition);

-- Positions of a group that count once their instance is committed. One that is outdated does not: the group has
-- committed another since. `number` is the order in which those that are there were staged.
CREATE TABLE staged_offsets (
    number       INTEGER PRIMARY KEY,
    group_id     TEXT NOT NULL,
    topic        INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    instance     INTEGER NOT NULL,
    offset       INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    metadata     TEXT,
    is_outdated  INTEGER NOT NULL,
    UNIQUE (group_id, topic, partition, instance)
);
CREATE INDEX staged_by_instance ON staged_offsets (instance);
