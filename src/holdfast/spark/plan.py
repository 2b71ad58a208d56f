"""Which offsets a read covers, and how they are shared out among tasks."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from holdfast.client.cluster import Cluster, Topic
from holdfast.client.offsets import EARLIEST, LATEST, list_offsets
from holdfast.client.reader import OffsetRange
from holdfast.errors import ConnectionFailed, UnknownTopicOrPartition, UsageError
from holdfast.spark.options import Offsets, ReadOptions


def plan(cluster: Cluster, options: ReadOptions) -> list[OffsetRange]:
    """The ranges to read, as the partitions stand now; each is the work of one task."""
    ranges = find_ranges(cluster, options)
    return split(ranges, partitions_min=options.partitions_min, records_max=options.records_max)


def find_ranges(cluster: Cluster, options: ReadOptions) -> list[OffsetRange]:
    """What the options mean as the partitions stand now, one range for each."""
    try:
        topics = cluster.metadata(options.topics).topics
    except ConnectionFailed as failure:
        raise ConnectionFailed(f"option bootstrap: {failure}") from failure
    for name in options.topics:
        if name not in topics:
            raise UnknownTopicOrPartition(f"option topic: there is no topic {name!r} at {cluster.bootstrap}")
    return [found for name in options.topics for found in _ranges(cluster, topics[name], options)]


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
    partitions = topic.partitions
    first = list_offsets(cluster, topic.name, dict.fromkeys(partitions, EARLIEST))
    last = list_offsets(cluster, topic.name, dict.fromkeys(partitions, LATEST), isolation=options.isolation)
    return resolve(topic.name, first, last, options)


def resolve(
    topic: str, first: Mapping[int, int], last: Mapping[int, int], options: ReadOptions
) -> Iterator[OffsetRange]:
    """What the options leave of a topic whose partitions reach from `first` to `last`."""
    starts = _resolve(options.starting, "startingOffsets", topic, first, last)
    ends = _resolve(options.ending, "endingOffsets", topic, first, last)
    for partition in first:
        start, end = starts[partition], ends[partition]
        if start > end:
            raise UsageError(
                f"option startingOffsets: {topic}-{partition} starts at {start}, behind its end {end}"
            )
        yield OffsetRange(topic=topic, partition=partition, start=start, end=end)


def _resolve(
    offsets: Offsets, option: str, topic: str, first: Mapping[int, int], last: Mapping[int, int]
) -> Mapping[int, int]:
    if offsets == "earliest":
        return first
    if offsets == "latest":
        return last
    given = offsets.get(topic, {})
    if given.keys() != first.keys():
        raise UsageError(
            f"option {option}: topic {topic} has partitions {sorted(first)}, "
            f"but offsets are given for {sorted(given)}; give one for each "
            f"({EARLIEST} stands for earliest, {LATEST} for latest)"
        )
    resolved = {}
    for partition, offset in given.items():
        low, high = first[partition], last[partition]
        resolved[partition] = {EARLIEST: low, LATEST: high}.get(offset, offset)
        if not low <= resolved[partition] <= high:
            raise UsageError(
                f"option {option}: {topic}-{partition} reaches from {low} to {high}, "
                f"offset {offset} lies outside"
            )
    return resolved


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
