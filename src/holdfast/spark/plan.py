"""Which offsets a read covers, and how they are shared out among tasks."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from holdfast.client.cluster import Cluster, Topic
from holdfast.client.offsets import EARLIEST, LATEST, NOT_FOUND, list_offsets
from holdfast.client.reader import OffsetRange
from holdfast.errors import ConnectionFailed, UnknownTopicOrPartition, UsageError
from holdfast.spark.options import Moment, Offsets, ReadOptions


def plan(cluster: Cluster, options: ReadOptions) -> list[OffsetRange]:
    """The ranges to read, as the partitions stand now; each is the work of one task."""
    ranges = [found for topic in find_topics(cluster, options) for found in _ranges(cluster, topic, options)]
    return split(ranges, partitions_min=options.partitions_min, records_max=options.records_max)


def find_topics(cluster: Cluster, options: ReadOptions) -> list[Topic]:
    """The topics that are named, which must be there, or those that the pattern fits now."""
    try:
        topics = cluster.metadata(options.topics or None).topics
    except ConnectionFailed as failure:
        raise ConnectionFailed(f"option bootstrap: {failure}") from failure
    if options.pattern is not None:
        return [
            topic
            for name, topic in sorted(topics.items())
            if options.pattern.fullmatch(name) and not topic.is_internal
        ]
    for name in options.topics:
        if name not in topics:
            raise UnknownTopicOrPartition(f"option topic: there is no topic {name!r} at {cluster.bootstrap}")
    return [topics[name] for name in options.topics]


def resolve_starts(cluster: Cluster, topic: Topic, options: ReadOptions) -> dict[int, int]:
    """Where a stream begins to read a topic that it has not seen."""
    first, last = _bounds(cluster, topic, options)
    return dict(_resolve(cluster, options.starting, "startingOffsets", topic, first, last))


def split(
    ranges: Iterable[OffsetRange], *, partitions_min: int | None, records_max: int | None
) -> list[OffsetRange]:
    """Cuts ranges into near-equal pieces: none above `records_max` offsets, `partitions_min` of them or more.

    Ranges without offsets are left out. There are fewer pieces than asked for only if offsets run out.
    """
    pieces = [piece for found in ranges for piece in _cut(found, _parts(found, records_max))]
    if partitions_min is None or len(pieces) >= partitions_min:
        return pieces
    total = sum(piece.end - piece.start for piece in pieces)
    return [
        smaller
        for piece in pieces
        for smaller in _cut(piece, math.ceil((piece.end - piece.start) * partitions_min / total))
    ]


def _ranges(cluster: Cluster, topic: Topic, options: ReadOptions) -> Iterator[OffsetRange]:
    first, last = _bounds(cluster, topic, options)
    starts = _resolve(cluster, options.starting, "startingOffsets", topic, first, last)
    ends = _resolve(cluster, options.ending, "endingOffsets", topic, first, last)
    for partition in topic.partitions:
        start, end = starts[partition], ends[partition]
        if start > end:
            raise UsageError(
                f"option startingOffsets: {topic.name}-{partition} starts at {start}, behind its end {end}"
            )
        yield OffsetRange(topic=topic.name, partition=partition, start=start, end=end)


def _bounds(cluster: Cluster, topic: Topic, options: ReadOptions) -> tuple[dict[int, int], dict[int, int]]:
    partitions = topic.partitions
    first = list_offsets(cluster, topic.name, dict.fromkeys(partitions, EARLIEST))
    last = list_offsets(cluster, topic.name, dict.fromkeys(partitions, LATEST), isolation=options.isolation)
    return first, last


def _resolve(
    cluster: Cluster,
    offsets: Offsets,
    option: str,
    topic: Topic,
    first: Mapping[int, int],
    last: Mapping[int, int],
) -> Mapping[int, int]:
    if offsets == "earliest":
        return first
    if offsets == "latest":
        return last
    if isinstance(offsets, Moment):
        return _at_moment(cluster, offsets, option, topic, last)
    given = offsets.get(topic.name, {})
    _check_complete(given, option, topic)
    resolved = {}
    for partition, offset in given.items():
        low, high = first[partition], last[partition]
        resolved[partition] = {EARLIEST: low, LATEST: high}.get(offset, offset)
        if not low <= resolved[partition] <= high:
            raise UsageError(
                f"option {option}: {topic.name}-{partition} reaches from {low} to {high}, "
                f"offset {offset} lies outside"
            )
    return resolved


def _at_moment(
    cluster: Cluster, moment: Moment, option: str, topic: Topic, last: Mapping[int, int]
) -> Mapping[int, int]:
    if moment.timestamp_ms is not None:
        times = dict.fromkeys(topic.partitions, moment.timestamp_ms)
    else:
        times = dict(moment.by_partition.get(topic.name, {}))
        _check_complete(times, f"{option}ByTimestamp", topic)
    found = list_offsets(cluster, topic.name, times)
    # A record that is not stable yet lies behind the end that a reader of committed records can see.
    return {
        partition: last[partition] if offset == NOT_FOUND else min(offset, last[partition])
        for partition, offset in found.items()
    }


def _check_complete(given: Mapping[int, int], option: str, topic: Topic) -> None:
    if given.keys() != topic.partitions.keys():
        raise UsageError(
            f"option {option}: topic {topic.name} has partitions {sorted(topic.partitions)}, "
            f"but offsets are given for {sorted(given)}; give one for each "
            f"({EARLIEST} stands for earliest, {LATEST} for latest)"
        )


def _parts(found: OffsetRange, records_max: int | None) -> int:
    size = found.end - found.start
    return 1 if records_max is None else math.ceil(size / records_max)


def _cut(found: OffsetRange, parts: int) -> Iterator[OffsetRange]:
    size = found.end - found.start
    parts = min(parts, size)
    for index in range(parts):
        yield replace(
            found,
            start=found.start + size * index // parts,
            end=found.start + size * (index + 1) // parts,
        )
