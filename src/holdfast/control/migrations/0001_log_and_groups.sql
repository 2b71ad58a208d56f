-- The frame whose footer was applied last. One row.
CREATE TABLE applied (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    frame    INTEGER NOT NULL
);

-- Where a store's next frame begins. A store that is not in sync lacks frames that were acknowledged.
CREATE TABLE stores (
    store    INTEGER PRIMARY KEY,
    in_sync  INTEGER NOT NULL DEFAULT 1,
    frame    INTEGER NOT NULL DEFAULT 0,
    journal  INTEGER,
    position INTEGER
);

CREATE TABLE topics (
    topic      INTEGER PRIMARY KEY,
    topic_id   BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL UNIQUE,
    configs    TEXT NOT NULL
);

-- log_end is the offset that the next record gets; a commit names the end that it expects.
-- replicas is a JSON array of store numbers, the preferred leader first.
CREATE TABLE partitions (
    topic        INTEGER NOT NULL REFERENCES topics,
    partition    INTEGER NOT NULL,
    replicas     TEXT NOT NULL,
    leader       INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    log_start    INTEGER NOT NULL,
    log_end      INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;

-- The offset at which each leader epoch began: what OffsetForLeaderEpoch answers from.
CREATE TABLE leader_epochs (
    topic        INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    start_offset INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, leader_epoch)
) WITHOUT ROWID;

-- One row per frame and partition. Keyed by the last offset: the first row at or after an offset holds it.
-- places: 20 bytes for each store that has it: store (4), journal (8), position (8), big-endian.
CREATE TABLE extents (
    topic         INTEGER NOT NULL,
    partition     INTEGER NOT NULL,
    last_offset   INTEGER NOT NULL,
    first_offset  INTEGER NOT NULL,
    places        BLOB NOT NULL,
    length_bytes  INTEGER NOT NULL,
    max_timestamp INTEGER NOT NULL,
    leader_epoch  INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, last_offset)
) WITHOUT ROWID;

-- The last batches of an idempotent producer in a partition, newest last; see rules/producer.py.
CREATE TABLE producers (
    topic          INTEGER NOT NULL,
    partition      INTEGER NOT NULL,
    producer_id    INTEGER NOT NULL,
    producer_epoch INTEGER NOT NULL,
    batches        TEXT NOT NULL,
    PRIMARY KEY (topic, partition, producer_id)
) WITHOUT ROWID;

-- First producer id not yet allotted. Id 0 is never allotted: the filler batch carries it. One row.
CREATE TABLE producer_ids (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    next_id  INTEGER NOT NULL
);
INSERT INTO producer_ids VALUES (1, 1);

CREATE TABLE group_offsets (
    group_id     TEXT NOT NULL,
    topic        INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    offset       INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    metadata     TEXT,
    committed_ms INTEGER NOT NULL,
    PRIMARY KEY (group_id, topic, partition)
) WITHOUT ROWID;
