"""Topics as tables at one moment: every DataFrame of a snapshot shows the log as it was when that was taken.

`spark.read.format("holdfast")` plans anew for every scan, so a query that names a topic twice, or two topics, may see
two moments. A snapshot of the stores is one: transactions that span topics are there in all of them, or in none.
Through an agent, or on Apache Kafka, it is one moment for each topic: their ends are asked for one after the other, so
that such a transaction may be there in some of them only.
"""

import json
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from holdfast.client.cluster import Cluster
from holdfast.client.readings import save_reading
from holdfast.errors import UsageError
from holdfast.spark.held import RENEW_PARTS, HeldReading, Holding, find_reading
from holdfast.spark.options import ReadOptions, parse_options
from holdfast.spark.plan import find_ranges

Place = tuple[str, int]
"""A topic and the number of one of its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What was taken. `starts` and `ends` are the offsets, exclusive at the end, that its tables reach over."""

    session: SparkSession
    starts: Mapping[Place, int]
    ends: Mapping[Place, int]
    is_stored: bool
    """Whether the stores' own files are read, which compaction cannot change under way; else it is an agent."""
    options: Mapping[str, str]

    def frame(self, topic: str, **options: str) -> DataFrame:
        """The topic's records, as `spark.read.format("holdfast")` shows them; further options as there."""
        reader = self.session.read.format("holdfast").options(**self.options)
        return reader.option("topic", topic).options(**options).load()


@contextmanager
def take_snapshot(
    session: SparkSession, topics: Sequence[str], options: Mapping[str, str]
) -> Iterator[Snapshot]:
    """The topics as they are now, until the end of the block; `options` are those of `format("holdfast")`."""
    for topic in topics:
        # Of several in one, with a comma, the option would make as many.
        if not topic or topic != topic.strip() or "," in topic:
            raise UsageError(f"{topic!r} cannot be the name of a topic")
    if not topics:
        yield Snapshot(session=session, starts={}, ends={}, is_stored=False, options=options)
        return
    parsed = parse_options({**options, "topic": ",".join(topics)})
    held = find_reading(parsed)
    if held is None:
        yield _agents_snapshot(session, parsed, options)
        return
    with held_until(held), tempfile.TemporaryDirectory(prefix="holdfast-snapshot-") as directory:
        path = Path(directory) / "reading.json"
        save_reading(path, held.reading)
        kept = {name: value for name, value in options.items() if name.lower() in _KEPT}
        yield Snapshot(
            session=session,
            starts={(each.topic, each.partition): each.start for each in held.reading.partitions},
            ends={(each.topic, each.partition): each.end for each in held.reading.partitions},
            is_stored=True,
            options={**kept, "snapshot": str(path)},
        )


def latest(frame: DataFrame) -> DataFrame:
    """A compacted topic as the table that it stands for: each key's newest record, deleted keys left out."""
    others = [name for name in frame.columns if name not in ("partition", "key")]
    newest = sql.max_by(sql.struct(*others), "offset").alias("newest")
    table = frame.groupBy("partition", "key").agg(newest).select("partition", "key", "newest.*")
    return table.where(sql.col("value").isNotNull()).select(*frame.columns)


_KEPT = ("replica", "columns", "minpartitions", "maxrecordsperpartition", "isolation")


def _agents_snapshot(session: SparkSession, parsed: ReadOptions, options: Mapping[str, str]) -> Snapshot:
    with Cluster(parsed.endpoint) as cluster:
        ranges = find_ranges(cluster, parsed)
    starts = {(each.topic, each.partition): each.start for each in ranges}
    ends = {(each.topic, each.partition): each.end for each in ranges}
    fixed = {"startingOffsets": _offsets(starts), "endingOffsets": _offsets(ends), "through": "agent"}
    plain = {
        name: value
        for name, value in options.items()
        if name.lower() not in {option.lower() for option in fixed}
    }
    return Snapshot(session=session, starts=starts, ends=ends, is_stored=False, options={**plain, **fixed})


def _offsets(places: Mapping[Place, int]) -> str:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in places.items():
        found.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(found)


@contextmanager
def held_until(held: HeldReading) -> Iterator[None]:
    """Goes on holding a reading until the end of the block, in a thread of its own, and lets go of it then."""
    over = threading.Event()
    holding = Holding(held.hold)

    def renew() -> None:
        while not over.wait(held.reading.seconds / (2 * RENEW_PARTS)):
            holding.renew()

    thread = threading.Thread(target=renew, name="hold", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        held.release()
