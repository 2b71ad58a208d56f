-- The frame whose footer was applied last, and where the next one begins. One row.
CREATE TABLE applied (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    frame    INTEGER NOT NULL,
    journal  INTEGER NOT NULL,
    position INTEGER NOT NULL
);

CREATE TABLE topics (
    topic      INTEGER PRIMARY KEY,
    topic_id   BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL UNIQUE,
    configs    TEXT NOT NULL
);

-- log_end is the offset that the next record gets; a commit names the end that it expects.
CREATE TABLE partitions (
    topic        INTEGER NOT NULL REFERENCES topics,
    partition    INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    log_start    INTEGER NOT NULL,
    log_end      INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;

-- One row per frame and partition. Keyed by the last offset: the first row at or after an offset holds it.
CREATE TABLE extents (
    topic         INTEGER NOT NULL,
    partition     INTEGER NOT NULL,
    last_offset   INTEGER NOT NULL,
    first_offset  INTEGER NOT NULL,
    journal       INTEGER NOT NULL,
    position      INTEGER NOT NULL,
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
