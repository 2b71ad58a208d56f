"""One durable write per commit or two? The commit step with footers, against SQLite that syncs by itself.

`make bench-commit`. Each commit holds one batch of one record, so the syncs decide.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from bench.report import compare, publish
from holdfast.agent.committer import Committer
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.store_set import StoreSet
from holdfast.agent.writes import AppendBatch, CreateTopic
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.records.batch import validate
from holdfast.records.build import Record, build_batch
from holdfast.store.footer import TopicCreated
from holdfast.store.local import LocalStore

COMMITS = 300
ROUNDS = 7


def committing(directory: Path, *, synchronous: str) -> Callable[[], None]:
    """A function that makes COMMITS durable commits."""
    plane = SqliteControlPlane(directory / "control.db")
    plane._writer.execute(f"PRAGMA synchronous = {synchronous}")
    store = LocalStore(directory, store=1, cluster_id=uuid4())
    committer = Committer(plane=plane, stores=StoreSet([store], append_seconds_max=10), now_ms=lambda: 0)
    topic = TopicCreated("bench", uuid4(), [[1]], {})
    committer.commit([CreateTopic(topic)])
    batch = build_batch([Record(value=bytes(100))])

    def commit() -> None:
        for _ in range(COMMITS):
            write = AppendBatch(PartitionKey(topic.topic_id, 0), validate(bytearray(batch)), 1)
            committed = committer.commit([write])
            assert committed.appended

    return commit


def main() -> int:
    """Run both ways in turns on this directory's disk."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parents[1]) as name:
        one, two = Path(name, "one"), Path(name, "two")
        one.mkdir()
        two.mkdir()
        figures = compare(
            committing(two, synchronous="FULL"),
            {"footers, SQLite NORMAL": committing(one, synchronous="NORMAL")},
            rounds=ROUNDS,
            amount=COMMITS,
            unit="commits/s",
            goals={"footers, SQLite NORMAL": 1.1},
        )
    return publish("commit", figures)


if __name__ == "__main__":
    sys.exit(main())
