-- What extents have together, so that sums and searches by time need not look at each. A span of level n holds
-- the extents whose last offset, shifted right by 8 n bits, is its number. The span of the newest extent has no row
-- on any level: a row is written when the next extent lies in a later span, and never changes.
CREATE TABLE extent_spans (
    topic         INTEGER NOT NULL,
    partition     INTEGER NOT NULL,
    level         INTEGER NOT NULL,
    span          INTEGER NOT NULL,
    max_timestamp INTEGER NOT NULL,
    length_bytes  INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, level, span)
) WITHOUT ROWID;

INSERT INTO extent_spans
    SELECT topic, partition, 1, last_offset >> 8, max(max_timestamp), sum(length_bytes)
    FROM partitions CROSS JOIN extents USING (topic, partition)
    WHERE last_offset >> 8 < (log_end - 1) >> 8 GROUP BY topic, partition, last_offset >> 8;
INSERT INTO extent_spans
    SELECT topic, partition, 2, span >> 8, max(max_timestamp), sum(length_bytes)
    FROM partitions CROSS JOIN extent_spans USING (topic, partition)
    WHERE level = 1 AND span >> 8 < (log_end - 1) >> 16 GROUP BY topic, partition, span >> 8;
INSERT INTO extent_spans
    SELECT topic, partition, 3, span >> 8, max(max_timestamp), sum(length_bytes)
    FROM partitions CROSS JOIN extent_spans USING (topic, partition)
    WHERE level = 2 AND span >> 8 < (log_end - 1) >> 24 GROUP BY topic, partition, span >> 8;
INSERT INTO extent_spans
    SELECT topic, partition, 4, span >> 8, max(max_timestamp), sum(length_bytes)
    FROM partitions CROSS JOIN extent_spans USING (topic, partition)
    WHERE level = 3 AND span >> 8 < (log_end - 1) >> 32 GROUP BY topic, partition, span >> 8;
