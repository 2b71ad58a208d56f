-- Numbers of topics are never given twice (AUTOINCREMENT): rows of a deleted one linger until they are trimmed.
CREATE TABLE numbered_topics (
    topic      INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id   BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL UNIQUE,
    configs    TEXT NOT NULL
);
INSERT INTO numbered_topics SELECT topic, topic_id, name, configs FROM topics;
DROP TABLE topics;
ALTER TABLE numbered_topics RENAME TO topics;

-- Topics whose extents, producers, leader epochs and group offsets are still to be trimmed.
CREATE TABLE deleted_topics (
    topic INTEGER PRIMARY KEY
);
