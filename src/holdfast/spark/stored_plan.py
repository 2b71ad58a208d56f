"""A reading shared out among tasks: which bytes of which files each of them reads."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from holdfast.client.reader import OffsetRange
from holdfast.client.readings import PartitionReading, Reading, ReplicaPieces
from holdfast.errors import ReadingRefused, UnknownTopicOrPartition
from holdfast.keeper.work import Piece
from holdfast.spark.held import HeldReading, Hold
from holdfast.spark.options import ReadOptions
from holdfast.spark.plan import resolve, split
from holdfast.store.carried import batches_path
from holdfast.store.segment import segment_path
from holdfast.store.segment_index import index_path

TASK_BYTES = 64 * 1024 * 1024
"""What one task reads, about, unless the options say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRange:
    """One task's work: offsets of a partition, and the pieces of one replica that hold them."""

    offsets: OffsetRange
    store: int
    pieces: tuple[Piece, ...]
    settled_to: int
    """What lies in journals below it is in a segment, too: the segment counts."""
    hold: Hold | None

    @property
    def size_bytes(self) -> int:
        """What there is to read at most."""
        return sum(piece.length_bytes for piece in self.pieces)


def plan_stored(held: HeldReading, options: ReadOptions) -> list[StoredRange]:
    """The work of all tasks."""
    replicas = {
        (each.topic, each.partition): find_replica(each, options.stores.replica)
        for each in held.reading.partitions
    }
    ranges = [offsets for topic in options.topics for offsets in _resolve(held.reading, topic, options)]
    if options.partitions_min is None and options.records_max is None:
        parts = [
            part for each in ranges for part in _cut_by_bytes(replicas[each.topic, each.partition], each)
        ]
    else:
        parts = split(ranges, partitions_min=options.partitions_min, records_max=options.records_max)
    return [
        work
        for whole in ranges
        for work in _share_out(
            replicas[whole.topic, whole.partition],
            whole,
            [part for part in parts if (part.topic, part.partition) == (whole.topic, whole.partition)],
            held.hold,
        )
    ]


def cover(held: HeldReading, parts: Sequence[OffsetRange]) -> Iterator[StoredRange]:
    """The work of those ranges that the reading holds from end to end, by partition."""
    for each in held.reading.partitions:
        own = sorted(
            (
                part
                for part in parts
                if (part.topic, part.partition) == (each.topic, each.partition)
                and each.start <= part.start < part.end <= each.end
            ),
            key=lambda part: part.start,
        )
        if own:
            whole = replace(own[0], end=max(part.end for part in own))
            yield from _share_out(find_replica(each, None), whole, own, held.hold)


def _resolve(reading: Reading, topic: str, options: ReadOptions) -> Iterator[OffsetRange]:
    found = {each.partition: each for each in reading.partitions if each.topic == topic}
    if not found:
        raise UnknownTopicOrPartition(f"option topic: there is no topic {topic!r} in the snapshot")
    first = {number: each.start for number, each in found.items()}
    last = {number: each.end for number, each in found.items()}
    return resolve(topic, first, last, options)


def find_replica(reading: PartitionReading, store: int | None) -> ReplicaPieces:
    """The one that is asked for, or any."""
    for replica in reading.replicas:
        if store in (None, replica.store):
            return replica
    raise ReadingRefused(
        f"option replica: {reading.topic}:{reading.partition} is not read from store {store}"
    )


def make_pieces(replica: ReplicaPieces, offsets: OffsetRange) -> Iterator[Piece]:
    """The files of a replica, and where in them the offsets may be."""
    directory = Path(replica.directory)
    for segment in replica.segments:
        if segment.first < offsets.end and segment.end > offsets.start and segment.length_bytes:
            path = segment_path(directory, segment.file)
            yield Piece(
                path=str(path),
                position=0,
                length_bytes=segment.length_bytes,
                first=segment.first,
                end=segment.end,
                is_clean=False,
                index=str(index_path(path)),
                file=segment.file,
                crc=segment.crc,
            )
    for piece in replica.tail:
        if piece.first < offsets.end and piece.end > offsets.start:
            yield Piece(
                path=batches_path(replica.directory, piece.journal),
                position=piece.position,
                length_bytes=piece.length_bytes,
                first=piece.first,
                end=piece.end,
                is_clean=False,
            )


def share_by_bytes(pieces: Sequence[Piece], offsets: OffsetRange, bytes_max: int) -> list[int]:
    """Where to cut a range so that each part has about so many bytes: at pieces, and within large ones."""
    cuts = [offsets.start]
    size_bytes = 0
    for piece in pieces:
        first, end = max(piece.first, offsets.start), min(piece.end, offsets.end)
        parts = math.ceil(piece.length_bytes / bytes_max)
        if size_bytes + piece.length_bytes // parts > bytes_max and first > cuts[-1]:
            cuts.append(first)
            size_bytes = 0
        # How its records are spread over its offsets nobody knows: evenly is as good a guess as any.
        inner = (first + (end - first) * part // parts for part in range(1, parts))
        cuts += (cut for cut in inner if cut > cuts[-1])
        size_bytes += piece.length_bytes // parts
    return [*cuts, offsets.end]


def _cut_by_bytes(replica: ReplicaPieces, offsets: OffsetRange) -> list[OffsetRange]:
    if offsets.start == offsets.end:
        return []
    pieces = list(make_pieces(replica, offsets))
    return [
        OffsetRange(topic=offsets.topic, partition=offsets.partition, start=start, end=end)
        for start, end in pairwise(share_by_bytes(pieces, offsets, TASK_BYTES))
    ]


def _share_out(
    replica: ReplicaPieces, whole: OffsetRange, parts: Sequence[OffsetRange], hold: Hold | None
) -> Iterator[StoredRange]:
    settled_to = replica.segments[-1].end if replica.segments else whole.start
    pieces = list(make_pieces(replica, whole))
    at = 0
    for part in parts:
        while at < len(pieces) and pieces[at].end <= part.start:
            at += 1
        beyond = at
        while beyond < len(pieces) and pieces[beyond].first < part.end:
            beyond += 1
        if at < beyond:
            yield StoredRange(
                offsets=part,
                store=replica.store,
                pieces=tuple(pieces[at:beyond]),
                settled_to=settled_to,
                hold=hold,
            )
