"""A log at rest: every store has everything, every replica is clean, and nothing is left to forget."""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.client.admin import find_address, post_json
from holdfast.client.cluster import Cluster
from holdfast.client.offsets import EARLIEST, LATEST, Isolation, list_offsets
from holdfast.client.reader import OffsetRange, read_range
from holdfast.records.build import read_records
from holdfast.records.walk import walk_valid
from soak.table_history import ReplicaTable, SegmentCounts

VERSION = "version"
"""The header that says which write a record is: a delete has no value to say it."""

POLL_SECONDS = 0.1

UNREST = {
    "stores that are not in sync": "SELECT count(*) FROM stores WHERE phase <> 0",
    "replicas that lack something": """SELECT count(*) FROM replicas
        WHERE held_to IS NOT NULL OR joined_from IS NOT NULL""",
    "replicas that are not settled": """SELECT count(*) FROM replicas JOIN partitions USING (topic, partition)
        WHERE settled_to < log_end""",
    "replicas that are not clean": """SELECT count(*) FROM replicas JOIN topics USING (topic)
        WHERE name = :topic AND mcco < settled_to""",
    "segments with deletes": """SELECT count(*) FROM segments JOIN topics USING (topic)
        WHERE name = :topic AND first_tombstone >= 0""",
    "extents": "SELECT count(*) FROM extents JOIN topics USING (topic) WHERE name = :topic",
    "outcomes": "SELECT count(*) FROM instances WHERE outcome <> 0",
}


def find_unrest(data: Path, topic: str) -> dict[str, int]:
    """What there is still to do, as the control plane says."""
    with sqlite3.connect(f"file:{data / 'control.db'}?mode=ro", uri=True, timeout=30) as plane:
        found = {name: plane.execute(query, {"topic": topic}).fetchone()[0] for name, query in UNREST.items()}
    return {name: count for name, count in found.items() if count}


def await_rest(data: Path, topic: str, seconds_max: float) -> dict[str, int]:
    """Wait for it; what is left to do if it does not come."""
    deadline = time.monotonic() + seconds_max
    while unrest := find_unrest(data, topic):
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    return unrest


def find_orphans(data: Path) -> list[str]:
    """Files below the stores' segments that the control plane does not name."""
    with sqlite3.connect(f"file:{data / 'control.db'}?mode=ro", uri=True, timeout=30) as plane:
        named = {
            f"{store}/segments/{Path(file).with_suffix(suffix)}"
            for store, file in plane.execute("SELECT store, file FROM segments")
            for suffix in (".log", ".index")
        }
    root = data / "stores"
    there = {str(path.relative_to(root)) for path in root.glob("*/segments/*/*/*")}
    return sorted(there - named)


def count_in_segments(data: Path, topic: str) -> Iterator[SegmentCounts]:
    """Read the files that the control plane names, replica by replica."""
    with sqlite3.connect(f"file:{data / 'control.db'}?mode=ro", uri=True, timeout=30) as plane:
        replicas = plane.execute(
            "SELECT store, partition FROM replicas JOIN topics USING (topic) WHERE name = ? ORDER BY 1, 2",
            [topic],
        ).fetchall()
        files = plane.execute(
            "SELECT store, partition, file FROM segments JOIN topics USING (topic) WHERE name = ?", [topic]
        ).fetchall()
    for store, partition in replicas:
        named = [file for *where, file in files if where == [store, partition]]
        yield _count(store, partition, [data / "stores" / str(store) / "segments" / file for file in named])


def _count(store: int, partition: int, files: list[Path]) -> SegmentCounts:
    records = deletes = transactional = outcomes = 0
    keys = set()
    for batch in (batch for file in files for batch in walk_valid(file.read_bytes())):
        outcomes += batch.is_control
        transactional += batch.is_transactional
        for record in () if batch.is_control else read_records(batch):
            records += 1
            deletes += record.value is None
            keys.add(record.key)
    return SegmentCounts(
        store=store,
        partition=partition,
        records=records,
        keys=len(keys),
        deletes=deletes,
        transactional=transactional,
        outcomes=outcomes,
    )


def read_tables(
    data: Path, bootstrap: str, topic: str, *, nodes: int, patience_s: float
) -> Iterator[ReplicaTable]:
    """Let one node after the other lead, and read all partitions from it."""
    for node in range(1, nodes + 1):
        post_json(find_address(data), "/leaders", {"topic": topic, "partition": None, "node": node})
        with Cluster(bootstrap, patience_s=patience_s) as cluster:
            partitions = list(cluster.topic(topic).partitions)
            starts = list_offsets(cluster, topic, dict.fromkeys(partitions, EARLIEST))
            ends = list_offsets(
                cluster, topic, dict.fromkeys(partitions, LATEST), isolation=Isolation.READ_COMMITTED
            )
            for partition in partitions:
                assert cluster.leader_of(topic, partition) == node, "whoever leads answers"
                yield ReplicaTable(
                    node=node,
                    partition=partition,
                    log_start=starts[partition],
                    last_stable=ends[partition],
                    versions=_read_table(cluster, topic, partition, starts[partition], ends[partition]),
                )


def _read_table(cluster: Cluster, topic: str, partition: int, start: int, end: int) -> dict[bytes, int]:
    wanted = OffsetRange(topic=topic, partition=partition, start=start, end=end)
    newest: dict[bytes, int] = {}
    for chunk in read_range(cluster, wanted, isolation=Isolation.READ_COMMITTED):
        for batch in chunk.batches:
            for record in () if batch.is_control else read_records(batch):
                assert record.key is not None
                newest.pop(record.key, None)
                if record.value is not None:
                    newest[record.key] = version_of(record.headers)
    return newest


def version_of(headers: object) -> int:
    """The version that a record says it is."""
    return int(dict(headers)[VERSION])  # type: ignore[call-overload]
