"""What there is to read of a pipeline's topics: which offsets, how far they are decided, and what is gone already."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import EARLIEST, LATEST, Isolation, list_offsets
from holdfast.client.reader import OffsetRange, read_range
from holdfast.client.retry import Patience
from holdfast.client.topics import describe_configs
from holdfast.errors import UnknownTopicOrPartition
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.recon.day import Day, PartitionView
from holdfast.pipelines.recon.kept import Spans
from holdfast.pipelines.recon.law import Stage
from holdfast.pipelines.recon.reading import Piece, Scope, carried, topics_of
from holdfast.pipelines.recon.summed import sum_piece
from holdfast.records.arrow import decode
from holdfast.spark.plan import split
from holdfast.spark.reconcile import Geometry, Scanned, Span, fingerprint, fingerprint_here

FIRST_BYTES: Final = 64 << 10
PIECE_OFFSETS_MAX: Final = 1_000_000
"""What lies at the ends of a piece may be read twice; of a long one a second look may have to read more."""
HERE_OFFSETS_MAX: Final = 200_000
"""So much, or less, is read in this process: starting tasks takes longer."""
NOWHERE: Final[Spans] = MappingProxyType({})


def view_partitions(
    cluster: Cluster, pipeline: Pipeline, *, patience: Patience | None = None
) -> list[PartitionView]:
    """Every partition of every topic as it stands now; `patience` has open transactions waited for."""
    topics, patience = topics_of(pipeline), patience or Patience(0)
    # Downstream first: see `positions`.
    views = {
        topic: [*_views(cluster, topic, stage, patience)] for topic, (stage, _) in reversed(topics.items())
    }
    return [view for topic in topics for view in views[topic]]


def pieces_of_day(
    pipeline: Pipeline,
    views: list[PartitionView],
    day: Day,
    *,
    tenant: str | None,
    tasks: int,
    covered: Spans = NOWHERE,
) -> list[Piece]:
    """What of the day is retained and not covered, cut into near-equal pieces.

    Wherever that is: the time of a record, by which a log can be searched, tells nothing of its message's own.
    """
    spans: list[tuple[TopicPartition, tuple[int, int]]] = []
    for view in views:
        start, end = covered.get(_place(view), (view.read_to, view.read_to))
        spans += [(_place(view), (view.start, start)), (_place(view), (end, view.read_to))]
    return pieces_of_spans(pipeline, views, day, spans, tenant=tenant, tasks=tasks)


def pieces_of_spans(
    pipeline: Pipeline,
    views: list[PartitionView],
    day: Day,
    spans: Iterable[tuple[TopicPartition, tuple[int, int]]],
    *,
    tenant: str | None,
    tasks: int,
) -> list[Piece]:
    """What lies in any of the spans, each offset once, and is still there."""
    first = {_place(view): view.start for view in views}
    ranges: list[OffsetRange] = []
    for place, (begin, end) in sorted(spans):
        start = max(begin, first.get(place, end))
        last = ranges[-1] if ranges else None
        if last is not None and (last.topic, last.partition) == place and start <= last.end:
            ranges[-1] = replace(last, end=max(last.end, end))
        elif start < end:
            ranges.append(OffsetRange(topic=place.topic, partition=place.partition, start=start, end=end))
    return make_pieces(pipeline, cut(ranges, tasks), scope_of(day, tenant))


def pieces_of_all(
    pipeline: Pipeline, views: list[PartitionView], *, window_ms: int, tasks: int
) -> list[Piece]:
    """Everything that is retained, of whichever tenant and day."""
    ranges = [
        OffsetRange(topic=view.topic, partition=view.partition, start=view.start, end=view.read_to)
        for view in views
    ]
    return make_pieces(pipeline, cut(ranges, tasks), Scope(window_ms=window_ms))


def sum_up(session: SparkSession, pieces: list[Piece], geometry: Geometry, *, tasks: int) -> Scanned[Piece]:
    """The fingerprints of all pieces, by tasks if it is worth while."""
    if count_offsets(pieces) <= HERE_OFFSETS_MAX:
        return fingerprint_here(pieces, sum_piece, geometry)
    return fingerprint(session, pieces, sum_piece, geometry, tasks=tasks)


def narrow(piece: Piece, span: Span) -> Piece:
    """What of a piece lies within these offsets."""
    offsets = replace(piece.offsets, start=span[0], end=span[1])
    stored = piece.stored
    if stored is not None:
        near = tuple(each for each in stored.pieces if each.first < span[1] and each.end > span[0])
        stored = replace(stored, offsets=offsets, pieces=near)
    return replace(piece, offsets=offsets, stored=stored)


def count_offsets(pieces: Iterable[Piece]) -> int:
    """In all of them."""
    return sum(piece.offsets.end - piece.offsets.start for piece in pieces)


def make_pieces(pipeline: Pipeline, ranges: Iterable[OffsetRange], scope: Scope) -> list[Piece]:
    """The ranges, with all that a task has to know to read them."""
    topics, written = topics_of(pipeline), carried(pipeline.identity)
    return [
        Piece(
            endpoint=pipeline.endpoint,
            offsets=found,
            stage=topics[found.topic][0],
            state=topics[found.topic][1],
            identity=pipeline.identity if topics[found.topic][0] is Stage.INGEST else written,
            scope=scope,
        )
        for found in ranges
    ]


def scope_of(day: Day, tenant: str | None) -> Scope:
    """A tenant's messages of a day."""
    return Scope(
        window_ms=day.window_ms,
        tenant=tenant,
        start_ms=day.start_ms,
        end_ms=day.end_ms,
        lateness_ms=day.lateness_ms,
    )


