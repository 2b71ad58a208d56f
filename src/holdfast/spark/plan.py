"""Which offsets a read covers, and how they are shared out among tasks."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from holdfast.client.cluster import Cluster, Topic
from holdfast.client.offsets import EARLIEST, LATEST, NOT_FOUND, list_offsets
from holdfast.client.reader import OffsetRange
from holdfast.errors import ConnectionFailed, UnknownTopicOrPartition, UsageError
from holdfast.spark.options import Moment, Offsets, ReadOptions

AtMoment = Callable[[Moment, str], Mapping[int, int]]
"""The offsets of a topic's partitions at a moment that the named option gives."""


def plan(cluster: Cluster, options: ReadOptions) -> list[OffsetRange]:
    """The ranges to read, as the partitions stand now; each is the work of one task."""
    ranges = find_ranges(cluster, options)
    return split(ranges, partitions_min=options.partitions_min, records_max=options.records_max)


def find_ranges(cluster: Cluster, options: ReadOptions) -> list[OffsetRange]:
    """What the options mean as the partitions stand now, one range for each."""
    return [found for topic in find_topics(cluster, options) for found in _ranges(cluster, topic, options)]


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
    at_moment = _by_time(cluster, topic.name, last)
    return dict(_resolve(options.starting, "startingOffsets", topic.name, first, last, at_moment))


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
    return resolve(topic.name, first, last, options, _by_time(cluster, topic.name, last))


def resolve(
    topic: str,
    first: Mapping[int, int],
    last: Mapping[int, int],
    options: ReadOptions,
    at_moment: AtMoment | None = None,
) -> Iterator[OffsetRange]:
    """What the options leave of a topic whose partitions reach from `first` to `last`."""
    starts = _resolve(options.starting, "startingOffsets", topic, first, last, at_moment)
    ends = _resolve(options.ending, "endingOffsets", topic, first, last, at_moment)
    for partition in first:
        start, end = starts[partition], ends[partition]
        if start > end:
            raise UsageError(
                f"option startingOffsets: {topic}-{partition} starts at {start}, behind its end {end}"
            )
        yield OffsetRange(topic=topic, partition=partition, start=start, end=end)


def _bounds(cluster: Cluster, topic: Topic, options: ReadOptions) -> tuple[dict[int, int], dict[int, int]]:
    partitions = topic.partitions
    first = list_offsets(cluster, topic.name, dict.fromkeys(partitions, EARLIEST))
    last = list_offsets(cluster, topic.name, dict.fromkeys(partitions, LATEST), isolation=options.isolation)
    return first, last


def _resolve(
    offsets: Offsets,
    option: str,
    topic: str,
    first: Mapping[int, int],
    last: Mapping[int, int],
    at_moment: AtMoment | None,
) -> Mapping[int, int]:
    if offsets == "earliest":
        return first
    if offsets == "latest":
        return last
    if isinstance(offsets, Moment):
        assert at_moment is not None, "times are asked of an agent"
        return at_moment(offsets, option)
    given = offsets.get(topic, {})
    _check_complete(given, option, topic, first)
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


def _by_time(cluster: Cluster, topic: str, last: Mapping[int, int]) -> AtMoment:
    """Asks the cluster for the offsets at a moment."""

    def find(moment: Moment, option: str) -> Mapping[int, int]:
        if moment.timestamp_ms is not None:
            times = dict.fromkeys(last, moment.timestamp_ms)
        else:
            times = dict(moment.by_partition.get(topic, {}))
            _check_complete(times, f"{option}ByTimestamp", topic, last)
        found = list_offsets(cluster, topic, times)
        # A record that is not stable yet lies behind the end that a reader of committed records can see.
        return {
            partition: last[partition] if offset == NOT_FOUND else min(offset, last[partition])
            for partition, offset in found.items()
        }

    return find


def _check_complete(given: Mapping[int, int], option: str, topic: str, partitions: Mapping[int, int]) -> None:
    if given.keys() != partitions.keys():
        raise UsageError(
            f"option {option}: topic {topic} has partitions {sorted(partitions)}, "
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
