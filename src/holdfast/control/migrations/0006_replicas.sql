-- phase: 0 in sync, 1 lost (and no frame says so yet), 2 away, 3 joining, 4 fenced: see control/replicas.py.
-- incarnation is the store's life, lease that of the keeper which may publish for it.
ALTER TABLE stores ADD COLUMN phase INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stores ADD COLUMN incarnation INTEGER NOT NULL DEFAULT 1;
ALTER TABLE stores ADD COLUMN lease INTEGER NOT NULL DEFAULT 0;
UPDATE stores SET phase = 1 WHERE NOT in_sync;
ALTER TABLE stores DROP COLUMN in_sync;

-- What a partition's replicas may forget together. coverage: JSON array of [offset, since when (ms, grace clock)].
-- Extents below extents_from are needed by nobody: all members have settled them, and MXRO lies above. trimmed_to is the
-- highest that was: below it, extents may be missing.
CREATE TABLE removals (
    topic        INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    lineage      INTEGER NOT NULL,
    membership   INTEGER NOT NULL,
    mtro         INTEGER NOT NULL,
    mxro         INTEGER NOT NULL,
    coverage     TEXT NOT NULL,
    extents_from INTEGER NOT NULL,
    trimmed_to   INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;

-- One replica's manifest, its segments aside. held_to null: it holds all, whatever the log end is. joined_from is not
-- null while it is given every frame but lacks some below. clean_coverage is to mcco what coverage is to mtro.
CREATE TABLE replicas (
    topic          INTEGER NOT NULL,
    partition      INTEGER NOT NULL,
    store          INTEGER NOT NULL,
    generation     INTEGER NOT NULL,
    settled_to     INTEGER NOT NULL,
    held_to        INTEGER,
    joined_from    INTEGER,
    mcco           INTEGER NOT NULL,
    mxfo           INTEGER NOT NULL,
    clean_coverage TEXT NOT NULL,
    PRIMARY KEY (topic, partition, store)
) WITHOUT ROWID;
CREATE INDEX replicas_by_store ON replicas (store);
CREATE INDEX replicas_joining ON replicas (topic, partition, store) WHERE joined_from IS NOT NULL;

-- Segments of offsets [first_offset, end_offset). Keyed by the end: the first row past an offset covers it. The last four
-- columns are the grant that it was made under.
CREATE TABLE segments (
    topic           INTEGER NOT NULL,
    partition       INTEGER NOT NULL,
    store           INTEGER NOT NULL,
    end_offset      INTEGER NOT NULL,
    first_offset    INTEGER NOT NULL,
    file            TEXT NOT NULL,
    length_bytes    INTEGER NOT NULL,
    max_timestamp   INTEGER NOT NULL,
    records         INTEGER NOT NULL,
    first_tombstone INTEGER NOT NULL,
    crc             INTEGER NOT NULL,
    lineage         INTEGER NOT NULL,
    mtro            INTEGER NOT NULL,
    mxro            INTEGER NOT NULL,
    tombstones_end  INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, store, end_offset)
) WITHOUT ROWID;

-- The number that the next transaction instance gets: instances are forgotten, numbers are not given twice. One row.
CREATE TABLE next_instance (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    instance INTEGER NOT NULL
);
INSERT INTO next_instance SELECT 1, coalesce(max(instance), 0) + 1 FROM instances;

-- What names an instance: one that nothing names and that is decided can go.
CREATE INDEX extents_by_instance ON extents (instance) WHERE instance IS NOT NULL;
DELETE FROM instances WHERE outcome <> 0
    AND NOT EXISTS (SELECT 1 FROM extents WHERE extents.instance = instances.instance);
DELETE FROM joined_partitions WHERE instance NOT IN (SELECT instance FROM instances);

-- What the grace clock has counted; not from frames, but never less than what they say. One row.
CREATE TABLE grace (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    elapsed_ms INTEGER NOT NULL
);
INSERT INTO grace VALUES (1, 0);

INSERT INTO removals SELECT topic, partition, 1, 1, 0, 0, '[]', 0, 0 FROM partitions;
-- lies_on(places, store) is a function of ours.
INSERT INTO replicas
    SELECT topic, partition, value, 0, 0,
        CASE WHEN phase = 1 THEN coalesce(
            (SELECT min(first_offset) FROM extents WHERE extents.topic = partitions.topic
                AND extents.partition = partitions.partition AND NOT lies_on(places, value)),
            log_end)
        END,
        NULL, 0, 0, '[]'
    FROM partitions, json_each(partitions.replicas) LEFT JOIN stores ON stores.store = value;
