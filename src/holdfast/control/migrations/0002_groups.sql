-- Groups as their last rebalance left them. `saved` is the change as it stands in the footer (docs/formats.md);
-- the other columns repeat what is asked for without reading it.
CREATE TABLE consumer_groups (
    group_id      TEXT NOT NULL PRIMARY KEY,
    generation    INTEGER NOT NULL,
    protocol_type TEXT NOT NULL,
    members       INTEGER NOT NULL,
    saved         BLOB NOT NULL
) WITHOUT ROWID;