def cut(ranges: Iterable[OffsetRange], tasks: int) -> list[OffsetRange]:
    """Small enough that a second look need not read much for little, and one for each task at least."""
    return split(ranges, partitions_min=tasks, records_max=PIECE_OFFSETS_MAX)


def _place(view: PartitionView) -> TopicPartition:
    return TopicPartition(view.topic, view.partition)


def _views(cluster: Cluster, topic: str, stage: Stage, patience: Patience) -> Iterator[PartitionView]:
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
    last = list_offsets(cluster, topic, dict.fromkeys(partitions, LATEST))
    stable = _await_stable(cluster, topic, last, patience)
    for partition in partitions:
        start, end = first[partition], last[partition]
        yield PartitionView(
            stage=stage,
            topic=topic,
            partition=partition,
            start=start,
            start_ms=_came_at(cluster, topic, partition, start, stable[partition]) if start else None,
            read_to=stable[partition],
            end=end,
            compacted=compacted,
            topic_id=found.topic_id,
        )


def _await_stable(
    cluster: Cluster, topic: str, ends: Mapping[int, int], patience: Patience
) -> dict[int, int]:
    """The last stable offsets, once they have come to these ends or patience is at its own.

    Behind the ends there is always an open transaction where a pipeline runs: none of these is waited for.
    """
    while True:
        stable = list_offsets(cluster, topic, dict.fromkeys(ends, LATEST), isolation=Isolation.READ_COMMITTED)
        if all(stable[partition] >= end for partition, end in ends.items()) or not patience.pause():
            return stable


def _came_at(cluster: Cluster, topic: str, partition: int, start: int, end: int) -> int | None:
    """The newest time in the first batch: nearer to when it came than that of a record, which may be backfilled."""
    wanted = OffsetRange(topic=topic, partition=partition, start=start, end=end)
    for chunk in read_range(cluster, wanted, isolation=Isolation.READ_COMMITTED, fetch_bytes=FIRST_BYTES):
        for batch in chunk.batches:
            stored = memoryview(batch.buffer)[batch.position : batch.position + batch.size_bytes]
            times = decode(stored, start=start, end=end, columns=["timestamp"])["timestamp"]
            if len(times):
                return int(pc.max(times).value)
    return None
