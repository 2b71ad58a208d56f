"""What there is to read of a pipeline's topics: which offsets, how far they are decided, and what is gone already."""

from collections.abc import Iterator
from typing import Final

from holdfast.client.cluster import Cluster
from holdfast.client.offsets import EARLIEST, LATEST, NOT_FOUND, Isolation, list_offsets
from holdfast.client.reader import OffsetRange, read_range
from holdfast.client.topics import describe_configs
from holdfast.errors import UnknownTopicOrPartition
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.recon.day import Day, PartitionView
from holdfast.pipelines.recon.law import Stage
from holdfast.pipelines.recon.reading import Piece, Scope, carried, topics_of
from holdfast.records.arrow import decode
from holdfast.spark.plan import split

SKEW_MS: Final = 3_600_000
"""So far may the clock of a message be ahead of the log's: a day is read from so long before its beginning."""
FIRST_BYTES: Final = 64 << 10


def view_partitions(cluster: Cluster, pipeline: Pipeline) -> list[PartitionView]:
    """Every partition of every topic as it stands now."""
    return [
        view for topic, (stage, _) in topics_of(pipeline).items() for view in _views(cluster, topic, stage)
    ]


def pieces_of_day(
    cluster: Cluster,
    pipeline: Pipeline,
    views: list[PartitionView],
    day: Day,
    *,
    tenant: str | None,
    tasks: int,
) -> list[Piece]:
    """Everything in which the day's messages may stand, cut into near-equal pieces."""
    starts = {
        topic: list_offsets(
            cluster,
            topic,
            {view.partition: max(0, day.start_ms - SKEW_MS) for view in views if view.topic == topic},
        )
        for topic in {view.topic for view in views}
    }
    scope = Scope(
        window_ms=day.window_ms,
        tenant=tenant,
        start_ms=day.start_ms,
        end_ms=day.end_ms,
        seal_ms=day.seal_ms,
    )
    return _pieces(pipeline, views, scope, tasks, starts)


def pieces_of_all(
    pipeline: Pipeline, views: list[PartitionView], *, window_ms: int, tasks: int
) -> list[Piece]:
    """Everything that is retained, of whichever tenant and day."""
    return _pieces(pipeline, views, Scope(window_ms=window_ms), tasks, {})


def _pieces(
    pipeline: Pipeline,
    views: list[PartitionView],
    scope: Scope,
    tasks: int,
    starts: dict[str, dict[int, int]],
) -> list[Piece]:
    topics = topics_of(pipeline)
    ranges = []
    for view in views:
        # Records before the first that is new enough are all older; without one there is nothing to read.
        start = starts.get(view.topic, {}).get(view.partition, view.start)
        start = view.read_to if start == NOT_FOUND else max(start, view.start)
        ranges.append(
            OffsetRange(
                topic=view.topic, partition=view.partition, start=min(start, view.read_to), end=view.read_to
            )
        )
    written = carried(pipeline.identity)
    return [
        Piece(
            bootstrap=str(pipeline.bootstrap),
            offsets=found,
            stage=topics[found.topic][0],
            state=topics[found.topic][1],
            identity=pipeline.identity if topics[found.topic][0] is Stage.INGEST else written,
            scope=scope,
        )
        for found in split(ranges, partitions_min=tasks, records_max=None)
    ]


def _views(cluster: Cluster, topic: str, stage: Stage) -> Iterator[PartitionView]:
    found = cluster.metadata([topic]).topics.get(topic)
    if found is None:
        raise UnknownTopicOrPartition(
            f"there is no topic {topic!r} at {cluster.bootstrap}: the pipeline has never run, or runs elsewhere"
        )
    compacted = any(
        entry.name == "cleanup.policy" and "compact" in (entry.value or "")
        for entry in describe_configs(cluster, topic)
    )
    partitions = found.partitions
    first = list_offsets(cluster, topic, dict.fromkeys(partitions, EARLIEST))
    stable = list_offsets(
        cluster, topic, dict.fromkeys(partitions, LATEST), isolation=Isolation.READ_COMMITTED
    )
    last = list_offsets(cluster, topic, dict.fromkeys(partitions, LATEST))
    for partition in partitions:
        start, end = first[partition], last[partition]
        yield PartitionView(
            stage=stage,
            topic=topic,
            partition=partition,
            start=start,
            start_ms=_first_time(cluster, topic, partition, start, stable[partition]) if start else None,
            read_to=stable[partition],
            end=end,
            compacted=compacted,
        )


def _first_time(cluster: Cluster, topic: str, partition: int, start: int, end: int) -> int | None:
    """The time of the first record that is there."""
    wanted = OffsetRange(topic=topic, partition=partition, start=start, end=end)
    for chunk in read_range(cluster, wanted, isolation=Isolation.READ_COMMITTED, fetch_bytes=FIRST_BYTES):
        for batch in chunk.batches:
            stored = memoryview(batch.buffer)[batch.position : batch.position + batch.size_bytes]
            times = decode(stored, start=start, end=end, columns=["timestamp"])["timestamp"]
            if len(times):
                return int(times[0].value)
    return None
